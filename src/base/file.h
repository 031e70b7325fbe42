/* file.h -- reading files: mapped for what is large and lives long, copied for what is small. */
#ifndef SP_BASE_FILE_H
#define SP_BASE_FILE_H

#include "base/mem.h"

typedef struct sp_file_map {
    const uint8_t *data; /* NULL when size is 0 */
    size_t size;         /* bytes */
} sp_file_map;

/* sp_file_map_open -- maps a regular file read-only. Errors: SP_E_IO names the path and the reason.
 * Owns: close it with sp_file_map_close. A file truncated by others while mapped raises SIGBUS. */
sp_err sp_file_map_open(const char *path, sp_file_map *out) SP_MUST_CHECK;
void sp_file_map_close(sp_file_map *map);
/* sp_file_map_let_go -- the pages that lie wholly in [p, p + n) may leave memory until they are
 * read again; what is not of this map is left alone. */
void sp_file_map_let_go(const sp_file_map *map, const void *p, size_t n);

/* sp_file_read -- appends the whole file to `out`. Errors: SP_E_IO; SP_E_LIMIT over max_bytes. */
sp_err sp_file_read(const char *path, size_t max_bytes, sp_bytes *out) SP_MUST_CHECK;

bool sp_file_is_dir(const char *path);

#endif
