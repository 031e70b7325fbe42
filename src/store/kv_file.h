/* kv_file.h -- one chunk copy as a file that describes itself: its head, and its keys and values.
 * The format is in kv_file.c. Writing and reading go through a descriptor at the file's start;
 * `path` is for messages. */
#ifndef SP_STORE_KV_FILE_H
#define SP_STORE_KV_FILE_H

#include "base/mem.h"
#include "kv/pool.h"
#include "kv/segment.h"

typedef struct sp_kv_head {
    uint32_t kind;            /* the caller's */
    sp_digest space, id;      /* namespace; content id of the chunk */
    const sp_digest *before;  /* [n_before] segments in sight when it was computed */
    int32_t n_before, n_head; /* the first n_head are those before the first chunk */
    const int32_t *tokens;    /* [n] */
    int32_t n, at;            /* tokens; position that the first key was rotated for */
} sp_kv_head;

/* sp_kv_file_write -- Pre: a head within the limits of sp_kv_head_check. blocks [ceil(n / B)].
 * Errors: SP_E_IO, SP_E_NOMEM; the file then holds anything. */
sp_err sp_kv_file_write(int fd, const char *path, const sp_kv_head *h, const sp_kv_pool *pool,
                        const uint32_t *blocks) SP_MUST_CHECK;

/* sp_kv_head_check -- Errors: SP_E_ARG for sizes that no file can have. */
sp_err sp_kv_head_check(const sp_kv_head *h) SP_MUST_CHECK;

/* sp_kv_file_read_head -- reads and verifies the head into `buf`, which *out points into. The file
 * must have the pool's shape. Errors: SP_E_FORMAT (damaged, truncated), SP_E_UNSUPPORTED (another
 * version or shape), SP_E_IO, SP_E_NOMEM. */
sp_err sp_kv_file_read_head(int fd, const char *path, const sp_kv_pool *pool, sp_bytes *buf,
                            sp_kv_head *out) SP_MUST_CHECK;

/* sp_kv_file_read_space -- the namespace that a file of any shape tells; nothing else is read, or
 * verified. Errors: as with read_head. */
sp_err sp_kv_file_read_space(int fd, const char *path, sp_digest *out) SP_MUST_CHECK;

/* sp_kv_file_read_body -- after read_head with the same buf: keys and values into open blocks
 * [ceil(n / B)], all verified. Errors as above; the blocks then hold anything. */
sp_err sp_kv_file_read_body(int fd, const char *path, const sp_kv_head *h, const sp_bytes *buf,
                            sp_kv_pool *pool, const uint32_t *blocks) SP_MUST_CHECK;

#endif
