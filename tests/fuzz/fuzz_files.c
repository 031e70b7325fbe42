/* Files that the program reads beside models and documents, from any bytes: the config file, API keys, what was
 * measured of a model, questions, traces of retrievals. The first byte selects the reader; files that belong
 * together are separated by a form feed. */
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/options/config.h"
#include "engine/sparse/heads.h"
#include "lab/eval/csv.h"
#include "lab/eval/dataset.h"
#include "lab/sim/sim.h"
#include "server/http/keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct memory_file {
    int fd;
    char path[40];
} memory_file;

static memory_file first, second;

static void require(bool holds)
{
    if (!holds) abort();
}

static void fill(memory_file *f, const uint8_t *data, size_t n)
{
    if (!*f->path) f->fd = memfd_create("file", MFD_CLOEXEC);
    require(f->fd >= 0 && ftruncate(f->fd, 0) == 0 && pwrite(f->fd, data, n, 0) == (ssize_t)n);
    snprintf(f->path, sizeof f->path, "/proc/self/fd/%d", f->fd);
}

/* -- readers -------------------------------------------------------------------------------- */

static void read_config(void)
{
    bool good = config_open(first.path);
    const config_file *c = config_get();
    for (size_t i = 0; good && i < c->n; i++) require(c->v[i].value && c->v[i].line > 0 && *c->v[i].key);
    config_close();
}

static void read_keys(void)
{
    srv_keys *k;
    srv_tenant t;
    if (!srv_keys_open(first.path, &k)) return;
    require(srv_keys_reload(k) && !srv_keys_check(k, "Bearer ", NULL, &t));
    srv_keys_close(k);
}

static void read_measured(void)
{
    sp_heads *h;
    sp_cost cost;
    sp_calibration found;
    char beside[PATH_MAX];
    require(sp_heads_create(2, 4, 2, &h) == SP_OK);
    if (sp_heads_read(first.path, h) == SP_OK)
        for (int i = 0; i < 4; i++) require(sp_heads_tau(h, i / 2, i % 2, 0.9f, 2) <= 1);
    sp_heads_destroy(h);
    if (sp_cost_read(first.path, &cost) == SP_OK) require(sp_cost_us(&cost, 100, 10) >= 0);
    snprintf(beside, sizeof beside, "%s.reuse.json", first.path);
    if (symlink(first.path, beside) != 0) return;
    if (sp_calibration_of_policy("fusion", first.path, &found) == SP_OK)
        require(found.recompute >= 0 && found.recompute <= 1);
    if (sp_calibration_of_quality("balanced", first.path, &found) == SP_OK) require(*found.policy);
    unlink(beside);
}

static void read_questions_of(const char *kind_field)
{
    eval_questions q;
    eval_docs d;
    if (!eval_questions_read(first.path, kind_field, &q)) return;
    require(q.n > 0);
    for (int i = 0; i < q.n; i++) require(*q.v[i].text && *q.v[i].id && strlen(q.v[i].kind) < 1 << 20);
    if (eval_docs_open(&(eval_docs_opts){.docs = second.path, .order = "shuffled", .n_chunks = 3}, &d)) {
        for (int i = 0; i < q.n; i++) {
            eval_context c;
            if (!eval_context_find(&d, &q, &q.v[i], &c)) continue;
            for (size_t k = 0; k < c.n; k++) require(c.v[k].text != NULL);
            eval_context_drop(&c);
        }
        eval_docs_close(&d);
    }
    eval_questions_drop(&q);
}

static void read_questions(void)
{
    read_questions_of("kind");
    read_questions_of("id");
}

static void read_rows(void)
{
    eval_csv c;
    json_t *settings = json_pack("{s:i}", "version", 1);
    if (eval_csv_open(first.path, settings, 2, false, &c)) {
        require(c.n % 2 == 0);
        for (size_t i = 0; i < c.n; i++) require(eval_csv_has(&c, c.v[i].text[ROW_ID]) != NULL);
        eval_csv_close(&c);
    }
    json_decref(settings);
}

/* run_trace -- a few requests of moderate size, through a policy that the trace selects. */
static void run_trace(const sim_trace *t)
{
    sim_result r;
    int n;
    const sp_evict_info *policies = sp_evict_policies(&n);
    if (t->n_refs > 64 || sim_trace_tokens(t) > 1 << 16) return;
    char name[32];
    const int which = (int)(t->n_refs % (2 * n + 1)); /* each, each with ghosts, belady */
    snprintf(name, sizeof name, "%s%s", which < 2 * n ? policies[which / 2].name : "belady",
             which < 2 * n && which % 2 ? "+ghosts" : "");
    sim_opts o = {.policy = name,
                  .by_path = t->n_requests % 2,
                  .memory = SP_MAX(sim_trace_tokens(t) / 2, (int64_t)16)};
    if (sim_run(t, &o, &r)) require(r.n_docs >= r.n_hits && r.tokens >= r.tokens_hit);
}

static void read_trace(void)
{
    sim_trace t;
    if (!sim_trace_read(first.path, second.path, 4, &t)) return;
    require(t.n_refs > 0 && t.most <= 4);
    for (int64_t i = 0; i < t.n_requests; i++) require(t.first[i] <= t.first[i + 1] && t.first[i + 1] <= t.n_refs);
    for (int64_t i = 0; i < t.n_refs; i++) require(t.docs[i] >= 0 && t.docs[i] < t.n_docs);
    for (int32_t i = 0; i < t.n_docs; i++) require(t.size[i] > 0 && t.names[i]);
    run_trace(&t);
    sim_trace_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(void) = {read_config, read_keys, read_measured, read_questions,
                                            read_rows,   read_trace};
    static FILE *nowhere;
    if (!nowhere) { /* error messages; libFuzzer and the sanitizers keep theirs */
        require((nowhere = fopen("/dev/null", "w")) != NULL);
        stderr = nowhere;
    }
    if (size < 1) return 0;
    const uint8_t *from = data + 1, *end = data + size, *cut = memchr(from, '\f', size - 1);
    fill(&first, from, (size_t)((cut ? cut : end) - from));
    fill(&second, cut ? cut + 1 : end, cut ? (size_t)(end - cut - 1) : 0);
    readers[*data % 6]();
    return 0;
}
