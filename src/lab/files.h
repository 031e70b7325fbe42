/* files.h -- what the laboratory reads and writes: JSON lines, CSV. */
#ifndef SP_LAB_FILES_H
#define SP_LAB_FILES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Called with each object; may keep a reference. False after an error message. */
typedef bool lab_line_fn(const char *path, int line, json_t *object, void *user);

/* lab_json_lines -- the objects of a JSONL file; blank lines are skipped. flags: of json_loadb. *hash (may be NULL):
 * lab_hash of the file. False after an error message that names file and line. */
bool lab_json_lines(const char *path, size_t flags, lab_line_fn *fn, void *user, uint64_t *hash);
/* lab_hash -- FNV-1a: to notice changed files, not against attackers. */
uint64_t lab_hash(const void *data, size_t n);

/* lab_json_write -- a value as the whole of a file, which may be a pipe or a device: it is written, not replaced as by
 * cli_write_json. False after an error message. */
bool lab_json_write(const char *path, const json_t *value, size_t flags);

/* lab_csv_put -- one field, quoted if necessary; control characters become blanks, so a row is one line. */
void lab_csv_put(FILE *f, const char *text);
/* lab_csv_number -- an empty field if it is not finite. */
void lab_csv_number(FILE *f, double v);

/* lab_close -- f may be NULL: it could not be opened. False after an error message: not all was written. */
bool lab_close(FILE *f, const char *path);

#endif
