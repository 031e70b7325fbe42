/* segment.h -- a prompt is a list of segments, each tokenized on its own.
 *
 * A segment's id is its content: SHA-256 over a namespace (model, KV type), the tenant's salt and
 * the token ids. What stood before it is never part of the id. A hash discovers, tokens verify:
 * who uses cached KV for a segment compares the tokens too. */
#ifndef SP_KV_SEGMENT_H
#define SP_KV_SEGMENT_H

#include "base/hash.h"

typedef enum sp_segment_kind {
    SP_SEG_SYSTEM,
    SP_SEG_CHUNK,
    SP_SEG_QUESTION,
    SP_SEG_TEXT
} sp_segment_kind;

typedef struct sp_segment {
    sp_segment_kind kind;
    const int32_t *tokens; /* [n] borrowed from the prompt */
    int32_t n;             /* tokens, at least 1 */
    sp_digest id;
} sp_segment;

/* sp_segment_id -- the content id of tokens in a namespace. salt may be NULL (no tenant). */
sp_err sp_segment_id(const sp_digest *space, const char *salt, const int32_t *tokens, int32_t n,
                     sp_digest *out) SP_MUST_CHECK;

const char *sp_segment_kind_name(sp_segment_kind k);

#endif
