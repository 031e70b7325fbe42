/* decode.h -- how an answer is decoded: with full attention, sparsely, or over a window. */
#ifndef SP_SERVE_DECODE_H
#define SP_SERVE_DECODE_H

#include "engine/sparse/sparse.h"

typedef struct sp_decode_choice {
    bool sparse;
    sp_sparse_opts o;
    int32_t window; /* tokens; 0: none */
} sp_decode_choice;

/* sp_decode_parse -- "exact", "sparse" (SP_SPARSE_SHARE), or "sparse:" and a share ("10%") or a number of tokens
 * ("4096"); then "," before each option:
 *   bounds, quest, hash128, hash256, keys4   the selector (bounds)
 *   refine=X                   it proposes X times the blocks to read, and keys in 4 bits choose among them
 *                              (SP_SPARSE_REFINE); 1: no second stage
 *   depth=N                    full attention over fewer tokens (SP_SPARSE_MIN_DEPTH); 0: never
 *   reuse                      choices are reused for similar queries; thresholds from importance
 *   reuse=TAU                  the same with one threshold, -1 .. 1
 *   eta=X, power=X             of reuse: the largest threshold, the power of importance
 *   least                      of reuse: the least similar head of a group decides
 *   lru                        for comparison: replaces fetched blocks by LRU instead of the clock
 *   forget                     for comparison: a fetched block serves one token only
 *   ahead                      fetch from a file what the next layer is likely to choose
 * Or "window:" and a number of tokens: prompt and answer look at the beginning and at that many tokens
 * before them (reuse/window.c). NULL: exact. Errors: SP_E_ARG names the word. */
sp_err sp_decode_parse(const char *text, sp_decode_choice *out) SP_MUST_CHECK;

#endif
