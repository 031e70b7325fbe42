/* normalize.c -- what SentencePiece does to a text before it is tokenized.
 *
 *   text --charsmap--> characters --spaces--> U+2581 for spaces, perhaps fewer of them, perhaps one in front
 *
 * The table of characters applies to the longest entry at each position, as in SentencePiece. (The `tokenizers`
 * library takes the shortest, once for each grapheme: of half-width kana, for example, it drops the marks.) */
#include <string.h>

#include "model/tokenizer/tokenizer_int.h"
#include "base/utf8.h"

static bool starts_with_mark(const char *s, size_t n)
{
    return n >= SP_SPACE_N && memcmp(s, SP_SPACE, SP_SPACE_N) == 0;
}

/* -- characters ----------------------------------------------------------------------------- */

static sp_err map_characters(const sp_tokenizer *t, sp_bytes *b, const char *text, size_t n)
{
    b->n = 0;
    for (size_t i = 0; i < n;) {
        sp_text_view to;
        size_t k = sp_charsmap_longest(&t->charsmap, text + i, n - i, &to);
        if (k == 0) {
            const int step = sp_utf8_step((const uint8_t *)text + i, n - i);
            k = step > 0 ? (size_t)step : 1;
            to = (sp_text_view){text + i, k};
        }
        SP_TRY(sp_bytes_add(b, to.s, to.n));
        i += k;
    }
    return SP_OK;
}

/* -- spaces --------------------------------------------------------------------------------- */

/* plain_spaces -- each becomes U+2581. */
static sp_err plain_spaces(sp_bytes *b, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        const char *space = memchr(text + i, ' ', n - i);
        size_t plain = space ? (size_t)(space - text) - i : n - i;
        SP_TRY(sp_bytes_add(b, text + i, plain));
        if (space) SP_TRY(sp_bytes_add(b, SP_SPACE, SP_SPACE_N));
        i += plain + (space != NULL);
    }
    return SP_OK;
}

/* is_space -- " ", or, where words are split at them, all that Unicode calls White_Space. */
static bool is_space(const sp_tokenizer *t, const char *s, size_t n)
{
    static const char *const wide[] = {"\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80",
                                       "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAF",
                                       "\xE2\x81\x9F", "\xE3\x80\x80"};
    if (*s == ' ' || !t->spaces.any) return *s == ' ';
    if (n == 1) return *s >= '\t' && *s <= '\r';
    if (n == 3 && memcmp(s, "\xE2\x80", 2) == 0 && (uint8_t)s[2] >= 0x80 && (uint8_t)s[2] <= 0x8A)
        return true; /* U+2000 .. U+200A */
    for (size_t i = 0; i < SP_COUNT(wide); i++)
        if (strlen(wide[i]) == n && memcmp(wide[i], s, n) == 0) return true;
    return false;
}

static sp_err add_marks(sp_bytes *b, size_t n)
{
    for (size_t i = 0; i < n; i++) SP_TRY(sp_bytes_add(b, SP_SPACE, SP_SPACE_N));
    return SP_OK;
}

/* fewer_spaces -- collapses runs and strips the ends, as the vocabulary says. */
static sp_err fewer_spaces(const sp_tokenizer *t, sp_bytes *b, const char *text, size_t n)
{
    const size_t most = t->spaces.squeeze ? 1 : SIZE_MAX;
    size_t pending = 0;
    for (size_t i = 0; i < n;) {
        const int step = sp_utf8_step((const uint8_t *)text + i, n - i);
        const size_t k = step > 0 ? (size_t)step : 1;
        if (is_space(t, text + i, k)) {
            pending++;
        } else {
            if ((b->n == 0 && t->spaces.strip_left) ||
                (t->spaces.any && starts_with_mark(text + i, k)))
                pending = 0;
            SP_TRY(add_marks(b, SP_MIN(pending, most)));
            SP_TRY(sp_bytes_add(b, text + i, k));
            pending = 0;
        }
        i += k;
    }
    if (!t->spaces.strip_right) return add_marks(b, SP_MIN(pending, most));
    while (t->spaces.strip_marks && b->n >= SP_SPACE_N &&
           starts_with_mark(b->v + b->n - SP_SPACE_N, SP_SPACE_N))
        b->n -= SP_SPACE_N;
    return SP_OK;
}

sp_err sp_spm_normalize(const sp_tokenizer *t, sp_encode_work *w, const char *text, size_t n,
                        bool prefix)
{
    sp_bytes *b = &w->escaped;
    const sp_spaces *s = &t->spaces;
    if (t->charsmap.n_units) {
        SP_TRY(map_characters(t, &w->mapped, text, n));
        text = w->mapped.v;
        n = w->mapped.n;
    }
    b->n = 0;
    if (s->squeeze || s->strip_left || s->strip_right || s->any)
        SP_TRY(fewer_spaces(t, b, text, n));
    else
        SP_TRY(plain_spaces(b, text, n));
    if (!prefix || b->n == 0 || (t->words.prefix_unless_space && starts_with_mark(b->v, b->n)))
        return SP_OK;
    SP_TRY(sp_bytes_add(b, SP_SPACE, SP_SPACE_N));
    memmove(b->v + SP_SPACE_N, b->v, b->n - SP_SPACE_N);
    memcpy(b->v, SP_SPACE, SP_SPACE_N);
    return SP_OK;
}
