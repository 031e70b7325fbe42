/* form.h -- layers of a copy as the remote tier stores them: as they are, in a smaller type, compressed.
 *
 *   offset  size
 *   0       4     "SPF1"
 *   4       4     flags: 1 in a smaller type, 2 compressed with zstd
 *   8       8     bytes of a layer in that type, without its notes
 *   16      8     the type's name, padded with zeros
 *   24      ...   the layers of a group, the notes of each after it
 *
 * A group with neither flag has no such header, and is larger than any with one. Checksums of a copy cover its layers
 * as they are stored, before compression. Codes of authentication (seal.h) cover everything. */
#ifndef SP_STORE_REMOTE_FORM_H
#define SP_STORE_REMOTE_FORM_H

#include "store/packing.h"

typedef struct sp_remote_form {
    sp_kv_packing packing; /* reads layers in a smaller type; name NULL: such layers cannot be read */
    bool packs;            /* puts use that type */
    int level;             /* zstd level of puts; 0: not compressed */
    bool only_checks;      /* gets only verify layers: none are unpacked */
} sp_remote_form;

/* sp_form_packs -- whether this copy is put in the smaller type: it is then no longer exact. */
bool sp_form_packs(const sp_remote_form *f, const sp_record *r);

/* -- put -------------------------------------------------------------------------------------------------- */

typedef struct sp_form_writer {
    const sp_remote_form *form;
    const sp_record *r;
    bool packed;
    size_t kept;           /* bytes of a layer as it is stored, without its notes */
    uint8_t *raw;          /* one layer and its notes, if packed */
    uint8_t *group, *less; /* header, layers, room for `tail` bytes; compressed, if it is to be */
    size_t tail, n_less;   /* bytes that `less` has room for */
} sp_form_writer;

/* sp_form_writer_init -- for groups of up to `per` layers, and `tail` bytes after each. r, f: borrowed. Errors:
 * SP_E_NOMEM. */
sp_err sp_form_writer_init(sp_form_writer *w, const sp_remote_form *f, const sp_record *r, int per,
                           size_t tail) SP_MUST_CHECK;
void sp_form_writer_fini(sp_form_writer *w);
/* sp_form_slot -- where the caller writes the i-th layer of the group and its notes, before sp_form_add. */
uint8_t *sp_form_slot(const sp_form_writer *w, int i);
/* sp_form_add -- writes its checksums to sums [sp_record_n_sums]. */
void sp_form_add(const sp_form_writer *w, int i, int layer, sp_layer_sum *sums);
/* sp_form_end -- the value of n layers, *size bytes; the tail follows it. Valid until the next sp_form_slot. */
uint8_t *sp_form_end(const sp_form_writer *w, int n, size_t *size);

/* -- get -------------------------------------------------------------------------------------------------- */

typedef struct sp_form_reader {
    const sp_remote_form *form;
    const sp_record *r;
    const uint8_t *layers;
    size_t kept;
    bool packed;
    uint8_t *plain, *raw; /* owned: of a compressed group; one layer and its notes */
} sp_form_reader;

/* sp_form_reader_init -- reads a value of n_layers layers; data: borrowed. Memory: their size by r, at most 1 GiB.
 * Errors: SP_E_FORMAT, SP_E_NOMEM; SP_E_UNSUPPORTED: a type that cannot be read. */
sp_err sp_form_reader_init(sp_form_reader *f, const sp_remote_form *form, const sp_record *r, int n_layers,
                           const uint8_t *data, size_t n) SP_MUST_CHECK;
void sp_form_reader_fini(sp_form_reader *f);
/* sp_form_layer -- *out: the i-th one and its notes, which is layer `layer` of the copy; NULL with only_checks.
 * Errors: SP_E_FORMAT: its checksum is wrong. */
sp_err sp_form_layer(const sp_form_reader *f, int i, int layer, const uint8_t **out) SP_MUST_CHECK;

#endif
