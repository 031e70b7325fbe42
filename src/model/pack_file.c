/* pack_file.c -- the format of a pack: the weights as they are in the memory of the device.
 *
 *   offset  size
 *    0       8     "spolpack"
 *    8       4     1: version of this format
 *   12       4     P: number of pieces
 *   16      32     key: model and layout
 *   48       8     n: bytes of weights
 *   56       8     XXH3-64 of the above and of the checksums
 *   64       8 P   checksums of the pieces: XXH3-64
 *   2 MiB    n     weights: P pieces of 4 MiB, the last one shorter
 *
 * Integers are little-endian. The weights begin on a huge page. Opening checks every byte: the first
 * step reads all of them anyway, and a checksum is faster than memory. Pages mapped for it cause no
 * fault later. So a pack that lost a write in a crash is detected, and no fsync is needed. */
#include "model/pack_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/threads.h"

#define WEIGHTS_AT ((size_t)2 << 20)
#define PIECE      ((size_t)4 << 20)

static const char magic[8] = "spolpack";

typedef struct head {
    char magic[8];
    uint32_t version, n_pieces;
    sp_digest key;
    uint64_t n_bytes, sum;
} head;

static_assert(sizeof(head) == 64, "the table above");

enum { VERSION = 1, MAX_PIECES = (WEIGHTS_AT - sizeof(head)) / sizeof(uint64_t) };

static size_t n_pieces_of(size_t n_bytes)
{
    return SP_DIV_UP(n_bytes, PIECE);
}

static size_t piece_bytes(size_t n_bytes, size_t i)
{
    return SP_MIN(PIECE, n_bytes - i * PIECE);
}

size_t sp_pack_file_bytes(size_t n_bytes)
{
    return WEIGHTS_AT + n_bytes;
}

static head head_of(const sp_pack_name *name, const uint64_t *sums)
{
    head h = {.version = VERSION,
              .n_pieces = (uint32_t)n_pieces_of(name->n_bytes),
              .key = name->key,
              .n_bytes = name->n_bytes};
    memcpy(h.magic, magic, sizeof magic);
    uint64_t of_sums = XXH3_64bits(sums, h.n_pieces * sizeof *sums);
    h.sum = XXH3_64bits_withSeed(&h, offsetof(head, sum), of_sums);
    return h;
}

/* -- reading -------------------------------------------------------------------------------- */

typedef struct check_job {
    const sp_pack_map *map;
    const uint64_t *sums;
    size_t n_bytes;
    atomic_size_t damaged; /* the number of a damaged piece; SIZE_MAX: none */
} check_job;

static void check_piece(void *arg, int piece, int n_pieces)
{
    check_job *job = arg;
    const size_t i = (size_t)piece, n = piece_bytes(job->n_bytes, i);
    const uint8_t *p = job->map->weights + i * PIECE;
    SP_UNUSED(n_pieces);
    sp_file_map_populate(&job->map->file, p, n);
    if (XXH3_64bits(p, n) != job->sums[i]) atomic_store(&job->damaged, i);
}

static sp_err check_pieces(const char *path, const sp_pack_map *map, size_t n_bytes, int n_threads)
{
    check_job job = {.map = map,
                     .sums = (const uint64_t *)(map->file.data + sizeof(head)),
                     .n_bytes = n_bytes,
                     .damaged = SIZE_MAX};
    sp_team *team;
    SP_TRY(sp_team_create(&team, n_threads));
    sp_team_share(team, check_piece, &job, (int)n_pieces_of(n_bytes));
    sp_team_destroy(team);
    const size_t i = atomic_load(&job.damaged);
    if (i == SIZE_MAX) return SP_OK;
    return sp_fail(SP_E_FORMAT, "%s: the checksum of the weights at offset %zu is wrong", path,
                   WEIGHTS_AT + i * PIECE);
}

static sp_err check_head(const char *path, const sp_file_map *file, const sp_pack_name *name)
{
    if (file->size != sp_pack_file_bytes(name->n_bytes))
        return sp_fail(SP_E_FORMAT, "%s: its size is %zu bytes, it should be %zu", path, file->size,
                       sp_pack_file_bytes(name->n_bytes));
    const head want = head_of(name, (const uint64_t *)(file->data + sizeof want));
    if (memcmp(file->data, magic, sizeof magic) != 0)
        return sp_fail(SP_E_FORMAT, "%s: is not a file of packed weights", path);
    if (memcmp(file->data, &want, sizeof want) != 0)
        return sp_fail(SP_E_FORMAT, "%s: the header is damaged, or of another model", path);
    return SP_OK;
}

sp_err sp_pack_file_open(const char *path, const sp_pack_name *name, int n_threads,
                         sp_pack_map *out)
{
    sp_pack_map map;
    if (n_pieces_of(name->n_bytes) > MAX_PIECES)
        return sp_fail(SP_E_LIMIT, "%s: %zu bytes of weights", path, name->n_bytes);
    SP_TRY(sp_file_map_open(path, &map.file));
    sp_err err = check_head(path, &map.file, name);
    if (err == SP_OK) {
        map.weights = map.file.data + WEIGHTS_AT;
        sp_file_map_huge(&map.file);
        err = check_pieces(path, &map, name->n_bytes, n_threads);
    }
    if (err == SP_OK)
        *out = map;
    else
        sp_file_map_close(&map.file);
    return err;
}

/* -- writing -------------------------------------------------------------------------------- */

static sp_err put(int fd, const char *path, const void *data, size_t n, size_t offset)
{
    const uint8_t *from = data;
    for (size_t done = 0; done < n;) {
        ssize_t k = pwrite(fd, from + done, n - done, (off_t)(offset + done));
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0)
            return sp_fail(SP_E_IO, "%s: cannot write: %s", path, strerror(k < 0 ? errno : ENOSPC));
        done += (size_t)k;
    }
    return SP_OK;
}

static sp_err put_all(int fd, const char *path, const sp_pack_name *name, const uint8_t *weights,
                      uint64_t *sums)
{
    const size_t n_pieces = n_pieces_of(name->n_bytes);
    for (size_t i = 0; i < n_pieces; i++) {
        const uint8_t *p = weights + i * PIECE;
        const size_t n = piece_bytes(name->n_bytes, i);
        sums[i] = XXH3_64bits(p, n);
        SP_TRY(put(fd, path, p, n, WEIGHTS_AT + i * PIECE));
    }
    SP_TRY(put(fd, path, sums, n_pieces * sizeof *sums, sizeof(head)));
    const head h = head_of(name, sums);
    return put(fd, path, &h, sizeof h, 0);
}

sp_err sp_pack_file_write(int fd, const char *path, const sp_pack_name *name,
                          const uint8_t *weights)
{
    const size_t n_pieces = n_pieces_of(name->n_bytes);
    if (n_pieces > MAX_PIECES)
        return sp_fail(SP_E_LIMIT, "%s: %zu bytes of weights", path, name->n_bytes);
    if (fallocate(fd, 0, (off_t)WEIGHTS_AT, (off_t)name->n_bytes) != 0 && errno == ENOSPC)
        return sp_fail(SP_E_IO, "%s: %s", path, strerror(ENOSPC));
    uint64_t *sums = sp_alloc(n_pieces, sizeof *sums);
    if (!sums) return sp_fail_nomem("checksums");
    sp_err err = put_all(fd, path, name, weights, sums);
    sp_free(sums);
    return err;
}
