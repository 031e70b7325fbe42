#include "kv/segment.h"

#include <string.h>

sp_err sp_segment_id(const sp_digest *space, const char *salt, const int32_t *tokens, int32_t n,
                     sp_digest *out)
{
    sp_sha256 *s;
    SP_TRY(sp_sha256_create(&s));
    sp_sha256_field(s, "spolia/segment/1", space->b, sizeof space->b);
    sp_sha256_field(s, salt ? "salt" : "no salt", salt, salt ? strlen(salt) : 0);
    sp_sha256_field(s, "tokens", tokens, (size_t)n * sizeof *tokens);
    sp_sha256_final(s, out);
    return SP_OK;
}

uint64_t sp_head_key(const sp_digest *head, int n_head)
{
    return sp_hash64(head, sizeof *head * (size_t)n_head);
}

int sp_segment_parent(const sp_segment *segs, int i)
{
    assert(segs[i].parent >= 0 && segs[i].parent <= i); /* an earlier one */
    return segs[i].parent ? segs[i].parent - 1 : i - 1;
}

int32_t sp_segment_at(const sp_segment *segs, int i)
{
    int32_t at = 0;
    for (; i >= 0 && !segs[i].place; i = sp_segment_parent(segs, i)) {
        int parent = sp_segment_parent(segs, i);
        if (parent >= 0) at += segs[parent].n;
    }
    return i >= 0 ? at + segs[i].place - 1 : at;
}

int sp_segment_sight(const sp_segment *segs, int i, uint16_t *list)
{
    int n = 0;
    for (int k = i; k >= 0; k = sp_segment_parent(segs, k)) n++;
    for (int at = n; at > 0; i = sp_segment_parent(segs, i)) list[--at] = (uint16_t)i;
    return n;
}

const char *sp_segment_kind_name(sp_segment_kind k)
{
    static const char *const names[] = {"system", "chunk", "question", "text"};
    return names[k];
}
