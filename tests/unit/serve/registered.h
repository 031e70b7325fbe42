/* registered.h -- a context with registered documents, in a folder of its own. */
#ifndef SP_TESTS_SERVE_REGISTERED_H
#define SP_TESTS_SERVE_REGISTERED_H

#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

#include "serve/documents/documents_int.h"
#include "support/files_with.h"
#include "support/requests.h"
#include "support/tiers.h"

#define SYSTEM "Be brief."

static const char story[] =
    "The keeper of the lighthouse is called Anna Berg. She came from the north in 1931, by boat.";
static const char other[] =
    "The harbour of Velm was built by the town in 1870, and has room for forty boats in winter.";

typedef struct bench {
    char dir[128], db[192];
    sp_context *c;
    sp_documents *d;
} bench;

static inline void bench_open(bench *b, sp_context_opts o)
{
    o.tiers.store = b->dir;
    o.tiers.load_timeout_ms = 60000; /* a loaded machine syncs slowly */
    b->c = open_with(o);
    assert_ok(sp_documents_open(b->c, &(sp_documents_opts){.path = b->db}, &b->d));
}

static inline void bench_begin(bench *b)
{
    const char *tmp = getenv("TMPDIR");
    *b = (bench){0};
    snprintf(b->dir, sizeof b->dir, "%s/spolia-documents-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(b->dir));
    snprintf(b->db, sizeof b->db, "%s/documents.db", b->dir);
    bench_open(b, (sp_context_opts){0});
}

static inline void bench_close(bench *b)
{
    sp_documents_close(b->d);
    close_clean(b->c);
}

static inline int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *w)
{
    return remove(path);
}

static inline void bench_end(bench *b)
{
    bench_close(b);
    assert_int_equal(nftw(b->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static inline void put(bench *b, const char *salt, const char *id, const char *text)
{
    sp_document_list l;
    assert_ok(sp_documents_put(
        b->d, salt, &(sp_document_new){.id = id, .title = "T", .text = text, .replace = true}, &l));
    assert_int_equal(l.n, 1);
    assert_string_equal(l.v[0].id, id);
    sp_document_list_fini(&l);
}

static inline sp_documents_computed compute(bench *b, const char *salt, const char *id, int n_fuse)
{
    sp_documents_computed n;
    assert_ok(sp_documents_precompute(
        b->d, salt, id, &(sp_documents_compute){.system = SYSTEM, .n_fuse = n_fuse, .bare = true}, &n));
    return n;
}

/* ask_about -- the report of the chunk: registered text with its title, or inside a message. */
static inline sp_segment_report ask_about(bench *b, const char *salt, const char *mode, const char *chunk,
                                   const char *message)
{
    static char from[16], missed[32];
    sp_prompt *p;
    sp_request *r;
    sp_segment_report out = {0};
    const sp_reuse_opts reuse = {.policy = mode};
    assert_ok(salt ? sp_prompt_create_for(b->c, salt, &p) : sp_prompt_create(b->c, &p));
    assert_ok(sp_prompt_system(p, SYSTEM));
    if (chunk) assert_ok(sp_prompt_chunk(p, "T", chunk));
    if (message) assert_ok(sp_prompt_cut(p, message, NULL, false));
    assert_ok(message ? sp_prompt_answer(p) : sp_prompt_question(p, "Who?"));
    sp_request_opts o = {
        .reuse = &reuse, .sampling = sp_sampling_default(), .max_tokens = 4, .ignore_end = true};
    assert_ok(sp_generate(b->c, p, &o, &r));
    const sp_result *res = sp_request_result(r);
    for (int i = 0; i < res->n_segments; i++)
        if (strcmp(res->segments[i].kind, "chunk") == 0) out = res->segments[i];
    snprintf(from, sizeof from, "%s", out.from ? out.from : "no chunk");
    snprintf(missed, sizeof missed, "%s", out.missed ? out.missed : "");
    out.from = from;
    out.missed = missed;
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    return out;
}

/* prompt_about -- a question after the registered text. */
static inline sp_prompt *prompt_about(bench *b, const char *salt, const char *text)
{
    sp_prompt *p;
    assert_ok(salt ? sp_prompt_create_for(b->c, salt, &p) : sp_prompt_create(b->c, &p));
    assert_ok(sp_prompt_system(p, SYSTEM));
    assert_ok(sp_prompt_chunk(p, "T", text));
    assert_ok(sp_prompt_question(p, "Who?"));
    return p;
}

/* submit_about -- for an answer of 8 tokens; consumes the prompt. */
static inline sp_request *submit_about(bench *b, sp_prompt *p)
{
    sp_request *r;
    const sp_reuse_opts reuse = {.policy = "full"};
    const sp_request_opts o = {
        .reuse = &reuse, .sampling = sp_sampling_default(), .max_tokens = 8, .ignore_end = true};
    assert_ok(sp_request_submit(b->c, p, &o, &r));
    sp_prompt_destroy(p);
    return r;
}

/* finish -- steps until nothing is left to do. */
static inline void finish(bench *b)
{
    for (bool busy = true; busy;) assert_ok(sp_context_step(b->c, &busy));
}

/* begin_reading -- a request of a tenant that reads the story and runs: its copies are in use. */
static inline sp_request *begin_reading(bench *b, const char *salt)
{
    bool busy;
    sp_request *r = submit_about(b, prompt_about(b, salt, story));
    assert_ok(sp_context_step(b->c, &busy));
    return r;
}

#endif
