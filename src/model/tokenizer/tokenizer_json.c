/* tokenizer_json.c -- reads tokenizer.json, as the Hugging Face `tokenizers` library writes it.
 *
 * Such a file describes a pipeline of small steps: normalizer, pre_tokenizer, model,
 * post_processor, decoder. Pipelines are recognised, not executed: the table lists those of the
 * model families that the two algorithms of this folder cover; any other is refused with the name
 * of the field.
 *
 *   normalizer          pre_tokenizer                       algorithm
 *   null | NFC          [Split | Digits | Punctuation ..., ByteLevel]   byte-level, by pre_table.c
 *   [Prepend, Replace]  null                                SentencePiece, a dummy space for each
 *   piece
 *   Replace             null                                SentencePiece, no dummy space
 *   null                Metaspace                           SentencePiece, by its prepend_scheme
 *
 * Deliberate differences from the library: NFC is not applied (bytes stay unchanged, as in
 * llama.cpp; text in composed form, which nearly all is, gives the same tokens); `normalized` of
 * added tokens is ignored (they are found in the text as given).
 */
#include "model/tokenizer/tokenizer_json.h"

#include <string.h>

#include "model/json_file.h"
#include "model/tokenizer/pretokenize.h"

#define SPACE "\xE2\x96\x81" /* U+2581 */

typedef struct reader {
    const char *path;
    const json_t *root;
    sp_arena arena; /* owns the lists of spec until the tokenizer has copied them */
    sp_vocab_spec spec;
    sp_text_view *tokens;
    int32_t *types;
    bool byte_fallback;
} reader;

/* -- fields ---------------------------------------------------------------------------------- */

static sp_err malformed(const reader *r, const char *field, const char *what)
{
    return sp_fail(SP_E_FORMAT, "%s: %s: %s", r->path, field, what);
}

static sp_err unsupported(const reader *r, const char *field, const json_t *value)
{
    const char *text =
        json_string_value(json_is_object(value) ? json_object_get(value, "type") : value);
    return sp_fail(SP_E_UNSUPPORTED, "%s: %s: %s%.200s%s is not supported", r->path, field,
                   text ? "\"" : "", text ? text : "its value", text ? "\"" : "");
}

static bool absent(const json_t *value)
{
    return !value || json_is_null(value);
}

static bool text_is(const json_t *object, const char *key, const char *text)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s && strcmp(s, text) == 0;
}

static bool type_is(const json_t *object, const char *type)
{
    return text_is(object, "type", type);
}

static sp_err read_bool(const reader *r, const json_t *object, const char *key, const char *field,
                        bool otherwise, bool *out)
{
    const json_t *value = json_object_get(object, key);
    if (!absent(value) && !json_is_boolean(value)) return malformed(r, field, "is not a boolean");
    *out = absent(value) ? otherwise : json_is_true(value);
    return SP_OK;
}

/* The elements of a Sequence, or the step itself as the only one. */
static size_t step_count(const json_t *step, const char *list)
{
    if (absent(step)) return 0;
    return type_is(step, "Sequence") ? json_array_size(json_object_get(step, list)) : 1;
}

static const json_t *step_at(const json_t *step, const char *list, size_t i)
{
    return type_is(step, "Sequence") ? json_array_get(json_object_get(step, list), i) : step;
}

/* -- normalizer and pre_tokenizer: which algorithm ------------------------------------------- */

/* Whether the step replaces " " by U+2581. */
static bool is_space_replace(const json_t *step)
{
    return type_is(step, "Replace") && text_is(json_object_get(step, "pattern"), "String", " ") &&
           text_is(step, "content", SPACE);
}

static sp_err read_normalizer(reader *r)
{
    const json_t *norm = json_object_get(r->root, "normalizer");
    size_t n = step_count(norm, "normalizers");
    bool replace = false;
    for (size_t i = 0; i < n; i++) {
        const json_t *step = step_at(norm, "normalizers", i);
        if (type_is(step, "NFC")) continue;
        if (is_space_replace(step))
            replace = true;
        else if (type_is(step, "Prepend") && text_is(step, "prepend", SPACE) && !replace)
            r->spec.add_space_prefix = true;
        else
            return unsupported(r, "normalizer", step);
    }
    if (r->spec.add_space_prefix && !replace) return unsupported(r, "normalizer", norm);
    r->spec.spm = replace;
    return SP_OK;
}

static sp_err read_metaspace(reader *r, const json_t *step)
{
    const json_t *scheme = json_object_get(step, "prepend_scheme");
    bool prefix;
    if (!text_is(step, "replacement", SPACE))
        return unsupported(r, "pre_tokenizer.replacement", NULL);
    SP_TRY(read_bool(r, step, "add_prefix_space", "pre_tokenizer.add_prefix_space", true, &prefix));
    SP_TRY(read_bool(r, step, "split", "pre_tokenizer.split", true, &r->spec.split_words));
    if (!absent(scheme)) {
        prefix = !text_is(step, "prepend_scheme", "never");
        r->spec.prefix_first_only = text_is(step, "prepend_scheme", "first");
        if (prefix && !r->spec.prefix_first_only && !text_is(step, "prepend_scheme", "always"))
            return unsupported(r, "pre_tokenizer.prepend_scheme", scheme);
    }
    r->spec.spm = true;
    r->spec.add_space_prefix = prefix;
    r->spec.prefix_unless_space = true;
    return SP_OK;
}

/* The steps of a byte-level pipeline so far. */
typedef struct steps {
    const char *regex[SP_PRE_MAX_STEPS];
    size_t n;
    bool byte_level;
} steps;

/* Split by an expression: "Isolated" keeps the matches as words; "Removed" with invert also keeps them and removes the
 * text between matches, which is empty. */
static sp_err read_split(const reader *r, const json_t *step, const char **regex)
{
    const json_t *pattern = json_object_get(json_object_get(step, "pattern"), "Regex");
    if (!json_is_string(pattern)) return unsupported(r, "pre_tokenizer.pattern", pattern);
    bool invert, isolated = text_is(step, "behavior", "Isolated");
    SP_TRY(read_bool(r, step, "invert", "pre_tokenizer.invert", false, &invert));
    if (isolated ? invert : !(invert && text_is(step, "behavior", "Removed")))
        return unsupported(r, "pre_tokenizer.behavior", json_object_get(step, "behavior"));
    *regex = json_string_value(pattern);
    return SP_OK;
}

static sp_err read_byte_level(const reader *r, const json_t *step, const char **regex)
{
    bool prefix, split;
    SP_TRY(read_bool(r, step, "add_prefix_space", "pre_tokenizer.add_prefix_space", true, &prefix));
    SP_TRY(read_bool(r, step, "use_regex", "pre_tokenizer.use_regex", true, &split));
    if (prefix) return unsupported(r, "pre_tokenizer.add_prefix_space", NULL);
    *regex = split ? sp_pre_step_regex(SP_STEP_BYTE_LEVEL) : NULL;
    return SP_OK;
}

static sp_err read_step(const reader *r, const json_t *step, steps *s)
{
    const char *regex = NULL;
    bool single;
    if (type_is(step, "Split")) {
        SP_TRY(read_split(r, step, &regex));
    } else if (type_is(step, "ByteLevel") && !s->byte_level) {
        s->byte_level = true;
        SP_TRY(read_byte_level(r, step, &regex));
    } else if (type_is(step, "Digits")) {
        SP_TRY(read_bool(r, step, "individual_digits", "pre_tokenizer.individual_digits", false,
                         &single));
        regex = sp_pre_step_regex(single ? SP_STEP_DIGIT : SP_STEP_DIGITS);
    } else if (type_is(step, "Punctuation") && text_is(step, "behavior", "Contiguous")) {
        regex = sp_pre_step_regex(SP_STEP_PUNCTUATION);
    } else {
        return unsupported(r, "pre_tokenizer", step);
    }
    if (regex && s->n == SP_PRE_MAX_STEPS) return unsupported(r, "pre_tokenizer", NULL);
    if (regex) s->regex[s->n++] = regex;
    return SP_OK;
}

static sp_err read_pre_tokenizer(reader *r)
{
    const json_t *pre = json_object_get(r->root, "pre_tokenizer");
    size_t n = step_count(pre, "pretokenizers");
    const json_t *last = n ? step_at(pre, "pretokenizers", n - 1) : NULL;
    steps s = {0};
    if (n == 0) return r->spec.spm ? SP_OK : unsupported(r, "pre_tokenizer", NULL);
    if (r->spec.spm) return unsupported(r, "pre_tokenizer", pre);
    if (n == 1 && type_is(last, "Metaspace")) return read_metaspace(r, last);
    for (size_t i = 0; i < n; i++) SP_TRY(read_step(r, step_at(pre, "pretokenizers", i), &s));
    if (!s.byte_level) return unsupported(r, "pre_tokenizer", last);
    if (s.n == 0) return unsupported(r, "pre_tokenizer.use_regex", NULL);
    if (sp_pre_from_steps(s.regex, s.n, &r->spec.pre)) return SP_OK;
    return sp_fail(SP_E_UNSUPPORTED, "%s: pre_tokenizer.pattern: \"%.200s\"%s is not supported",
                   r->path, s.n ? s.regex[0] : "", s.n > 1 ? " and what follows it" : "");
}

static sp_err read_decoder(const reader *r)
{
    static const char *const spm[] = {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"};
    const json_t *decoder = json_object_get(r->root, "decoder");
    size_t n = step_count(decoder, "decoders");
    for (size_t i = 0; i < n; i++) {
        const json_t *step = step_at(decoder, "decoders", i);
        bool known = !r->spec.spm && type_is(step, "ByteLevel");
        for (size_t k = 0; r->spec.spm && k < SP_COUNT(spm); k++)
            known = known || type_is(step, spm[k]);
        if (!known) return unsupported(r, "decoder", step);
    }
    return SP_OK;
}

/* -- vocabulary ------------------------------------------------------------------------------ */

/* Ids may have gaps, but an id far above the number of tokens means a damaged file. */
static sp_err check_id(const reader *r, const char *field, const json_t *id, size_t n_listed,
                       size_t *out)
{
    json_int_t value = json_integer_value(id);
    if (!json_is_integer(id) || value < 0)
        return malformed(r, field, "an id is not a natural number");
    if ((uint64_t)value > 2 * (uint64_t)n_listed + 65536)
        return sp_fail(SP_E_FORMAT, "%s: %s: id %lld in a vocabulary of %zu tokens", r->path, field,
                       (long long)value, n_listed);
    *out = (size_t)value;
    return SP_OK;
}

static sp_err put_token(reader *r, const char *field, size_t id, const char *text, int32_t type)
{
    sp_text_view *slot = &r->tokens[id];
    size_t n = strlen(text);
    bool taken = slot->s && !(slot->n == n && memcmp(slot->s, text, n) == 0);
    if (taken)
        return sp_fail(SP_E_FORMAT, "%s: %s: \"%.64s\" has the id %zu, which is \"%.*s\"", r->path,
                       field, text, id, (int)SP_MIN(slot->n, 64), slot->s);
    *slot = (sp_text_view){text, n};
    r->types[id] = type;
    return SP_OK;
}

static sp_err size_vocab(reader *r, json_t *vocab, const json_t *added)
{
    size_t listed = json_object_size(vocab) + json_array_size(added), id, i;
    const char *text;
    json_t *value;
    json_object_foreach(vocab, text, value)
    {
        SP_TRY(check_id(r, "model.vocab", value, listed, &id));
        r->spec.n_tokens = SP_MAX(r->spec.n_tokens, id + 1);
    }
    json_array_foreach(added, i, value)
    {
        SP_TRY(check_id(r, "added_tokens.id", json_object_get(value, "id"), listed, &id));
        r->spec.n_tokens = SP_MAX(r->spec.n_tokens, id + 1);
    }
    r->tokens = sp_arena_take(&r->arena, r->spec.n_tokens, sizeof *r->tokens);
    r->types = sp_arena_take(&r->arena, r->spec.n_tokens, sizeof *r->types);
    if (!r->tokens || !r->types)
        return sp_fail_nomem(r->spec.n_tokens * sizeof *r->tokens, "a vocabulary");
    r->spec.tokens = r->tokens;
    r->spec.types = r->types;
    return SP_OK;
}

static sp_err read_added(reader *r, const json_t *added)
{
    static const char *const flags[] = {"lstrip", "rstrip", "single_word"};
    size_t i;
    json_t *token;
    json_array_foreach(added, i, token)
    {
        const char *text = json_string_value(json_object_get(token, "content"));
        bool special, flag;
        if (!text) return malformed(r, "added_tokens.content", "is not a string");
        SP_TRY(read_bool(r, token, "special", "added_tokens.special", false, &special));
        for (size_t k = 0; k < SP_COUNT(flags); k++) {
            SP_TRY(read_bool(r, token, flags[k], "added_tokens", false, &flag));
            if (flag)
                return sp_fail(SP_E_UNSUPPORTED,
                               "%s: added_tokens: %s of \"%.64s\" is not supported", r->path,
                               flags[k], text);
        }
        size_t id = (size_t)json_integer_value(json_object_get(token, "id"));
        SP_TRY(put_token(r, "added_tokens", id, text, special ? SP_TOKEN_CONTROL : SP_TOKEN_USER));
    }
    return SP_OK;
}

static bool is_byte_text(const char *text)
{
    static const char hex[] = "0123456789ABCDEFabcdef";
    return strlen(text) == 6 && memcmp(text, "<0x", 3) == 0 && strspn(text + 3, hex) == 2 &&
           text[5] == '>';
}

static sp_err read_vocab(reader *r, const json_t *model)
{
    json_t *vocab = json_object_get(model, "vocab"),
           *added = json_object_get(r->root, "added_tokens");
    const char *text;
    json_t *id;
    if (!json_is_object(vocab)) return malformed(r, "model.vocab", "is not an object");
    if (!absent(added) && !json_is_array(added))
        return malformed(r, "added_tokens", "is not an array");
    SP_TRY(size_vocab(r, vocab, added));
    json_object_foreach(vocab, text, id)
    {
        bool byte = r->spec.spm && r->byte_fallback && is_byte_text(text);
        SP_TRY(put_token(r, "model.vocab", (size_t)json_integer_value(id), text,
                         byte ? SP_TOKEN_BYTE : SP_TOKEN_NORMAL));
    }
    SP_TRY(read_added(r, added));
    for (size_t i = 0; i < r->spec.n_tokens; i++) {
        if (r->tokens[i].s) continue;
        r->tokens[i] = (sp_text_view){"", 0}; /* a gap */
        r->types[i] = SP_TOKEN_UNUSED;
    }
    return SP_OK;
}

/* -- merges ---------------------------------------------------------------------------------- */

/* [a, b] as "a b". */
static sp_err join_pair(reader *r, const json_t *pair, sp_text_view *out)
{
    const char *a = json_string_value(json_array_get(pair, 0));
    const char *b = json_string_value(json_array_get(pair, 1));
    if (!a || !b || json_array_size(pair) != 2)
        return malformed(r, "model.merges", "an element is neither \"a b\" nor [\"a\", \"b\"]");
    if (strchr(a, ' ') || strchr(b, ' '))
        return sp_fail(SP_E_UNSUPPORTED, "%s: model.merges: a token contains a space", r->path);
    size_t n = strlen(a), m = strlen(b);
    char *joined = sp_arena_take(&r->arena, n + 1 + m, 1);
    if (!joined) return sp_fail_nomem(n + 1 + m, "merges");
    memcpy(joined, a, n);
    joined[n] = ' ';
    memcpy(joined + n + 1, b, m);
    *out = (sp_text_view){joined, n + 1 + m};
    return SP_OK;
}

static sp_err read_merges(reader *r, const json_t *model)
{
    json_t *merges = json_object_get(model, "merges"), *m;
    size_t i;
    if (!json_is_array(merges)) return malformed(r, "model.merges", "is not an array");
    sp_text_view *list = sp_arena_take(&r->arena, json_array_size(merges), sizeof *list);
    if (!list) return sp_fail_nomem(json_array_size(merges) * sizeof *list, "merges");
    json_array_foreach(merges, i, m)
    {
        if (json_is_string(m))
            list[i] = (sp_text_view){json_string_value(m), json_string_length(m)};
        else
            SP_TRY(join_pair(r, m, &list[i]));
    }
    r->spec.merges = list;
    r->spec.n_merges = json_array_size(merges);
    return SP_OK;
}

/* -- model ----------------------------------------------------------------------------------- */

/* The id of a token by its text, or -1. */
static int32_t find_token(const reader *r, const char *text)
{
    size_t n = text ? strlen(text) : 0;
    for (size_t i = 0; n && i < r->spec.n_tokens; i++)
        if (r->tokens[i].n == n && memcmp(r->tokens[i].s, text, n) == 0) return (int32_t)i;
    return -1;
}

static sp_err read_model(reader *r)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const json_t *model = json_object_get(r->root, "model");
    const json_t *dropout = json_object_get(model, "dropout"),
                 *unk = json_object_get(model, "unk_token");
    if (!json_is_object(model)) return malformed(r, "model", "is missing");
    if (!absent(json_object_get(model, "type")) && !type_is(model, "BPE"))
        return unsupported(r, "model.type", model);
    if (!absent(dropout) && json_number_value(dropout) != 0)
        return unsupported(r, "model.dropout", dropout);
    for (size_t i = 0; i < SP_COUNT(affixes); i++) {
        const json_t *affix = json_object_get(model, affixes[i]);
        if (!absent(affix) && !text_is(model, affixes[i], ""))
            return unsupported(r, affixes[i], affix);
    }
    SP_TRY(read_bool(r, model, "byte_fallback", "model.byte_fallback", false, &r->byte_fallback));
    SP_TRY(
        read_bool(r, model, "ignore_merges", "model.ignore_merges", false, &r->spec.ignore_merges));
    SP_TRY(read_bool(r, model, "fuse_unk", "model.fuse_unk", false, &r->spec.fuse_unk));
    if (!r->spec.spm && r->byte_fallback) return unsupported(r, "model.byte_fallback", NULL);
    if (r->spec.spm && r->spec.ignore_merges) return unsupported(r, "model.ignore_merges", NULL);
    SP_TRY(read_vocab(r, model));
    SP_TRY(read_merges(r, model));
    if (absent(unk)) return SP_OK;
    r->spec.unk = find_token(r, json_string_value(unk));
    if (r->spec.unk < 0) return malformed(r, "model.unk_token", "is not in the vocabulary");
    if (r->types[r->spec.unk] == SP_TOKEN_NORMAL) r->types[r->spec.unk] = SP_TOKEN_UNKNOWN;
    return SP_OK;
}

/* -- BOS and EOS ----------------------------------------------------------------------------- */

/* TemplateProcessing: the tokens before and after the sequence. */
static sp_err read_template(reader *r, const json_t *step)
{
    json_t *single = json_object_get(step, "single"), *item;
    size_t i;
    bool after = false;
    if (!json_is_array(single)) return malformed(r, "post_processor.single", "is not an array");
    json_array_foreach(single, i, item)
    {
        const char *text =
            json_string_value(json_object_get(json_object_get(item, "SpecialToken"), "id"));
        if (json_object_get(item, "Sequence")) {
            after = true;
            continue;
        }
        int32_t id = find_token(r, text);
        if (id < 0)
            return malformed(r, "post_processor.single",
                             "a special token is not in the vocabulary");
        if (after) {
            r->spec.eos = id;
            r->spec.add_eos = true;
        } else if (i == 0) {
            r->spec.bos = id;
            r->spec.add_bos = true;
        } else {
            return unsupported(r, "post_processor.single", NULL);
        }
    }
    return SP_OK;
}

static sp_err read_post_processor(reader *r)
{
    const json_t *post = json_object_get(r->root, "post_processor");
    size_t n = step_count(post, "processors");
    for (size_t i = 0; i < n; i++) {
        const json_t *step = step_at(post, "processors", i);
        if (type_is(step, "TemplateProcessing"))
            SP_TRY(read_template(r, step));
        else if (!type_is(step, "ByteLevel"))
            return unsupported(r, "post_processor", step);
    }
    return SP_OK;
}

/* bos_token and eos_token of tokenizer_config.json: a text, {"content": text}, or null. */
static sp_err read_named(const reader *r, const json_t *config, const char *key, int32_t *id)
{
    const json_t *value = json_object_get(config, key);
    if (json_is_object(value)) value = json_object_get(value, "content");
    if (absent(value)) return SP_OK;
    int32_t found = find_token(r, json_string_value(value));
    if (found < 0)
        return sp_fail(SP_E_FORMAT, "%s: %s of tokenizer_config.json is not in the vocabulary",
                       r->path, key);
    *id = found;
    return SP_OK;
}

static sp_err read_config(reader *r, const json_t *config)
{
    if (!config) return SP_OK;
    if (r->spec.bos < 0) SP_TRY(read_named(r, config, "bos_token", &r->spec.bos));
    SP_TRY(read_named(r, config, "eos_token", &r->spec.eos));
    SP_TRY(read_bool(r, config, "add_bos_token", "add_bos_token of tokenizer_config.json",
                     r->spec.add_bos, &r->spec.add_bos));
    return read_bool(r, config, "add_eos_token", "add_eos_token of tokenizer_config.json",
                     r->spec.add_eos, &r->spec.add_eos);
}

/* -- all fields ------------------------------------------------------------------------------ */

static sp_err read_all(reader *r, const json_t *config)
{
    SP_TRY(read_normalizer(r));
    SP_TRY(read_pre_tokenizer(r));
    SP_TRY(read_decoder(r));
    SP_TRY(read_model(r));
    SP_TRY(read_post_processor(r));
    return read_config(r, config);
}

sp_err sp_tokenizer_parse(const json_t *root, const json_t *config, const char *path,
                          sp_tokenizer **out)
{
    reader r = {.path = path,
                .root = root,
                .spec = {.path = path, .bos = -1, .eos = -1, .eot = -1, .unk = -1}};
    sp_arena_init(&r.arena);
    sp_err err = read_all(&r, config);
    if (err == SP_OK) err = sp_tokenizer_create(&r.spec, out);
    sp_arena_fini(&r.arena);
    return err;
}

sp_err sp_tokenizer_from_json(const char *dir, sp_tokenizer **out)
{
    json_t *root = NULL, *config = NULL;
    char *path = sp_path_join(dir, "tokenizer.json");
    if (!path) return sp_fail_nomem(strlen(dir) + 16, "a path");
    sp_err err = sp_json_read(dir, "tokenizer.json", &root);
    if (err == SP_OK && !root) err = sp_fail(SP_E_IO, "%s: no such file", path);
    if (err == SP_OK) err = sp_json_read(dir, "tokenizer_config.json", &config);
    if (err == SP_OK) err = sp_tokenizer_parse(root, config, path, out);
    json_decref(root);
    json_decref(config);
    sp_free(path);
    return err;
}
