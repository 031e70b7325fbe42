/* tokenizer_json.c -- reads tokenizer.json, as the Hugging Face `tokenizers` library writes it.
 *
 * Such a file describes a pipeline of small steps: normalizer, pre_tokenizer, model,
 * post_processor, decoder. Pipelines are recognised, not executed: the table lists those of the
 * model families that the algorithms of this folder cover; any other is refused with the name
 * of the field.
 *
 *   normalizer          pre_tokenizer                       algorithm
 *   null | NFC          [Split | Digits | Punctuation ..., ByteLevel]   byte-level, by pre_table.c
 *   [Prepend, Replace]  null                                SentencePiece, a dummy space for each
 *   piece
 *   Replace             null                                SentencePiece, no dummy space
 *   null                Metaspace                           SentencePiece, by its prepend_scheme
 *   Precompiled ...     [WhitespaceSplit,] Metaspace        the same, mostly unigram
 *   BertNormalizer      BertPreTokenizer                    WordPiece
 *
 * Deliberate differences from the library: NFC is not applied (bytes stay unchanged, as in
 * llama.cpp; text in composed form, which nearly all is, gives the same tokens); `normalized` of
 * added tokens is ignored (they are found in the text as given).
 */
#include "model/tokenizer/tokenizer_json_int.h"

#include <math.h>
#include <string.h>

#include "model/json_file.h"

#define GENERATION "generation_config.json" /* a file, and its object in that of tokenizer_config.json */

/* -- vocabulary ------------------------------------------------------------------------------ */

/* Ids may have gaps, but an id far above the number of tokens means a damaged file. */
static sp_err check_id(const sp_tj_reader *r, const char *field, const json_t *id, size_t n_listed,
                       size_t *out)
{
    json_int_t value = json_integer_value(id);
    if (!json_is_integer(id) || value < 0)
        return sp_tj_malformed(r, field, "an id is not a natural number");
    if ((uint64_t)value > 2 * (uint64_t)n_listed + 65536)
        return sp_fail(SP_E_FORMAT, "%s: %s: id %lld in a vocabulary of %zu tokens", r->path, field,
                       (long long)value, n_listed);
    *out = (size_t)value;
    return SP_OK;
}

static sp_err put_token(sp_tj_reader *r, const char *field, size_t id, const char *text,
                        int32_t type)
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

static sp_err size_vocab(sp_tj_reader *r, json_t *vocab, const json_t *added)
{
    size_t listed = json_object_size(vocab) + json_array_size(vocab) + json_array_size(added);
    size_t id, i;
    const char *text;
    r->spec.n_tokens = json_array_size(vocab);
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
        return sp_fail_nomem("a vocabulary");
    r->spec.tokens = r->tokens;
    r->spec.types = r->types;
    return SP_OK;
}

static sp_err read_added(sp_tj_reader *r, const json_t *added)
{
    static const char *const flags[] = {"lstrip", "rstrip", "single_word"};
    size_t i;
    json_t *token;
    json_array_foreach(added, i, token)
    {
        const char *text = json_string_value(json_object_get(token, "content"));
        bool special, flag;
        if (!text) return sp_tj_malformed(r, "added_tokens.content", "is not a string");
        SP_TRY(sp_tj_bool(r, token, "special", "added_tokens.special", false, &special));
        for (size_t k = 0; k < SP_COUNT(flags); k++) {
            SP_TRY(sp_tj_bool(r, token, flags[k], "added_tokens", false, &flag));
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

/* put_ids -- BPE: {text: id}. */
static sp_err put_ids(sp_tj_reader *r, json_t *vocab)
{
    const char *text;
    json_t *id;
    json_object_foreach(vocab, text, id)
    {
        bool byte = r->spec.spm && r->byte_fallback && is_byte_text(text);
        SP_TRY(put_token(r, "model.vocab", (size_t)json_integer_value(id), text,
                         byte ? SP_TOKEN_BYTE : SP_TOKEN_NORMAL));
    }
    return SP_OK;
}

/* put_scores -- unigram: [[text, score], ...]; the id of a token is its index. An unknown character counts 10 less
 * than the worst token (source: SentencePiece and the library). */
static sp_err put_scores(sp_tj_reader *r, const json_t *vocab)
{
    double *scores = sp_arena_take(&r->arena, r->spec.n_tokens, sizeof *scores), least = INFINITY;
    json_t *item;
    size_t i;
    if (!scores) return sp_fail_nomem("token scores");
    memset(scores, 0, r->spec.n_tokens * sizeof *scores);
    json_array_foreach(vocab, i, item)
    {
        const char *text = json_string_value(json_array_get(item, 0));
        const json_t *score = json_array_get(item, 1);
        if (!text || !json_is_number(score) || json_array_size(item) != 2)
            return sp_tj_malformed(r, "model.vocab", "an element is not [\"token\", score]");
        bool byte = r->byte_fallback && is_byte_text(text);
        SP_TRY(put_token(r, "model.vocab", i, text, byte ? SP_TOKEN_BYTE : SP_TOKEN_NORMAL));
        scores[i] = json_number_value(score);
        least = SP_MIN(least, scores[i]);
    }
    r->spec.scores = scores;
    r->spec.unk_score = i ? least - 10 : 0;
    return SP_OK;
}

static sp_err read_vocab(sp_tj_reader *r, const json_t *model)
{
    json_t *vocab = json_object_get(model, "vocab"),
           *added = json_object_get(r->root, "added_tokens");
    if (r->spec.unigram ? !json_is_array(vocab) : !json_is_object(vocab))
        return sp_tj_malformed(r, "model.vocab",
                               r->spec.unigram ? "is not an array" : "is not an object");
    if (!sp_tj_absent(added) && !json_is_array(added))
        return sp_tj_malformed(r, "added_tokens", "is not an array");
    SP_TRY(size_vocab(r, vocab, added));
    SP_TRY(r->spec.unigram ? put_scores(r, vocab) : put_ids(r, vocab));
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
static sp_err join_pair(sp_tj_reader *r, const json_t *pair, sp_text_view *out)
{
    const char *a = json_string_value(json_array_get(pair, 0));
    const char *b = json_string_value(json_array_get(pair, 1));
    if (!a || !b || json_array_size(pair) != 2)
        return sp_tj_malformed(r, "model.merges",
                               "an element is neither \"a b\" nor [\"a\", \"b\"]");
    if (strchr(a, ' ') || strchr(b, ' '))
        return sp_fail(SP_E_UNSUPPORTED, "%s: model.merges: a token contains a space", r->path);
    size_t n = strlen(a), m = strlen(b);
    char *joined = sp_arena_take(&r->arena, n + 1 + m, 1);
    if (!joined) return sp_fail_nomem("merges");
    memcpy(joined, a, n);
    joined[n] = ' ';
    memcpy(joined + n + 1, b, m);
    *out = (sp_text_view){joined, n + 1 + m};
    return SP_OK;
}

static sp_err read_merges(sp_tj_reader *r, const json_t *model)
{
    json_t *merges = json_object_get(model, "merges"), *m;
    size_t i;
    if (!json_is_array(merges)) return sp_tj_malformed(r, "model.merges", "is not an array");
    sp_text_view *list = sp_arena_take(&r->arena, json_array_size(merges), sizeof *list);
    if (!list) return sp_fail_nomem("merges");
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
static int32_t find_token(const sp_tj_reader *r, const char *text)
{
    size_t n = text ? strlen(text) : 0;
    for (size_t i = 0; n && i < r->spec.n_tokens; i++)
        if (r->tokens[i].n == n && memcmp(r->tokens[i].s, text, n) == 0) return (int32_t)i;
    return -1;
}

/* read_unigram -- of the library's Unigram; unknown characters that follow each other are one. */
static sp_err read_unigram(sp_tj_reader *r, const json_t *model)
{
    const json_t *unk = json_object_get(model, "unk_id");
    if (!r->spec.spm) return sp_tj_unsupported(r, "model.type", model);
    r->spec.unigram = r->spec.words.fuse_unk = true;
    SP_TRY(sp_tj_bool(r, model, "byte_fallback", "model.byte_fallback", false, &r->byte_fallback));
    SP_TRY(read_vocab(r, model));
    if (sp_tj_absent(unk)) return SP_OK;
    if (!json_is_integer(unk) || json_integer_value(unk) < 0 ||
        (size_t)json_integer_value(unk) >= r->spec.n_tokens)
        return sp_tj_malformed(r, "model.unk_id", "is not one of the tokens");
    r->spec.marks.unk = (int32_t)json_integer_value(unk);
    if (r->types[r->spec.marks.unk] == SP_TOKEN_NORMAL) r->types[r->spec.marks.unk] = SP_TOKEN_UNKNOWN;
    return SP_OK;
}

static sp_err read_unknown(sp_tj_reader *r, const json_t *unk)
{
    if (sp_tj_absent(unk)) return SP_OK;
    r->spec.marks.unk = find_token(r, json_string_value(unk));
    if (r->spec.marks.unk < 0) return sp_tj_malformed(r, "model.unk_token", "is not in the vocabulary");
    if (r->types[r->spec.marks.unk] == SP_TOKEN_NORMAL) r->types[r->spec.marks.unk] = SP_TOKEN_UNKNOWN;
    return SP_OK;
}

static sp_err read_wordpiece(sp_tj_reader *r, const json_t *model)
{
    const json_t *most = json_object_get(model, "max_input_chars_per_word");
    const json_t *affix = json_object_get(model, "continuing_subword_prefix");
    if (!sp_tj_absent(affix) && !sp_tj_text_is(model, "continuing_subword_prefix", "##"))
        return sp_tj_unsupported(r, "model.continuing_subword_prefix", affix);
    if (!sp_tj_absent(most)) {
        const json_int_t n = json_integer_value(most);
        if (n < 1 || n > 1 << 20)
            return sp_tj_malformed(r, "model.max_input_chars_per_word", "is not a number from 1 to 2^20");
        r->spec.wordpiece.max_chars = (int)n;
    }
    SP_TRY(read_vocab(r, model));
    SP_TRY(read_unknown(r, json_object_get(model, "unk_token")));
    return r->spec.marks.unk < 0 ? sp_tj_malformed(r, "model.unk_token", "is missing") : SP_OK;
}

static sp_err read_model(sp_tj_reader *r)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const json_t *model = json_object_get(r->root, "model");
    const json_t *dropout = json_object_get(model, "dropout"),
                 *unk = json_object_get(model, "unk_token");
    if (!json_is_object(model)) return sp_tj_malformed(r, "model", "is missing");
    if (sp_tj_type_is(model, "Unigram")) return read_unigram(r, model);
    if (r->spec.wordpiece.on) return read_wordpiece(r, model);
    if (!sp_tj_absent(json_object_get(model, "type")) && !sp_tj_type_is(model, "BPE"))
        return sp_tj_unsupported(r, "model.type", model);
    if (!sp_tj_absent(dropout) && json_number_value(dropout) != 0)
        return sp_tj_unsupported(r, "model.dropout", dropout);
    for (size_t i = 0; i < SP_COUNT(affixes); i++) {
        const json_t *affix = json_object_get(model, affixes[i]);
        if (!sp_tj_absent(affix) && !sp_tj_text_is(model, affixes[i], ""))
            return sp_tj_unsupported(r, affixes[i], affix);
    }
    SP_TRY(sp_tj_bool(r, model, "byte_fallback", "model.byte_fallback", false, &r->byte_fallback));
    SP_TRY(sp_tj_bool(r, model, "ignore_merges", "model.ignore_merges", false,
                      &r->spec.ignore_merges));
    SP_TRY(sp_tj_bool(r, model, "fuse_unk", "model.fuse_unk", false, &r->spec.words.fuse_unk));
    if (!r->spec.spm && r->byte_fallback) return sp_tj_unsupported(r, "model.byte_fallback", NULL);
    if (r->spec.spm && r->spec.ignore_merges)
        return sp_tj_unsupported(r, "model.ignore_merges", NULL);
    SP_TRY(read_vocab(r, model));
    SP_TRY(read_merges(r, model));
    return read_unknown(r, unk);
}

/* -- BOS and EOS ----------------------------------------------------------------------------- */

/* TemplateProcessing: the token before the sequence and the one after it. */
static sp_err read_template(sp_tj_reader *r, const json_t *step)
{
    json_t *single = json_object_get(step, "single"), *item;
    size_t i;
    bool after = false;
    if (!json_is_array(single))
        return sp_tj_malformed(r, "post_processor.single", "is not an array");
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
            return sp_tj_malformed(r, "post_processor.single",
                                   "a special token is not in the vocabulary");
        if (after && !r->spec.marks.add_eos) {
            r->spec.marks.eos = id;
            r->spec.marks.add_eos = true;
        } else if (!after && i == 0) {
            r->spec.marks.bos = id;
            r->spec.marks.add_bos = true;
        } else {
            return sp_tj_unsupported(r, "post_processor.single", NULL);
        }
    }
    return SP_OK;
}

static sp_err read_post_processor(sp_tj_reader *r)
{
    const json_t *post = json_object_get(r->root, "post_processor");
    size_t n = sp_tj_step_count(post, "processors");
    for (size_t i = 0; i < n; i++) {
        const json_t *step = sp_tj_step_at(post, "processors", i);
        if (sp_tj_type_is(step, "TemplateProcessing"))
            SP_TRY(read_template(r, step));
        else if (!sp_tj_type_is(step, "ByteLevel"))
            return sp_tj_unsupported(r, "post_processor", step);
    }
    return SP_OK;
}

/* bos_token and eos_token of tokenizer_config.json: a text, {"content": text}, or null. */
static sp_err read_named(const sp_tj_reader *r, const json_t *config, const char *key, int32_t *id)
{
    const json_t *value = json_object_get(config, key);
    if (json_is_object(value)) value = json_object_get(value, "content");
    if (sp_tj_absent(value)) return SP_OK;
    int32_t found = find_token(r, json_string_value(value));
    if (found < 0)
        return sp_fail(SP_E_FORMAT, "%s: %s of tokenizer_config.json is not in the vocabulary",
                       r->path, key);
    *id = found;
    return SP_OK;
}

/* read_ends -- eos_token_id of generation_config.json: an id or a list of them; those of no token are ignored. */
static sp_err read_ends(sp_tj_reader *r, const json_t *generation)
{
    const json_t *ids = json_object_get(generation, "eos_token_id");
    const size_t n = json_is_array(ids) ? json_array_size(ids) : json_is_integer(ids);
    if (n > SP_MAX_ENDS)
        return sp_fail(SP_E_LIMIT, "%s: eos_token_id of generation_config.json: %zu ids, at most %d", r->path, n,
                       SP_MAX_ENDS);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(ids) ? json_array_get(ids, i) : ids;
        const json_int_t id = json_is_integer(one) ? json_integer_value(one) : -1;
        if (id >= 0 && id < (json_int_t)r->spec.n_tokens) r->spec.marks.ends[r->spec.marks.n_ends++] = (int32_t)id;
    }
    return SP_OK;
}

static sp_err read_config(sp_tj_reader *r, const json_t *config)
{
    if (!config) return SP_OK;
    SP_TRY(read_ends(r, json_object_get(config, GENERATION)));
    if (r->spec.marks.bos < 0) SP_TRY(read_named(r, config, "bos_token", &r->spec.marks.bos));
    SP_TRY(read_named(r, config, "eos_token", &r->spec.marks.eos));
    SP_TRY(sp_tj_bool(r, config, "add_bos_token", "add_bos_token of tokenizer_config.json",
                      r->spec.marks.add_bos, &r->spec.marks.add_bos));
    return sp_tj_bool(r, config, "add_eos_token", "add_eos_token of tokenizer_config.json",
                      r->spec.marks.add_eos, &r->spec.marks.add_eos);
}

/* -- all fields ------------------------------------------------------------------------------ */

static sp_err read_all(sp_tj_reader *r, const json_t *config)
{
    SP_TRY(sp_tj_normalizer(r));
    SP_TRY(sp_tj_pre_tokenizer(r));
    SP_TRY(sp_tj_decoder(r));
    SP_TRY(read_model(r));
    SP_TRY(read_post_processor(r));
    return read_config(r, config);
}

sp_err sp_tokenizer_parse(const json_t *root, const json_t *config, const char *path,
                          sp_tokenizer **out)
{
    sp_tj_reader r = {.path = path,
                      .root = root,
                      .spec = {.path = path, .marks = {.bos = -1, .eos = -1, .eot = -1, .unk = -1}}};
    sp_arena_init(&r.arena);
    sp_err err = read_all(&r, config);
    if (err == SP_OK) err = sp_tokenizer_create(&r.spec, out);
    sp_arena_fini(&r.arena);
    return err;
}

sp_err sp_tokenizer_from_json(const char *dir, sp_tokenizer **out)
{
    json_t *root = NULL, *config = NULL, *generation = NULL;
    char *path = sp_path_join(dir, "tokenizer.json");
    if (!path) return sp_fail_nomem("a path");
    sp_err err = sp_json_read(dir, "tokenizer.json", &root);
    if (err == SP_OK && !root) err = sp_fail(SP_E_IO, "%s: no such file", path);
    if (err == SP_OK) err = sp_json_read(dir, "tokenizer_config.json", &config);
    if (err == SP_OK) err = sp_json_read(dir, GENERATION, &generation);
    if (generation && !config) config = json_object();
    if (generation) json_object_set(config, GENERATION, generation);
    if (err == SP_OK) err = sp_tokenizer_parse(root, config, path, out);
    json_decref(root);
    json_decref(config);
    json_decref(generation);
    sp_free(path);
    return err;
}
