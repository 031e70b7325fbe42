/* charsmap.h -- the table by which SentencePiece rewrites characters (NFKC, full width, control characters).
 *
 *   offset  size  meaning
 *   0       4     n: bytes of the trie, little-endian
 *   4       n     the trie: a double array of units of 4 bytes
 *   4 + n   rest  replacements, each ended by a zero byte
 *
 * A unit has the label of the byte that leads to it (bits 0-7; bit 31 set: it is a value instead, an offset
 * into the replacements), whether a value follows (bit 8), and the distance to its children (bits 10-30, times
 * 256 where bit 9 is set). Source: the format of Darts-clone, which SentencePiece writes. */
#ifndef SP_MODEL_CHARSMAP_H
#define SP_MODEL_CHARSMAP_H

#include "model/tokenizer/vocab_spec.h"

typedef struct sp_charsmap {
    const uint8_t *units; /* [n_units] of 4 bytes */
    size_t n_units;       /* 0: no character is rewritten */
    const char *texts;
    size_t n_texts; /* the last byte is zero */
} sp_charsmap;

/* sp_charsmap_open -- a view of `blob`. Errors: SP_E_FORMAT names path. */
sp_err sp_charsmap_open(sp_charsmap *m, sp_text_view blob, const char *path) SP_MUST_CHECK;

/* sp_charsmap_longest -- bytes of the longest entry that s[0..n) begins with, and what replaces it; 0: none.
 * The table may hold any bytes: an offset outside it counts as no entry. */
size_t sp_charsmap_longest(const sp_charsmap *m, const char *s, size_t n, sp_text_view *out);

#endif
