/* chars.c -- ranges of characters as nodes that read their bytes: in UTF-8, or as a JSON string writes them. */
#include <string.h>

#include "engine/grammar/grammar_int.h"

static int32_t byte(sp_gram_out *m, uint8_t lo, uint8_t hi, int32_t next)
{
    sp_gram_node n = {.kind = SP_GRAM_BYTE, .lo = lo, .hi = hi, .next = next};
    return sp_gram_add(m->g, n, m->err);
}

/* either -- one of two parts; one -1: the other. */
static int32_t either(sp_gram_out *m, int32_t one, int32_t other)
{
    if (one < 0) return other;
    sp_gram_node n = {.kind = SP_GRAM_SPLIT, .next = one, .alt = other};
    return sp_gram_add(m->g, n, m->err);
}

static void encode(uint32_t c, int n, uint8_t out[4])
{
    static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (int i = n - 1; i > 0; i--, c >>= 6) out[i] = (uint8_t)(0x80 | (c & 0x3F));
    out[0] = (uint8_t)(lead[n] | c);
}

/* byte_ranges -- the texts of n bytes from lo to hi, both in UTF-8. Bytes after the first that differs
 * run over all of 0x80 .. 0xBF but at the two ends. */
static int32_t byte_ranges(sp_gram_out *m, const uint8_t *lo, const uint8_t *hi, int n,
                           int32_t next)
{
    static const uint8_t least[4] = {0x80, 0x80, 0x80, 0x80}, most[4] = {0xBF, 0xBF, 0xBF, 0xBF};
    if (n == 1) return byte(m, *lo, *hi, next);
    if (*lo == *hi) return byte(m, *lo, *hi, byte_ranges(m, lo + 1, hi + 1, n - 1, next));
    int32_t at = -1;
    uint8_t from = *lo, to = *hi;
    size_t rest = (size_t)n - 1;
    if (memcmp(lo + 1, least, rest) != 0)
        at = byte(m, from, from, byte_ranges(m, lo + 1, most, n - 1, next)), from++;
    if (memcmp(hi + 1, most, rest) != 0)
        at = either(m, at, byte(m, to, to, byte_ranges(m, least, hi + 1, n - 1, next))), to--;
    if (from <= to) at = either(m, at, byte(m, from, to, byte_ranges(m, least, most, n - 1, next)));
    return at;
}

/* char_range -- the parts of lo .. hi that have 1, 2, 3 (before and after the surrogates), 4 bytes. */
int32_t sp_gram_char_range(sp_gram_out *m, sp_char_range r, int32_t at, int32_t next)
{
    static const struct {
        uint32_t lo, hi;
        int n;
    } parts[] = {{0, 0x7F, 1},
                 {0x80, 0x7FF, 2},
                 {0x800, 0xD7FF, 3},
                 {0xE000, 0xFFFF, 3},
                 {0x10000, SP_CHAR_TOP, 4}};
    for (size_t i = 0; i < SP_COUNT(parts); i++) {
        uint8_t a[4], b[4];
        uint32_t lo = SP_MAX(r.lo, parts[i].lo), hi = SP_MIN(r.hi, parts[i].hi);
        if (lo > hi) continue;
        encode(lo, parts[i].n, a);
        encode(hi, parts[i].n, b);
        at = either(m, at, byte_ranges(m, a, b, parts[i].n, next));
    }
    return at;
}

/* escape -- what follows the backslash of an escaped character. */
static int32_t escape(sp_gram_out *m, uint32_t c, int32_t next)
{
    static const char digits[] = "0123456789abcdef",
                      letters[] = "btn?fr"; /* of 8 .. 13; 11 has none */
    if (c == '"' || c == '\\') return byte(m, (uint8_t)c, (uint8_t)c, next);
    uint8_t letter = (uint8_t)(c >= 8 && c <= 13 && c != 11 ? letters[c - 8] : 'u');
    if (letter == 'u') {
        next = byte(m, (uint8_t)digits[c & 15], (uint8_t)digits[c & 15], next);
        next = byte(m, (uint8_t)digits[c >> 4], (uint8_t)digits[c >> 4], next);
        next = byte(m, '0', '0', byte(m, '0', '0', next));
    }
    return byte(m, letter, letter, next);
}

/* control -- as escape, of any control character. */
static int32_t control(sp_gram_out *m, int32_t next)
{
    int32_t hex = either(m, byte(m, '0', '9', next), byte(m, 'a', 'f', next)), at = -1;
    at = byte(m, 'u', 'u', byte(m, '0', '0', byte(m, '0', '0', byte(m, '0', '1', hex))));
    for (const char *letter = "btnfr"; *letter; letter++)
        at = either(m, at, byte(m, (uint8_t)*letter, (uint8_t)*letter, next));
    return at;
}

/* json_range -- as char_range, in a JSON string: control characters, quotes and backslashes are escaped. */
int32_t sp_gram_json_range(sp_gram_out *m, sp_char_range r, int32_t at, int32_t next)
{
    static const sp_char_range plain[] = {
        {' ', '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, SP_CHAR_TOP}};
    bool controls = r.lo == 0 && r.hi >= ' ' - 1;
    int32_t escaped = controls ? control(m, next) : -1;
    for (uint32_t c = controls ? ' ' : r.lo; c <= SP_MIN(r.hi, '\\'); c++)
        if (c < ' ' || c == '"' || c == '\\') escaped = either(m, escaped, escape(m, c, next));
    if (escaped >= 0) at = either(m, at, byte(m, '\\', '\\', escaped));
    for (size_t i = 0; i < SP_COUNT(plain); i++) {
        sp_char_range part = {SP_MAX(r.lo, plain[i].lo), SP_MIN(r.hi, plain[i].hi)};
        if (part.lo <= part.hi) at = sp_gram_char_range(m, part, at, next);
    }
    return at;
}
