/* cut.h -- finds chunks in a plain text: pieces between separators, and texts that are known as
 * chunks. A text is cut before it is tokenized, so a chunk has the same tokens, and the same
 * content id, wherever it was found. */
#ifndef SP_SERVE_CUT_H
#define SP_SERVE_CUT_H

#include "base/mem.h"

#define SP_CUT_MIN_BYTES 64 /* shorter texts are not recognised in others */
#define SP_CUT_MAX_KNOWN 65536

/* Texts that were chunks before, as hashes; beyond max_texts the oldest is forgotten. A hash
 * collision only cuts the colliding text at another place: cached KV is found by content
 * id. Thread: any. */
typedef struct sp_known sp_known;

sp_err sp_known_create(int32_t max_texts, sp_known **out) SP_MUST_CHECK;
void sp_known_destroy(sp_known *k);
/* sp_known_tenant -- a salt as a number, which separates the texts of tenants. NULL is 0. */
uint64_t sp_known_tenant(const char *salt);
/* sp_known_add -- remembers a chunk's text; ignores one that is too short or known. Cost: O(n). */
void sp_known_add(sp_known *k, uint64_t tenant, const char *text, size_t n);
/* sp_known_drop -- forgets a chunk's text; ignores an unknown one. Cost: O(n). */
void sp_known_drop(sp_known *k, uint64_t tenant, const char *text, size_t n);
int32_t sp_known_n(sp_known *k);

typedef struct sp_cut_piece {
    const char *text; /* into the text that was cut */
    size_t n;         /* at least 1 */
    bool is_chunk;
} sp_cut_piece;

typedef SP_VEC(sp_cut_piece) sp_cut_list;

/* sp_cut -- appends the pieces of a text, which together are the text. k NULL: no known texts.
 *
 *   head SEP chunk SEP chunk SEP question      a separator belongs to the piece before it; NULL or
 *                                              "": none
 *   text KNOWN text KNOWN KNOWN text           text outside these chunks is searched for known
 *                                              texts; of two with the same beginning, the longer wins
 *
 * Cost: O(n), and a step for each known text whose first 64 bytes occur in the text. Errors:
 * SP_E_NOMEM. */
sp_err sp_cut(sp_known *k, uint64_t tenant, const char *text, size_t n, const char *separator,
              sp_cut_list *out) SP_MUST_CHECK;

#endif
