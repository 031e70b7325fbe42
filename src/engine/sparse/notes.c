/* notes.c -- the notes of blocks (kv/notes.h) are their summaries. One layer has a section for each
 * kind:
 *
 *   offset  size    meaning
 *   0       4       "SUMS"
 *   4       2       version: 1
 *   6       2       kind: sp_summary_kind
 *   8       4       n: blocks
 *   12      4       b: bytes of a summary
 *   16      G n b   summaries of each KV head
 *           4 G n   f32 scales of each KV head
 *
 * A reader takes the kinds that it keeps and skips others; so copies with one section, written by
 * earlier versions, serve the first stage. Earlier versions ignore notes with more than one.
 */
#include "engine/sparse/notes.h"

#include <string.h>

#include "base/log.h"
#include "engine/state.h"
#include "engine/sparse/sparse_int.h"

enum { VERSION = 1 };

typedef struct header {
    char magic[4];
    uint16_t version, kind;
    uint32_t n, bytes;
} header;

_Static_assert(sizeof(header) == 16, "the table above");

/* A section of n blocks. */
typedef struct section {
    header h;
    size_t bytes; /* of all */
} section;

static section section_of(const sp_engine *e, sp_summary_kind kind, int32_t n_blocks)
{
    const sp_kv_shape *shape = sp_kv_pool_shape(e->o.pool);
    const size_t bytes = sp_summary_bytes(kind, shape->head);
    return (section){.h = {.magic = {'S', 'U', 'M', 'S'},
                           .version = VERSION,
                           .kind = (uint16_t)kind,
                           .n = (uint32_t)n_blocks,
                           .bytes = (uint32_t)bytes},
                     .bytes = sizeof(header) +
                              (size_t)shape->n_heads * (size_t)n_blocks * (bytes + sizeof(float))};
}

static bool is_kept(const sp_engine *e, int kind)
{
    return e->kept >> kind & 1;
}

static size_t bytes(void *user, int32_t n)
{
    const sp_engine *e = user;
    size_t sum = 0;
    for (int k = 0; k < SP_SUMMARY_N; k++)
        if (is_kept(e, k)) sum += section_of(e, (sp_summary_kind)k, sp_blocks_for(n)).bytes;
    return sum;
}

static int keys_of(int32_t n, int32_t block)
{
    return SP_MIN(n - block * SP_BLOCK_TOKENS, SP_BLOCK_TOKENS);
}

static sp_err make(const sp_engine *e, sp_summaries *s, const uint32_t *blocks, int32_t n)
{
    for (int32_t i = 0; i < sp_blocks_for(n); i++)
        SP_TRY(sp_summaries_want(s, blocks[i], keys_of(n, i)));
    return sp_summaries_make(s, e->offload, NULL);
}

static void prepare(void *user, const uint32_t *blocks, int32_t n)
{
    const sp_engine *e = user;
    sp_err err = SP_OK;
    for (int k = 0; k < SP_SUMMARY_N && err == SP_OK; k++)
        if (is_kept(e, k)) err = make(e, e->summaries[k], blocks, n);
    if (err != SP_OK)
        sp_log(SP_LOG_WARN, "a copy is stored without summaries: %s", sp_error_detail());
}

/* n_made -- the blocks that have a summary. Pre: locked. */
static int32_t n_made(const sp_summaries *s, const uint32_t *blocks, int32_t n)
{
    int32_t made = 0;
    for (int32_t i = 0; i < sp_blocks_for(n); i++)
        made += sp_summaries_has(s, blocks[i], keys_of(n, i));
    return made;
}

static bool has(void *user, const uint32_t *blocks, int32_t n)
{
    const sp_engine *e = user;
    bool some = false;
    for (int k = 0; k < SP_SUMMARY_N && !some; k++) {
        if (!is_kept(e, k)) continue;
        sp_summaries_lock(e->summaries[k]);
        some = n_made(e->summaries[k], blocks, n) > 0;
        sp_summaries_unlock(e->summaries[k]);
    }
    return some;
}

/* read_section -- false: some blocks have no summary. */
static bool read_section(sp_summaries *s, int layer, const section *c, const uint32_t *blocks,
                         int32_t n, uint8_t *to)
{
    const sp_summary_view v = sp_summaries_layer(s, layer);
    const int32_t n_blocks = (int32_t)c->h.n;
    memcpy(to, &c->h, sizeof c->h);
    to += sizeof c->h;
    uint8_t *scales = to + (size_t)v.n_heads * (size_t)n_blocks * c->h.bytes;
    sp_summaries_lock(s); /* the engine may be making others */
    const bool all = n_made(s, blocks, n) == n_blocks;
    for (int g = 0; all && g < v.n_heads; g++)
        for (int32_t i = 0; i < n_blocks; i++, to += c->h.bytes, scales += sizeof(float)) {
            const size_t at = (size_t)(g * v.n_blocks) + blocks[i];
            memcpy(to, v.base + at * c->h.bytes, c->h.bytes);
            memcpy(scales, &v.scale[at], sizeof(float));
        }
    sp_summaries_unlock(s);
    return all;
}

static bool read_layer(void *user, int layer, const uint32_t *blocks, int32_t n, uint8_t *to)
{
    const sp_engine *e = user;
    for (int k = 0; k < SP_SUMMARY_N; k++) {
        if (!is_kept(e, k)) continue;
        const section c = section_of(e, (sp_summary_kind)k, sp_blocks_for(n));
        if (!read_section(e->summaries[k], layer, &c, blocks, n, to)) return false;
        to += c.bytes;
    }
    return true;
}

static void write_section(const sp_summaries *s, int layer, const section *c,
                          const uint32_t *blocks, const uint8_t *from)
{
    const sp_summary_view v = sp_summaries_layer(s, layer);
    const int32_t n_blocks = (int32_t)c->h.n;
    from += sizeof c->h;
    const uint8_t *scales = from + (size_t)v.n_heads * (size_t)n_blocks * c->h.bytes;
    for (int g = 0; g < v.n_heads; g++)
        for (int32_t i = 0; i < n_blocks; i++, from += c->h.bytes, scales += sizeof(float)) {
            const size_t at = (size_t)(g * v.n_blocks) + blocks[i];
            memcpy(v.base + at * c->h.bytes, from, c->h.bytes);
            memcpy(&v.scale[at], scales, sizeof(float));
        }
}

static uint32_t write_layer(void *user, int layer, const uint32_t *blocks, int32_t n,
                            const uint8_t *from, size_t n_bytes)
{
    const sp_engine *e = user;
    uint32_t parts = 0;
    while (n_bytes >= sizeof(header)) {
        header h;
        memcpy(&h, from, sizeof h);
        if (h.kind >= SP_SUMMARY_N) break;
        const section c = section_of(e, (sp_summary_kind)h.kind, sp_blocks_for(n));
        if (memcmp(&h, &c.h, sizeof h) != 0 || c.bytes > n_bytes) break;
        if (is_kept(e, h.kind)) {
            write_section(e->summaries[h.kind], layer, &c, blocks, from);
            parts |= 1u << h.kind;
        }
        from += c.bytes;
        n_bytes -= c.bytes;
    }
    return parts;
}

static void whole(void *user, const uint32_t *blocks, int32_t n, uint32_t parts)
{
    const sp_engine *e = user;
    for (int k = 0; k < SP_SUMMARY_N; k++)
        for (int32_t i = 0; parts >> k & 1 && i < sp_blocks_for(n); i++)
            sp_summaries_put(e->summaries[k], blocks[i], keys_of(n, i));
}

static sp_err keep(sp_engine *e, sp_summary_kind kind)
{
    if (!e->summaries[kind]) SP_TRY(sp_summaries_create(e->o.pool, kind, &e->summaries[kind]));
    e->kept |= 1u << kind;
    return SP_OK;
}

sp_err sp_engine_keep_summaries(sp_engine *e, const sp_sparse_opts *o)
{
    if (!e->device->unified) return SP_OK;
    SP_TRY(keep(e, o->kind));
    if (sp_sparse_refine(e, o) > 1) SP_TRY(keep(e, SP_SUMMARY_KEYS4));
    e->notes = (sp_kv_notes){.bytes = bytes,
                             .prepare = prepare,
                             .has = has,
                             .read = read_layer,
                             .write = write_layer,
                             .whole = whole,
                             .user = e};
    sp_kv_pool_set_notes(e->o.pool, &e->notes);
    return SP_OK;
}
