/* Archives of copies: as they are, and once more with all checksums made right, so that what follows them is
 * reached. What an archive holds is imported into a host tier, which must give back every copy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/log.h"
#include "store/archive.h"
#include "store/bytes.h"
#include "store/host/tier.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SIGNED_BYTES = 48, END_SIGNED_BYTES = 16, SUMS_AT = 128, MAX_KEYS = 16 };

static volatile uint64_t used; /* so that no read is left out */

static void require(bool holds)
{
    if (!holds) abort();
}

/* -- checksums ------------------------------------------------------------------------------ */

static void sign(uint8_t *p, size_t n)
{
    uint64_t sum = XXH3_64bits(p, n);
    memcpy(p + n, &sum, sizeof sum);
}

static void sign_head(uint8_t *p, size_t n)
{
    sp_sha256 *hash;
    sp_digest digest;
    require(sp_sha256_create(&hash) == SP_OK);
    sp_sha256_update(hash, p, n - sizeof digest);
    sp_sha256_final(hash, &digest);
    memcpy(p + n - sizeof digest, digest.b, sizeof digest.b);
}

/* sign_record -- the pages of the record at p, whose archive ends n bytes later; 0: there is none. */
static uint64_t sign_record(uint8_t *p, size_t n, const uint8_t *space)
{
    uint32_t head_pages;
    if (n < SP_PAGE || sp_record_size(p, &head_pages) != SP_OK || head_pages > n / SP_PAGE) return 0;
    const uint64_t n_layers = get32(p + 40), layer_bytes = get64(p + 48);
    const uint64_t layer_pages = SP_DIV_UP(layer_bytes, (uint64_t)SP_PAGE);
    if (head_pages + n_layers * layer_pages > n / SP_PAGE) return 0;
    memcpy(p + 64, space, sizeof(sp_digest));
    for (uint64_t i = 0; i < n_layers; i++) {
        sp_layer_sum sum = sp_layer_sum_of(p + (head_pages + i * layer_pages) * SP_PAGE, layer_bytes);
        memcpy(p + SUMS_AT + i * sizeof sum, &sum, sizeof sum);
    }
    sign_head(p, get64(p + 16));
    return head_pages + n_layers * layer_pages;
}

static void sign_all(uint8_t *p, size_t n)
{
    uint64_t at = 1, pages;
    if (n < SP_PAGE) return;
    sign(p, SIGNED_BYTES);
    while ((pages = sign_record(p + at * SP_PAGE, n - at * SP_PAGE, p + 16))) at += pages;
    if (n - at * SP_PAGE >= END_SIGNED_BYTES + 8) sign(p + at * SP_PAGE, END_SIGNED_BYTES);
}

/* -- reading -------------------------------------------------------------------------------- */

static sp_err read_lists(void *user, const sp_record *r)
{
    uint64_t sum = 0;
    for (int i = 0; i < r->n_layers; i++) sum += r->sums[i].low;
    for (int i = 0; i < r->facts.n_before; i++) sum += r->facts.before[i].b[31];
    for (int i = 0; i < r->n; i++) sum += (uint64_t)r->tokens[i];
    for (int i = 0; r->facts.heavy && i < r->n; i++)
        require(r->facts.heavy[i] >= 0 && r->facts.heavy[i] < r->n);
    for (int i = 0; r->facts.stats.order && i < r->n; i++)
        require(r->facts.stats.order[i] >= 0 && r->facts.stats.order[i] < r->n);
    used = sum;
    return SP_OK;
}

typedef struct keys {
    sp_tier_key v[MAX_KEYS];
    int n;
} keys;

static sp_err take_key(void *user, const sp_tier_info *info)
{
    keys *k = user;
    if (k->n < MAX_KEYS) k->v[k->n++] = info->key;
    return SP_OK;
}

static sp_err read_head(void *user, const sp_record *r)
{
    int *n_layers = user;
    *n_layers = r->n_layers;
    return read_lists(NULL, r);
}

static sp_err read_layer(void *user, int layer, const void *from)
{
    int *n_layers = user;
    used += *(const uint8_t *)from;
    require(layer >= 0 && layer < *n_layers);
    return SP_OK;
}

static void import(const char *path, const sp_digest *space)
{
    sp_tier *t;
    sp_archive_stats s;
    keys k = {0};
    require(sp_host_tier_open(&(sp_host_tier_opts){.max_bytes = 1 << 22}, &t) == SP_OK);
    if (sp_archive_import(t, path, space, &s) == SP_OK) require(sp_tier_stats_of(t).n_copies <= s.n_copies);
    require(sp_tier_run(t, &(sp_tier_job){.verb = SP_TIER_LIST, .each = take_key, .user = &k}) == SP_OK);
    for (int i = 0; i < k.n; i++) {
        int n_layers = 0;
        sp_tier_job get = {.verb = SP_TIER_GET, .key = k.v[i], .head = read_head, .user = &n_layers};
        require(sp_tier_run(t, &get) == SP_OK);
        get.n_layers = n_layers;
        get.sink = read_layer;
        require(sp_tier_run(t, &get) == SP_OK);
    }
    sp_tier_close(t);
}

static void read_archive(const char *path)
{
    sp_digest space;
    sp_archive_stats s;
    if (sp_archive_each(path, false, read_lists, NULL, &s) == SP_OK) require(s.bytes > SP_PAGE);
    if (sp_archive_each(path, true, read_lists, NULL, &s) == SP_OK) require(s.n_copies >= 0);
    if (sp_archive_space(path, &space) == SP_OK) import(path, &space);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    char path[40];
    uint8_t *copy = malloc(size + 1);
    sp_log_set(SP_LOG_ERROR, NULL, NULL);
    if (fd < 0) fd = memfd_create("archive", MFD_CLOEXEC);
    require(copy && fd >= 0);
    memcpy(copy, data, size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (int i = 0; i < 2; i++) {
        require(ftruncate(fd, 0) == 0 && pwrite(fd, copy, size, 0) == (ssize_t)size);
        read_archive(path);
        sign_all(copy, size);
    }
    free(copy);
    return 0;
}
