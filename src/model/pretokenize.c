/* pretokenize.c -- the published pre-tokenizer patterns, run by PCRE2.
 *
 * These are the patterns of the model families, with one change: in the engines they were written
 * for, \s means Unicode's White_Space, while in PCRE2 it also matches U+180E, so SPACE spells out
 * the property. Each pattern matches at every position of a valid text and backtracks at most over
 * the current run of spaces, so splitting is linear. The fallback in match_word() handles limits of
 * the library (JIT stack), not of the patterns.
 *
 * Classes come from PCRE2's Unicode tables; letters newer than these are split like symbols.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/pretokenize.h"

#include <pcre2.h>
#include <string.h>

#include "model/utf8.h"

#define SPACE                                                                                      \
    "\\x09-\\x0D\\x20\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}"                                   \
    "\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"

/* Llama-3 and Qwen2 differ in how many digits form a word. */
#define MODERN(space, not_space, symbols, digits)                                                  \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?" symbols             \
    "+[\\r\\n]*|" space "*[\\r\\n]+|" space "+(?!" not_space ")|" space "+"
#define CLASSIC(space, not_space, symbols)                                                         \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?" symbols "+|" space "+(?!" not_space           \
    ")|" space "+"

#define AS_PUBLISHED       "\\s", "\\S", "[^\\s\\p{L}\\p{N}]"
#define SPELLED_OUT        "[" SPACE "]", "[^" SPACE "]", "[^" SPACE "\\p{L}\\p{N}]"
#define EXPAND(macro, ...) macro(__VA_ARGS__)

static const struct pattern {
    const char *name, *published, *compiled;
} patterns[] = {
    [SP_PRE_GPT2] = {"gpt-2", EXPAND(CLASSIC, AS_PUBLISHED), EXPAND(CLASSIC, SPELLED_OUT)},
    [SP_PRE_LLAMA3] = {"llama-3", EXPAND(MODERN, AS_PUBLISHED, "\\p{N}{1,3}"),
                       EXPAND(MODERN, SPELLED_OUT, "\\p{N}{1,3}")},
    [SP_PRE_QWEN2] = {"qwen2", EXPAND(MODERN, AS_PUBLISHED, "\\p{N}"),
                      EXPAND(MODERN, SPELLED_OUT, "\\p{N}")},
};

#define WINDOW_BYTES ((size_t)4096) /* text to match again after a match hit a limit */

struct sp_splitter {
    pcre2_code *code;
    pcre2_match_context *context;
};

const char *sp_pre_name(sp_pre_tokenizer kind)
{
    return patterns[kind].name;
}

bool sp_pre_from_regex(const char *pattern, sp_pre_tokenizer *out)
{
    for (size_t i = 0; i < SP_COUNT(patterns); i++) {
        if (strcmp(pattern, patterns[i].published) != 0) continue;
        *out = (sp_pre_tokenizer)i;
        return true;
    }
    return false;
}

sp_err sp_splitter_create(sp_pre_tokenizer kind, uint32_t match_limit, sp_splitter **out)
{
    sp_splitter *s = SP_NEW(sp_splitter);
    if (!s) return sp_fail_nomem(sizeof *s, "a pre-tokenizer");
    int code;
    PCRE2_SIZE where;
    s->code = pcre2_compile((PCRE2_SPTR)patterns[kind].compiled, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, &code,
                            &where, NULL);
    s->context = pcre2_match_context_create(NULL);
    if (!s->code || !s->context) {
        sp_splitter_destroy(s);
        return sp_fail(SP_E_NOMEM, "cannot compile the pre-tokenizer %s", patterns[kind].name);
    }
    (void)pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE); /* without JIT, PCRE2 interprets */
    pcre2_set_match_limit(s->context, match_limit ? match_limit : UINT32_MAX);
    *out = s;
    return SP_OK;
}

void sp_splitter_destroy(sp_splitter *s)
{
    if (!s) return;
    pcre2_code_free(s->code);
    pcre2_match_context_free(s->context);
    sp_free(s);
}

sp_err sp_split_init(sp_split *it, const sp_splitter *s)
{
    void *match = pcre2_match_data_create(1, NULL);
    if (!match) return sp_fail_nomem(sizeof(PCRE2_SIZE) * 2, "a match");
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
    it->at = it->valid_to = 0;
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

/* The largest character boundary in (at, at + WINDOW_BYTES], inside valid text. */
static size_t window_end(const sp_split *it)
{
    if (it->valid_to - it->at <= WINDOW_BYTES) return it->valid_to;
    size_t end = it->at + WINDOW_BYTES;
    while (((uint8_t)it->text[end] & 0xC0) == 0x80) end--;
    return end;
}

/* The end of the word at it->at, which is valid text. A match that hits a limit of the library is
 * repeated in a small window; if that fails too, the window becomes the word. So each failure still
 * advances by a window. */
static sp_err match_word(const sp_split *it, size_t *end)
{
    size_t limits[2] = {it->valid_to, window_end(it)};
    for (int i = 0; i < 2; i++) {
        int rc = pcre2_match(it->splitter->code, (PCRE2_SPTR)it->text, limits[i], it->at,
                             PCRE2_NO_UTF_CHECK, it->match, it->splitter->context);
        if (rc == PCRE2_ERROR_NOMEMORY)
            return sp_fail(SP_E_NOMEM, "cannot allocate memory for a match");
        if (rc < 0) continue;
        *end = pcre2_get_ovector_pointer(it->match)[1];
        if (*end > it->at) return SP_OK;
    }
    *end = limits[1];
    return SP_OK;
}

sp_err sp_split_next(sp_split *it, sp_text_view *word, bool *more)
{
    *more = it->at < it->n;
    if (!*more) return SP_OK;
    if (it->at >= it->valid_to) it->valid_to = valid_end(it->text, it->n, it->at);
    size_t end = it->at + 1; /* an invalid byte */
    if (it->at < it->valid_to) SP_TRY(match_word(it, &end));
    *word = (sp_text_view){it->text + it->at, end - it->at};
    it->at = end;
    return SP_OK;
}
