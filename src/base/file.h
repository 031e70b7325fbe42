/* file.h -- reading files: large, long-lived ones are mapped, small ones are copied. */
#ifndef SP_BASE_FILE_H
#define SP_BASE_FILE_H

#include "base/mem.h"

/* Identifies a file and its version: it changes when the file is rewritten. */
typedef struct sp_file_id {
    uint64_t inode, size;
    int64_t modified_ns;
} sp_file_id;

typedef struct sp_file_map {
    const uint8_t *data; /* NULL when size is 0 */
    size_t size;         /* bytes */
    void *pages;         /* the mapping that `data` points to; private to file.c */
    sp_file_id id;       /* when it was opened */
} sp_file_map;

/* sp_file_map_open -- maps a regular file read-only. Errors: SP_E_IO names the path and the reason.
 * Owns: close it with sp_file_map_close. If another process truncates the file while it is mapped,
 * a read raises SIGBUS. */
sp_err sp_file_map_open(const char *path, sp_file_map *out) SP_MUST_CHECK;
void sp_file_map_close(sp_file_map *map);
/* sp_file_map_let_go -- lets the system drop the pages that are entirely inside [p, p + n); the
 * next read loads them again. Does nothing if the range is not inside this map. */
void sp_file_map_let_go(const sp_file_map *map, const void *p, size_t n);
/* sp_file_map_huge -- asks for huge pages. A hint. */
void sp_file_map_huge(const sp_file_map *map);
/* sp_file_map_populate -- loads and maps the pages of [p, p + n) in one call, which is cheaper than
 * a fault for each. A hint; does nothing if the range is not inside this map. Thread: any. */
void sp_file_map_populate(const sp_file_map *map, const void *p, size_t n);

/* sp_file_read -- appends the whole file to `out`. Errors: SP_E_IO; SP_E_LIMIT over max_bytes. */
sp_err sp_file_read(const char *path, size_t max_bytes, sp_bytes *out) SP_MUST_CHECK;

/* sp_file_write -- replaces a file as a whole, through a temporary file in the same folder: after an error it is as it
 * was. What is no regular file, as a device, is written to. Errors: SP_E_IO names the path and the reason. */
sp_err sp_file_write(const char *path, const void *data, size_t n) SP_MUST_CHECK;

bool sp_file_is_dir(const char *path);

#endif
