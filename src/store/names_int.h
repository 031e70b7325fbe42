/* names_int.h -- names of copies: as paths below a namespace's folder, and as a set in memory. */
#ifndef SP_STORE_NAMES_INT_H
#define SP_STORE_NAMES_INT_H

#include "store/disk.h"

typedef struct sp_disk_name {
    sp_digest id;
    uint64_t head; /* hash of the segments before the chunks: discovers, the file's head verifies */
    uint8_t kind;  /* sp_disk_kind */
    bool used;     /* of a slot in the set */
} sp_disk_name;

#define SP_DISK_FOLDER_CHARS 2 /* "ab": the first byte of the id */
/* "ab/", the rest of the id, "-", the hash, ".plain", NUL */
#define SP_DISK_NAME_BYTES (SP_DISK_FOLDER_CHARS + 1 + 62 + 1 + 16 + 6 + 1)

sp_disk_name sp_disk_name_of(const sp_disk_key *key);
void sp_disk_name_path(const sp_disk_name *name, char out[SP_DISK_NAME_BYTES]);
/* sp_disk_name_parse -- the inverse, of a folder and a file in it; false when they name no copy. */
bool sp_disk_name_parse(const char *folder, const char *file, sp_disk_name *out);

/* A set: open addressing, linear probing, at most three quarters full. */
typedef struct sp_disk_names {
    sp_disk_name *slots;
    size_t n, cap; /* cap: a power of two, or 0 */
} sp_disk_names;

/* sp_disk_names_reserve -- the next sp_disk_names_add cannot fail. */
sp_err sp_disk_names_reserve(sp_disk_names *s) SP_MUST_CHECK;
void sp_disk_names_add(sp_disk_names *s, const sp_disk_name *name);
bool sp_disk_names_has(const sp_disk_names *s, const sp_disk_name *name);
void sp_disk_names_drop(sp_disk_names *s, const sp_disk_name *name);
void sp_disk_names_fini(sp_disk_names *s);

#endif
