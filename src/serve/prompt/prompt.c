#include "serve/prompt/prompt.h"

#include <string.h>

#include "base/need.h"

sp_err sp_prompt_create(sp_context *c, sp_prompt **out)
{
    SP_NEED(c);
    SP_NEED(out);
    return sp_prompt_create_for(c, sp_context_prompts(c)->salt, out);
}

sp_err sp_prompt_create_for(sp_context *c, const char *salt, sp_prompt **out)
{
    SP_NEED(c);
    SP_NEED(out);
    sp_prompt *p = SP_NEW(sp_prompt);
    if (!p) return sp_fail_nomem("a prompt");
    p->space = sp_context_prompts(c);
    p->tenant = sp_known_tenant(salt);
    sp_arena_init(&p->arena);
    size_t n = salt ? strlen(salt) + 1 : 0;
    char *copy = n ? sp_arena_take(&p->arena, n, 1) : NULL;
    if (n && !copy) {
        sp_prompt_destroy(p);
        return sp_fail_nomem("the salt of a prompt");
    }
    if (n) memcpy(copy, salt, n);
    p->salt = copy;
    *out = p;
    return SP_OK;
}

void sp_prompt_destroy(sp_prompt *p)
{
    if (!p) return;
    sp_vec_fini(&p->segs);
    sp_arena_fini(&p->arena);
    sp_free(p);
}

/* -- segments ------------------------------------------------------------------------------- */

static sp_segment *last_of(sp_prompt *p)
{
    return &p->segs.v[p->segs.n - 1];
}

static sp_err check_room(const sp_prompt *p, size_t n)
{
    if (p->segs.n >= SP_PROMPT_MAX_SEGMENTS)
        return sp_fail(SP_E_LIMIT, "a prompt of over %d segments", SP_PROMPT_MAX_SEGMENTS);
    if (n > INT32_MAX / 2 || p->n_tokens > INT32_MAX / 2)
        return sp_fail(SP_E_LIMIT, "a prompt of over %zu tokens", n);
    return SP_OK;
}

/* renamed -- the id in another namespace. */
static sp_err renamed(const sp_prompt *p, sp_segment *seg)
{
    const sp_digest space = seg->id;
    return sp_segment_id(&space, p->salt, seg->tokens, seg->n, &seg->id);
}

/* node_id -- short nodes have a namespace of their own, and nodes that move. */
static sp_err node_id(const sp_prompt *p, sp_segment *seg)
{
    if (sp_segment_joins(seg)) SP_TRY(renamed(p, seg));
    return seg->origin ? renamed(p, seg) : SP_OK;
}

sp_err sp_prompt_push(sp_prompt *p, sp_segment seg, const int32_t *ids, size_t n)
{
    SP_TRY(check_room(p, n));
    seg.n = (int32_t)n;
    seg.tenant = p->tenant;
    int32_t *copy = sp_arena_take(&p->arena, n, sizeof *copy);
    if (!copy) return sp_fail_nomem("a prompt");
    memcpy(copy, ids, n * sizeof *ids);
    seg.tokens = copy;
    SP_TRY(sp_segment_id(&p->space->space, p->salt, copy, seg.n, &seg.id));
    SP_TRY(node_id(p, &seg));
    SP_TRY(sp_vec_reserve(&p->segs, 1));
    p->segs.v[p->segs.n++] = seg;
    p->n_tokens += seg.n;
    if (seg.place) p->end = SP_MAX(p->end, seg.place - 1 + seg.n);
    return SP_OK;
}

/* add_segment -- after trees a segment sees all of them. */
static sp_err add_segment(sp_prompt *p, sp_segment_kind kind, const int32_t *ids, size_t n)
{
    sp_segment seg = {.kind = kind};
    if (n == 0) return SP_OK;
    if (p->n_base) {
        seg.parent = SP_PARENT_ALL;
        seg.place = 1 + p->end;
    }
    return sp_prompt_push(p, seg, ids, n);
}

/* extend_last -- appends tokens to the last segment, which becomes one of `kind`. */
static sp_err extend_last(sp_prompt *p, sp_segment_kind kind, const int32_t *ids, size_t n)
{
    SP_TRY(check_room(p, n));
    sp_segment seg = *last_of(p);
    size_t n_old = (size_t)seg.n;
    int32_t *tokens = sp_arena_take(&p->arena, n_old + n, sizeof *tokens);
    if (!tokens) return sp_fail_nomem("a prompt");
    memcpy(tokens, seg.tokens, n_old * sizeof *tokens);
    if (n) memcpy(tokens + n_old, ids, n * sizeof *tokens);
    seg.kind = kind;
    seg.tokens = tokens;
    seg.n += (int32_t)n;
    SP_TRY(sp_segment_id(&p->space->space, p->salt, tokens, seg.n, &seg.id));
    *last_of(p) = seg;
    p->n_tokens += (int32_t)n;
    if (p->n_base) p->end += (int32_t)n;
    return SP_OK;
}

/* tokenize -- appends the ids of a text; the first text of a prompt begins with BOS if the model wants one. */
static sp_err tokenize(const sp_prompt *p, const char *text, size_t n, bool special, sp_tokens *ids)
{
    if (!p->space->tokenizer)
        return sp_fail(SP_E_ARG, "prompt: the model has no tokenizer for a text");
    unsigned flags = special ? SP_TOK_SPECIAL : 0;
    flags |= p->segs.n == 0 ? SP_TOK_BOS : SP_TOK_JOINED;
    if (n == 0 && p->segs.n) return SP_OK;
    return sp_tokenizer_encode(p->space->tokenizer, text, n, flags, ids);
}

sp_err sp_prompt_check_open(const sp_prompt *p)
{
    return p->closed ? sp_fail(SP_E_ARG, "prompt: the question comes last") : SP_OK;
}

/* kind_now -- the kind of a text in this turn. */
static sp_segment_kind kind_now(const sp_prompt *p)
{
    if (p->n_turns == 0 || p->role == SP_ROLE_ASSISTANT) return SP_SEG_TEXT;
    return p->role == SP_ROLE_SYSTEM ? SP_SEG_SYSTEM : SP_SEG_QUESTION;
}

/* add_text -- as `tail` says: into the last segment, or as a new one. */
static sp_err add_text(sp_prompt *p, const char *text, size_t n, bool special, bool extend)
{
    sp_tokens ids = {0};
    SP_TRY(sp_prompt_check_open(p));
    sp_err err = tokenize(p, text, n, special, &ids);
    if (err == SP_OK)
        err = extend ? extend_last(p, kind_now(p), ids.v, ids.n)
                     : add_segment(p, kind_now(p), ids.v, ids.n);
    sp_vec_fini(&ids);
    return err;
}

sp_err sp_prompt_start(sp_prompt *p)
{
    return p->segs.n ? SP_OK : add_text(p, "", 0, true, false);
}

sp_err sp_prompt_add_template(sp_prompt *p, const char *text, size_t n)
{
    size_t n_before = p->segs.n;
    bool extend = p->tail == SP_TAIL_TEMPLATE || p->tail == SP_TAIL_WORDS;
    if (extend && n == 0) return SP_OK;
    sp_segment_kind kind = extend ? last_of(p)->kind : kind_now(p);
    SP_TRY(add_text(p, text, n, true, extend));
    if (p->segs.n) last_of(p)->kind = extend ? kind : last_of(p)->kind;
    if (p->segs.n > n_before) p->tail = SP_TAIL_TEMPLATE;
    return SP_OK;
}

static sp_err add_template(sp_prompt *p, const char *text)
{
    return sp_prompt_add_template(p, text, strlen(text));
}

/* add_words -- adds what a person wrote. An earlier answer is a segment of its own, so that it is found again. Text
 * without tokens does not change the tail: there may be no segment, or the last one may be a chunk, which must not
 * grow. */
static sp_err add_words(sp_prompt *p, const char *text, size_t n, bool special)
{
    bool answer = p->n_turns && p->role == SP_ROLE_ASSISTANT;
    bool extend = p->tail == SP_TAIL_TEMPLATE && !answer;
    size_t n_before = p->segs.n;
    SP_TRY(add_text(p, text, n, special, extend));
    if (answer || !p->n_turns)
        p->tail = SP_TAIL_SEALED;
    else if (extend || p->segs.n > n_before)
        p->tail = SP_TAIL_WORDS;
    return SP_OK;
}

sp_err sp_prompt_add_words(sp_prompt *p, const char *text, size_t n, bool joins)
{
    if (!joins || p->tail != SP_TAIL_WORDS) return add_words(p, text, n, false);
    return add_text(p, text, n, false, true);
}

static const struct {
    const char *open, *close;
} tags[] = {{"<think>", "</think>"},
            {"<seed:think>", "</seed:think>"},
            {"[THINK]", "[/THINK]"},
            {"<|START_THINKING|>", "<|END_THINKING|>"}};

void sp_prompt_note_end(sp_prompt *p, const char *text, size_t n)
{
    p->thinks = false;
    while (n && (text[n - 1] == '\n' || text[n - 1] == ' ')) n--; /* white space after it does not count */
    for (size_t i = 0; i < SP_COUNT(tags); i++) {
        const size_t n_tag = strlen(tags[i].open);
        p->thinks |= n >= n_tag && memcmp(text + n - n_tag, tags[i].open, n_tag) == 0;
    }
}

/* after_last -- bytes after the last mark of a text; n + 1: it has none. */
static size_t after_last(const char *text, size_t n, const char *mark)
{
    const char *at = NULL, *from = text;
    const size_t n_mark = strlen(mark);
    while ((from = memmem(from, n - (size_t)(from - text), mark, n_mark))) at = from += n_mark;
    return at ? n - (size_t)(at - text) : n + 1;
}

void sp_prompt_note_begun(sp_prompt *p, const char *text, size_t n)
{
    p->thinks = false;
    for (size_t i = 0; i < SP_COUNT(tags); i++)
        p->thinks |= after_last(text, n, tags[i].open) < after_last(text, n, tags[i].close);
}

/* -- texts and chunks ----------------------------------------------------------------------- */

sp_err sp_prompt_text(sp_prompt *p, const char *text, bool special)
{
    SP_NEED(p);
    SP_NEED(text);
    if (special) sp_prompt_note_end(p, text, strlen(text));
    return add_words(p, text, strlen(text), special);
}

/* add_chunk -- from now on the text is known, and found in plain ones. A chunk never begins a prompt: BOS would give
 * it other tokens than it has elsewhere. */
static sp_err add_chunk(sp_prompt *p, const char *text, size_t n)
{
    SP_TRY(sp_prompt_check_open(p));
    SP_TRY(sp_prompt_start(p));
    sp_tokens ids = {0};
    unsigned flags = p->segs.n ? SP_TOK_JOINED : 0;
    sp_err err = p->space->tokenizer
                     ? sp_tokenizer_encode(p->space->tokenizer, text, n, flags, &ids)
                     : sp_fail(SP_E_ARG, "prompt: the model has no tokenizer for a text");
    if (err == SP_OK) err = add_segment(p, SP_SEG_CHUNK, ids.v, ids.n);
    sp_vec_fini(&ids);
    if (err != SP_OK) return err;
    p->tail = SP_TAIL_SEALED;
    sp_known_add(p->space->known, p->tenant, text, n);
    return SP_OK;
}

sp_err sp_chunk_form(const char *title, const char *text, sp_bytes *out)
{
    if (title && *title) SP_TRY(sp_bytes_addf(out, "[%s]\n", title));
    return sp_bytes_addf(out, "%s\n\n", text);
}

sp_err sp_prompt_piece(sp_prompt *p, const char *text, size_t n)
{
    return add_chunk(p, text, n);
}

sp_err sp_prompt_chunk(sp_prompt *p, const char *title, const char *text)
{
    SP_NEED(p);
    SP_NEED(text);
    sp_bytes s = {0};
    sp_err err = sp_chunk_form(title, text, &s);
    if (err == SP_OK) err = add_chunk(p, s.v, s.n);
    sp_vec_fini(&s);
    const sp_chunk_watch *w = &p->space->watch;
    return err == SP_OK && w->added ? w->added(w->user, p, title, text) : err;
}

/* learn_repeats -- learns from text that is not a chunk yet; returns whether there is something to cut now. */
static bool learn_repeats(const sp_prompt *p, const sp_cut_list *cut)
{
    int n = 0;
    for (size_t i = 0; i < cut->n; i++)
        if (!cut->v[i].is_chunk)
            n += sp_repeats_learn(p->space->repeats, p->space->known, p->tenant, cut->v[i].text,
                                  cut->v[i].n);
    return n > 0;
}

static sp_err add_cut(sp_prompt *p, const char *text, size_t n, const char *separator, bool special)
{
    sp_cut_list cut = {0};
    sp_known *known = p->find == SP_FIND_NONE ? NULL : p->space->known;
    sp_err err = sp_cut(known, p->tenant, text, n, separator, &cut);
    if (err == SP_OK && p->find == SP_FIND_REPEATS && learn_repeats(p, &cut)) {
        cut.n = 0;
        err = sp_cut(known, p->tenant, text, n, separator, &cut);
    }
    if (err == SP_OK && cut.n == 0) err = add_words(p, text, n, special);
    for (size_t i = 0; i < cut.n && err == SP_OK; i++) {
        const sp_cut_piece *c = &cut.v[i];
        err = c->is_chunk ? add_chunk(p, c->text, c->n) : add_words(p, c->text, c->n, special);
    }
    sp_vec_fini(&cut);
    return err;
}

sp_err sp_prompt_cut(sp_prompt *p, const char *text, const char *separator, bool special)
{
    SP_NEED(p);
    SP_NEED(text);
    if (special) sp_prompt_note_end(p, text, strlen(text));
    return add_cut(p, text, strlen(text), separator, special);
}

sp_err sp_prompt_add_cut(sp_prompt *p, const char *text, size_t n)
{
    return add_cut(p, text, n, NULL, false);
}

sp_err sp_prompt_find_chunks(sp_prompt *p, sp_chunk_find find)
{
    SP_NEED(p);
    if (find < SP_FIND_KNOWN || find > SP_FIND_NONE)
        return sp_fail(SP_E_ARG, "prompt: unknown way %d to find chunks", (int)find);
    p->find = find;
    return SP_OK;
}

sp_err sp_prompt_tokens(sp_prompt *p, const int32_t *ids, size_t n)
{
    SP_NEED(p);
    if (!ids && n) return sp_fail(SP_E_ARG, "prompt: token ids are NULL");
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= p->space->n_vocab)
            return sp_fail(SP_E_ARG, "token %zu: id %d is not in the vocabulary of %d", i, ids[i],
                           p->space->n_vocab);
    p->tail = SP_TAIL_SEALED;
    return add_segment(p, SP_SEG_TEXT, ids, n);
}

/* -- turns ---------------------------------------------------------------------------------- */

sp_err sp_prompt_begin(sp_prompt *p, sp_role role)
{
    SP_NEED(p);
    if (role < SP_ROLE_SYSTEM || role > SP_ROLE_TOOL)
        return sp_fail(SP_E_ARG, "prompt: role %d is unknown", (int)role);
    if (p->in_turn) return sp_fail(SP_E_ARG, "prompt: a turn begins before the last one has ended");
    SP_TRY(sp_prompt_check_open(p));
    if (role == SP_ROLE_SYSTEM && p->segs.n)
        return sp_fail(SP_E_ARG, "prompt: the system text comes first");
    const char *before = sp_chat_before(p->space->chat, role, p->n_turns == 0,
                                        p->n_turns > 0 && p->role == SP_ROLE_SYSTEM);
    p->role = role;
    p->n_turns++;
    p->in_turn = true;
    return add_template(p, before);
}

sp_err sp_prompt_end(sp_prompt *p)
{
    SP_NEED(p);
    if (!p->in_turn) return sp_fail(SP_E_ARG, "prompt: no turn has begun");
    p->in_turn = false;
    return add_template(p, sp_chat_after(p->space->chat, p->role));
}

sp_err sp_prompt_answer(sp_prompt *p)
{
    SP_NEED(p);
    if (p->in_turn) SP_TRY(sp_prompt_end(p));
    SP_TRY(add_template(p, sp_chat_open(p->space->chat)));
    p->closed = true;
    return SP_OK;
}

sp_err sp_prompt_continue(sp_prompt *p, const char *text)
{
    SP_NEED(p);
    SP_NEED(text);
    if (p->in_turn) SP_TRY(sp_prompt_end(p));
    SP_TRY(sp_prompt_begin(p, SP_ROLE_ASSISTANT));
    SP_TRY(sp_prompt_add_begun(p, text, strlen(text)));
    sp_prompt_note_begun(p, text, strlen(text));
    p->in_turn = false;
    p->closed = true;
    return SP_OK;
}

sp_err sp_prompt_message(sp_prompt *p, sp_role role, const char *text)
{
    SP_NEED(p);
    SP_NEED(text);
    SP_TRY(sp_prompt_begin(p, role));
    if (role == SP_ROLE_USER || role == SP_ROLE_TOOL)
        SP_TRY(sp_prompt_cut(p, text, NULL, false));
    else
        SP_TRY(sp_prompt_text(p, text, false));
    return sp_prompt_end(p);
}

/* -- a question over documents -------------------------------------------------------------- */

sp_err sp_prompt_system(sp_prompt *p, const char *text)
{
    SP_NEED(p);
    SP_NEED(text);
    SP_TRY(sp_prompt_message(p, SP_ROLE_SYSTEM, text));
    return sp_prompt_begin(p, SP_ROLE_USER);
}

sp_err sp_prompt_question(sp_prompt *p, const char *text)
{
    SP_NEED(p);
    SP_NEED(text);
    sp_bytes s = {0};
    SP_TRY(sp_prompt_check_open(p));
    if (!p->in_turn) SP_TRY(sp_prompt_begin(p, SP_ROLE_USER));
    sp_err err = sp_bytes_addf(&s, "Question: %s", text);
    if (err == SP_OK) err = add_words(p, s.v, s.n, false);
    sp_vec_fini(&s);
    return err == SP_OK ? sp_prompt_answer(p) : err;
}

int sp_prompt_n_tokens(const sp_prompt *p)
{
    return p ? p->n_tokens : 0;
}

int sp_prompt_n_segments(const sp_prompt *p)
{
    return p ? (int)p->segs.n : 0;
}
