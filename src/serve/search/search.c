/* search.c -- finds chunks for a question by words, by vectors, or by both.
 *
 *   question --BM25--> ranking of words ------------------------------+
 *      |                                                              +--> fused ranking --> chunks
 *      +----embed--> vector --search--> stage, stage, ... ranking ----+
 *
 * A search that is watched has stages: the words alone; their chunks with the cosines of their vectors, which is
 * nearly always the result; then each stage of the search for vectors. */
#include "serve/search/search.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/need.h"
#include "retrieve/index/embedding.h"

enum {
    DEPTH = 100,  /* chunks of a ranking that are fused, at least, and */
    DEEPER = 4,   /* times k */
    SPARE = 4     /* times k are looked at where near-duplicates are left out */
};

struct sp_retriever {
    sp_index *index;
    pthread_mutex_t lock; /* guards index: one query at a time */
    sp_embedder *embedder;
    sp_vectors *vectors; /* NULL: none */
    sp_vectors_kind kind;
    int n_dims;
    int64_t n_chunks, n_documents, n_bytes;
};

/* -- building ---------------------------------------------------------------------------------- */

typedef struct embedding {
    sp_embedder *e;
    const sp_index_embed_opts *o;
} embedding;

static sp_err embed_texts(const char *const *texts, int n, float *out, void *user)
{
    const embedding *m = user;
    sp_embed_input *inputs = sp_alloc((size_t)n, sizeof *inputs);
    if (!inputs) return sp_fail_nomem("texts");
    for (int i = 0; i < n; i++) inputs[i] = (sp_embed_input){.text = texts[i], .n = strlen(texts[i])};
    sp_err err = sp_embedder_embed(m->e, inputs, (size_t)n, &(sp_embed_opts){.kind = SP_EMBED_DOCUMENT}, out, NULL);
    sp_free(inputs);
    return err;
}

static bool on_progress(int64_t done, int64_t total, void *user)
{
    const embedding *m = user;
    return !m->o->progress || m->o->progress(done, total, m->o->user);
}

sp_err sp_index_embed(const char *path, sp_embedder *e, const sp_index_embed_opts *o, sp_index_embed_stats *stats)
{
    static const sp_index_embed_opts defaults;
    SP_NEED(path);
    SP_NEED(e);
    const sp_embedder_info info = sp_embedder_describe(e);
    embedding m = {e, o ? o : &defaults};
    const sp_embedding_build b = {.id = info.id,
                                  .n_dims = info.n_embd,
                                  .kind = m.o->kind,
                                  .embed = embed_texts,
                                  .progress = on_progress,
                                  .user = &m,
                                  .n_threads = m.o->n_threads};
    if (!info.normalized) return sp_fail(SP_E_UNSUPPORTED, "%s: vectors that are not of length 1", info.path);
    return sp_embedding_update(path, &b, stats);
}

/* -- opening ----------------------------------------------------------------------------------- */

sp_err sp_retriever_open(const char *path, sp_embedder *e, sp_retriever **out)
{
    SP_NEED(path);
    SP_NEED(out);
    sp_retriever *f = SP_NEW(sp_retriever);
    if (!f) return sp_fail_nomem("a retriever");
    pthread_mutex_init(&f->lock, NULL);
    f->embedder = e;
    sp_err err = sp_index_open(path, &f->index);
    if (err == SP_OK && e) {
        const sp_embedder_info info = sp_embedder_describe(e);
        f->n_dims = info.n_embd;
        err = sp_embedding_open(f->index, info.id, &f->vectors, &f->kind);
        if (err == SP_E_NOTFOUND) err = SP_OK;
    }
    f->n_chunks = sp_index_n_chunks(f->index);
    if (err == SP_OK) err = sp_index_files(f->index, &f->n_documents, &f->n_bytes);
    if (err == SP_OK)
        *out = f;
    else
        sp_retriever_close(f);
    return err;
}

sp_err sp_retriever_of(sp_index *ix, sp_embedder *e, sp_vectors *x, sp_retriever **out)
{
    sp_retriever *f = SP_NEW(sp_retriever);
    if (!f) {
        sp_index_close(ix);
        sp_vectors_destroy(x);
        return sp_fail_nomem("a retriever");
    }
    pthread_mutex_init(&f->lock, NULL);
    f->index = ix;
    f->embedder = e;
    f->vectors = x;
    f->kind = SP_VECTORS_FLAT;
    if (e) f->n_dims = sp_embedder_describe(e).n_embd;
    f->n_chunks = sp_index_n_chunks(ix);
    *out = f;
    return SP_OK;
}

void sp_retriever_close(sp_retriever *f)
{
    if (!f) return;
    sp_index_close(f->index);
    sp_vectors_destroy(f->vectors);
    pthread_mutex_destroy(&f->lock);
    sp_free(f);
}

sp_retriever_info sp_retriever_describe(const sp_retriever *f)
{
    static const char *const names[] = {"flat", "ivf", "hnsw", "chroma"};
    if (!f) return (sp_retriever_info){.kind = ""};
    return (sp_retriever_info){.n_documents = f->n_documents,
                               .n_chunks = f->n_chunks,
                               .n_vectors = f->vectors ? (int64_t)sp_vectors_count(f->vectors) : 0,
                               .n_bytes = f->n_bytes,
                               .kind = f->vectors ? names[f->kind] : ""};
}

/* -- rankings ---------------------------------------------------------------------------------- */

/* A search under way. */
typedef struct search {
    sp_retriever *f;
    const sp_retrieve_query *q;
    int depth;           /* of a ranking */
    bool words, vectors; /* which rankings there are */
    sp_ids files;        /* of q->files and q->tags */
    const sp_ids *allowed; /* NULL: all */
    sp_ranking by_words, fused;
    SP_VEC(sp_near) cosines; /* of the chunks of by_words */
    sp_ids read;         /* the chunks that `hits` were chosen from, in their order */
    sp_hits hits;        /* of `fused` as it was last, without near-duplicates */
    sp_err err;          /* of a stage */
} search;

static bool has_cosine(const search *s, int64_t id)
{
    for (size_t i = 0; i < s->cosines.n; i++)
        if (s->cosines.v[i].id == id) return true;
    return false;
}

/* fuse -- into s->fused, best first, ties by id. Of both rankings a chunk's score is BM25, as a share of the best
 * chunk's, plus the cosine; BM25 of a chunk that the words do not rank is 0. Source: Bruch et al., 2023 (sums of
 * scores against sums of ranks); docs/search.md has what was measured. */
static sp_err fuse(search *s, const sp_near *near, int n)
{
    const bool both = s->words && s->vectors;
    const double best = both && s->by_words.n ? s->by_words.v[0].score : 1, unit = best > 0 ? 1 / best : 1;
    s->fused.n = 0;
    for (size_t i = 0; i < s->cosines.n; i++)
        SP_TRY(sp_ranking_add(&s->fused, s->cosines.v[i].id, 1 - (double)s->cosines.v[i].distance));
    for (int i = 0; i < n; i++)
        if (!has_cosine(s, near[i].id)) SP_TRY(sp_ranking_add(&s->fused, near[i].id, 1 - (double)near[i].distance));
    for (size_t i = 0; i < s->by_words.n; i++)
        SP_TRY(sp_ranking_add(&s->fused, s->by_words.v[i].id, s->by_words.v[i].score * unit));
    sp_ranking_sort(&s->fused);
    return SP_OK;
}

/* is_read -- the first k of s->fused were read by the stage before, in this order: hits get their scores. */
static bool is_read(search *s, size_t k)
{
    if (s->read.n != k || !s->read.v) return false;
    for (size_t i = 0; i < k; i++)
        if (s->read.v[i] != s->fused.v[i].id) return false;
    for (size_t i = 0, j = 0; i < k && j < (size_t)s->hits.n; i++)
        if (s->hits.v[j].id == s->fused.v[i].id) s->hits.v[j++].score = s->fused.v[i].score;
    return true;
}

/* note_read -- the first k of s->fused. */
static sp_err note_read(search *s, size_t k)
{
    s->read.n = 0;
    SP_TRY(sp_vec_reserve(&s->read, k + 1));
    for (size_t i = 0; i < k; i++) s->read.v[s->read.n++] = s->fused.v[i].id;
    return SP_OK;
}

/* take_hits -- the chunks of s->fused; nothing is read when they are those of the stage before. */
static sp_err take_hits(search *s)
{
    const size_t k = SP_MIN((size_t)s->q->k * (s->q->distinct ? SPARE : 1), s->fused.n);
    sp_hits hits = {0};
    if (is_read(s, k)) return SP_OK;
    SP_TRY(note_read(s, k));
    pthread_mutex_lock(&s->f->lock);
    sp_err err = sp_ranking_hits(s->f->index, &s->fused, k, &hits);
    pthread_mutex_unlock(&s->f->lock);
    if (err == SP_OK && s->q->distinct) err = sp_hits_distinct(&hits, s->q->k, NULL);
    if (err != SP_OK) {
        sp_hits_fini(&hits);
        return err;
    }
    sp_hits_fini(&s->hits);
    s->hits = hits;
    return SP_OK;
}

static bool tell(search *s, bool last)
{
    if (s->err != SP_OK) return false;
    if (!s->q->on_stage || s->q->on_stage(&s->hits, last, s->q->user)) return true;
    s->err = sp_fail(SP_E_CANCELED, "the search");
    return false;
}

static bool on_stage(const sp_near *near, int n, bool last, void *user)
{
    search *s = user;
    s->err = fuse(s, near, n);
    if (s->err == SP_OK) s->err = take_hits(s);
    return tell(s, last);
}

static sp_err rank_words(search *s)
{
    pthread_mutex_lock(&s->f->lock);
    sp_err err = sp_ranking_words(s->f->index, s->q->text, s->depth, s->allowed, &s->by_words);
    pthread_mutex_unlock(&s->f->lock);
    return err;
}

static int by_id(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* find_cosines -- of the chunks that the words rank. */
static sp_err find_cosines(search *s, const float *v)
{
    sp_ids ids = {0};
    const size_t n = s->by_words.n;
    int n_found = 0;
    if (n == 0) return SP_OK;
    SP_TRY(sp_vec_reserve(&s->cosines, n));
    SP_TRY(sp_vec_reserve(&ids, n));
    for (size_t i = 0; i < n; i++) ids.v[ids.n++] = s->by_words.v[i].id;
    qsort(ids.v, n, sizeof *ids.v, by_id);
    const sp_vectors_query q = {.v = v, .k = (int)n, .allowed = ids.v, .n_allowed = n};
    sp_err err = sp_vectors_search(s->f->vectors, &q, s->cosines.v, &n_found);
    if (err == SP_OK) s->cosines.n = (size_t)n_found;
    sp_vec_fini(&ids);
    return err;
}

/* tell_early -- a stage before the search for vectors. */
static sp_err tell_early(search *s)
{
    if (!s->words || !s->q->on_stage) return SP_OK;
    SP_TRY(fuse(s, NULL, 0));
    SP_TRY(take_hits(s));
    return tell(s, false) ? SP_OK : s->err;
}

static sp_err rank_vectors(search *s, const float *v, sp_near *near)
{
    const sp_retrieve_query *q = s->q;
    int n;
    const sp_vectors_query vq = {.v = v,
                                 .k = s->depth,
                                 .breadth = q->breadth,
                                 .allowed = !s->allowed ? NULL : s->allowed->v ? s->allowed->v : (int64_t[]){0},
                                 .n_allowed = s->allowed ? s->allowed->n : 0,
                                 .n_stages = q->n_stages,
                                 .on_stage = q->on_stage ? on_stage : NULL,
                                 .user = s};
    sp_err err = sp_vectors_search(s->f->vectors, &vq, near, &n);
    if (s->err != SP_OK) return s->err;
    if (err != SP_OK || q->on_stage) return err;
    SP_TRY(fuse(s, near, n));
    return take_hits(s);
}

/* search_vectors -- the words alone are a stage before the question's vector is known. */
static sp_err search_vectors(search *s)
{
    const sp_embed_input input = {.text = s->q->text, .n = strlen(s->q->text)};
    SP_TRY(tell_early(s));
    float *v = sp_alloc((size_t)s->f->n_dims, sizeof *v);
    sp_near *near = sp_alloc((size_t)s->depth, sizeof *near);
    sp_err err = v && near ? SP_OK : sp_fail_nomem("a ranking");
    const sp_embed_opts o = {.kind = SP_EMBED_QUERY};
    if (err == SP_OK) err = sp_embedder_embed(s->f->embedder, &input, 1, &o, v, NULL);
    if (err == SP_OK) err = find_cosines(s, v);
    if (err == SP_OK) err = tell_early(s);
    if (err == SP_OK) err = rank_vectors(s, v, near);
    sp_free(v);
    sp_free(near);
    return err;
}

static sp_err run(search *s)
{
    if (!s->allowed && (s->q->n_files || s->q->n_tags)) {
        s->allowed = &s->files;
        pthread_mutex_lock(&s->f->lock);
        sp_err err = sp_ranking_allowed(s->f->index, s->q, &s->files);
        pthread_mutex_unlock(&s->f->lock);
        SP_TRY(err);
    }
    if (s->words) SP_TRY(rank_words(s));
    if (s->vectors) return search_vectors(s);
    SP_TRY(fuse(s, NULL, 0));
    SP_TRY(take_hits(s));
    return tell(s, true) ? SP_OK : s->err;
}

/* choose -- which rankings are made. */
static sp_err choose(search *s)
{
    const char *by = s->q->by ? s->q->by : s->f->vectors ? "hybrid" : "words";
    const bool both = strcmp(by, "hybrid") == 0;
    s->words = both || strcmp(by, "words") == 0;
    s->vectors = both || strcmp(by, "vectors") == 0;
    if (!s->words && !s->vectors) return sp_fail(SP_E_ARG, "by: \"%.40s\" is not words, vectors or hybrid", by);
    if (s->vectors && !s->f->vectors)
        return sp_fail(SP_E_ARG, "by: %s: the index has no vectors; spolia index --embedding adds them", by);
    return SP_OK;
}

sp_err sp_retriever_search(sp_retriever *f, const sp_retrieve_query *q, sp_hits *out)
{
    SP_NEED(f);
    SP_NEED(q);
    SP_NEED(q->text);
    SP_NEED(out);
    return sp_retriever_search_among(f, q, NULL, out);
}

sp_err sp_retriever_search_among(sp_retriever *f, const sp_retrieve_query *q, const sp_ids *allowed, sp_hits *out)
{
    if (q->k < 1 || q->k > 100000) return sp_fail(SP_E_ARG, "k: %d is not in 1..100000", q->k);
    if (q->n_files && !q->files) return sp_fail(SP_E_ARG, "files: a list of %d names", q->n_files);
    if (q->n_tags && !q->tags) return sp_fail(SP_E_ARG, "tags: a list of %d names", q->n_tags);
    search s = {.f = f, .q = q, .depth = SP_MAX(DEEPER * q->k, (int)DEPTH), .allowed = allowed};
    sp_err err = choose(&s);
    if (err == SP_OK) err = run(&s);
    sp_vec_fini(&s.files);
    sp_vec_fini(&s.by_words);
    sp_vec_fini(&s.cosines);
    sp_vec_fini(&s.read);
    sp_vec_fini(&s.fused);
    if (err == SP_OK)
        *out = s.hits;
    else
        sp_hits_fini(&s.hits);
    return err;
}

sp_err sp_retriever_files(sp_retriever *f, const sp_file_query *q, sp_file_list *out)
{
    SP_NEED(f);
    SP_NEED(q);
    SP_NEED(out);
    pthread_mutex_lock(&f->lock);
    sp_err err = sp_index_list(f->index, q, out);
    pthread_mutex_unlock(&f->lock);
    return err;
}

sp_err sp_retriever_each(sp_retriever *f, int64_t most, sp_chunk_fn *fn, void *user)
{
    sp_err err = SP_OK;
    for (int64_t id = 0, i = 0; i < most && err == SP_OK; i++) {
        sp_hits h;
        pthread_mutex_lock(&f->lock);
        err = sp_index_chunk(f->index, id, &h);
        pthread_mutex_unlock(&f->lock);
        if (err != SP_OK) return err;
        if (h.n) id = h.v[0].id;
        if (h.n)
            err = fn(&h.v[0], user);
        else
            most = 0;
        sp_hits_fini(&h);
    }
    return err;
}
