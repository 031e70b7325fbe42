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

const char *sp_segment_kind_name(sp_segment_kind k)
{
    static const char *const names[] = {"system", "chunk", "question", "text"};
    return names[k];
}
