/* A file of the chunk store: as it is, and once more with its checksums made right, so that what
 * follows them is reached. What is read whole must be the bytes of the file. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store/kv_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_BLOCKS = 8, FIXED_BYTES = 112 };

static sp_kv_pool *pool;
static uint32_t blocks[N_BLOCKS];

static void make_pool(void)
{
    sp_kv_shape shape = {.n_layers = 2, .n_heads = 1, .head = 2, .type = SP_F16};
    sp_device *d;
    if (sp_device_open("cpu", &(sp_device_opts){.n_threads = 1}, &d) != SP_OK) abort();
    if (sp_kv_pool_create(d, &shape, N_BLOCKS, &pool) != SP_OK) abort();
    if (sp_kv_acquire(pool, N_BLOCKS, blocks) != SP_OK) abort();
}

static void check_message(void)
{
    if (strncmp(sp_error_detail(), "fuzz: ", 6) != 0) abort();
}

static void check_body(const uint8_t *data, size_t head_bytes, const sp_kv_head *h)
{
    for (int l = 0; l < 2; l++) {
        sp_kv_view kv = sp_kv_pool_layer(pool, l);
        size_t n = (size_t)sp_blocks_for(h->n) * kv.block_bytes;
        if (memcmp(kv.base, data + head_bytes + (size_t)l * n, n) != 0) abort();
    }
}

static void read_file(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0) abort();
    sp_bytes buf = {0};
    sp_kv_head h;
    sp_err err = sp_kv_file_read_head(fd, "fuzz", pool, &buf, &h);
    if (err == SP_OK && sp_blocks_for(h.n) <= N_BLOCKS) {
        err = sp_kv_file_read_body(fd, "fuzz", &h, &buf, pool, blocks);
        if (err == SP_OK) check_body(data, buf.n, &h);
    }
    if (err != SP_OK) check_message();
    sp_vec_fini(&buf);
    close(fd);
}

static uint32_t get32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* sign -- puts the SHA-256 of data[0, n) behind it. */
static void sign(uint8_t *data, size_t n)
{
    sp_sha256 *hash;
    sp_digest digest;
    if (sp_sha256_create(&hash) != SP_OK) abort();
    sp_sha256_update(hash, data, n);
    sp_sha256_final(hash, &digest);
    memcpy(data + n, digest.b, sizeof digest.b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!pool) make_pool();
    read_file(data, size);
    if (size < FIXED_BYTES + 2 * sizeof(sp_digest)) return 0;
    uint64_t head = FIXED_BYTES + 4 * (uint64_t)get32(data + 24) + 32 * (uint64_t)get32(data + 32);
    if (head + 2 * sizeof(sp_digest) > size) return 0;
    uint8_t *file = malloc(size);
    if (!file) abort();
    memcpy(file, data, size);
    sign(file, (size_t)head);
    sign(file, size - sizeof(sp_digest));
    read_file(file, size);
    free(file);
    return 0;
}
