/* decode.h -- how an answer is decoded: with full attention, or sparsely. */
#ifndef SP_SERVE_DECODE_H
#define SP_SERVE_DECODE_H

#include "engine/sparse.h"

typedef struct sp_decode_choice {
    bool sparse;
    sp_sparse_opts o;
} sp_decode_choice;

/* sp_decode_parse -- "exact", or "sparse:" and a share ("10%") or a number of tokens ("4096"), then
 * "," and an option each:
 *   bounds, hash128, hash256   the selector (bounds)
 *   depth=N                    full attention over fewer tokens (SP_SPARSE_MIN_DEPTH); 0: never
 * NULL: exact. Errors: SP_E_ARG names the word. */
sp_err sp_decode_parse(const char *text, sp_decode_choice *out) SP_MUST_CHECK;

#endif
