/* kv_file.c -- the file of one chunk copy. Integers are little endian.
 *
 *   offset  size                     meaning
 *   0       8                        "SPOLIAKV"
 *   8       4                        version: 1
 *   12      4                        kind
 *   16      8                        size of the file
 *   24      4                        n: tokens
 *   28      4                        at: position that the first key was rotated for
 *   32      4                        b: segments in sight when it was computed ...
 *   36      4                        n_head: entries before the first chunk
 *   40      4                        L: layers
 *   44      4                        s: bytes of one block in one layer
 *   48      32                       namespace: model, KV type, layout
 *   80      32                       content id of the chunk
 *   112     32 b                     ids of the segments in sight, in order
 *           4 n                      token ids
 *           32                       SHA-256 of everything above
 *           L ceil(n / 16) s         keys and values by layer, blocks as in the pool
 *           32                       SHA-256 of everything above
 *
 * The first digest lets a lookup trust the head without reading megabytes. Keys and values are not
 * compressed: zstd -1 makes f16 KV of the bundled model (chunks of 250 tokens) 17 % smaller, and
 * unpacking it takes twice as long as its SHA-256, which pays on disks below 100 MB/s only.
 */
#include "store/kv_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "KV in the file is as in memory");

#define VERSION     1
#define FIXED_BYTES 112
#define MAX_TOKENS  (1 << 24)
#define MAX_BEFORE  (1 << 16)
#define BYTES_OF(d) sizeof((d).b)

static const char magic[8] = {'S', 'P', 'O', 'L', 'I', 'A', 'K', 'V'};

/* What the sizes in a head make of the file. */
typedef struct layout {
    uint64_t head_bytes;  /* with its digest */
    uint64_t layer_bytes; /* of all blocks */
    uint64_t file_bytes;
} layout;

/* layout_of -- cannot overflow: counts are below 2^24, blocks below 2^32 bytes, layers below 2^16.
 */
static layout layout_of(int32_t n, int32_t n_before, uint32_t n_layers, uint32_t block_bytes)
{
    layout l;
    l.head_bytes = FIXED_BYTES + sizeof(sp_digest) * ((uint64_t)n_before + 1) + 4 * (uint64_t)n;
    l.layer_bytes = (uint64_t)sp_blocks_for(n) * block_bytes;
    l.file_bytes = l.head_bytes + l.layer_bytes * n_layers + sizeof(sp_digest);
    return l;
}

static layout layout_in(const sp_kv_head *h, const sp_kv_pool *pool)
{
    uint32_t block_bytes = (uint32_t)sp_kv_pool_layer_block_bytes(pool);
    return layout_of(h->n, h->n_before, (uint32_t)sp_kv_pool_shape(pool)->n_layers, block_bytes);
}

sp_err sp_kv_head_check(const sp_kv_head *h)
{
    if (h->n < 1 || h->n > MAX_TOKENS) return sp_fail(SP_E_ARG, "a copy of %d tokens", h->n);
    if (h->n_before < 0 || h->n_before > MAX_BEFORE || h->n_head < 0 || h->n_head > h->n_before)
        return sp_fail(SP_E_ARG, "a copy after %d segments, %d of them its head", h->n_before,
                       h->n_head);
    if (h->at < 0) return sp_fail(SP_E_ARG, "a copy at position %d", h->at);
    return SP_OK;
}

/* -- writing -------------------------------------------------------------------------------- */

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> 8 * i);
}

static uint32_t get32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static sp_err write_all(int fd, const char *path, const void *data, size_t n)
{
    for (const uint8_t *p = data; n;) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return sp_fail(SP_E_IO, "%s: cannot write: %s", path, strerror(errno));
        p += done;
        n -= (size_t)done;
    }
    return SP_OK;
}

static sp_err make_head(const sp_kv_head *h, const layout *l, const sp_kv_pool *pool, sp_bytes *out)
{
    SP_TRY(sp_vec_reserve(out, l->head_bytes));
    uint8_t *p = (uint8_t *)out->v;
    memcpy(p, magic, sizeof magic);
    put32(p + 8, VERSION);
    put32(p + 12, h->kind);
    put32(p + 16, (uint32_t)l->file_bytes);
    put32(p + 20, (uint32_t)(l->file_bytes >> 32));
    put32(p + 24, (uint32_t)h->n);
    put32(p + 28, (uint32_t)h->at);
    put32(p + 32, (uint32_t)h->n_before);
    put32(p + 36, (uint32_t)h->n_head);
    put32(p + 40, (uint32_t)sp_kv_pool_shape(pool)->n_layers);
    put32(p + 44, (uint32_t)sp_kv_pool_layer_block_bytes(pool));
    memcpy(p + 48, h->space.b, BYTES_OF(h->space));
    memcpy(p + 80, h->id.b, BYTES_OF(h->id));
    p += FIXED_BYTES;
    if (h->n_before) memcpy(p, h->before, sizeof *h->before * (size_t)h->n_before);
    p += sizeof *h->before * (size_t)h->n_before;
    memcpy(p, h->tokens, sizeof *h->tokens * (size_t)h->n);
    out->n = l->head_bytes - sizeof(sp_digest);
    sp_sha256 *hash;
    sp_digest digest;
    SP_TRY(sp_sha256_create(&hash));
    sp_sha256_update(hash, out->v, out->n);
    sp_sha256_final(hash, &digest);
    return sp_bytes_add(out, digest.b, sizeof digest.b);
}

/* A layer of a chunk on its way between pool and file, a run of neighbouring blocks at a time. */
typedef struct transfer {
    int fd;
    const char *path;
    const uint32_t *blocks; /* [n_blocks] */
    int32_t n_blocks;
    sp_sha256 *hash;
    void *staging; /* [n_blocks] of one layer */
} transfer;

/* next_run -- the blocks from i on that are neighbours in the pool. */
static sp_kv_run next_run(const transfer *t, int layer, int32_t i)
{
    sp_kv_run run = {layer, t->blocks[i], 1};
    while (i + run.n < t->n_blocks && t->blocks[i + run.n] == run.first + (uint32_t)run.n) run.n++;
    return run;
}

static sp_err write_layer(const transfer *t, const sp_kv_pool *pool, int layer)
{
    const uint8_t *from;
    for (int32_t i = 0; i < t->n_blocks;) {
        sp_kv_run run = next_run(t, layer, i);
        size_t n = (size_t)run.n * sp_kv_pool_layer_block_bytes(pool);
        SP_TRY(sp_kv_pool_read(pool, run, t->staging, &from));
        sp_sha256_update(t->hash, from, n);
        SP_TRY(write_all(t->fd, t->path, from, n));
        i += run.n;
    }
    return SP_OK;
}

/* write_body -- keys and values of all layers, then the digest of everything. */
static sp_err write_body(const transfer *t, const sp_kv_pool *pool)
{
    sp_digest digest;
    sp_err err = SP_OK;
    for (int i = 0; i < sp_kv_pool_shape(pool)->n_layers && err == SP_OK; i++)
        err = write_layer(t, pool, i);
    sp_sha256_final(t->hash, &digest);
    return err == SP_OK ? write_all(t->fd, t->path, digest.b, sizeof digest.b) : err;
}

sp_err sp_kv_file_write(int fd, const char *path, const sp_kv_head *h, const sp_kv_pool *pool,
                        const uint32_t *blocks)
{
    layout l = layout_in(h, pool);
    sp_bytes head = {0};
    transfer t = {.fd = fd, .path = path, .blocks = blocks, .n_blocks = sp_blocks_for(h->n)};
    sp_err err = make_head(h, &l, pool, &head);
    if (err == SP_OK && !(t.staging = sp_alloc(1, l.layer_bytes)))
        err = sp_fail_nomem(l.layer_bytes, "a layer of a chunk");
    if (err == SP_OK) err = sp_sha256_create(&t.hash);
    if (err == SP_OK) {
        sp_sha256_update(t.hash, head.v, head.n);
        err = write_all(fd, path, head.v, head.n);
        if (err == SP_OK)
            err = write_body(&t, pool);
        else
            sp_sha256_final(t.hash, &(sp_digest){{0}});
    }
    sp_free(t.staging);
    sp_vec_fini(&head);
    return err;
}

/* -- reading -------------------------------------------------------------------------------- */

static sp_err read_all(int fd, const char *path, void *data, size_t n)
{
    for (uint8_t *p = data; n;) {
        ssize_t done = read(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return sp_fail(SP_E_IO, "%s: cannot read: %s", path, strerror(errno));
        if (done == 0) return sp_fail(SP_E_FORMAT, "%s: ends early", path);
        p += done;
        n -= (size_t)done;
    }
    return SP_OK;
}

static sp_err check_version(const uint8_t *p, const char *path)
{
    if (memcmp(p, magic, sizeof magic) != 0)
        return sp_fail(SP_E_FORMAT, "%s: not a copy of a chunk", path);
    if (get32(p + 8) != VERSION)
        return sp_fail(SP_E_UNSUPPORTED, "%s: version %u, this program has version %d", path,
                       get32(p + 8), VERSION);
    return SP_OK;
}

/* read_fixed -- the sizes, checked against the pool and against the size of the file. */
static sp_err read_fixed(const uint8_t *p, uint64_t size, const char *path, const sp_kv_pool *pool,
                         sp_kv_head *h, layout *l)
{
    SP_TRY(check_version(p, path));
    *h = (sp_kv_head){.kind = get32(p + 12),
                      .n = (int32_t)get32(p + 24),
                      .at = (int32_t)get32(p + 28),
                      .n_before = (int32_t)get32(p + 32),
                      .n_head = (int32_t)get32(p + 36)};
    memcpy(h->space.b, p + 48, BYTES_OF(h->space));
    memcpy(h->id.b, p + 80, BYTES_OF(h->id));
    if (sp_kv_head_check(h) != SP_OK)
        return sp_fail(SP_E_FORMAT, "%s: %s", path, sp_error_detail());
    *l = layout_in(h, pool);
    if (get32(p + 40) != (uint32_t)sp_kv_pool_shape(pool)->n_layers ||
        get32(p + 44) != sp_kv_pool_layer_block_bytes(pool))
        return sp_fail(SP_E_UNSUPPORTED, "%s: %u layers of %u bytes a block, not of this model",
                       path, get32(p + 40), get32(p + 44));
    uint64_t told = get32(p + 16) | (uint64_t)get32(p + 20) << 32;
    if (told != l->file_bytes || size != told)
        return sp_fail(SP_E_FORMAT, "%s: %llu bytes, its head tells %llu of %llu", path,
                       (unsigned long long)size, (unsigned long long)told,
                       (unsigned long long)l->file_bytes);
    return SP_OK;
}

sp_err sp_kv_file_read_space(int fd, const char *path, sp_digest *out)
{
    uint8_t fixed[FIXED_BYTES];
    SP_TRY(read_all(fd, path, fixed, sizeof fixed));
    SP_TRY(check_version(fixed, path));
    memcpy(out->b, fixed + 48, BYTES_OF(*out));
    return SP_OK;
}

static sp_err check_digest(const sp_digest *is, const void *wanted, const char *path,
                           const char *what)
{
    if (memcmp(is->b, wanted, sizeof is->b) == 0) return SP_OK;
    return sp_fail(SP_E_FORMAT, "%s: damaged: the checksum of its %s is wrong", path, what);
}

sp_err sp_kv_file_read_head(int fd, const char *path, const sp_kv_pool *pool, sp_bytes *buf,
                            sp_kv_head *out)
{
    struct stat st;
    sp_kv_head h;
    layout l;
    sp_sha256 *hash;
    sp_digest digest;
    if (fstat(fd, &st) != 0) return sp_fail(SP_E_IO, "%s: %s", path, strerror(errno));
    buf->n = 0;
    SP_TRY(sp_vec_reserve(buf, FIXED_BYTES));
    SP_TRY(read_all(fd, path, buf->v, FIXED_BYTES));
    SP_TRY(read_fixed((uint8_t *)buf->v, (uint64_t)st.st_size, path, pool, &h, &l));
    SP_TRY(sp_vec_reserve(buf, l.head_bytes));
    SP_TRY(read_all(fd, path, buf->v + FIXED_BYTES, l.head_bytes - FIXED_BYTES));
    SP_TRY(sp_sha256_create(&hash));
    size_t n = l.head_bytes - sizeof digest;
    sp_sha256_update(hash, buf->v, n);
    sp_sha256_final(hash, &digest);
    SP_TRY(check_digest(&digest, buf->v + n, path, "head"));
    buf->n = l.head_bytes;
    /* both are aligned: the fixed part and a digest are multiples of 16 bytes */
    h.before = (const sp_digest *)(buf->v + FIXED_BYTES);
    h.tokens = (const int32_t *)(h.before + h.n_before);
    *out = h;
    return SP_OK;
}

static sp_err read_layer(const transfer *t, sp_kv_pool *pool, int layer)
{
    for (int32_t i = 0; i < t->n_blocks;) {
        sp_kv_run run = next_run(t, layer, i);
        size_t n = (size_t)run.n * sp_kv_pool_layer_block_bytes(pool);
        uint8_t *to = sp_kv_pool_target(pool, run, t->staging);
        SP_TRY(read_all(t->fd, t->path, to, n));
        sp_sha256_update(t->hash, to, n);
        SP_TRY(sp_kv_pool_write(pool, run, to));
        i += run.n;
    }
    return SP_OK;
}

sp_err sp_kv_file_read_body(int fd, const char *path, const sp_kv_head *h, const sp_bytes *buf,
                            sp_kv_pool *pool, const uint32_t *blocks)
{
    transfer t = {.fd = fd, .path = path, .blocks = blocks, .n_blocks = sp_blocks_for(h->n)};
    size_t n = (size_t)t.n_blocks * sp_kv_pool_layer_block_bytes(pool);
    sp_digest digest, wanted;
    if (!(t.staging = sp_alloc(1, n))) return sp_fail_nomem(n, "a layer of a chunk");
    sp_err err = sp_sha256_create(&t.hash);
    if (err == SP_OK) {
        sp_sha256_update(t.hash, buf->v, buf->n);
        for (int i = 0; i < sp_kv_pool_shape(pool)->n_layers && err == SP_OK; i++)
            err = read_layer(&t, pool, i);
        sp_sha256_final(t.hash, &digest);
    }
    sp_free(t.staging);
    if (err == SP_OK) err = read_all(fd, path, wanted.b, sizeof wanted.b);
    if (err == SP_OK) err = check_digest(&digest, wanted.b, path, "keys and values");
    return err;
}
