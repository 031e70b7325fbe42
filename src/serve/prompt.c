#include "serve/prompt.h"

#include <string.h>

#include "serve/context_int.h"

sp_err sp_prompt_create(sp_context *c, sp_prompt **out)
{
    if (!c->prompts.known) SP_TRY(sp_known_create(SP_CUT_MAX_KNOWN, &c->prompts.known));
    sp_prompt *p = SP_NEW(sp_prompt);
    if (!p) return sp_fail_nomem(sizeof *p, "a prompt");
    p->space = &c->prompts;
    sp_arena_init(&p->arena);
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

/* A segment's text: pieces that are template (special tokens mean themselves) or people's words. */
typedef struct piece {
    const char *text;
    size_t n;
    bool is_template;
} piece;

static piece words(const char *text)
{
    return (piece){text, strlen(text), false};
}

static piece template(const char *text)
{
    return (piece){text, strlen(text), true};
}

static sp_err add_ids(sp_prompt *p, sp_segment_kind kind, const int32_t *ids, size_t n)
{
    if (n == 0) return SP_OK;
    if (n > INT32_MAX / 2 || p->n_tokens > INT32_MAX / 2)
        return sp_fail(SP_E_LIMIT, "a prompt of over %zu tokens", n);
    sp_segment seg = {.kind = kind, .n = (int32_t)n};
    int32_t *copy = sp_arena_take(&p->arena, n, sizeof *copy);
    if (!copy) return sp_fail_nomem(n * sizeof *copy, "a prompt");
    memcpy(copy, ids, n * sizeof *ids);
    seg.tokens = copy;
    SP_TRY(sp_segment_id(&p->space->space, p->space->salt, copy, seg.n, &seg.id));
    SP_TRY(sp_vec_reserve(&p->segs, 1));
    p->segs.v[p->segs.n++] = seg;
    p->n_tokens += seg.n;
    return SP_OK;
}

static sp_err add_pieces(sp_prompt *p, sp_segment_kind kind, const piece *pieces, size_t n)
{
    if (p->closed) return sp_fail(SP_E_ARG, "prompt: the question comes last");
    if (!p->space->tokenizer)
        return sp_fail(SP_E_ARG, "prompt: the model has no tokenizer for a text");
    sp_tokens ids = {0};
    sp_err err = SP_OK;
    for (size_t i = 0; i < n && err == SP_OK; i++) {
        unsigned flags = pieces[i].is_template ? SP_TOK_SPECIAL : 0;
        flags |= i == 0 && p->segs.n == 0 ? SP_TOK_BOS : SP_TOK_JOINED;
        if (pieces[i].n || (flags & SP_TOK_BOS))
            err =
                sp_tokenizer_encode(p->space->tokenizer, pieces[i].text, pieces[i].n, flags, &ids);
    }
    if (err == SP_OK) err = add_ids(p, kind, ids.v, ids.n);
    sp_vec_fini(&ids);
    return err;
}

sp_err sp_prompt_system(sp_prompt *p, const char *text)
{
    if (p->segs.n) return sp_fail(SP_E_ARG, "prompt: the system text comes first");
    sp_chat_family f = p->space->chat;
    piece pieces[] = {
        template(sp_chat_before(f, SP_ROLE_SYSTEM, true, false)),
        words(text),
        template(sp_chat_after(f, SP_ROLE_SYSTEM)),
        template(sp_chat_before(f, SP_ROLE_USER, false, true)),
    };
    return add_pieces(p, SP_SEG_SYSTEM, pieces, SP_COUNT(pieces));
}

/* add_chunk -- from now on the text is known, and found in plain ones. */
static sp_err add_chunk(sp_prompt *p, const char *text, size_t n)
{
    SP_TRY(add_pieces(p, SP_SEG_CHUNK, &(piece){text, n, false}, 1));
    sp_known_add(p->space->known, text, n);
    return SP_OK;
}

sp_err sp_prompt_chunk(sp_prompt *p, const char *title, const char *text)
{
    sp_bytes s = {0};
    sp_err err = title && *title ? sp_bytes_addf(&s, "[%s]\n", title) : SP_OK;
    if (err == SP_OK) err = sp_bytes_addf(&s, "%s\n\n", text);
    if (err == SP_OK) err = add_chunk(p, s.v, s.n);
    sp_vec_fini(&s);
    return err;
}

sp_err sp_prompt_question(sp_prompt *p, const char *text)
{
    sp_bytes s = {0};
    sp_err err = sp_bytes_addf(&s, "Question: %s", text);
    if (err == SP_OK) err = sp_bytes_add(&s, "", 1);
    if (err == SP_OK) {
        sp_chat_family f = p->space->chat;
        piece pieces[] = {words(s.v), template(sp_chat_after(f, SP_ROLE_USER)),
                          template(sp_chat_open(f))};
        err = add_pieces(p, SP_SEG_QUESTION, pieces, SP_COUNT(pieces));
    }
    if (err == SP_OK) p->closed = true;
    sp_vec_fini(&s);
    return err;
}

sp_err sp_prompt_text(sp_prompt *p, const char *text, bool special)
{
    return add_pieces(p, SP_SEG_TEXT, &(piece){text, strlen(text), special}, 1);
}

/* add_cut -- a chunk never begins a prompt: BOS would make its tokens others than elsewhere. */
static sp_err add_cut(sp_prompt *p, const sp_cut_piece *c, bool special)
{
    if (!c->is_chunk) return add_pieces(p, SP_SEG_TEXT, &(piece){c->text, c->n, special}, 1);
    if (p->segs.n == 0) SP_TRY(sp_prompt_text(p, "", special));
    return add_chunk(p, c->text, c->n);
}

sp_err sp_prompt_message(sp_prompt *p, const char *text, const char *separator, bool special)
{
    sp_cut_list cut = {0};
    sp_err err = sp_cut(p->space->known, text, strlen(text), separator, &cut);
    if (err == SP_OK && cut.n == 0) err = sp_prompt_text(p, text, special);
    for (size_t i = 0; i < cut.n && err == SP_OK; i++) err = add_cut(p, &cut.v[i], special);
    sp_vec_fini(&cut);
    return err;
}

sp_err sp_prompt_tokens(sp_prompt *p, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= p->space->n_vocab)
            return sp_fail(SP_E_ARG, "token %zu: id %d is not in the vocabulary of %d", i, ids[i],
                           p->space->n_vocab);
    return add_ids(p, SP_SEG_TEXT, ids, n);
}

int sp_prompt_n_tokens(const sp_prompt *p)
{
    return p->n_tokens;
}

int sp_prompt_n_segments(const sp_prompt *p)
{
    return (int)p->segs.n;
}
