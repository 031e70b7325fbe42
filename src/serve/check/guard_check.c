#include "serve/check/guard_check.h"

#include <string.h>

#include "base/log.h"
#include "serve/check/measure.h"
#include "serve/guard/checks.h"

static sp_err compare(int position, const float *logits, int n_vocab, void *user)
{
    SP_UNUSED(position);
    sp_guard_judge(user, logits, n_vocab);
    return SP_OK;
}

static void begin_check(sp_context *c, sp_guard *g)
{
    const sp_reuse_opts off = {.policy = "off"};
    g->now = g->waiting[0];
    memmove(g->waiting, g->waiting + 1, (size_t)--g->n_waiting * sizeof *g->waiting);
    const bool sparse = g->now->sparse;
    const sp_request_opts o = {.reuse = sparse ? NULL : &off,
                               .decode = "exact",
                               .sampling = sp_sampling_default(),
                               .max_tokens = sparse ? g->now->n_rows + 1 : 1,
                               .ignore_end = true};
    const sp_measure m = {.on_logits = compare,
                          .user = g,
                          .forced = g->now->tokens,
                          .n_forced = sparse ? g->now->n_rows : 0};
    g->n_seen = 0;
    if (sp_measure_submit(c, &g->now->prompt, &o, &m, &g->check) == SP_OK) return;
    sp_log(SP_LOG_WARN, "guard: a check was skipped: %s", sp_error_detail());
    sp_guard_free_noted(g->now);
    g->now = NULL;
}

void sp_guard_step(sp_context *c)
{
    sp_guard *g = c->guard;
    if (!g) return;
    if (g->check && sp_request_result(g->check)->finish != SP_FINISH_NONE) {
        sp_request_destroy(g->check);
        sp_guard_free_noted(g->now);
        g->check = NULL;
        g->now = NULL;
    }
    if (!g->check && g->n_waiting) begin_check(c, g);
}

bool sp_guard_busy(const sp_context *c)
{
    const sp_guard *g = c->guard;
    return g && (g->check || g->n_waiting);
}

void sp_guard_stop(sp_guard *g)
{
    if (!g) return;
    sp_request_destroy(g->check);
    g->check = NULL;
}

const sp_guard_report *sp_context_guard(const sp_context *c, int *n)
{
    return sp_guard_reports(c ? c->guard : NULL, n);
}

typedef struct guard_read {
    sp_guard_report *out;
    int most, n;
} guard_read;

static sp_err read_reports(sp_context *c, void *arg)
{
    guard_read *r = arg;
    const sp_guard_report *all = sp_context_guard(c, &r->n);
    for (int i = 0; i < r->n && i < r->most; i++) r->out[i] = all[i];
    return SP_OK;
}

int sp_context_guard_read(sp_context *c, sp_guard_report *out, int most)
{
    guard_read r = {.out = out, .most = most};
    if (!c || !out) return 0;
    sp_err err = sp_driver_call(c, read_reports, &r); /* it has no error */
    return err == SP_OK ? r.n : 0;
}
