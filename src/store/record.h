/* record.h -- the header of a stored copy: what it is, and the checksums of its layers. It is the same
 * in a segment of the disk tier and in an archive; the table of offsets is in record.c.
 *
 *   | header, padded to a page | layer 0, its notes, padded | layer 1, its notes, padded | ... |
 *
 * All parts begin at a page, so that any range of layers can be read alone, bypassing the page cache. */
#ifndef SP_STORE_RECORD_H
#define SP_STORE_RECORD_H

#include "base/hash.h"
#include "base/mem.h"
#include "kv/copy_facts.h"

enum { SP_PAGE = 4096 }; /* alignment and grain of direct I/O */

/* Checksum of one layer: XXH3, 128 bits. It detects damage, not forgery: whoever can write the store can also compute
 * SHA-256. XXH3 runs at the speed of memory, SHA-256 is slower than a good disk, and accidental matches, which CRC-32C
 * allows, do not occur with 128 bits. */
typedef struct sp_layer_sum {
    uint64_t low, high;
} sp_layer_sum;

sp_layer_sum sp_layer_sum_of(const void *data, size_t n);
bool sp_layer_sum_eq(sp_layer_sum a, sp_layer_sum b);

typedef struct sp_record {
    sp_copy_facts facts;      /* its kind may be of a later version */
    sp_digest space;          /* namespace */
    const int32_t *tokens;    /* [n] */
    int32_t n;
    int32_t n_layers;
    uint64_t layer_bytes;     /* of all blocks of one layer; the notes follow them */
    const sp_layer_sum *sums; /* [sp_record_n_sums]; NULL if it is not stored yet */
} sp_record;

/* Where the parts are, in pages. */
typedef struct sp_record_layout {
    uint64_t head_bytes; /* with its digest, without padding */
    uint32_t head_pages, layer_pages;
    uint64_t pages; /* of all */
} sp_record_layout;

/* sp_record_check -- Errors: SP_E_ARG for sizes that no record can have. */
sp_err sp_record_check(const sp_record *r) SP_MUST_CHECK;
/* Pre: a record that passes the check. */
sp_record_layout sp_record_layout_of(const sp_record *r);

/* sp_record_n_sums -- of the layers, then of their notes if there are any. */
static inline int sp_record_n_sums(const sp_record *r)
{
    return r->facts.note_bytes ? 2 * r->n_layers : r->n_layers;
}
/* sp_record_notes_ok -- data: a layer, with its notes. */
bool sp_record_notes_ok(const sp_record *r, int layer, const uint8_t *data);

/* sp_record_write -- the header with `sums` into out[head_pages * SP_PAGE], padding included. Errors:
 * SP_E_NOMEM. */
sp_err sp_record_write(const sp_record *r, const sp_layer_sum *sums, uint8_t *out) SP_MUST_CHECK;

/* sp_record_size -- the size of the header that begins with these SP_PAGE bytes, for a reader that does
 * not know it. Errors: as sp_record_read. */
sp_err sp_record_size(const uint8_t *first_page, uint32_t *head_pages) SP_MUST_CHECK;
/* sp_record_read -- verifies a header of n bytes at `data`, aligned to 16 bytes; *out points into it.
 * Errors: SP_E_FORMAT (damaged, truncated), SP_E_UNSUPPORTED (another version). */
sp_err sp_record_read(const uint8_t *data, size_t n, sp_record *out) SP_MUST_CHECK;

#endif
