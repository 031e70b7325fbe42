/* record.c -- the header of a stored copy. Integers and floats are little endian.
 *
 *   offset  size   meaning
 *   0       8      "SPOLIAKV"
 *   8       4      version: 2; 3 with notes; 4 with segments that copies below it depend on
 *   12      4      kind
 *   16      8      bytes of the header, with its digest, without padding
 *   24      4      n: tokens
 *   28      4      at: position that the first key was rotated for
 *   32      4      b: segments it was computed after ...
 *   36      4      ... the first so many of them precede the first chunk
 *   40      4      L: layers
 *   44      4      flags: 1 exact, 2 attention was measured, 4 heavy tokens were measured,
 *                  8 has notes, 16 has segments that copies below it depend on
 *   48      8      bytes of one layer
 *   56      4      f32 time that computing it took, us; 0: unknown
 *   60      4      f32 CCI; with flag 2
 *   64      32     namespace: model, tokenizer, KV type and layout, RoPE
 *   96      32     content id of the segment
 *   128     8      bytes of the notes of one layer, or 0; with flag 8 or 16
 *           4      u: segments that copies below it depend on, or 0; with flag 8 or 16
 *           4      0; with flag 8 or 16
 *           16 L   checksums of the layers: XXH3-128, low half first
 *           16 L   checksums of their notes; with flag 8
 *           32 b   ids of the segments it was computed after, in order
 *           32 u   ids of these segments (src/kv/copy_facts.h)
 *           4 n    token ids
 *           4 b    f32 attention to each of these segments; with flag 2
 *           4 n    tokens by falling attention outwards; with flag 2
 *           4 n    tokens by falling attention received; with flag 4
 *           32     SHA-256 of everything above
 *           ...    zeros to the next page
 *
 * The layers follow, each with its notes, padded to whole pages. They are not compressed: zstd -1 makes f16 KV of the
 * bundled model 17 % smaller, and unpacking it takes longer than reading it.
 */
#include "store/record.h"
#include "store/bytes.h"

#include <string.h>
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "KV is stored as it is in memory");

enum {
    VERSION = 2,
    VERSION_NOTES = 3, /* programs that cannot read notes refuse version 3 and keep the copy */
    VERSION_BELOW = 4,
    FIXED_BYTES = 128,
    MORE_BYTES = 16, /* with NOTES or BELOW */
    MAX_TOKENS = 1 << 24,
    MAX_BEFORE = 1 << 16,
    MAX_LAYERS = 1 << 12,
    EXACT = 1,
    MEASURED = 2,
    HEAVY = 4,
    NOTES = 8,
    BELOW = 16
};
#define MAX_LAYER_BYTES ((uint64_t)1 << 40)

static const char magic[8] = {'S', 'P', 'O', 'L', 'I', 'A', 'K', 'V'};

sp_layer_sum sp_layer_sum_of(const void *data, size_t n)
{
    XXH128_hash_t h = XXH3_128bits(data, n);
    return (sp_layer_sum){h.low64, h.high64};
}

bool sp_layer_sum_eq(sp_layer_sum a, sp_layer_sum b)
{
    return a.low == b.low && a.high == b.high;
}

sp_err sp_record_check(const sp_record *r)
{
    if (r->n < 1 || r->n > MAX_TOKENS) return sp_fail(SP_E_ARG, "a copy of %d tokens", r->n);
    if (r->facts.n_before < 0 || r->facts.n_before > MAX_BEFORE || r->facts.n_head < 0 ||
        r->facts.n_head > r->facts.n_before)
        return sp_fail(SP_E_ARG, "a copy after %d segments, with a head of %d", r->facts.n_before,
                       r->facts.n_head);
    if (r->facts.n_below < 0 || r->facts.n_below > MAX_BEFORE)
        return sp_fail(SP_E_ARG, "a copy with %d segments below it", r->facts.n_below);
    if (r->facts.at < 0) return sp_fail(SP_E_ARG, "a copy at position %d", r->facts.at);
    if (r->n_layers < 1 || r->n_layers > MAX_LAYERS)
        return sp_fail(SP_E_ARG, "a copy of %d layers", r->n_layers);
    if (r->layer_bytes < 1 || r->layer_bytes > MAX_LAYER_BYTES)
        return sp_fail(SP_E_ARG, "a copy with %llu bytes a layer",
                       (unsigned long long)r->layer_bytes);
    if (r->facts.note_bytes > MAX_LAYER_BYTES)
        return sp_fail(SP_E_ARG, "a copy with notes of %llu bytes a layer",
                       (unsigned long long)r->facts.note_bytes);
    return SP_OK;
}

bool sp_record_notes_ok(const sp_record *r, int layer, const uint8_t *data)
{
    return sp_layer_sum_eq(sp_layer_sum_of(data + r->layer_bytes, r->facts.note_bytes),
                           r->sums[r->n_layers + layer]);
}

/* more_bytes -- of the fixed part that only some records have. */
static uint64_t more_bytes(const sp_record *r)
{
    return r->facts.note_bytes || r->facts.n_below ? MORE_BYTES : 0;
}

/* Cannot overflow: see the limits that the check enforces. */
sp_record_layout sp_record_layout_of(const sp_record *r)
{
    uint64_t n = (uint64_t)r->n, b = (uint64_t)r->facts.n_before, u = (uint64_t)r->facts.n_below;
    uint64_t lists = 1 + (r->facts.stats.inter != NULL) + (r->facts.heavy != NULL);
    sp_record_layout l = {0};
    l.head_bytes = FIXED_BYTES + more_bytes(r) + sizeof(sp_layer_sum) * (uint64_t)sp_record_n_sums(r) +
                   sizeof(sp_digest) * (b + u + 1) + 4 * lists * n + (r->facts.stats.inter ? 4 * b : 0);
    l.head_pages = (uint32_t)SP_DIV_UP(l.head_bytes, SP_PAGE);
    l.layer_pages = (uint32_t)SP_DIV_UP(r->layer_bytes + r->facts.note_bytes, SP_PAGE);
    l.pages = l.head_pages + (uint64_t)l.layer_pages * (uint64_t)r->n_layers;
    return l;
}

static sp_err digest_of(const uint8_t *data, size_t n, sp_digest *out)
{
    sp_sha256 *hash;
    SP_TRY(sp_sha256_create(&hash));
    sp_sha256_update(hash, data, n);
    sp_sha256_final(hash, out);
    return SP_OK;
}

/* -- writing -------------------------------------------------------------------------------- */

static uint8_t *append(uint8_t *p, const void *data, size_t n)
{
    if (n) memcpy(p, data, n);
    return p + n;
}

static uint32_t flags_of(const sp_record *r)
{
    return (r->facts.exact ? EXACT : 0u) | (r->facts.stats.inter ? MEASURED : 0u) |
           (r->facts.heavy ? HEAVY : 0u) | (r->facts.note_bytes ? NOTES : 0u) | (r->facts.n_below ? BELOW : 0u);
}

static uint32_t version_of(const sp_record *r)
{
    return r->facts.n_below ? VERSION_BELOW : r->facts.note_bytes ? VERSION_NOTES : VERSION;
}

sp_err sp_record_write(const sp_record *r, const sp_layer_sum *sums, uint8_t *out)
{
    const sp_record_layout l = sp_record_layout_of(r);
    const size_t n = 4 * (size_t)r->n, b = (size_t)r->facts.n_before;
    sp_digest digest;
    memset(out, 0, (size_t)l.head_pages * SP_PAGE);
    memcpy(out, magic, sizeof magic);
    put32(out + 8, version_of(r));
    put32(out + 12, r->facts.kind);
    memcpy(out + 16, &l.head_bytes, 8);
    put32(out + 24, (uint32_t)r->n);
    put32(out + 28, (uint32_t)r->facts.at);
    put32(out + 32, (uint32_t)r->facts.n_before);
    put32(out + 36, (uint32_t)r->facts.n_head);
    put32(out + 40, (uint32_t)r->n_layers);
    put32(out + 44, flags_of(r));
    memcpy(out + 48, &r->layer_bytes, 8);
    memcpy(out + 56, &r->facts.cost_us, 4);
    memcpy(out + 60, &r->facts.stats.cci, 4);
    memcpy(out + 64, r->space.b, sizeof r->space.b);
    memcpy(out + 96, r->facts.id.b, sizeof r->facts.id.b);
    const uint64_t more[2] = {r->facts.note_bytes, (uint64_t)r->facts.n_below};
    uint8_t *p = append(out + FIXED_BYTES, more, more_bytes(r));
    p = append(p, sums, sizeof *sums * (size_t)sp_record_n_sums(r));
    p = append(p, r->facts.before, sizeof *r->facts.before * b);
    p = append(p, r->facts.below, sizeof *r->facts.below * (size_t)r->facts.n_below);
    p = append(p, r->tokens, n);
    if (r->facts.stats.inter)
        p = append(append(p, r->facts.stats.inter, 4 * b), r->facts.stats.order, n);
    if (r->facts.heavy) p = append(p, r->facts.heavy, n);
    assert((uint64_t)(p - out) + sizeof digest == l.head_bytes);
    SP_TRY(digest_of(out, (size_t)(p - out), &digest));
    append(p, digest.b, sizeof digest.b);
    return SP_OK;
}

/* -- reading -------------------------------------------------------------------------------- */

/* read_fixed -- the fixed part. Lists that exist are not NULL, but do not point anywhere yet. */
static sp_err read_fixed(const uint8_t *p, sp_record *r)
{
    static const float some_floats[1] = {0};
    static const int32_t some_tokens[1] = {0};
    if (memcmp(p, magic, sizeof magic) != 0) return sp_fail(SP_E_FORMAT, "not a stored copy");
    const uint32_t version = get32(p + 8), flags = get32(p + 44);
    if (version < VERSION || version > VERSION_BELOW)
        return sp_fail(SP_E_UNSUPPORTED, "a copy of version %u, this program reads %d to %d", version, VERSION,
                       VERSION_BELOW);
    const bool has_more = flags & (NOTES | BELOW);
    *r = (sp_record){.facts.kind = get32(p + 12),
                     .facts.exact = flags & EXACT,
                     .n = (int32_t)get32(p + 24),
                     .facts.at = (int32_t)get32(p + 28),
                     .facts.n_before = (int32_t)get32(p + 32),
                     .facts.n_head = (int32_t)get32(p + 36),
                     .facts.n_below = has_more ? (int32_t)get32(p + FIXED_BYTES + 8) : 0,
                     .n_layers = (int32_t)get32(p + 40),
                     .layer_bytes = get64(p + 48),
                     .facts.note_bytes = has_more ? get64(p + FIXED_BYTES) : 0,
                     .facts.cost_us = get_float(p + 56),
                     .facts.stats.cci = get_float(p + 60),
                     .facts.stats.inter = flags & MEASURED ? some_floats : NULL,
                     .facts.heavy = flags & HEAVY ? some_tokens : NULL};
    memcpy(r->space.b, p + 64, sizeof r->space.b);
    memcpy(r->facts.id.b, p + 96, sizeof r->facts.id.b);
    if (flags != flags_of(r) || version != version_of(r) || (has_more && get32(p + FIXED_BYTES + 12) != 0))
        return sp_fail(SP_E_FORMAT, "a copy of version %u and flags %#x, which do not fit its fields", version,
                       flags);
    if (sp_record_check(r) != SP_OK) return SP_E_FORMAT; /* with the detail of the check */
    if (get64(p + 16) != sp_record_layout_of(r).head_bytes)
        return sp_fail(SP_E_FORMAT, "a header of %llu bytes, its sizes give %llu",
                       (unsigned long long)get64(p + 16),
                       (unsigned long long)sp_record_layout_of(r).head_bytes);
    return SP_OK;
}

sp_err sp_record_size(const uint8_t *first_page, uint32_t *head_pages)
{
    sp_record r;
    SP_TRY(read_fixed(first_page, &r));
    *head_pages = sp_record_layout_of(&r).head_pages;
    return SP_OK;
}

/* point_into -- sets the list pointers of a header whose sizes are checked. All are aligned: each part is a multiple
 * of four bytes, and those before the token ids of 16. */
static void point_into(sp_record *r, const uint8_t *data)
{
    const size_t n = 4 * (size_t)r->n, b = (size_t)r->facts.n_before;
    const uint8_t *p = data + FIXED_BYTES + more_bytes(r);
    r->sums = (const sp_layer_sum *)p;
    r->facts.before = (const sp_digest *)(p += sizeof *r->sums * (size_t)sp_record_n_sums(r));
    r->facts.below = (const sp_digest *)(p += sizeof *r->facts.before * b);
    r->tokens = (const int32_t *)(p += sizeof *r->facts.below * (size_t)r->facts.n_below);
    p += n;
    if (r->facts.stats.inter) {
        r->facts.stats.inter = (const float *)p;
        r->facts.stats.order = (const int32_t *)(p += 4 * b);
        p += n;
    }
    if (r->facts.heavy) r->facts.heavy = (const int32_t *)p;
}

static bool are_tokens(const int32_t *list, int32_t n)
{
    for (int32_t i = 0; list && i < n; i++)
        if (list[i] < 0 || list[i] >= n) return false;
    return true;
}

sp_err sp_record_read(const uint8_t *data, size_t n, sp_record *out)
{
    sp_record r;
    sp_digest digest;
    if (n < FIXED_BYTES + MORE_BYTES)
        return sp_fail(SP_E_FORMAT, "the header of a copy ends early");
    SP_TRY(read_fixed(data, &r));
    const sp_record_layout l = sp_record_layout_of(&r);
    if (n < l.head_bytes) return sp_fail(SP_E_FORMAT, "the header of a copy ends early");
    SP_TRY(digest_of(data, l.head_bytes - sizeof digest, &digest));
    if (memcmp(digest.b, data + l.head_bytes - sizeof digest, sizeof digest) != 0)
        return sp_fail(SP_E_FORMAT, "damaged: the checksum of the header is wrong");
    point_into(&r, data);
    if (!are_tokens(r.facts.stats.order, r.n) || !are_tokens(r.facts.heavy, r.n))
        return sp_fail(SP_E_FORMAT, "a copy whose statistics name tokens that it does not have");
    *out = r;
    return SP_OK;
}
