/* context.c -- opens everything a request needs, bottom floor first, and closes it in reverse. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/need.h"
#include "cache/evict.h"
#include "compute/kernels.h"
#include "serve/guard/guard.h"
#include "serve/check/guard_check.h"
#include "serve/request/queue.h"
#include "store/files.h"

enum {
    PATIENCE_US = 100000 /* for loads, whatever computing instead would cost */,
    LOAD_TIMEOUT_MS = 5000,
    MAX_VARIANTS = 5, /* M of Cache-Craft section 5.1 */
    SHORT_PROMPT = 256 /* tokens, of sp_context_info.token_us */
};

static sp_err parse_kv_type(const char *name, sp_dtype *out)
{
    static const sp_dtype allowed[] = {SP_F32, SP_F16, SP_BF16, SP_Q16, SP_Q8_0};
    for (size_t i = 0; i < SP_COUNT(allowed); i++)
        if (strcmp(name, sp_dtype_of(allowed[i])->name) == 0) {
            *out = allowed[i];
            return SP_OK;
        }
    return sp_fail(SP_E_ARG, "KV type \"%s\" is unknown: f32, f16, bf16, q16, q8_0", name);
}

/* kv_space -- the namespace of content ids: whatever makes keys and values differ for equal
 * tokens. */
static sp_err kv_space(const sp_model *m, const sp_kv_shape *shape, sp_digest *out)
{
    sp_sha256 *s;
    SP_TRY(sp_sha256_create(&s));
    const char *type = sp_dtype_of(shape->type)->name;
    /* 2: keys and values of a head side by side */
    const int32_t layout[] = {2, SP_BLOCK_TOKENS, shape->n_layers, shape->n_heads, shape->head};
    sp_sha256_field(s, "spolia/space/1", m->id, sizeof m->id);
    sp_sha256_field(s, "kv type", type, strlen(type));
    sp_sha256_field(s, "kv layout", layout, sizeof layout);
    sp_sha256_final(s, out);
    return SP_OK;
}

static sp_err shape_of(const sp_model *m, const char *kv_type, sp_kv_shape *out)
{
    const sp_hparams *hp = &m->hp;
    sp_kv_shape shape = {.n_layers = hp->n_layers, .n_heads = hp->n_kv_heads, .head = hp->head};
    SP_TRY(parse_kv_type(kv_type ? kv_type : SP_KV_TYPE, &shape.type));
    SP_TRY(sp_kv_shape_check(&shape));
    *out = shape;
    return SP_OK;
}

static sp_err space_of(const sp_model *m, const char *kv_type, char hex[65])
{
    sp_kv_shape shape;
    sp_digest space;
    SP_TRY(shape_of(m, kv_type, &shape));
    SP_TRY(kv_space(m, &shape, &space));
    sp_digest_hex(&space, sizeof space.b, hex);
    return SP_OK;
}

sp_err sp_store_space(const char *model, const char *kv_type, char hex[65])
{
    SP_NEED(model);
    SP_NEED(hex);
    sp_model *m;
    SP_TRY(sp_model_open(model, &m));
    sp_err err = space_of(m, kv_type, hex);
    sp_model_close(m);
    return err;
}

/* shared_space -- of copies that other machines make: their kernels may round in another way. */
static sp_err shared_space(const sp_context *c, sp_digest *out)
{
    sp_sha256 *s;
    SP_TRY(sp_sha256_create(&s));
    sp_sha256_field(s, "spolia/shared/1", c->texts.prompts.space.b, sizeof c->texts.prompts.space.b);
    sp_sha256_field(s, "kernels", c->device->kernels, strlen(c->device->kernels));
    if (c->device->exact_products) sp_sha256_field(s, "products", "exact", strlen("exact"));
    sp_sha256_final(s, out);
    return SP_OK;
}

static sp_offload_opts offload_opts(const sp_context_opts *o, int64_t n_blocks)
{
    return (sp_offload_opts){.n_blocks = n_blocks,
                             .dir = o->decode.context_dir ? o->decode.context_dir
                                    : o->tiers.store      ? o->tiers.store
                                                          : "/var/tmp",
                             .max_bytes = (size_t)o->decode.context_bytes,
                             .resident_bytes = (size_t)o->decode.resident_bytes};
}

static sp_err open_pool(sp_context *c, const sp_context_opts *o)
{
    sp_kv_shape shape;
    SP_TRY(shape_of(c->model, o->cache.kv_type, &shape));
    size_t bytes = o->cache.kv_bytes ? o->cache.kv_bytes : (size_t)1 << 30;
    int64_t n_blocks = (int64_t)(bytes / sp_kv_block_bytes(&shape));
    if (n_blocks < 2)
        return sp_fail(SP_E_ARG, "KV memory of %zu bytes cannot hold two blocks of %zu (--kv-memory)", bytes,
                       sp_kv_block_bytes(&shape));
    sp_offload_opts file = offload_opts(o, n_blocks);
    const int64_t extra = o->decode.context_bytes ? sp_offload_n_extra(&shape, n_blocks, &file) : 0;
    SP_TRY(sp_kv_pool_create(c->device, &shape, n_blocks + extra, &c->pool));
    file.pool = c->pool;
    if (o->decode.context_bytes && file.dir == o->tiers.store) SP_TRY(sp_files_make_folder(file.dir));
    if (o->decode.context_bytes) SP_TRY(sp_offload_create(&file, &c->offload));
    n_blocks = sp_kv_pool_n_free(c->pool);
    if (o->cache.profile) SP_TRY(sp_cost_read(o->cache.profile, &c->cost));
    SP_TRY(sp_ledger_create(
        &(sp_ledger_opts){.pool = c->pool,
                          .cost = o->cache.profile ? &c->cost : NULL,
                          .max_blocks = n_blocks,
                          .evict = o->cache.evict ? o->cache.evict : SP_EVICT_DEFAULT,
                          .host_evict = o->tiers.host_evict,
                          .max_placed = o->cache.max_placed ? o->cache.max_placed : 1024,
                          .max_variants = o->cache.max_variants ? o->cache.max_variants : MAX_VARIANTS},
        &c->ledger));
    return kv_space(c->model, &shape, &c->texts.prompts.space);
}

static sp_err open_tiers(sp_context *c, const sp_context_opts *o)
{
    sp_digest shared;
    if (!o->tiers.store && !o->tiers.host_bytes && !o->tiers.remote) return SP_OK;
    SP_TRY(shared_space(c, &shared));
    if (o->tiers.store && !(c->store = sp_strdup_n(o->tiers.store, strlen(o->tiers.store))))
        return sp_fail_nomem("the name of the store");
    return sp_tiers_open(
        &(sp_tiers_opts){
            .dir = c->store,
            .max_bytes = o->tiers.store_bytes,
            .store_evict = o->tiers.store_evict,
            .timeout_us = (o->tiers.load_timeout_ms ? o->tiers.load_timeout_ms : LOAD_TIMEOUT_MS) *
                          INT64_C(1000),
            .cost = o->cache.profile ? &c->cost : NULL,
            .host_bytes = o->tiers.host_bytes,
            .host_kv = o->tiers.host_kv,
            .remote = o->tiers.remote,
            .remote_key = o->tiers.remote_key_file,
            .remote_ca = o->tiers.remote_ca_file,
            .remote_ttl_s = o->tiers.remote_ttl_s,
            .remote_kv = o->tiers.remote_kv,
            .remote_compress = o->tiers.remote_compress,
            .remote_must = o->tiers.remote_must,
            .remote_space = &shared,
            .admit_cheaper = o->tiers.admit_cheaper,
            .by_layers = o->tiers.preload == SP_PRELOAD_LAYERS || o->tiers.preload == SP_PRELOAD_FIRST,
            .space = &c->texts.prompts.space,
            .salt = c->salt,
            .pool = c->pool,
            .ledger = c->ledger,
            .load_failed = sp_request_load_failed,
            .user = c},
        &c->tiers);
}

/* open_heads -- what `spolia profile --decode` has found; without it all heads are equal. */
static sp_err open_heads(sp_context *c, const char *model)
{
    const sp_hparams *hp = &c->model->hp;
    char *path = sp_heads_path(model);
    if (!path) return sp_fail_nomem("the path of a model's heads");
    sp_err err = SP_OK;
    if (access(path, F_OK) == 0) {
        err = sp_heads_create(hp->n_layers, hp->n_heads, hp->n_kv_heads, &c->heads);
        if (err == SP_OK) err = sp_heads_read(path, c->heads);
    }
    sp_free(path);
    return err;
}

/* rank_heads -- for the requests that do not set their own thresholds. */
static sp_err rank_heads(sp_context *c)
{
    const size_t n = (size_t)(c->model->hp.n_layers * c->model->hp.n_kv_heads);
    const sp_sparse_opts *o = &c->defaults.decode.o;
    if (!c->offload || !c->heads) return SP_OK;
    float *difficulty = sp_alloc(n, sizeof *difficulty);
    if (!difficulty) return sp_fail_nomem("resident heads");
    sp_heads_rank(c->heads, o->eta, o->power, difficulty);
    sp_offload_rank(c->offload, difficulty);
    sp_free(difficulty);
    return SP_OK;
}

static sp_err open_engine(sp_context *c, const sp_context_opts *o)
{
    const sp_pack_opts packs = {
        .dir = o->machine.packs,
        .max_bytes = o->machine.packs_max_bytes ? o->machine.packs_max_bytes : (size_t)20 << 30,
        .min_bytes = (size_t)32 << 20}; /* fewer are packed in a few milliseconds */
    SP_TRY(sp_model_load(c->model, c->device, &packs));
    SP_TRY(sp_engine_create(&(sp_engine_opts){.model = c->model,
                                              .pool = c->pool,
                                              .n_ctx = c->limits.n_ctx,
                                              .max_rows = c->limits.n_batch,
                                              .max_slices = c->limits.max_requests},
                            &c->engine));
    if (c->offload) sp_engine_set_offload(c->engine, c->offload);
    if (c->defaults.decode.sparse && c->tiers)
        SP_TRY(sp_engine_keep_summaries(c->engine, &c->defaults.decode.o));
    size_t n = (size_t)c->limits.max_requests, vocab = (size_t)c->model->hp.n_vocab;
    c->step.slices = SP_NEW_N(sp_slice, n);
    c->step.of = SP_NEW_N(sp_request *, n);
    c->step.logits = sp_alloc((n + SP_SCORED_ROWS) * vocab, sizeof *c->step.logits);
    if (!c->step.slices || !c->step.of || !c->step.logits)
        return sp_fail_nomem("logits");
    return SP_OK;
}

static sp_err check_paths(const sp_context_opts *o)
{
    const struct {
        const char *option, *path;
    } paths[] = {{"store", o->tiers.store},
                 {"context_dir", o->decode.context_dir},
                 {"packs", o->machine.packs},
                 {"profile", o->cache.profile}};
    if (!o->model || !*o->model) return sp_fail(SP_E_ARG, "model: give a GGUF file or a Hugging Face folder");
    for (size_t i = 0; i < SP_COUNT(paths); i++)
        if (paths[i].path && !*paths[i].path) return sp_fail(SP_E_ARG, "%s: the name is empty", paths[i].option);
    return SP_OK;
}

static sp_err check_opts(const sp_context_opts *o)
{
    SP_TRY(check_paths(o));
    if (o->n_ctx < 0) return sp_fail(SP_E_ARG, "n_ctx: %d is negative", o->n_ctx);
    if (o->n_batch < 0) return sp_fail(SP_E_ARG, "n_batch: %d is negative", o->n_batch);
    if (o->cache.max_placed < 0) return sp_fail(SP_E_ARG, "max_placed: %d is negative", o->cache.max_placed);
    if (o->cache.max_variants < 0) return sp_fail(SP_E_ARG, "max_variants: %d is negative", o->cache.max_variants);
    if (o->tiers.host_bytes < 0)
        return sp_fail(SP_E_ARG, "host_bytes: %lld is negative", (long long)o->tiers.host_bytes);
    if (o->decode.context_bytes < 0)
        return sp_fail(SP_E_ARG, "context_bytes: %lld is negative", (long long)o->decode.context_bytes);
    if (o->tiers.store_bytes < 0)
        return sp_fail(SP_E_ARG, "store_bytes: %lld is negative", (long long)o->tiers.store_bytes);
    if (o->tiers.load_timeout_ms < 0)
        return sp_fail(SP_E_ARG, "load_timeout_ms: %d is negative", o->tiers.load_timeout_ms);
    if (o->queue.window < 0) return sp_fail(SP_E_ARG, "queue.window: %d is negative", o->queue.window);
    if (o->queue.wait_ms < 0) return sp_fail(SP_E_ARG, "wait_ms: %d is negative", o->queue.wait_ms);
    if (o->queue.gap_ms < 0) return sp_fail(SP_E_ARG, "gap_ms: %d is negative", o->queue.gap_ms);
    if (o->cache.keep_chunks < 0) return sp_fail(SP_E_ARG, "keep_chunks: %d is negative", o->cache.keep_chunks);
    if (o->max_requests < 0) return sp_fail(SP_E_ARG, "max_requests: %d is negative", o->max_requests);
    return SP_OK;
}

static sp_err check_kv_type(const char *name)
{
    sp_dtype type;
    return parse_kv_type(name, &type);
}

/* check_names -- of policies, types and servers, also of those that have no effect here. */
static sp_err check_names(const sp_context_opts *o)
{
    const sp_tier_opts *t = &o->tiers;
    const struct {
        const char *field, *value;
        sp_err (*check)(const char *value);
    } names[] = {{"kv_type", o->cache.kv_type, check_kv_type}, {"host_kv", t->host_kv, check_kv_type},
                 {"evict", o->cache.evict, sp_evict_check},    {"host_evict", t->host_evict, sp_evict_check},
                 {"store_evict", t->store_evict, sp_evict_check}};
    const sp_ops *ops;
    for (size_t i = 0; i < SP_COUNT(names); i++) {
        const sp_err err = names[i].value ? names[i].check(names[i].value) : SP_OK;
        if (err != SP_OK) return sp_fail_in(err, "%s", names[i].field);
    }
    SP_TRY(sp_tiers_check_remote(t->remote, t->remote_kv, t->remote_compress));
    const sp_err err = o->machine.cpu ? sp_ops_select(o->machine.cpu, &ops) : SP_OK;
    return err == SP_E_ARG ? err : SP_OK; /* what this machine lacks is no wrong name */
}

sp_err sp_context_check(const sp_context_opts *o)
{
    sp_reuse_choice reuse;
    sp_decode_choice decode;
    const sp_queue_order *order;
    SP_NEED(o);
    SP_TRY(check_opts(o));
    SP_TRY(sp_reuse_choose(&o->reuse, &reuse));
    SP_TRY(sp_decode_parse(o->decode.how, &decode));
    SP_TRY(sp_queue_order_find(o->queue.order, &order));
    return check_names(o);
}

static sp_err open_context(sp_context *c, const sp_context_opts *o)
{
    SP_TRY(sp_context_check(o));
    SP_TRY(sp_driver_create(c, &c->driver));
    SP_TRY(sp_reuse_choose(&o->reuse, &c->defaults.reuse));
    SP_TRY(sp_decode_parse(o->decode.how, &c->defaults.decode));
    SP_TRY(sp_queue_order_find(o->queue.order, &c->waiting.order));
    c->waiting.window = o->queue.window ? o->queue.window : SP_ORDER_WINDOW;
    c->waiting.wait_us = o->queue.wait_ms * INT64_C(1000);
    c->keep_chunks = o->cache.keep_chunks;
    SP_TRY(sp_model_open(o->model, &c->model));
    if (c->model->hp.n_layers < 1)
        return sp_fail(SP_E_ARG, "%s: holds a vocabulary but no weights", o->model);
    int trained = c->model->hp.n_ctx;
    if (o->n_ctx > trained)
        return sp_fail(SP_E_ARG, "%s: a context of %d tokens is more than the %d that the model was trained for (-c)",
                       o->model, o->n_ctx, trained);
    c->loads.preload = o->tiers.preload;
    c->loads.patience_us = PATIENCE_US;
    c->step.budget.target_us = INT64_C(1000) * o->queue.gap_ms;
    c->limits.n_ctx = o->n_ctx ? o->n_ctx : SP_MIN(trained, 8192);
    c->limits.max_requests = o->max_requests ? o->max_requests : 8;
    c->limits.n_batch = SP_MAX(o->n_batch ? o->n_batch : 256, c->limits.max_requests);
    if (o->salt && !(c->salt = sp_strdup_n(o->salt, strlen(o->salt))))
        return sp_fail_nomem("the salt");
    if (o->guard.share > 0 || o->guard.share < 0)
        SP_TRY(
            sp_guard_create(o->guard.share, o->guard.bound > 0 ? o->guard.bound : 0.5f, &c->guard));
    if (!c->device)
        SP_TRY(sp_device_open(
            o->machine.device,
            &(sp_device_opts){.kernels = o->machine.cpu,
                              .n_threads = o->machine.n_threads,
                              .exact_products = o->machine.exact_products,
                              .amx_f16 = o->machine.amx_f16,
                              .amx_attend = o->machine.amx_attend},
            &c->own_device));
    if (!c->device) c->device = c->own_device;
    SP_TRY(open_pool(c, o));
    SP_TRY(open_tiers(c, o));
    SP_TRY(open_engine(c, o));
    SP_TRY(open_heads(c, o->model));
    SP_TRY(rank_heads(c));
    c->texts.vocab.tokenizer = c->model->tokenizer;
    c->texts.vocab.chat_template = c->model->chat_template;
    c->texts.prompts.tokenizer = c->model->tokenizer;
    c->texts.prompts.chat_template = c->model->chat_template;
    c->texts.prompts.chat = sp_chat_detect(c->model->chat_template);
    c->texts.prompts.salt = c->salt;
    c->texts.prompts.n_vocab = c->model->hp.n_vocab;
    SP_TRY(sp_repeats_create(&c->texts.prompts.repeats));
    return sp_known_create(SP_CUT_MAX_KNOWN, &c->texts.prompts.known);
}

sp_err sp_context_open(const sp_context_opts *o, sp_context **out)
{
    return sp_context_open_on(NULL, o, out);
}

sp_err sp_context_open_on(sp_device *device, const sp_context_opts *o, sp_context **out)
{
    const sp_context_opts defaults = {0};
    SP_NEED(out);
    if (!o) o = &defaults;
    sp_context *c = SP_NEW(sp_context);
    if (!c) return sp_fail_nomem("the context");
    c->device = device;
    c->idle = (sp_idle_work){.step = sp_guard_step, .is_left = sp_guard_busy};
    sp_err err = open_context(c, o);
    if (err != SP_OK) {
        sp_context_close(c);
        return err;
    }
    *out = c;
    return SP_OK;
}

void sp_context_close(sp_context *c)
{
    if (!c) return;
    if (c->driver) sp_context_stop(c);
    sp_guard_stop(c->guard);
    sp_guard_destroy(c->guard);
    assert(!c->waiting.first && !c->running && !c->finished);
    sp_driver_destroy(c->driver);
    c->guard = NULL;
    c->driver = NULL;
    if (!sp_tiers_end(c->tiers)) {
        sp_log(SP_LOG_WARN, "a tier does not answer: the memory that it uses is not released");
        return;
    }
    sp_tiers_close(c->tiers);
    sp_free(c->step.logits);
    sp_free(c->step.of);
    sp_free(c->step.slices);
    sp_engine_destroy(c->engine);
    sp_heads_destroy(c->heads);
    sp_token_set_destroy(c->texts.grammar_tokens);
    sp_known_destroy(c->texts.prompts.known);
    sp_repeats_destroy(c->texts.prompts.repeats);
    sp_shares_fini(&c->waiting.shares);
    sp_free(c->waiting.began);
    sp_ledger_destroy(c->ledger);
    sp_offload_destroy(c->offload);
    assert(!c->pool ||
           sp_kv_pool_n_free(c->pool) == sp_kv_pool_n_blocks(c->pool)); /* no block is lost */
    sp_kv_pool_destroy(c->pool);
    sp_model_close(c->model);
    sp_device_close(c->own_device);
    sp_free(c->store);
    sp_free(c->salt);
    sp_free(c);
}

static sp_err describe(sp_context *c, void *arg)
{
    const sp_hparams *hp = &c->model->hp;
    sp_ledger_stats cached = sp_ledger_stats_of(c->ledger);
    sp_tier *remote = sp_tiers_remote(c->tiers);
    *(sp_context_info *)arg = (sp_context_info){
        .arch = hp->arch,
        .tokenizer = c->model->tokenizer ? sp_tokenizer_kind(c->model->tokenizer) : "none",
        .chat = sp_chat_name(c->texts.prompts.chat),
        .kernels = c->device->kernels,
        .n_layers = hp->n_layers,
        .n_embd = hp->n_embd,
        .n_heads = hp->n_heads,
        .n_kv_heads = hp->n_kv_heads,
        .head = hp->head,
        .n_vocab = hp->n_vocab,
        .n_ctx = c->limits.n_ctx,
        .n_threads = c->device->n_threads,
        .n_params = sp_model_n_params(c->model),
        .kv_blocks = sp_kv_pool_n_blocks(c->pool),
        .kv_blocks_free = sp_kv_pool_n_free(c->pool),
        .cached_blocks = cached.n_blocks,
        .cached_segments = cached.n_copies - cached.n_free,
        .kv_block_bytes = sp_kv_block_bytes(sp_kv_pool_shape(c->pool)),
        .packed_bytes = c->model->on_device.n_bytes,
        .mapped_bytes = c->model->mapped_bytes,
        .n_lookups = cached.n_lookups,
        .n_hits = cached.n_hits,
        .n_evicted = cached.n_evicted,
        .n_computed = c->step.n_tokens,
        .step_us = c->step.step_us,
        .compute_us = c->step.compute_us,
        .token_us = sp_pace_us(&c->pace, SHORT_PROMPT) / SHORT_PROMPT,
        .token_measured = c->pace.measured,
        .has_remote = remote != NULL,
        .remote_answers = remote && sp_tier_answers(remote),
        .remote_copies = remote ? sp_tier_stats_of(remote).n_copies : 0,
    };
    return SP_OK;
}

sp_context_info sp_context_describe(sp_context *c)
{
    sp_context_info info = {0};
    if (!c) return info;
    if (sp_driver_call(c, describe, &info) != SP_OK) assert(false); /* it has no error */
    return info;
}

static sp_err forget(sp_context *c, void *arg)
{
    SP_UNUSED(arg);
    if (c->tiers) sp_tiers_drain(c->tiers); /* what is written is pinned until then */
    sp_ledger_clear(c->ledger);
    return SP_OK;
}

void sp_context_forget(sp_context *c)
{
    if (c && sp_driver_call(c, forget, NULL) != SP_OK) assert(false); /* it has no error */
}

const sp_vocab *sp_context_vocab(const sp_context *c)
{
    return c ? &c->texts.vocab : NULL;
}

const char *sp_version(void)
{
    return SPOLIA_VERSION;
}

const sp_prompt_space *sp_context_prompts(const sp_context *c)
{
    return &c->texts.prompts;
}
