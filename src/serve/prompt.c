#include "serve/prompt.h"

#include <string.h>

#include "serve/context_int.h"

sp_err sp_prompt_create(sp_context *c, sp_prompt **out)
{
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
    bool is_template;
} piece;

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
        size_t len = strlen(pieces[i].text);
        if (len || (flags & SP_TOK_BOS))
            err = sp_tokenizer_encode(p->space->tokenizer, pieces[i].text, len, flags, &ids);
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
        {sp_chat_before(f, SP_ROLE_SYSTEM, true, false), true},
        {text, false},
        {sp_chat_after(f, SP_ROLE_SYSTEM), true},
        {sp_chat_before(f, SP_ROLE_USER, false, true), true},
    };
    return add_pieces(p, SP_SEG_SYSTEM, pieces, SP_COUNT(pieces));
}

sp_err sp_prompt_chunk(sp_prompt *p, const char *title, const char *text)
{
    sp_bytes s = {0};
    sp_err err = title && *title ? sp_bytes_addf(&s, "[%s]\n", title) : SP_OK;
    if (err == SP_OK) err = sp_bytes_addf(&s, "%s\n\n", text);
    if (err == SP_OK) err = sp_bytes_add(&s, "", 1);
    if (err == SP_OK) err = add_pieces(p, SP_SEG_CHUNK, &(piece){s.v, false}, 1);
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
        piece pieces[] = {
            {s.v, false}, {sp_chat_after(f, SP_ROLE_USER), true}, {sp_chat_open(f), true}};
        err = add_pieces(p, SP_SEG_QUESTION, pieces, SP_COUNT(pieces));
    }
    if (err == SP_OK) p->closed = true;
    sp_vec_fini(&s);
    return err;
}

sp_err sp_prompt_text(sp_prompt *p, const char *text, bool special)
{
    return add_pieces(p, SP_SEG_TEXT, &(piece){text, special}, 1);
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
