#include "cli/options/advice.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/fail.h"
#include "cli/options/policies.h"

/* add -- to a list in `text` [size]. */
static void add(char *text, size_t size, const char *separator, const char *option)
{
    size_t n = strlen(text);
    snprintf(text + n, size - n, "%s%s", n ? separator : "", option);
}

/* -- what the policy ignores ------------------------------------------------------------------ */

static void find_ignored(const model_options *m, advice *a)
{
    const sp_reuse_opts *r = &m->ctx.reuse;
    const cli_policy *p = cli_policy_find(a->policy, NULL);
    char spec[CLI_SPEC];
    if (!p) return; /* model_options_open refuses it */
    snprintf(spec, sizeof spec, "%s", m->reuse ? m->reuse : a->policy);
    model_options_policy(m, spec);
    const bool by_amount = cli_policy_amount(spec) > 0;
    const struct {
        bool given;
        const char *name;
    } options[] = {{!isnan(r->recompute) && (!p->recomputes || by_amount), "--recompute"},
                   {!isnan(m->alpha) && !cli_policy_has(p, "alpha"), "--alpha"},
                   {m->focus && !cli_policy_has(p, "focus"), "--focus"},
                   {r->unfused && !p->anywhere, "--unfused"},
                   {m->ctx.cache.max_variants && !p->keeps_placed, "--max-variants"},
                   {m->ctx.tiers.store && strcmp(a->policy, "off") == 0, "--store"}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].given) add(a->ignored, sizeof a->ignored, ", ", options[i].name);
}

/* -- what lacks another option ---------------------------------------------------------------- */

static void find_idle(const model_options *m, advice *a)
{
    const sp_context_opts *c = &m->ctx;
    const bool tier = c->tiers.store || c->tiers.host_bytes || c->tiers.remote;
    const struct {
        bool idle;
        const char *text;
    } options[] = {
        {c->tiers.host_kv && !c->tiers.host_bytes, "--host-kv without --host-memory"},
        {c->tiers.host_evict && !c->tiers.host_bytes, "--host-evict without --host-memory"},
        {c->tiers.remote_key_file && !c->tiers.remote, "--remote-key-file without --remote"},
        {c->tiers.remote_kv && !c->tiers.remote, "--remote-kv without --remote"},
        {c->tiers.remote_compress && !c->tiers.remote, "--remote-compress without --remote"},
        {c->tiers.store_bytes && !c->tiers.store, "--store-max without --store"},
        {c->tiers.store_evict && !c->tiers.store, "--store-evict without --store"},
        {m->preload && !tier, "--preload without --store or --host-memory"},
        {m->admit && !tier, "--admit without --store or --host-memory"},
        {c->tiers.load_timeout_ms && !tier, "--load-timeout without --store or --host-memory"},
        {c->decode.context_dir && !c->decode.context_bytes,
         "--context-dir without --context-memory"},
        {c->cache.profile && !tier && (!c->cache.evict || strncmp(c->cache.evict, "pgdsf", 5) != 0),
         "--profile without --evict pgdsf"},
        {c->guard.bound > 0 && c->guard.share == 0, "--guard-bound with --guard 0"},
        {c->queue.window && c->queue.order && strcmp(c->queue.order, "fcfs") == 0,
         "--queue-window with --queue-order fcfs"},
        {c->queue.wait_ms && c->queue.order && strcmp(c->queue.order, "fcfs") == 0,
         "--queue-wait with --queue-order fcfs"}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].idle) add(a->idle, sizeof a->idle, "; ", options[i].text);
}

advice advice_of(const model_options *m)
{
    const cli_policy *p = cli_policy_find(m->reuse, NULL);
    advice a = {.policy = p ? p->name : m->reuse};
    find_ignored(m, &a);
    find_idle(m, &a);
    return a;
}

void advice_print(const advice *a)
{
    if (*a->ignored) cli_warn("--reuse %s does not use %s", a->policy, a->ignored);
    if (*a->idle) cli_warn("without effect: %s", a->idle);
}
