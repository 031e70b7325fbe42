/* notes.c -- the notes of blocks (kv/notes.h) are their summaries. One layer:
 *
 *   offset  size    meaning
 *   0       4       "SUMS"
 *   4       2       version: 1
 *   6       2       kind: sp_summary_kind
 *   8       4       n: blocks
 *   12      4       b: bytes of a summary
 *   16      G n b   summaries of each KV head
 *           4 G n   f32 scales of each KV head
 */
#include "engine/notes.h"

#include <string.h>

#include "base/log.h"
#include "engine/engine_int.h"

enum { VERSION = 1 };

typedef struct header {
    char magic[4];
    uint16_t version, kind;
    uint32_t n, bytes;
} header;

_Static_assert(sizeof(header) == 16, "the table above");

static header header_of(const sp_summary_view *v, int32_t n_blocks)
{
    return (header){.magic = {'S', 'U', 'M', 'S'},
                    .version = VERSION,
                    .kind = (uint16_t)v->kind,
                    .n = (uint32_t)n_blocks,
                    .bytes = (uint32_t)sp_summary_bytes(v->kind, v->head)};
}

static size_t bytes(void *user, int32_t n)
{
    const sp_engine *e = user;
    const sp_summary_view v = sp_summaries_layer(e->summaries[e->kept], 0);
    return sizeof(header) + (size_t)v.n_heads * (size_t)sp_blocks_for(n) *
                                (sp_summary_bytes(v.kind, v.head) + sizeof(float));
}

static int keys_of(int32_t n, int32_t block)
{
    return SP_MIN(n - block * SP_BLOCK_TOKENS, SP_BLOCK_TOKENS);
}

static void prepare(void *user, const uint32_t *blocks, int32_t n)
{
    const sp_engine *e = user;
    sp_summaries *s = e->summaries[e->kept];
    sp_err err = SP_OK;
    for (int32_t i = 0; i < sp_blocks_for(n) && err == SP_OK; i++)
        err = sp_summaries_want(s, blocks[i], keys_of(n, i));
    if (err == SP_OK) err = sp_summaries_make(s, e->offload, NULL);
    if (err != SP_OK)
        sp_log(SP_LOG_WARN, "a copy is stored without summaries: %s", sp_error_detail());
}

static bool read_layer(void *user, int layer, const uint32_t *blocks, int32_t n, uint8_t *to)
{
    const sp_engine *e = user;
    sp_summaries *s = e->summaries[e->kept];
    const sp_summary_view v = sp_summaries_layer(s, layer);
    const int32_t n_blocks = sp_blocks_for(n);
    const header h = header_of(&v, n_blocks);
    bool all = true;
    memcpy(to, &h, sizeof h);
    to += sizeof h;
    float *scales = (float *)(void *)(to + (size_t)v.n_heads * (size_t)n_blocks * h.bytes);
    sp_summaries_lock(s); /* the engine may be making others */
    for (int32_t i = 0; i < n_blocks; i++) all &= sp_summaries_has(s, blocks[i], keys_of(n, i));
    for (int g = 0; all && g < v.n_heads; g++)
        for (int32_t i = 0; i < n_blocks; i++, to += h.bytes) {
            const size_t at = (size_t)(g * v.n_blocks) + blocks[i];
            memcpy(to, v.base + at * h.bytes, h.bytes);
            *scales++ = v.scale[at];
        }
    sp_summaries_unlock(s);
    return all;
}

static bool write_layer(void *user, int layer, const uint32_t *blocks, int32_t n,
                        const uint8_t *from, size_t n_bytes)
{
    const sp_engine *e = user;
    const sp_summary_view v = sp_summaries_layer(e->summaries[e->kept], layer);
    const int32_t n_blocks = sp_blocks_for(n);
    const header h = header_of(&v, n_blocks);
    if (n_bytes != bytes(user, n) || memcmp(from, &h, sizeof h) != 0) return false;
    from += sizeof h;
    const uint8_t *scales = from + (size_t)v.n_heads * (size_t)n_blocks * h.bytes;
    for (int g = 0; g < v.n_heads; g++)
        for (int32_t i = 0; i < n_blocks; i++, from += h.bytes, scales += sizeof(float)) {
            const size_t at = (size_t)(g * v.n_blocks) + blocks[i];
            memcpy(v.base + at * h.bytes, from, h.bytes);
            memcpy(&v.scale[at], scales, sizeof(float));
        }
    return true;
}

static void whole(void *user, const uint32_t *blocks, int32_t n)
{
    const sp_engine *e = user;
    for (int32_t i = 0; i < sp_blocks_for(n); i++)
        sp_summaries_put(e->summaries[e->kept], blocks[i], keys_of(n, i));
}

sp_err sp_engine_keep_summaries(sp_engine *e, sp_summary_kind kind)
{
    if (!e->device->unified) return SP_OK;
    if (!e->summaries[kind]) SP_TRY(sp_summaries_create(e->o.pool, kind, &e->summaries[kind]));
    e->kept = kind;
    e->notes = (sp_kv_notes){.bytes = bytes,
                             .prepare = prepare,
                             .read = read_layer,
                             .write = write_layer,
                             .whole = whole,
                             .user = e};
    sp_kv_pool_set_notes(e->o.pool, &e->notes);
    return SP_OK;
}
