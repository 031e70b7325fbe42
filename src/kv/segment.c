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
    assert(segs[i].parent >= SP_PARENT_ALL && segs[i].parent <= i); /* an earlier one */
    return segs[i].parent > 0 ? segs[i].parent - 1 : i - 1;
}

bool sp_segment_joins(const sp_segment *seg)
{
    return seg->kind == SP_SEG_NODE && seg->n < SP_JOIN_MAX;
}

bool sp_segment_on_path(const sp_segment *segs, int i)
{
    if (segs[i].parent == SP_PARENT_ALL) return false;
    if (!segs[i].place) return true;
    int parent = sp_segment_parent(segs, i);
    int32_t end = parent < 0 ? 0 : sp_segment_at(segs, parent) + segs[parent].n;
    return segs[i].place - 1 == end;
}

int32_t sp_segment_at(const sp_segment *segs, int i)
{
    int32_t at = 0;
    for (; i >= 0 && !segs[i].place; i = sp_segment_parent(segs, i)) {
        assert(segs[i].parent != SP_PARENT_ALL);
        int parent = sp_segment_parent(segs, i);
        if (parent >= 0) at += segs[parent].n;
    }
    return i >= 0 ? at + segs[i].place - 1 : at;
}

int32_t sp_segments_end(const sp_segment *segs, int n)
{
    int32_t end = 0, at = 0; /* at: the end of segment i - 1 */
    for (int i = 0; i < n; i++) {
        if (segs[i].place || segs[i].parent) at = sp_segment_at(segs, i);
        at += segs[i].n;
        end = SP_MAX(end, at);
    }
    return end;
}

int sp_segment_n_seen(const sp_segment *segs, int i)
{
    int n = 0;
    for (; i >= 0; i = sp_segment_parent(segs, i), n++)
        if (segs[i].parent == SP_PARENT_ALL) return n + i + 1;
    return n;
}

int sp_segment_sight(const sp_segment *segs, int i, uint16_t *list)
{
    int n = sp_segment_n_seen(segs, i);
    bool all = false; /* from one of SP_PARENT_ALL on, the parent is the preceding segment */
    for (int at = n; at > 0; i = all ? i - 1 : sp_segment_parent(segs, i)) {
        list[--at] = (uint16_t)i;
        all |= segs[i].parent == SP_PARENT_ALL;
    }
    return n;
}

const char *sp_segment_kind_name(sp_segment_kind k)
{
    static const char *const names[] = {"system", "chunk", "question", "text", "node"};
    return names[k];
}
