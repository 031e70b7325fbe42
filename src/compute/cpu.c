/* cpu.c -- the CPU as a device: memory that is the host's, weights packed for its kernels, scratch.
 * Its operations are in cpu_run.c. */
#include <string.h>

#include "base/mem.h"
#include "compute/cpu_int.h"

#define PAGES_BYTES ((size_t)2 << 20) /* memory from here on is pages of its own */

/* -- memory --------------------------------------------------------------------------------- */

static void *cpu_alloc(sp_device *d, size_t n_bytes)
{
    SP_UNUSED(d);
    return n_bytes < PAGES_BYTES ? sp_alloc_aligned(n_bytes) : sp_pages_alloc(n_bytes);
}

static void cpu_free(sp_device *d, void *p, size_t n_bytes)
{
    SP_UNUSED(d);
    if (n_bytes < PAGES_BYTES)
        sp_free(p);
    else
        sp_pages_free(p, n_bytes);
}

/* Copies are over when the call returns. */
static sp_event cpu_copy_in(sp_device *d, void *to, const void *from, size_t n_bytes)
{
    if (n_bytes) memcpy(to, from, n_bytes);
    atomic_fetch_add_explicit(&sp_cpu_of(d)->n_copies, 1, memory_order_relaxed);
    return (sp_event){0};
}

static sp_event cpu_copy_out(sp_device *d, void *to, const void *from, size_t n_bytes)
{
    SP_UNUSED(d);
    if (n_bytes) memcpy(to, from, n_bytes);
    return (sp_event){0};
}

static sp_err cpu_wait(sp_device *d, sp_event e)
{
    SP_UNUSED(d);
    SP_UNUSED(e);
    return SP_OK;
}

static bool cpu_done(sp_device *d, sp_event e)
{
    SP_UNUSED(d);
    SP_UNUSED(e);
    return true;
}

/* -- weights -------------------------------------------------------------------------------- */

typedef struct pack_job {
    const sp_ops *ops;
    sp_pack_args args;
} pack_job;

static void pack_piece(void *job, int piece, int n_pieces)
{
    const pack_job *j = job;
    j->ops->pack(&j->args, piece, n_pieces);
}

static size_t cpu_weight_bytes(sp_device *d, const sp_mat *w, sp_weight_use use)
{
    const sp_ops *ops = sp_cpu_of(d)->ops;
    if (use != SP_WEIGHT_PRODUCTS || !ops->pack_bytes) return 0;
    return SP_ROUND_UP(ops->pack_bytes(w), (size_t)SP_CACHE_LINE);
}

static void cpu_weight_adopt(sp_device *d, sp_mat *w, sp_weight_use use, const void *loaded)
{
    sp_cpu *c = sp_cpu_of(d);
    assert(cpu_weight_bytes(d, w, use) > 0 && (uintptr_t)loaded % SP_CACHE_LINE == 0);
    SP_UNUSED(use);
    w->packed = loaded;
    c->in_integers |= sp_in_integers(c->ops, w);
}

static void cpu_weight_load(sp_device *d, sp_mat *w, sp_weight_use use, void *to)
{
    sp_cpu *c = sp_cpu_of(d);
    pack_job job = {c->ops, {.w = w, .out = to}};
    assert(cpu_weight_bytes(d, w, use) > 0);
    sp_team_share(c->team, pack_piece, &job, 8 * sp_team_size(c->team));
    cpu_weight_adopt(d, w, use, to);
}

/* -- scratch -------------------------------------------------------------------------------- */

/* Twice the spans that are wanted, so that a growing list seldom allocates. */
static sp_err reserve_attention(sp_cpu *c, const sp_step_sizes *s)
{
    size_t bytes = sp_attend_scratch_bytes(s->n_heads, s->n_kv_heads, s->head, s->n_spans);
    if (bytes <= c->attend_bytes) return SP_OK;
    bytes = sp_attend_scratch_bytes(s->n_heads, s->n_kv_heads, s->head, SP_MAX(64, 2 * s->n_spans));
    bytes = SP_ROUND_UP(bytes, (size_t)SP_CACHE_LINE);
    SP_TRY(sp_mem_grow(&c->base, bytes * (size_t)sp_team_size(c->team), "the scratch of attention",
                       &c->attend));
    c->attend_bytes = bytes;
    return SP_OK;
}

static sp_err cpu_reserve(sp_device *d, const sp_step_sizes *want)
{
    sp_cpu *c = sp_cpu_of(d);
    if (c->in_integers && want->rows > 0) {
        size_t row = c->ops->quantized_bytes(want->width / 32 * 32);
        size_t bytes = (size_t)want->rows * row * (c->base.exact_products ? 2 : 1);
        if (bytes > c->rounded.ints.n_bytes) c->rounded.x = NULL;
        SP_TRY(sp_mem_grow(d, bytes, "rows rounded to integers", &c->rounded.ints));
    }
    if (want->n_spans > 0) SP_TRY(reserve_attention(c, want));
    SP_TRY(sp_mem_grow(d, want->pick_floats * sizeof(float), "the scores of blocks", &c->pick));
    if (want->column_rows == 0) return SP_OK;
    size_t floats = (size_t)sp_team_size(c->team) *
                    sp_columns_scratch(want->column_rows, want->n_heads, want->head);
    return sp_mem_grow(d, floats * sizeof(float), "the scratch of a probe", &c->columns);
}

/* -- opening -------------------------------------------------------------------------------- */

static void cpu_close(sp_device *d)
{
    sp_cpu *c = sp_cpu_of(d);
    sp_mem_free(&c->rounded.ints);
    sp_mem_free(&c->attend);
    sp_mem_free(&c->columns);
    sp_mem_free(&c->pick);
    sp_team_destroy(c->team);
    sp_free(c);
}

static const sp_device_calls calls = {
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .copy_in = cpu_copy_in,
    .copy_out = cpu_copy_out,
    .wait = cpu_wait,
    .done = cpu_done,
    .weight_bytes = cpu_weight_bytes,
    .weight_load = cpu_weight_load,
    .weight_adopt = cpu_weight_adopt,
    .reserve = cpu_reserve,
    .run = sp_cpu_run,
};

/* select_ops -- exact products need kernels that do not round weights: VNNI's in place of AMX's, unless
 * AMX's are asked for by name. F16 in bf16, and attention in bf16, are sets of their own. */
static sp_err SP_MUST_CHECK select_ops(const sp_device_opts *o, const sp_ops **out)
{
    const sp_ops *ops;
    const bool tiles = o->amx_f16 || o->amx_attend;
    if (tiles && o->kernels && *o->kernels && strcmp(o->kernels, "amx") != 0)
        return sp_fail(SP_E_UNSUPPORTED, "%s in bf16: CPU variant '%s' has no tiles; 'amx' has",
                       o->amx_f16 ? "F16 weights" : "attention", o->kernels);
    SP_TRY(sp_ops_select(sp_ops_amx(o->kernels, o->amx_f16, o->amx_attend), &ops));
    if (o->exact_products && ops->rounds_weights) {
        if (tiles || (o->kernels && *o->kernels))
            return sp_fail(SP_E_UNSUPPORTED, "exact products: CPU variant '%s' rounds weights; 'vnni' does not",
                           ops->name);
        SP_TRY(sp_ops_select("vnni", &ops));
    }
    *out = ops;
    return SP_OK;
}

sp_err sp_cpu_open(const sp_device_opts *o, sp_device **out)
{
    const sp_ops *ops = NULL;
    sp_team *team;
    SP_TRY(select_ops(o, &ops));
    SP_TRY(sp_team_create(&team, o->n_threads));
    sp_cpu *c = SP_NEW(sp_cpu);
    if (!c) {
        sp_team_destroy(team);
        return sp_fail_nomem("the device");
    }
    c->base = (sp_device){.name = "cpu",
                          .kernels = ops->name,
                          .n_threads = sp_team_size(team),
                          .exact_products = o->exact_products,
                          .unified = true,
                          .calls = &calls};
    c->ops = ops;
    c->summaries = sp_summary_ops_of(ops->name);
    c->team = team;
    *out = &c->base;
    return SP_OK;
}
