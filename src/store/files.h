/* files.h -- complete reads, writes and syncs of small files; failing system calls for tests. */
#ifndef SP_STORE_FILES_H
#define SP_STORE_FILES_H

#include <stdint.h>

#include "base/err.h"

/* sp_files_read -- up to n bytes at `offset`; *got is less at the end of the file. Errors: SP_E_IO names
 * the path. */
sp_err sp_files_read(int fd, const char *path, uint64_t offset, void *data, size_t n,
                     size_t *got) SP_MUST_CHECK;
sp_err sp_files_write(int fd, const char *path, uint64_t offset, const void *data,
                      size_t n) SP_MUST_CHECK;
/* sp_files_sync -- makes data and size durable. */
sp_err sp_files_sync(int fd, const char *path) SP_MUST_CHECK;
/* sp_files_sync_folder -- makes the names in a folder durable. */
sp_err sp_files_sync_folder(const char *path) SP_MUST_CHECK;
sp_err sp_files_make_folder(const char *path) SP_MUST_CHECK;

/* For tests: makes the store's n-th system call from now fail (0: none), with `stays` all later ones, too. error 0: a
 * short transfer; SP_FLIPS: a read succeeds with a wrong bit. Thread: any. */
enum { SP_FLIPS = -1 };
typedef enum sp_store_call { SP_CALL_READ = 1, SP_CALL_WRITE = 2, SP_CALL_SYNC = 4 } sp_store_call;
void sp_store_fault(unsigned calls, long n, int error, bool stays);
/* sp_store_fails -- whether this call must fail; *error: as set. */
bool sp_store_fails(sp_store_call call, int *error);
/* sp_store_flip -- flips a bit of what was read, in its first 512 bytes: after them it may be a page's padding. */
static inline void sp_store_flip(uint8_t *data, size_t n)
{
    data[(n < 512 ? n : 512) / 3] ^= 4;
}

#endif
