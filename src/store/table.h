/* table.h -- the index of the disk tier in memory: which copies are where.
 *
 *   slots    hash of a key -> 1 + index of an entry; open addressing, at most 3/4 full
 *   entries  96 bytes each; an index is stable while the entry is there
 *
 * Every entry is in two lists: of all entries by use, and of its segment. Cost: O(1) for every call, except when an
 * array doubles. Memory: 96 bytes an entry and 5.3 to 10.7 bytes of slots. Thread: one owner. */
#ifndef SP_STORE_TABLE_H
#define SP_STORE_TABLE_H

#include "store/tier.h"

#define SP_NO_ENTRY  UINT32_MAX
#define SP_MOST_USES 0xffffffu

/* The place of a record, and its entry in the index. */
typedef struct sp_place_on_disk {
    uint32_t segment;
    uint32_t page, pages; /* the first, and how many */
    uint32_t head_pages, n_layers;
    int32_t n;          /* tokens */
    uint32_t facts : 8; /* set of sp_tier_fact */
    uint32_t uses : 24; /* sp_table_use, since it was put; SP_MOST_USES: that many or more */
    float cost_us;      /* time to compute it; 0: unknown */
} sp_disk_place;

typedef struct sp_entry {
    sp_tier_key key;
    sp_disk_place place;
    uint32_t newer, older;   /* by use; free entries: `older` is the next one */
    uint32_t next, previous; /* in the same segment */
} sp_entry;

typedef struct sp_table {
    SP_VEC(sp_entry) entries;
    uint32_t *slots;
    size_t n_slots; /* a power of two, or 0 */
    size_t n;       /* entries in use */
    uint32_t free, newest, oldest;
} sp_table;

void sp_table_init(sp_table *t);
void sp_table_fini(sp_table *t);
/* sp_table_reserve -- makes room for n more entries. Errors: SP_E_NOMEM. */
sp_err sp_table_reserve(sp_table *t, size_t n) SP_MUST_CHECK;
/* sp_table_find -- index of the entry, or SP_NO_ENTRY. */
uint32_t sp_table_find(const sp_table *t, const sp_tier_key *key);
/* sp_table_add -- Pre: reserved, and the key is not there. `of_segment`: the list's first entry. */
uint32_t sp_table_add(sp_table *t, const sp_tier_key *key, const sp_disk_place *place,
                      uint32_t *of_segment);
void sp_table_remove(sp_table *t, uint32_t i, uint32_t *of_segment);
/* sp_table_touch -- makes it the most recently used. */
void sp_table_touch(sp_table *t, uint32_t i);
/* sp_table_use -- makes it the most recently used, and counts a use. */
void sp_table_use(sp_table *t, uint32_t i);
size_t sp_table_bytes(const sp_table *t);

bool sp_tier_key_eq(const sp_tier_key *a, const sp_tier_key *b);
bool sp_disk_place_eq(const sp_disk_place *a, const sp_disk_place *b);

#endif
