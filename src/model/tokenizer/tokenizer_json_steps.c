/* tokenizer_json_steps.c -- normalizer, pre_tokenizer and decoder of tokenizer.json: which algorithm they make. */
#include "model/tokenizer/tokenizer_json_int.h"

#include <string.h>

#include "model/tokenizer/pretokenize.h"

#define SPACE "\xE2\x96\x81" /* U+2581 */

/* -- fields ---------------------------------------------------------------------------------- */

sp_err sp_tj_malformed(const sp_tj_reader *r, const char *field, const char *what)
{
    return sp_fail(SP_E_FORMAT, "%s: %s: %s", r->path, field, what);
}

sp_err sp_tj_unsupported(const sp_tj_reader *r, const char *field, const json_t *value)
{
    const char *text =
        json_string_value(json_is_object(value) ? json_object_get(value, "type") : value);
    return sp_fail(SP_E_UNSUPPORTED, "%s: %s: %s%.200s%s is not supported", r->path, field,
                   text ? "\"" : "", text ? text : "its value", text ? "\"" : "");
}

bool sp_tj_absent(const json_t *value)
{
    return !value || json_is_null(value);
}

bool sp_tj_text_is(const json_t *object, const char *key, const char *text)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s && strcmp(s, text) == 0;
}

bool sp_tj_type_is(const json_t *object, const char *type)
{
    return sp_tj_text_is(object, "type", type);
}

sp_err sp_tj_bool(const sp_tj_reader *r, const json_t *object, const char *key, const char *field,
                  bool otherwise, bool *out)
{
    const json_t *value = json_object_get(object, key);
    if (!sp_tj_absent(value) && !json_is_boolean(value))
        return sp_tj_malformed(r, field, "is not a boolean");
    *out = sp_tj_absent(value) ? otherwise : json_is_true(value);
    return SP_OK;
}

/* The elements of a Sequence, or the step itself as the only one. */
size_t sp_tj_step_count(const json_t *step, const char *list)
{
    if (sp_tj_absent(step)) return 0;
    return sp_tj_type_is(step, "Sequence") ? json_array_size(json_object_get(step, list)) : 1;
}

const json_t *sp_tj_step_at(const json_t *step, const char *list, size_t i)
{
    return sp_tj_type_is(step, "Sequence") ? json_array_get(json_object_get(step, list), i) : step;
}

/* -- normalizer and pre_tokenizer: which algorithm ------------------------------------------- */

/* Whether the step replaces " " by U+2581. */
static bool is_space_replace(const json_t *step)
{
    return sp_tj_type_is(step, "Replace") &&
           sp_tj_text_is(json_object_get(step, "pattern"), "String", " ") &&
           sp_tj_text_is(step, "content", SPACE);
}

/* The value of a base64 digit, or -1. */
static int digit64(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* read_charsmap -- Precompiled: a table of characters in base64. */
static sp_err read_charsmap(sp_tj_reader *r, const json_t *step)
{
    const char *field = "normalizer.precompiled_charsmap";
    const json_t *text = json_object_get(step, "precompiled_charsmap");
    const size_t n = json_string_length(text);
    const char *s = json_string_value(text);
    uint32_t bits = 0;
    size_t made = 0;
    if (sp_tj_absent(text)) return SP_OK;
    if (!s || n % 4) return sp_tj_malformed(r, field, "is not base64");
    uint8_t *out = sp_arena_take(&r->arena, n / 4 * 3 + 1, 1);
    if (!out) return sp_fail_nomem("a table of characters");
    size_t end = n;
    while (end && n - end < 2 && s[end - 1] == '=') end--;
    for (size_t i = 0; i < end; i++) {
        const int d = digit64(s[i]);
        if (d < 0) return sp_tj_malformed(r, field, "is not base64");
        bits = bits << 6 | (uint32_t)d;
        if (i % 4) out[made++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    r->spec.charsmap = (sp_text_view){(char *)out, made};
    return SP_OK;
}

/* read_strip -- of spaces at the ends. The library strips all white space, so a table of characters must have
 * made spaces of it. */
static sp_err read_strip(sp_tj_reader *r, const json_t *step)
{
    bool left, right;
    if (r->spec.charsmap.n == 0) return sp_tj_unsupported(r, "normalizer", step);
    SP_TRY(sp_tj_bool(r, step, "strip_left", "normalizer.strip_left", false, &left));
    SP_TRY(sp_tj_bool(r, step, "strip_right", "normalizer.strip_right", false, &right));
    r->spec.spaces.strip_left |= left;
    r->spec.spaces.strip_right |= right;
    return SP_OK;
}

/* Whether the step makes runs of spaces one. */
static bool is_squeeze(const json_t *step)
{
    const json_t *pattern = json_object_get(step, "pattern");
    return sp_tj_type_is(step, "Replace") && sp_tj_text_is(pattern, "Regex", " {2,}") &&
           (sp_tj_text_is(step, "content", " ") || sp_tj_text_is(step, "content", SPACE));
}

static sp_err read_bert_normalizer(sp_tj_reader *r, const json_t *step)
{
    sp_wordpiece *w = &r->spec.wordpiece;
    *w = (sp_wordpiece){.on = true, .max_chars = 100};
    if (!sp_tj_type_is(step, "BertNormalizer")) return sp_tj_unsupported(r, "normalizer", step);
    SP_TRY(sp_tj_bool(r, step, "clean_text", "normalizer.clean_text", true, &w->clean));
    SP_TRY(sp_tj_bool(r, step, "handle_chinese_chars", "normalizer.handle_chinese_chars", true, &w->split_cjk));
    SP_TRY(sp_tj_bool(r, step, "lowercase", "normalizer.lowercase", true, &w->lower));
    return sp_tj_bool(r, step, "strip_accents", "normalizer.strip_accents", w->lower, &w->strip_accents);
}

sp_err sp_tj_normalizer(sp_tj_reader *r)
{
    const json_t *norm = json_object_get(r->root, "normalizer");
    if (sp_tj_type_is(json_object_get(r->root, "model"), "WordPiece")) return read_bert_normalizer(r, norm);
    size_t n = sp_tj_step_count(norm, "normalizers");
    bool replace = false;
    for (size_t i = 0; i < n; i++) {
        const json_t *step = sp_tj_step_at(norm, "normalizers", i);
        if (sp_tj_type_is(step, "NFC")) continue;
        if (is_space_replace(step))
            replace = true;
        else if (is_squeeze(step) && !replace)
            r->spec.spaces.squeeze = true;
        else if (sp_tj_type_is(step, "Precompiled") && i == 0)
            SP_TRY(read_charsmap(r, step));
        else if (sp_tj_type_is(step, "Strip") && !replace)
            SP_TRY(read_strip(r, step));
        else if (sp_tj_type_is(step, "Prepend") && sp_tj_text_is(step, "prepend", SPACE) &&
                 !replace)
            r->spec.words.add_space_prefix = true;
        else
            return sp_tj_unsupported(r, "normalizer", step);
    }
    if (r->spec.words.add_space_prefix && !replace) return sp_tj_unsupported(r, "normalizer", norm);
    r->spec.spm = replace;
    return SP_OK;
}

static sp_err read_metaspace(sp_tj_reader *r, const json_t *step)
{
    const json_t *scheme = json_object_get(step, "prepend_scheme");
    bool prefix;
    if (!sp_tj_text_is(step, "replacement", SPACE))
        return sp_tj_unsupported(r, "pre_tokenizer.replacement", NULL);
    SP_TRY(
        sp_tj_bool(r, step, "add_prefix_space", "pre_tokenizer.add_prefix_space", true, &prefix));
    SP_TRY(sp_tj_bool(r, step, "split", "pre_tokenizer.split", true, &r->spec.words.split_words));
    if (!sp_tj_absent(scheme)) {
        prefix = !sp_tj_text_is(step, "prepend_scheme", "never");
        r->spec.words.prefix_first_only = sp_tj_text_is(step, "prepend_scheme", "first");
        if (prefix && !r->spec.words.prefix_first_only &&
            !sp_tj_text_is(step, "prepend_scheme", "always"))
            return sp_tj_unsupported(r, "pre_tokenizer.prepend_scheme", scheme);
    }
    r->spec.spm = true;
    r->spec.words.add_space_prefix = prefix;
    r->spec.words.prefix_unless_space = true;
    return SP_OK;
}

/* read_words -- WhitespaceSplit, then Metaspace: words, each after a dummy space. */
static sp_err read_words(sp_tj_reader *r, const json_t *metaspace)
{
    SP_TRY(read_metaspace(r, metaspace));
    if (!r->spec.words.add_space_prefix || r->spec.words.prefix_first_only || !r->spec.words.split_words)
        return sp_tj_unsupported(r, "pre_tokenizer.prepend_scheme", NULL);
    r->spec.spaces =
        (sp_spaces){.squeeze = true, .strip_left = true, .strip_right = true, .any = true};
    return SP_OK;
}

/* is_split_at_space -- Gemma's: nothing is split, because the normalizer has left no space. */
static bool is_split_at_space(const json_t *step)
{
    return sp_tj_type_is(step, "Split") &&
           sp_tj_text_is(json_object_get(step, "pattern"), "String", " ");
}

/* The steps of a byte-level pipeline so far. */
typedef struct steps {
    const char *regex[SP_PRE_MAX_STEPS];
    size_t n;
    bool byte_level;
} steps;

/* Split by an expression: "Isolated" keeps the matches as words; "Removed" with invert also keeps them and removes the
 * text between matches, which is empty. */
static sp_err read_split(const sp_tj_reader *r, const json_t *step, const char **regex)
{
    const json_t *pattern = json_object_get(json_object_get(step, "pattern"), "Regex");
    if (!json_is_string(pattern)) return sp_tj_unsupported(r, "pre_tokenizer.pattern", pattern);
    bool invert, isolated = sp_tj_text_is(step, "behavior", "Isolated");
    SP_TRY(sp_tj_bool(r, step, "invert", "pre_tokenizer.invert", false, &invert));
    if (isolated ? invert : !(invert && sp_tj_text_is(step, "behavior", "Removed")))
        return sp_tj_unsupported(r, "pre_tokenizer.behavior", json_object_get(step, "behavior"));
    *regex = json_string_value(pattern);
    return SP_OK;
}

static sp_err read_byte_level(const sp_tj_reader *r, const json_t *step, const char **regex)
{
    bool prefix, split;
    SP_TRY(
        sp_tj_bool(r, step, "add_prefix_space", "pre_tokenizer.add_prefix_space", true, &prefix));
    SP_TRY(sp_tj_bool(r, step, "use_regex", "pre_tokenizer.use_regex", true, &split));
    if (prefix) return sp_tj_unsupported(r, "pre_tokenizer.add_prefix_space", NULL);
    *regex = split ? sp_pre_step_regex(SP_STEP_BYTE_LEVEL) : NULL;
    return SP_OK;
}

static sp_err read_step(const sp_tj_reader *r, const json_t *step, steps *s)
{
    const char *regex = NULL;
    bool single;
    if (sp_tj_type_is(step, "Split")) {
        SP_TRY(read_split(r, step, &regex));
    } else if (sp_tj_type_is(step, "ByteLevel") && !s->byte_level) {
        s->byte_level = true;
        SP_TRY(read_byte_level(r, step, &regex));
    } else if (sp_tj_type_is(step, "Digits")) {
        SP_TRY(sp_tj_bool(r, step, "individual_digits", "pre_tokenizer.individual_digits", false,
                          &single));
        regex = sp_pre_step_regex(single ? SP_STEP_DIGIT : SP_STEP_DIGITS);
    } else if (sp_tj_type_is(step, "Punctuation") &&
               sp_tj_text_is(step, "behavior", "Contiguous")) {
        regex = sp_pre_step_regex(SP_STEP_PUNCTUATION);
    } else {
        return sp_tj_unsupported(r, "pre_tokenizer", step);
    }
    if (regex && s->n == SP_PRE_MAX_STEPS) return sp_tj_unsupported(r, "pre_tokenizer", NULL);
    if (regex) s->regex[s->n++] = regex;
    return SP_OK;
}

sp_err sp_tj_pre_tokenizer(sp_tj_reader *r)
{
    const json_t *pre = json_object_get(r->root, "pre_tokenizer");
    size_t n = sp_tj_step_count(pre, "pretokenizers");
    const json_t *last = n ? sp_tj_step_at(pre, "pretokenizers", n - 1) : NULL;
    steps s = {0};
    if (r->spec.wordpiece.on)
        return n == 1 && sp_tj_type_is(last, "BertPreTokenizer") ? SP_OK : sp_tj_unsupported(r, "pre_tokenizer", pre);
    if (n == 0) return r->spec.spm ? SP_OK : sp_tj_unsupported(r, "pre_tokenizer", NULL);
    if (r->spec.spm && n == 1 && is_split_at_space(last)) return SP_OK;
    if (r->spec.spm) return sp_tj_unsupported(r, "pre_tokenizer", pre);
    if (n == 2 && sp_tj_type_is(sp_tj_step_at(pre, "pretokenizers", 0), "WhitespaceSplit") &&
        sp_tj_type_is(last, "Metaspace"))
        return read_words(r, last);
    if (n == 1 && sp_tj_type_is(last, "Metaspace")) return read_metaspace(r, last);
    for (size_t i = 0; i < n; i++) SP_TRY(read_step(r, sp_tj_step_at(pre, "pretokenizers", i), &s));
    if (!s.byte_level) return sp_tj_unsupported(r, "pre_tokenizer", last);
    if (s.n == 0) return sp_tj_unsupported(r, "pre_tokenizer.use_regex", NULL);
    if (sp_pre_from_steps(s.regex, s.n, &r->spec.pre)) return SP_OK;
    return sp_fail(SP_E_UNSUPPORTED, "%s: pre_tokenizer.pattern: \"%.200s\"%s is not supported",
                   r->path, s.n ? s.regex[0] : "", s.n > 1 ? " and what follows it" : "");
}

sp_err sp_tj_decoder(const sp_tj_reader *r)
{
    static const char *const spm[] = {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"};
    const json_t *decoder = json_object_get(r->root, "decoder");
    size_t n = sp_tj_step_count(decoder, "decoders");
    for (size_t i = 0; i < n; i++) {
        const json_t *step = sp_tj_step_at(decoder, "decoders", i);
        bool known = !r->spec.spm && sp_tj_type_is(step, r->spec.wordpiece.on ? "WordPiece" : "ByteLevel");
        for (size_t k = 0; r->spec.spm && k < SP_COUNT(spm); k++)
            known = known || sp_tj_type_is(step, spm[k]);
        if (!known) return sp_tj_unsupported(r, "decoder", step);
    }
    return SP_OK;
}
