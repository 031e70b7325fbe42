/* Vectors from elsewhere. The first byte of the input chooses:
 *
 *   even  the file of a graph (HNSW) with damaged bytes: the rest is a list of {offset, 3 bytes, value, 1 byte} to
 *         write into a small good one; an offset of FFFFFF cuts the file at its 256 * value
 *   odd   the bodies of a Chroma server, one after another, each ended by a byte 0xFF; without one left it is gone.
 *         The functions of http.h are these here, not those of the library
 *
 * Aborts when an error is not one of those that are promised, or when what is found is not in order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/http.h"
#include "retrieve/vectors/vectors.h"

enum { N = 80, DIMS = 4, K = 9 };

struct sp_http {
    int unused;
};

static struct sp_http only;
static const uint8_t *replies;
static size_t n_replies, n_whole;
static uint8_t *whole;
static char path[64];
static float data[N][DIMS];

static void require(bool holds)
{
    if (!holds) abort();
}

/* -- a server ---------------------------------------------------------------------------------- */

sp_err sp_http_open(const char *url, int timeout_ms, sp_http **out)
{
    *out = &only;
    return SP_OK;
}

void sp_http_close(sp_http *h)
{
    require(!h || h == &only);
}

sp_err sp_http_send(sp_http *h, const sp_http_request *r, sp_bytes *reply)
{
    require(h == &only && r->path && strncmp(r->path, "/api/v2/tenants/", 16) == 0 && !strstr(r->path, ".."));
    const uint8_t *end = n_replies ? memchr(replies, 0xFF, n_replies) : NULL;
    reply->n = 0;
    if (!end) return sp_fail(SP_E_IO, "the server is gone");
    SP_TRY(sp_bytes_add(reply, replies, (size_t)(end - replies)));
    n_replies -= (size_t)(end - replies) + 1;
    replies = end + 1;
    return SP_OK;
}

long sp_http_status(const sp_http *h)
{
    return 200;
}

/* -- a graph ----------------------------------------------------------------------------------- */

static void write_file(const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    require(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

static void remove_file(void)
{
    unlink(path);
}

static void make(void)
{
    int64_t ids[N];
    sp_vectors *x;
    for (int i = 0; i < N; i++) {
        ids[i] = i;
        for (int k = 0; k < DIMS; k++) data[i][k] = (float)((i * 7 + k * k * 31) % 41) / 41 - 0.5f;
    }
    snprintf(path, sizeof path, "/dev/shm/fuzz-vectors-%ld", (long)getpid());
    require(sp_vectors_create(&(sp_vectors_opts){.kind = SP_VECTORS_HNSW, .n_dims = DIMS, .links = 4}, &x) == SP_OK);
    require(sp_vectors_add(x, ids, data[0], N, NULL) == SP_OK);
    require(sp_vectors_write(x, path) == SP_OK);
    sp_vectors_destroy(x);
    FILE *f = fopen(path, "rb");
    require(f && fseek(f, 0, SEEK_END) == 0);
    n_whole = (size_t)ftell(f);
    whole = malloc(n_whole);
    rewind(f);
    require(whole && fread(whole, 1, n_whole, f) == n_whole && fclose(f) == 0);
    atexit(remove_file);
}

static void search(sp_vectors *x, int n_stages, const int64_t *allowed, size_t n_allowed)
{
    sp_near near[K];
    int n = 0;
    const sp_vectors_query q = {
        .v = data[3], .k = K, .n_stages = n_stages, .allowed = allowed, .n_allowed = n_allowed};
    sp_err err = sp_vectors_search(x, &q, near, &n);
    require(err == SP_OK || err == SP_E_IO || err == SP_E_FORMAT || err == SP_E_NOMEM);
    require(n >= 0 && n <= K);
    for (int i = 1; i < n && err == SP_OK; i++) require(!(near[i - 1].distance > near[i].distance));
}

static void read_damaged(const uint8_t *in, size_t n)
{
    sp_vectors *x;
    size_t length = n_whole;
    uint8_t *bytes = malloc(n_whole);
    require(bytes != NULL);
    memcpy(bytes, whole, n_whole);
    for (size_t i = 0; i + 4 <= n; i += 4) {
        const size_t at = (size_t)in[i] << 16 | (size_t)in[i + 1] << 8 | in[i + 2];
        if (at == 0xFFFFFF)
            length = (size_t)in[i + 3] * 256 % (n_whole + 1);
        else
            bytes[at % n_whole] = in[i + 3];
    }
    write_file(bytes, length);
    free(bytes);
    require(sp_vectors_create(&(sp_vectors_opts){.kind = SP_VECTORS_HNSW, .n_dims = DIMS, .links = 4}, &x) == SP_OK);
    sp_err err = sp_vectors_read(x, path);
    require(err == SP_OK || err == SP_E_FORMAT || err == SP_E_NOMEM);
    search(x, 1, NULL, 0);
    search(x, 4, (int64_t[]){2, 3, 5}, 3);
    require(sp_vectors_add(x, (int64_t[]){N + 1}, data[1], 1, NULL) != SP_E_IO);
    search(x, 3, NULL, 0);
    sp_vectors_destroy(x);
}

static void ask_server(const uint8_t *in, size_t n)
{
    sp_vectors *x;
    sp_vector_ids ids = {0};
    replies = in;
    n_replies = n;
    const sp_vectors_opts o = {.kind = SP_VECTORS_CHROMA, .n_dims = DIMS, .url = "http://h:1/c", .mark = 5};
    if (sp_vectors_create(&o, &x) != SP_OK) return;
    search(x, 1, NULL, 0);
    search(x, 1, (int64_t[]){2, 3, 5}, 3);
    if (sp_vectors_ids(x, &ids) == SP_OK)
        for (size_t i = 1; i < ids.n; i++) require(ids.v[i - 1] <= ids.v[i]);
    if (sp_vectors_add(x, (int64_t[]){7}, data[0], 1, NULL) == SP_OK) search(x, 1, NULL, 0);
    sp_vec_fini(&ids);
    sp_vectors_destroy(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t n)
{
    if (!whole) make();
    if (n) (in[0] % 2 ? ask_server : read_damaged)(in + 1, n - 1);
    return 0;
}
