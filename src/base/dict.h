/* dict.h -- a hash table from byte strings to 32-bit numbers; open addressing, linear probing.
 * Keys are borrowed and must outlive the table. Keys are never deleted: the users of this table
 * (vocabulary, merges, tensor and metadata names) only add. */
#ifndef SP_BASE_DICT_H
#define SP_BASE_DICT_H

#include "base/err.h"

typedef struct sp_dict_slot {
    const void *key; /* NULL: free */
    uint32_t n_bytes;
    uint32_t value;
} sp_dict_slot;

typedef struct sp_dict {
    sp_dict_slot *slots;
    size_t n, cap; /* cap is a power of two or 0 */
} sp_dict;

#define SP_DICT_NONE UINT32_MAX

/* sp_dict_init -- an empty table with room for n_expected keys. */
sp_err sp_dict_init(sp_dict *d, size_t n_expected) SP_MUST_CHECK;
void sp_dict_fini(sp_dict *d);
/* sp_dict_put -- sets or replaces; value must not be SP_DICT_NONE. */
sp_err sp_dict_put(sp_dict *d, const void *key, size_t n_bytes, uint32_t value) SP_MUST_CHECK;
/* sp_dict_get -- the value, or SP_DICT_NONE. */
uint32_t sp_dict_get(const sp_dict *d, const void *key, size_t n_bytes);

#endif
