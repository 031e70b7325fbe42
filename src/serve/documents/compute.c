/* compute.c -- computes copies of a document's chunks before a question arrives: a request for each chunk, with the
 * chunk alone after the head, or after the tenant's most similar chunks. */
#include <string.h>

#include "base/need.h"
#include "retrieve/index/texts.h"
#include "serve/documents/documents_int.h"
#include "serve/request/request.h"

typedef struct computing {
    sp_documents *d;
    const char *salt;
    const sp_documents_compute *o;
    sp_hits chunks;  /* of the document */
    sp_hits all;     /* of the tenant, when there is fusion */
    sp_index *index; /* over `all` */
    sp_documents_computed sum;
} computing;

static sp_err new_prompt(const computing *k, sp_prompt **out)
{
    sp_prompt *p;
    sp_context *c = k->d->ctx;
    SP_TRY(k->salt ? sp_prompt_create_for(c, k->salt, &p) : sp_prompt_create(c, &p));
    sp_err err = sp_prompt_system(p, k->o->system ? k->o->system : "");
    if (err == SP_OK)
        *out = p;
    else
        sp_prompt_destroy(p);
    return err;
}

static void count(computing *k, bool fresh)
{
    k->sum.n_computed += fresh;
    k->sum.n_known += !fresh;
}

/* -- plain copies ------------------------------------------------------------------------------ */

/* submit -- a request that keeps a plain copy of the prompt's last segment, which is the chunk. given: the fields of a
 * request that are the caller's. */
static sp_err submit(sp_context *c, const sp_prompt *p, const sp_request_opts *given, sp_request **out)
{
    static const sp_reuse_opts full = {.policy = "full", .unfused = true};
    sp_request_opts o = *given;
    o.reuse = &full;
    o.sampling = sp_sampling_default();
    return sp_request_submit(c, p, &o, out);
}

/* finish -- runs the request and destroys it. */
static sp_err finish(sp_context *c, sp_request *r, sp_collection_computed *out)
{
    *out = (sp_collection_computed){0};
    SP_TRY(sp_request_run(c, &r));
    const sp_result *result = sp_request_result(r);
    sp_err err = SP_OK;
    if (result->finish == SP_FINISH_ERROR)
        err = sp_fail(result->err, "%s", result->detail);
    else if (result->finish == SP_FINISH_CANCELED)
        err = sp_fail(SP_E_CANCELED, "the copy of a passage");
    else if (result->n_segments)
        *out = (sp_collection_computed){.fresh = !*result->segments[result->n_segments - 1].from,
                                        .n_tokens = result->segments[result->n_segments - 1].n_tokens};
    sp_request_destroy(r);
    return err;
}

/* has_all -- SP_E_NOTFOUND if a chunk of the prompt is no longer registered. */
static sp_err has_all(sp_documents *d, const sp_prompt *p)
{
    bool has = true;
    for (size_t i = 0; i < p->segs.n && has; i++)
        if (p->segs.v[i].kind == SP_SEG_CHUNK) SP_TRY(sp_shelf_has(d->shelf, &p->segs.v[i].id, &has));
    return has ? SP_OK : sp_fail(SP_E_NOTFOUND, "the passage's document is deleted");
}

/* begin_reading -- of the prompt's chunks, which were read earlier. A deletion since then does not wait for the
 * request of this prompt: SP_E_NOTFOUND, and nothing has begun. A later one waits for the reading. */
static sp_err begin_reading(sp_documents *d, const char *salt, const sp_prompt *p, sp_documents_reading *r)
{
    SP_TRY(sp_documents_begin_reading(d, salt, r));
    sp_err err = has_all(d, p);
    if (err != SP_OK) sp_documents_end_reading(r);
    return err;
}

/* submit_if_there -- the reading ends with the submission, so that deletions of other documents do not wait. */
static sp_err submit_if_there(sp_documents *d, const char *salt, const sp_prompt *p, const sp_request_opts *o,
                              sp_request **out)
{
    sp_documents_reading reading;
    SP_TRY(begin_reading(d, salt, p, &reading));
    sp_err err = submit(d->ctx, p, o, out);
    sp_documents_end_reading(&reading);
    return err;
}

/* run_plain -- consumes the prompt. */
static sp_err run_plain(computing *k, sp_prompt *p)
{
    sp_request *r;
    sp_collection_computed done;
    sp_err err = submit_if_there(k->d, k->salt, p, &(sp_request_opts){0}, &r);
    sp_prompt_destroy(p);
    if (err == SP_OK) err = finish(k->d->ctx, r, &done);
    if (err == SP_OK && done.n_tokens) count(k, done.fresh);
    return err;
}

sp_err sp_collection_compute(sp_documents *d, const sp_collection_copy *o, sp_collection_computed *out)
{
    SP_NEED(d);
    SP_NEED(o);
    SP_NEED(o->passage);
    SP_NEED(out);
    sp_prompt *p;
    sp_request *r;
    const sp_documents_compute with = {.system = o->system};
    SP_TRY(new_prompt(&(computing){.d = d, .salt = o->salt, .o = &with}, &p));
    sp_err err = sp_prompt_chunk(p, o->passage->title, o->passage->text);
    const sp_request_opts asked = {.background = true, .go_on = o->go_on, .user = o->user};
    if (err == SP_OK)
        err = o->registered ? submit_if_there(d, o->salt, p, &asked, &r) : submit(d->ctx, p, &asked, &r);
    sp_prompt_destroy(p);
    return err == SP_OK ? finish(d->ctx, r, out) : err;
}

static sp_err plain(computing *k, const sp_hit *chunk, bool bare)
{
    sp_prompt *p;
    SP_TRY(new_prompt(k, &p));
    sp_err err = bare ? sp_prompt_piece(p, chunk->text, strlen(chunk->text))
                      : sp_prompt_chunk(p, chunk->title, chunk->text);
    if (err == SP_OK) return run_plain(k, p);
    sp_prompt_destroy(p);
    return err;
}

/* -- fused copies ------------------------------------------------------------------------------ */

/* open_index -- over all chunks of the tenant. */
static sp_err open_index(computing *k, const char *tenant)
{
    SP_TRY(sp_shelf_chunks(k->d->shelf, tenant, NULL, sp_documents_due_s(k->d), &k->all));
    sp_index_text *v = sp_alloc((size_t)k->all.n + 1, sizeof *v);
    if (!v) return sp_fail_nomem("chunks");
    for (int i = 0; i < k->all.n; i++)
        v[i] = (sp_index_text){.title = k->all.v[i].title, .text = k->all.v[i].text};
    sp_err err = sp_texts_index(v, k->all.n, &k->index);
    sp_free(v);
    return err;
}

/* place_of -- of a chunk of this document among all; -1: it is gone. */
static int place_of(const computing *k, const sp_hit *chunk)
{
    for (int i = 0; i < k->all.n; i++)
        if (k->all.v[i].id == chunk->id && strcmp(k->all.v[i].file, chunk->file) == 0) return i;
    return -1;
}

static sp_err fused_prompt(const computing *k, const sp_hits *similar, int n, const sp_hit *chunk,
                           sp_prompt **out)
{
    sp_prompt *p;
    SP_TRY(new_prompt(k, &p));
    sp_err err = SP_OK;
    for (int i = 0; i < n && err == SP_OK; i++)
        err = sp_prompt_chunk(p, similar->v[i].title, similar->v[i].text);
    if (err == SP_OK) err = sp_prompt_chunk(p, chunk->title, chunk->text);
    if (err == SP_OK)
        *out = p;
    else
        sp_prompt_destroy(p);
    return err;
}

static sp_err fuse_if_there(const computing *k, const sp_prompt *p, bool *fresh)
{
    sp_documents_reading reading;
    SP_TRY(begin_reading(k->d, k->salt, p, &reading));
    sp_err err = sp_chunk_fuse(k->d->ctx, p, fresh);
    sp_documents_end_reading(&reading);
    return err;
}

/* fuse -- with as many similar chunks as fit the context; *done: at least one did. */
static sp_err fuse(computing *k, const sp_hits *similar, const sp_hit *chunk, bool *done)
{
    *done = false;
    for (int n = similar->n; n > 0 && !*done; n--) {
        sp_prompt *p;
        bool fresh = false;
        SP_TRY(fused_prompt(k, similar, n, chunk, &p));
        *done = sp_prompt_n_tokens(p) <= k->d->ctx->limits.n_ctx;
        sp_err err = *done ? fuse_if_there(k, p, &fresh) : SP_OK;
        sp_prompt_destroy(p);
        SP_TRY(err);
        if (*done) count(k, fresh);
    }
    return SP_OK;
}

static sp_err fused(computing *k, const sp_hit *chunk)
{
    sp_hits similar = {0};
    int place = place_of(k, chunk);
    bool done = false;
    if (place >= 0) SP_TRY(sp_index_similar(k->index, "bm25", place + 1, k->o->n_fuse, &similar));
    sp_err err = fuse(k, &similar, chunk, &done);
    sp_hits_fini(&similar);
    SP_TRY(err);
    return done ? SP_OK : plain(k, chunk, false);
}

/* -- all chunks -------------------------------------------------------------------------------- */

static sp_err compute_all(computing *k)
{
    k->sum.n_chunks = k->chunks.n;
    for (int i = 0; i < k->chunks.n; i++) {
        const sp_hit *chunk = &k->chunks.v[i];
        SP_TRY(k->index ? fused(k, chunk) : plain(k, chunk, false));
        if (k->o->bare) SP_TRY(plain(k, chunk, true));
        if (k->o->progress && !k->o->progress(i + 1, k->chunks.n, k->o->user))
            return sp_fail(SP_E_CANCELED, "canceled after %d of %d chunks", i + 1, k->chunks.n);
    }
    return SP_OK;
}

sp_err sp_documents_precompute(sp_documents *d, const char *salt, const char *id,
                               const sp_documents_compute *o, sp_documents_computed *out)
{
    const sp_documents_compute defaults = {0};
    SP_NEED(d);
    SP_NEED(id);
    char tenant[SP_TENANT_BYTES];
    computing k = {.d = d, .salt = salt, .o = o ? o : &defaults};
    if (k.o->n_fuse < 0) return sp_fail(SP_E_ARG, "n_fuse: %d is negative", k.o->n_fuse);
    SP_TRY(sp_tenant_name(salt, tenant));
    SP_TRY(sp_shelf_chunks(d->shelf, tenant, id, sp_documents_due_s(d), &k.chunks));
    sp_err err = k.o->n_fuse ? open_index(&k, tenant) : SP_OK;
    if (err == SP_OK) err = compute_all(&k);
    sp_index_close(k.index);
    sp_hits_fini(&k.all);
    sp_hits_fini(&k.chunks);
    if (out) *out = k.sum;
    return err;
}
