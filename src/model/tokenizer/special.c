/* special.c -- finds the texts of special tokens in a text.
 *
 * The tokens are sorted by text, equal texts by id. At each position whose byte starts a token, the
 * range of tokens that match the text so far is narrowed byte by byte. If the first token of the
 * range ends here, it matches; the last such match is the longest. Most positions cost one look-up
 * in first[].
 */
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer/tokenizer_int.h"

static int by_text(const void *a, const void *b)
{
    const sp_special *x = a, *y = b;
    int order = memcmp(x->text.s, y->text.s, SP_MIN(x->text.n, y->text.n));
    if (order) return order;
    if (x->text.n != y->text.n) return x->text.n < y->text.n ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

void sp_specials_sort(sp_specials *s)
{
    qsort(s->v, s->n, sizeof *s->v, by_text);
    for (size_t i = 0; i < s->n; i++)
        s->first[(uint8_t)s->v[i].text.s[0]] |= s->v[i].always ? 3 : 1;
}

/* The first index in [lo, hi) whose byte at `depth` is at least `byte`; past the end of a text, its
 * byte is -1. */
static size_t lower(const sp_specials *s, size_t lo, size_t hi, size_t depth, int byte)
{
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const sp_text_view *t = &s->v[mid].text;
        int b = depth < t->n ? (uint8_t)t->s[depth] : -1;
        if (b < byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The longest special token that text[0..n) begins with, or NULL. */
static const sp_special *longest_at(const sp_specials *s, const char *text, size_t n, bool all)
{
    const sp_special *best = NULL;
    size_t lo = 0, hi = s->n;
    for (size_t depth = 0; depth < n && lo < hi; depth++) {
        int byte = (uint8_t)text[depth];
        lo = lower(s, lo, hi, depth, byte);
        hi = lower(s, lo, hi, depth, byte + 1);
        if (lo < hi && s->v[lo].text.n == depth + 1 && (all || s->v[lo].always)) best = &s->v[lo];
    }
    return best;
}

const sp_special *sp_specials_find(const sp_specials *s, sp_text_view text, size_t from, bool all,
                                   size_t *at)
{
    uint8_t wanted = all ? 1 : 2;
    for (size_t i = from; i < text.n; i++) {
        if (!(s->first[(uint8_t)text.s[i]] & wanted)) continue;
        const sp_special *found = longest_at(s, text.s + i, text.n - i, all);
        if (!found) continue;
        *at = i;
        return found;
    }
    return NULL;
}
