/* parts.h -- the policies, and what they share. */
#ifndef SP_REUSE_PARTS_H
#define SP_REUSE_PARTS_H

#include "reuse/reuse.h"

/* SP_REUSE_POLICIES -- all policies that a user can name, in the order of help texts: X(full) is sp_reuse_full. The
 * only list: a new policy is a file and a word here. */
#define SP_REUSE_POLICIES(X) \
    X(off) X(prefix) X(set) X(full) X(random) X(link) X(h2o) X(blend) X(craft) X(fusion) X(flow) X(inplace)

#define X(name) extern const sp_reuse_policy sp_reuse_##name;
SP_REUSE_POLICIES(X)
#undef X

/* -- find.c: which copies serve ------------------------------------------------------------- */

/* sp_reuse_serve -- segment i is served by the first n_known tokens of a pinned copy. */
void sp_reuse_serve(const sp_finder *f, int i, const sp_copy *copy, int32_t n_known);
/* sp_reuse_find_path -- the longest known path over the first n segments; match->partial, which is pinned, serves a
 * part of the next one; match NULL: no partial match is wanted. */
sp_err sp_reuse_find_path(const sp_finder *f, int n, sp_path_match *match) SP_MUST_CHECK;
/* sp_reuse_find_chunks -- finds the head by path and each chunk by content: a fused copy, or else a plain one. */
sp_err sp_reuse_find_chunks(const sp_finder *f) SP_MUST_CHECK;
/* sp_reuse_peek_chunk -- the same of one chunk, as `peek`. */
const sp_copy *sp_reuse_peek_chunk(const sp_ledger *l, const sp_content_query *q, bool unfused);
/* sp_reuse_find_start -- finds what chunk policies take by path: the head, or with exact_first the
 * longest known prefix. */
sp_err sp_reuse_find_start(const sp_finder *f) SP_MUST_CHECK;
/* sp_reuse_wants_copy -- whether segment i is a chunk that no copy serves yet. */
bool sp_reuse_wants_copy(const sp_reuse_input *in, int i);
/* sp_reuse_query -- the look-up of segment i by content. */
sp_content_query sp_reuse_query(const sp_finder *f, int i);

/* -- fill.c: computes what is missing ------------------------------------------------------- */

/* sp_reuse_wants_fill -- whether a chunk policy starts with a fill, since a part of head or chunks is missing. */
bool sp_reuse_wants_fill(const sp_reuse_input *in);
/* sp_reuse_plan_fill -- computes the missing parts of head and chunks. Chunks see only the head and
 * themselves, so their KV is the plain copy. Source: FusionRAG eq. 5. */
sp_err sp_reuse_plan_fill(const sp_reuse_input *in, sp_plan *plan) SP_MUST_CHECK;
/* sp_reuse_keep_fill -- path copies of the head and plain copies of the chunks; `keep` of policies
 * that fill. */
sp_err sp_reuse_keep_fill(const sp_reuse_input *in, sp_plan *plan, sp_plan_role role,
                          sp_kept_list *out) SP_MUST_CHECK;
/* sp_reuse_keep_path -- segments [0, n) that were computed after an exact path. */
void sp_reuse_keep_path(const sp_reuse_input *in, const sp_plan *plan, int n, sp_kept_list *out);
/* sp_reuse_keep_prompt -- all segments that were computed after an exact path; `keep` of policies
 * that do not fill. */
sp_err sp_reuse_keep_prompt(const sp_reuse_input *in, sp_plan *plan, sp_plan_role role,
                            sp_kept_list *out) SP_MUST_CHECK;

/* -- seen.c: what copies depend on ---------------------------------------------------------- */

/* sp_reuse_list_below -- `below` of a copy of chunk i that is computed in its place, in the arena; its `before` is
 * set. Errors: SP_E_NOMEM: it must not be kept. */
sp_err sp_reuse_list_below(const sp_reuse_input *in, int i, sp_arena *arena, sp_copy_facts *out) SP_MUST_CHECK;

/* -- answer.c: the answer plan -------------------------------------------------------------- */

/* sp_reuse_is_chunk -- whether segment i is served by content, so that its tokens can be recomputed. */
bool sp_reuse_is_chunk(const sp_reuse_input *in, int i);
/* sp_reuse_n_chunk_tokens -- tokens of all segments served by content. */
int32_t sp_reuse_n_chunk_tokens(const sp_reuse_input *in);
/* sp_reuse_n_to_last_chunk -- segments up to the last one that is served by content. */
int sp_reuse_n_to_last_chunk(const sp_reuse_input *in);
/* sp_reuse_spans -- one span a segment: the KV that serves it, or fresh blocks. */
sp_err sp_reuse_spans(const sp_reuse_input *in, sp_plan *plan) SP_MUST_CHECK;
/* sp_reuse_add_tokens -- all tokens of segment i as todo of its own span. */
sp_err sp_reuse_add_tokens(const sp_reuse_input *in, int i, int see, sp_plan *plan) SP_MUST_CHECK;
/* sp_reuse_scores -- one for each chunk token, in prompt order, all 0; in the plan's arena. */
sp_err sp_reuse_scores(const sp_reuse_input *in, sp_plan *plan, float **score) SP_MUST_CHECK;
/* sp_reuse_answer -- the answer plan: the ceil(recompute * n) of the n chunk tokens with the
 * highest scores, of equal ones the earlier, are stale in their spans and recomputed in a private
 * one. NaN is lowest. score: as sp_reuse_scores has it; NULL: none is recomputed. */
sp_err sp_reuse_answer(const sp_reuse_input *in, const float *score, sp_plan *plan) SP_MUST_CHECK;
/* sp_reuse_room -- `room` of policies whose plans are fills, probes of the question and sp_reuse_answer. */
int64_t sp_reuse_room(const sp_reuse_input *in);
/* sp_reuse_room_for -- the same, if only n_chunk tokens are to be chosen from. */
int64_t sp_reuse_room_for(const sp_reuse_input *in, int32_t n_chunk);

/* -- ranking.c: which tokens score highest -------------------------------------------------- */

/* A token to recompute. */
typedef struct sp_token_ref {
    int32_t seg, index;
} sp_token_ref;

/* sp_reuse_highest -- the n chunk tokens with the highest scores, in prompt order; earlier ones win
 * ties. *out [n] in the arena. */
sp_err sp_reuse_highest(const sp_reuse_input *in, const float *score, int32_t n, sp_arena *arena,
                        sp_token_ref **out) SP_MUST_CHECK;
/* sp_reuse_falling -- tokens [n] by falling score, ties in order; NULL: out of memory. */
const int32_t *sp_reuse_falling(const float *score, int32_t n, sp_arena *arena);

/* -- attention.c: attention as a score ------------------------------------------------------ */

/* sp_reuse_probed -- the probe plan that has just run; or NULL. */
const sp_plan *sp_reuse_probed(const sp_reuse_input *in);
/* sp_reuse_wants_probe -- whether fewer than n_probes have run; never if all or no tokens are recomputed. */
bool sp_reuse_wants_probe(const sp_reuse_input *in, int n_probes);
/* sp_reuse_want_columns -- the plan becomes a probe: the attention that its todo tokens give to
 * each token of the chunks, at that layer. */
sp_err sp_reuse_want_columns(const sp_reuse_input *in, int layer, sp_plan *plan) SP_MUST_CHECK;
/* sp_reuse_score_columns -- the scores measured by the last such probe, if any. */
sp_err sp_reuse_score_columns(const sp_reuse_input *in, sp_plan *plan, float **score) SP_MUST_CHECK;
/* sp_reuse_probe_question -- a probe of the question, and of whatever no copy serves, over the reused
 * chunks: its attention in the last layer. */
sp_err sp_reuse_probe_question(const sp_reuse_input *in, sp_plan *plan) SP_MUST_CHECK;

/* -- the order of plans (fill.c) ------------------------------------------------------------- */

typedef sp_err sp_plan_maker(const sp_reuse_input *in, sp_plan *plan);
typedef struct sp_reuse_makers {
    int n_probes;
    sp_plan_maker *probe, *answer;
} sp_reuse_makers;
/* sp_reuse_next -- next_plan of policies that fill, probe n_probes times, and answer. */
sp_err sp_reuse_next(const sp_reuse_input *in, const sp_reuse_makers *m, sp_plan *plan,
                     sp_plan_role *role) SP_MUST_CHECK;

#endif
