/* pretokenize.c -- runs the steps of a published pre-tokenizer (pre_table.c) with PCRE2.
 *
 *   text --level 0--> valid UTF-8, and bad bytes as words --step 1--> pieces --step 2--> ... --> words
 *
 * A step splits its piece into matches and what is between them; each expression sees only its piece. The levels are
 * advanced on demand, so only a position in each is stored.
 *
 * The expressions are as published, for engines where \s means Unicode's White_Space; in PCRE2 it also matches U+180E,
 * so `translate` spells the property out. \p{Han} is the script, not its extensions. No expression backtracks over
 * more than the word that it matches, so splitting is linear. The fallback in `search` handles limits of the library
 * (JIT stack), not of the expressions.
 *
 * Classes come from PCRE2's Unicode tables; letters newer than these are split like symbols.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/tokenizer/pretokenize.h"

#include <pcre2.h>
#include <string.h>

#include "base/utf8.h"

#define SPACES                                                                                     \
    "\\x09-\\x0D\\x20\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}"                                   \
    "\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"

/* What those engines count as part of a word, for \b, which the table has after digits only. */
#define WORD_CHARACTER                                                                             \
    "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}]"

#define WINDOW_BYTES ((size_t)4096) /* text to match again after a match hit a limit */

typedef struct step {
    pcre2_code *code;
    bool thousands; /* code finds runs of digits, which are cut in threes from the right */
} step;

struct sp_splitter {
    step steps[SP_PRE_MAX_STEPS];
    int n_steps;
    pcre2_match_context *context;
};

/* -- compilation ----------------------------------------------------------------------------- */

/* A published expression in the syntax of PCRE2. */
static sp_err translate(const char *regex, sp_bytes *out)
{
    bool in_class = false;
    for (const char *p = regex; *p; p++) {
        if (*p != '\\') {
            in_class = in_class ? *p != ']' : *p == '[';
            SP_TRY(sp_bytes_add(out, p, 1));
            continue;
        }
        p++;
        if (strncmp(p, "p{Han}", 6) == 0) {
            SP_TRY(sp_bytes_addf(out, "\\p{sc:Han}"));
            p += 5;
        } else if (*p == 'b') {
            SP_TRY(sp_bytes_addf(out, "(?!%s)", WORD_CHARACTER));
        } else if (*p == 's' || *p == 'S') {
            SP_TRY(sp_bytes_addf(out, *p == 'S' ? "[^%s]" : in_class ? "%s" : "[%s]", SPACES));
        } else {
            SP_TRY(sp_bytes_addf(out, "\\%c", *p));
        }
    }
    return sp_bytes_add(out, "", 1);
}

static sp_err step_compile(step *s, const char *regex, const char *name)
{
    int code;
    PCRE2_SIZE where;
    sp_bytes text = {0};
    s->thousands = strcmp(regex, SP_PRE_THOUSANDS) == 0;
    sp_err err = translate(s->thousands ? "\\d+" : regex, &text);
    if (err == SP_OK) {
        s->code = pcre2_compile((PCRE2_SPTR)text.v, PCRE2_ZERO_TERMINATED,
                                PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_NO_UTF_CHECK,
                                &code, &where, NULL);
        if (!s->code) err = sp_fail(SP_E_NOMEM, "cannot compile the pre-tokenizer %s", name);
    }
    sp_vec_fini(&text);
    if (err == SP_OK)
        (void)pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE); /* without JIT, PCRE2 interprets */
    return err;
}

sp_err sp_splitter_create(sp_pre_tokenizer kind, uint32_t match_limit, sp_splitter **out)
{
    const char *const *steps = sp_pre_steps(kind);
    sp_splitter *s = SP_NEW(sp_splitter);
    if (!s) return sp_fail_nomem("a pre-tokenizer");
    sp_err err = SP_OK;
    for (; err == SP_OK && s->n_steps < SP_PRE_MAX_STEPS && steps[s->n_steps]; s->n_steps++)
        err = step_compile(&s->steps[s->n_steps], steps[s->n_steps], sp_pre_name(kind));
    if (err == SP_OK && !(s->context = pcre2_match_context_create(NULL)))
        err = sp_fail_nomem("a pre-tokenizer");
    if (err != SP_OK) {
        sp_splitter_destroy(s);
        return err;
    }
    pcre2_set_match_limit(s->context, match_limit ? match_limit : UINT32_MAX);
    *out = s;
    return SP_OK;
}

void sp_splitter_destroy(sp_splitter *s)
{
    if (!s) return;
    for (int i = 0; i < SP_PRE_MAX_STEPS; i++) pcre2_code_free(s->steps[i].code);
    pcre2_match_context_free(s->context);
    sp_free(s);
}

/* -- a pass over a text ---------------------------------------------------------------------- */

sp_err sp_split_init(sp_split *it, const sp_splitter *s)
{
    void *match = pcre2_match_data_create(1, NULL);
    if (!match) return sp_fail_nomem("a match");
    *it = (sp_split){.splitter = s, .match = match};
    return SP_OK;
}

void sp_split_fini(sp_split *it)
{
    pcre2_match_data_free(it->match);
    *it = (sp_split){0};
}

void sp_split_start(sp_split *it, const char *text, size_t n)
{
    it->text = text;
    it->n = n;
    it->at = 0;
    memset(it->level, 0, sizeof it->level);
}

/* The end of the valid UTF-8 that starts at `from`. */
static size_t valid_end(const char *text, size_t n, size_t from)
{
    while (from < n) {
        int k = sp_utf8_step((const uint8_t *)text + from, n - from);
        if (k <= 0) break;
        from += (size_t)k;
    }
    return from;
}

/* The largest character boundary in (from, from + WINDOW_BYTES] of a piece. */
static size_t window_end(const sp_split *it, size_t from, size_t end)
{
    if (end - from <= WINDOW_BYTES) return end;
    end = from + WINDOW_BYTES;
    while (((uint8_t)it->text[end] & 0xC0) == 0x80) end--;
    return end;
}

/* Finds the next match in a piece, or an empty one at its end. A match that hits a limit of the library is repeated in
 * a small window; if that fails too, the window is the match. So each failure still advances by a window. */
static sp_err search(const sp_split *it, const step *s, sp_split_level *l)
{
    size_t limits[2] = {l->end, window_end(it, l->at, l->end)};
    l->known = true;
    for (int i = 0; i < 2; i++) {
        int rc =
            pcre2_match(s->code, (PCRE2_SPTR)it->text + l->start, limits[i] - l->start,
                        l->at - l->start, PCRE2_NO_UTF_CHECK, it->match, it->splitter->context);
        if (rc == PCRE2_ERROR_NOMEMORY)
            return sp_fail(SP_E_NOMEM, "cannot allocate memory for a match");
        if (rc == PCRE2_ERROR_NOMATCH) {
            l->from = l->to = limits[i];
            return SP_OK;
        }
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(it->match);
        if (rc < 0 || at[1] <= at[0]) continue;
        l->from = l->start + at[0];
        l->to = l->start + at[1];
        return SP_OK;
    }
    l->from = l->at;
    l->to = limits[1];
    return SP_OK;
}

/* The end of the piece at l->at of a run of digits: at its start one or two, if any are left over, then threes. */
static size_t thousands_end(const sp_split *it, const sp_split_level *l)
{
    size_t n = 0, end = l->at;
    for (size_t i = l->at; l->at == l->from && i < l->to; i++)
        n += ((uint8_t)it->text[i] & 0xC0) != 0x80;
    for (size_t take = n % 3 ? n % 3 : 3; end < l->to; end++)
        if (((uint8_t)it->text[end] & 0xC0) != 0x80 && take-- == 0) break;
    return end;
}

/* The next piece of level k: valid text or a bad byte for k = 0, else what step k makes of them. *final: no further
 * step applies to it. */
static sp_err take(sp_split *it, int k, sp_text_view *out, bool *final, bool *more)
{
    if (k == 0) {
        *more = it->at < it->n;
        if (!*more) return SP_OK;
        size_t end = valid_end(it->text, it->n, it->at);
        *final = end == it->at; /* an invalid byte */
        end += *final;
        *out = (sp_text_view){it->text + it->at, end - it->at};
        it->at = end;
        return SP_OK;
    }
    sp_split_level *l = &it->level[k - 1];
    const step *s = &it->splitter->steps[k - 1];
    if (l->at == l->end) {
        SP_TRY(take(it, k - 1, out, final, more));
        if (!*more || *final) return SP_OK;
        l->start = l->at = (size_t)(out->s - it->text);
        l->end = l->at + out->n;
        l->known = false;
    }
    if (!l->known) SP_TRY(search(it, s, l));
    size_t end = l->at < l->from ? l->from : s->thousands ? thousands_end(it, l) : l->to;
    *out = (sp_text_view){it->text + l->at, end - l->at};
    *final = false;
    *more = true;
    l->at = end;
    l->known = end < l->to;
    return SP_OK;
}

sp_err sp_split_next(sp_split *it, sp_text_view *word, bool *more)
{
    bool final;
    return take(it, it->splitter->n_steps, word, &final, more);
}
