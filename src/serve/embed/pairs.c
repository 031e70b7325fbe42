/* pairs.c -- scores of pairs of texts by a cross-encoder:
 *
 *   [CLS] query [SEP] document [SEP]        types 0 0 0 1 1, where the model has types
 *
 * A pair that is too long loses tokens of its longer text, as with Hugging Face's "longest_first". */
#include "serve/embed/embed_int.h"

#include <string.h>

#include "base/need.h"

/* Shortens *a and *b, the tokens of two texts, to `most` together. */
static void shorten(size_t *a, size_t *b, size_t most)
{
    const bool swap = *a > *b;
    size_t less = swap ? *b : *a, more = SP_MIN(swap ? *a : *b, most > less ? SP_MAX(less, most - less) : less);
    if (less + more > most) {
        less = most / 2;
        more = most - less;
    }
    *a = swap ? more : less;
    *b = swap ? less : more;
}

static sp_err add_end(sp_embed_job *j, int32_t id, int n)
{
    SP_TRY(sp_vec_reserve(&j->ids, (size_t)n));
    while (n-- > 0) j->ids.v[j->ids.n++] = id;
    return SP_OK;
}

static sp_err add_pair(sp_embed_job *j, size_t i, const sp_pair *in)
{
    const sp_encoder *m = j->e->encoder;
    const sp_tokenizer *t = m->tokenizer;
    const size_t at = j->ids.n, n_special = 2 + (size_t)m->n_between;
    sp_tokens b = {0};
    SP_TRY(add_end(j, sp_tokenizer_bos(t), 1));
    SP_TRY(sp_tokenizer_encode(t, in->query, in->n_query, SP_TOK_SPECIAL, &j->ids));
    size_t n_a = j->ids.n - at - 1;
    sp_err err = sp_tokenizer_encode(t, in->document, in->n_document, SP_TOK_SPECIAL, &b);
    size_t n_b = j->o->document_tokens > 0 ? SP_MIN(b.n, (size_t)j->o->document_tokens) : b.n;
    const size_t most = (size_t)m->recipe.max_tokens - n_special;
    if (err == SP_OK && n_a + n_b > most && j->o->refuse_long) err = sp_embed_too_long(j, i, n_a + n_b + n_special);
    if (n_a + n_b > most) shorten(&n_a, &n_b, most);
    j->ids.n = at + 1 + n_a;
    if (err == SP_OK) err = add_end(j, sp_tokenizer_eos(t), m->n_between);
    j->texts[i].n_first = (int32_t)n_a + 2;
    if (err == SP_OK) err = sp_vec_reserve(&j->ids, n_b + 1);
    if (err == SP_OK) {
        if (n_b) memcpy(j->ids.v + j->ids.n, b.v, n_b * sizeof *b.v);
        j->ids.n += n_b;
        err = add_end(j, sp_tokenizer_eos(t), 1);
    }
    j->texts[i].n = (int32_t)(j->ids.n - at);
    sp_vec_fini(&b);
    return err;
}

static sp_err check(const sp_encoder *m)
{
    if (!m->head)
        return sp_fail(SP_E_UNSUPPORTED, "%s: an encoder for vectors, not a cross-encoder, which scores pairs",
                       m->path);
    if (!sp_tokenizer_adds_bos(m->tokenizer) || !sp_tokenizer_adds_eos(m->tokenizer))
        return sp_fail(SP_E_UNSUPPORTED, "%s: a tokenizer without first and last tokens does not separate pairs",
                       m->path);
    if (m->recipe.max_tokens < 4 + m->n_between)
        return sp_fail(SP_E_UNSUPPORTED, "%s: pairs of at most %d tokens", m->path, m->recipe.max_tokens);
    return SP_OK;
}

sp_err sp_embedder_score(sp_embedder *e, const sp_pair *pairs, size_t n, const sp_embed_opts *o, float *out,
                         int32_t *n_tokens)
{
    static const sp_embed_opts defaults;
    SP_NEED(e);
    if (n == 0) return SP_OK;
    SP_NEED(pairs);
    SP_NEED(out);
    SP_TRY(check(e->encoder));
    sp_embed_job j = {.e = e, .o = o ? o : &defaults};
    sp_err err = sp_embed_job_init(&j, n, out, 1);
    for (size_t i = 0; i < n && err == SP_OK; i++) err = add_pair(&j, i, &pairs[i]);
    if (err == SP_OK) err = sp_embed_job_run(&j, n_tokens);
    sp_embed_job_fini(&j);
    return err;
}
