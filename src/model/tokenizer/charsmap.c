#include "model/tokenizer/charsmap.h"

#include <string.h>

static uint32_t word_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

sp_err sp_charsmap_open(sp_charsmap *m, sp_text_view blob, const char *path)
{
    const uint8_t *p = (const uint8_t *)blob.s;
    *m = (sp_charsmap){0};
    if (blob.n == 0) return SP_OK;
    const size_t n = blob.n >= 4 ? word_at(p) : 0;
    if (blob.n < 4 || n % 4 || n < 4 || n >= blob.n - 4 || blob.s[blob.n - 1] != '\0')
        return sp_fail(SP_E_FORMAT,
                       "%s: precompiled_charsmap: %zu bytes are not a table of characters", path,
                       blob.n);
    *m = (sp_charsmap){p + 4, n / 4, blob.s + 4 + n, blob.n - 4 - n};
    return SP_OK;
}

/* -- units ---------------------------------------------------------------------------------- */

static bool unit_at(const sp_charsmap *m, size_t i, uint32_t *out)
{
    if (i >= m->n_units) return false;
    *out = word_at(m->units + 4 * i);
    return true;
}

static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << (unit >> 9 & 1 ? 8 : 0);
}

size_t sp_charsmap_longest(const sp_charsmap *m, const char *s, size_t n, sp_text_view *out)
{
    size_t longest = 0, node;
    uint32_t unit, value;
    if (!unit_at(m, 0, &unit)) return 0;
    node = offset_of(unit);
    for (size_t i = 0; i < n; i++) {
        node ^= (uint8_t)s[i];
        if (!unit_at(m, node, &unit) || (unit & 0x800000FF) != (uint8_t)s[i]) break;
        node ^= offset_of(unit);
        if (!(unit >> 8 & 1) || !unit_at(m, node, &value)) continue;
        value &= 0x7FFFFFFF;
        if (value >= m->n_texts) continue;
        longest = i + 1;
        *out = (sp_text_view){m->texts + value, strlen(m->texts + value)};
    }
    return longest;
}
