/* rank.c -- see rank.h. Without a cross-encoder a document's score is the mean probability of a token of the question:
 *
 *   system text | document | "Write a question that the document answers." | question
 *   known, if the document was read before at this place                     scored
 *
 * The geometric mean over the question's tokens, so long questions do not score less; the order within one question
 * is that of its likelihood. Source: Sachan et al. 2022, "Improving Passage Retrieval with Zero-Shot Question
 * Generation" (UPR). */
#include "server/api/rank.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "server/api/messages.h"
#include "server/documents/side.h"
#include "server/http/reply.h"

#define ASK_FOR_QUESTION "Write a question that the document answers."

enum { LOOK_MS = 100 /* between two checks that the client is still connected */ };

const char *srv_ranker_name(const srv_server *s)
{
    return s->o.models.reranker ? s->o.models.reranker_name : s->o.alias;
}

static bool fail(srv_ranking *r, srv_fields *f, sp_err err)
{
    r->err = err;
    r->status = srv_error_status(err, &r->code);
    srv_fields_refuse(f, err == SP_E_CONTEXT ? "documents" : "", "%s",
                      *sp_error_detail() ? sp_error_detail() : sp_error_text(err));
    return false;
}

/* -- by a cross-encoder ------------------------------------------------------------------------ */

static bool by_encoder(srv_call *call, srv_ranking *r, srv_fields *f, srv_side *side)
{
    sp_embed_opts o = srv_side_opts(side);
    o.document_tokens = r->document_tokens;
    int32_t *n_tokens = calloc(r->n + 1, sizeof *n_tokens);
    sp_err err = SP_E_NOMEM;
    if (n_tokens) err = sp_embedder_score(call->s->o.models.reranker, r->pairs, r->n, &o, r->scores, n_tokens);
    for (size_t i = 0; i < r->n && err == SP_OK; i++) r->n_tokens += n_tokens[i];
    free(n_tokens);
    return err == SP_OK || fail(r, f, err);
}

/* -- by the chat model ------------------------------------------------------------------------- */

/* One pair being computed. */
typedef struct running {
    sp_request *request; /* NULL: none */
    size_t pair, n_scored;
} running;

/* bytes_of -- of the first n tokens of a text; to the end of a character, at most all. */
static sp_err bytes_of(const sp_vocab *v, const int32_t *ids, size_t n, const char *text, size_t *out)
{
    size_t sum = 0;
    const size_t n_text = strlen(text);
    for (size_t i = 0; i < n; i++) {
        char *piece;
        size_t n_piece;
        const sp_err err = sp_vocab_piece(v, ids[i], &piece, &n_piece);
        if (err != SP_OK) return err;
        sp_buffer_free(piece);
        sum += n_piece;
    }
    sum = sum < n_text ? sum : n_text;
    while (sum && ((unsigned char)text[sum] & 0xC0) == 0x80) sum--;
    *out = sum;
    return SP_OK;
}

/* cut -- *out is a text of at most n_most tokens; the caller frees it. NULL: the text is that already. A piece may
 * have a blank that the text has not, and what is cut may have other tokens at its end: then it is cut again. */
static sp_err cut(const sp_vocab *v, const char *text, size_t n_most, char **out)
{
    sp_err err = SP_OK;
    *out = NULL;
    for (size_t keep = n_most, n_ids = n_most + 1; err == SP_OK && n_ids > n_most && keep > 0; keep--) {
        int32_t *ids = NULL;
        const char *now = *out ? *out : text;
        size_t n = 0;
        err = sp_vocab_encode(v, now, strlen(now), false, &ids, &n_ids);
        if (err == SP_OK && n_ids > n_most) err = bytes_of(v, ids, keep, now, &n);
        sp_buffer_free(ids);
        if (err != SP_OK || n_ids <= n_most) break;
        char *shorter = strndup(now, n);
        free(*out);
        *out = shorter;
        if (!shorter) err = SP_E_NOMEM;
    }
    return err;
}

static sp_err make_prompt(const srv_call *call, const srv_ranking *r, size_t i, sp_prompt **out)
{
    char *shorter = NULL;
    const char *document = r->pairs[i].document;
    sp_err err = srv_prompt_create(call, out);
    if (err == SP_OK) err = sp_prompt_system(*out, CLI_SYSTEM_TEXT);
    if (err == SP_OK && r->document_tokens)
        err = cut(call->s->vocab, document, (size_t)r->document_tokens, &shorter);
    if (err == SP_OK)
        err = sp_prompt_chunk(*out, r->titles ? r->titles[i] : NULL, shorter ? shorter : document);
    free(shorter);
    return err == SP_OK ? sp_prompt_question(*out, ASK_FOR_QUESTION) : err;
}

static sp_err begin(const srv_call *call, srv_ranking *r, size_t i, running *out)
{
    sp_prompt *p = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    sp_err err = sp_vocab_encode(call->s->vocab, r->pairs[i].query, r->pairs[i].n_query, false, &ids, &n);
    if (err == SP_OK) err = make_prompt(call, r, i, &p);
    *out = (running){.pair = i, .n_scored = n};
    const sp_request_opts o = {
        .scored = ids, .n_scored = (int)n, .tenant = call->salt ? call->salt : "", .background = true};
    if (err == SP_OK) err = sp_request_submit(call->s->ctx, p, &o, &out->request);
    sp_buffer_free(ids);
    sp_prompt_destroy(p);
    return err;
}

/* finish -- waits for a pair and destroys its request. */
static sp_err finish(srv_ranking *r, running *one, srv_side *side, srv_fields *f)
{
    while (!sp_request_wait(one->request, LOOK_MS * 1000))
        if (srv_side_left(side)) sp_request_cancel(one->request);
    const sp_result *res = sp_request_result(one->request);
    sp_err err = res->finish == SP_FINISH_CANCELED ? SP_E_CANCELED : res->err;
    r->scores[one->pair] = (float)exp(res->logprob / (double)one->n_scored);
    r->n_tokens += res->n_prompt + (int64_t)one->n_scored;
    r->n_reused += res->n_reused;
    if (res->finish == SP_FINISH_ERROR) srv_fields_refuse(f, "", "%s", res->detail);
    sp_request_destroy(one->request);
    one->request = NULL;
    return err;
}

/* At most n_parallel of them are in the queue, so that other clients' requests come between. */
static bool by_likelihood(srv_call *call, srv_ranking *r, srv_fields *f, srv_side *side)
{
    const size_t n_slots = (size_t)call->s->o.limits.n_parallel;
    running *slots = calloc(n_slots, sizeof *slots);
    sp_err err = slots ? SP_OK : SP_E_NOMEM;
    for (size_t i = 0; i < r->n + n_slots && slots; i++) {
        running *slot = &slots[i % n_slots];
        if (err == SP_OK && srv_side_left(side)) err = SP_E_CANCELED;
        if (slot->request) {
            if (err != SP_OK) sp_request_cancel(slot->request);
            const sp_err one = finish(r, slot, side, f);
            if (err == SP_OK) err = one;
        }
        if (i < r->n && err == SP_OK) err = begin(call, r, i, slot);
    }
    free(slots);
    return err == SP_OK || fail(r, f, err);
}

/* -- both -------------------------------------------------------------------------------------- */

bool srv_rank(srv_call *call, srv_ranking *r, srv_fields *f)
{
    srv_side *side = srv_side_begin(call);
    r->n_tokens = r->n_reused = 0;
    r->status = 503;
    r->err = SP_E_NOMEM;
    if (!side) return srv_fields_refuse(f, "", "out of memory"), false;
    const bool good = (call->s->o.models.reranker ? by_encoder : by_likelihood)(call, r, f, side);
    r->left = srv_side_left(side);
    srv_side_end(call, side);
    if (call->place->account)
        srv_quotas_answer(call->s->quotas, call->place->account, r->n_tokens, srv_now_us());
    return good;
}
