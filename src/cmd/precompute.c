/* precompute.c -- computes copies of all chunks of an index into its store, or into a remote tier.
 *
 * A prompt for each chunk holds the system text, the most similar chunks (the best first) and the
 * chunk; sp_chunk_fuse computes the chunk's copy and stores it on disk. A copy that was fused with exactly
 * these chunks is kept, so a second run costs lookups only, and after a change only chunks whose
 * similar chunks changed are computed. Each copy is written whole or not at all: Ctrl-C ends
 * the chunk that is being computed, and the same command continues from there.
 *
 * Several processes can share the work on one index (--shard K/N): a chunk belongs to one of them by a hash of its
 * title and text.
 *
 * At the end, copies of chunks that are gone are deleted, but only from a store that was made for
 * this index: a store that was empty when it was first used got a file `made-for` with the index's
 * path, and that file must name this index.
 *
 * Source: FusionRAG section 3.1, eq. 10; incremental updates.
 */
#include "cmd/precompute.h"

#include <dirent.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/asked.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/show.h"
#include "cmd/commands.h"

typedef struct counts {
    int64_t n_done, n_fused, n_unchanged, n_alone, n_long, n_twins, n_similar, n_removed, n_others;
} counts;

typedef struct run {
    const precompute_options *o;
    const char *store; /* NULL: the copies go to the remote tier alone */
    sp_context *ctx;
    sp_index *index;
    int64_t n_chunks;
    json_t *seen; /* a set: chunks by a hash of title and text */
    sp_store_need need;
    int64_t n_tokens;                     /* that are to be computed, about */
    int64_t bytes;                        /* of the store, now */
    bool told_cap, own_store, by_default; /* by_default: the store is FILE.kv */
    progress progress;
    counts n;
} run;

/* -- options -------------------------------------------------------------------------------- */

void precompute_init(precompute_options *o)
{
    *o = (precompute_options){.n_similar = 10, .similar = "bm25", .system = CLI_SYSTEM_TEXT};
    model_options_init(&o->model);
    for (opt *t = o->model.table; t->kind != OPT_END; t++) t->required = false;
    const opt table[] = {
        {OPT_GROUP, "Copies"},
        {OPT_INT, "fuse", 0, "N", &o->n_similar,
         "similar chunks that a copy is conditioned on; 0: plain copies (10)", .limits = {0, INT32_MAX}},
        {OPT_STRING, "similar", 0, "SOURCE", &o->similar, CLI_SIMILAR_HELP},
        {OPT_STRING, "asked", 0, "FILE", &o->asked, CLI_ASKED_HELP},
        {OPT_STRING, "system", 0, "TEXT", &o->system, "system text; must equal that of ask"},
        {OPT_STRING, "shard", 0, "K/N", &o->shard,
         "compute only part K of N of the chunks; other runs compute the rest (all)"},
        {OPT_END, NULL, 0, NULL, NULL, NULL},
    };
    memcpy(o->table, table, sizeof table);
}

/* read_shard -- "3/8"; no text: all. */
static bool read_shard(precompute_options *o)
{
    char more;
    o->part = o->n_parts = 1;
    return !o->shard ||
           (sscanf(o->shard, "%d/%d%c", &o->part, &o->n_parts, &more) == 2 && o->part >= 1 && o->part <= o->n_parts);
}

int precompute_check(precompute_options *o, const char *command)
{
    const char *wrong = cli_asked_wrong(o->similar, o->asked);
    if (!o->model.ctx.model)
        cli_fail_with("%s: computing copies needs a model, -m PATH", command);
    else if (wrong)
        cli_fail_with("%s: %s", command, wrong);
    else if (!read_shard(o))
        cli_fail_with("%s: --shard is \"%s\" and must be K/N, such as 3/8", command, o->shard);
    else
        return model_options_check(&o->model);
    return 2;
}

/* -- owner of the store --------------------------------------------------------------------- */

static bool is_empty(const char *folder)
{
    DIR *d = opendir(folder);
    bool any = false;
    for (struct dirent *e; d && !any && (e = readdir(d));) any = e->d_name[0] != '.';
    if (d) closedir(d);
    return !any;
}

/* claim -- whether the store was made for this index; `fresh`: it is being made now. */
static bool claim(const char *store, const char *index_path, bool fresh)
{
    char *index = realpath(index_path, NULL), *name = NULL, *owner = NULL;
    bool own = false;
    size_t n = 0;
    if (index && asprintf(&name, "%s/made-for", store) < 0) name = NULL;
    FILE *f = name ? fopen(name, fresh ? "w" : "r") : NULL;
    if (f && fresh)
        own = fprintf(f, "%s\n", index) > 0;
    else if (f && getline(&owner, &n, f) > 0)
        own = strncmp(owner, index, strlen(index)) == 0 && strcmp(owner + strlen(index), "\n") == 0;
    if (f && fclose(f) != 0) own = false;
    free(owner);
    free(name);
    free(index);
    return own;
}

/* -- one chunk ------------------------------------------------------------------------------ */

/* hash_of -- title and text: the same on every machine. FNV-1a. */
static uint64_t hash_of(const sp_hit *chunk)
{
    const char *const parts[] = {chunk->title, chunk->text};
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 0; i < 2; i++)
        for (const char *s = parts[i];; s++) {
            h = (h ^ (unsigned char)*s) * 0x100000001b3u;
            if (!*s) break;
        }
    return h;
}

/* is_ours -- the chunk is of this process's part. */
static bool is_ours(const run *r, uint64_t hash)
{
    return (int)((hash >> 32) % (uint64_t)r->o->n_parts) == r->o->part - 1;
}

/* first_time -- chunks with equal title and text share a copy, which the first of them computes. */
static bool first_time(run *r, uint64_t hash)
{
    char key[20];
    snprintf(key, sizeof key, "%016" PRIx64, hash);
    if (json_object_get(r->seen, key)) return false;
    json_object_set_new(r->seen, key, json_true());
    return true;
}

static sp_err make_prompt(run *r, const sp_hits *similar, int n, const sp_hit *chunk,
                          sp_prompt **out)
{
    sp_prompt *p;
    sp_err err = sp_prompt_create(r->ctx, &p);
    if (err != SP_OK) return err;
    err = sp_prompt_system(p, r->o->system);
    for (int i = 0; i < n && err == SP_OK; i++)
        err = sp_prompt_chunk(p, similar->v[i].title, similar->v[i].text);
    if (err == SP_OK) err = sp_prompt_chunk(p, chunk->title, chunk->text);
    if (err != SP_OK) {
        sp_prompt_destroy(p);
        return err;
    }
    *out = p;
    return SP_OK;
}

/* tell_cap -- prints once, for the first chunk, that not all similar chunks fit. */
static void tell_cap(run *r, const sp_hit *chunk, int n, int wanted)
{
    if (r->told_cap || n == wanted) return;
    r->told_cap = true;
    fprintf(stderr,
            "%sspolia: chunk %" PRId64 ": %d of %d similar chunks fit into the context of %d "
            "tokens; this may be so for other chunks, too\n",
            r->progress.on_terminal ? "\r\033[K" : "", chunk->id, n, wanted,
            sp_context_describe(r->ctx).n_ctx);
}

/* fitting_prompt -- with as many of the best similar chunks as fit the context, [*n]; NULL: the chunk alone does not.
 */
static sp_err fitting_prompt(run *r, const sp_hits *similar, const sp_hit *chunk, int *n, sp_prompt **out)
{
    const int n_ctx = sp_context_describe(r->ctx).n_ctx;
    *out = NULL;
    for (*n = similar->n; *n >= 0; --*n) {
        sp_prompt *p;
        sp_err err = make_prompt(r, similar, *n, chunk, &p);
        if (err != SP_OK) return err;
        if (sp_prompt_n_tokens(p) <= n_ctx) {
            tell_cap(r, chunk, *n, similar->n);
            *out = p;
            return SP_OK;
        }
        sp_prompt_destroy(p);
    }
    return SP_OK;
}

/* look_at_store -- its size, and what the disk has; of a remote tier nothing is known. */
static sp_err look_at_store(run *r, sp_store_info *out)
{
    *out = (sp_store_info){0};
    if (!r->store) return SP_OK;
    sp_err err = sp_store_describe(r->ctx, out);
    if (err == SP_OK) r->bytes = out->bytes;
    return err;
}

static void show_left(char *out, size_t size, int seconds)
{
    snprintf(out, size, "%d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

/* draw -- by tokens: the first chunks take long, since their similar chunks get plain copies then. */
static void draw(run *r)
{
    char bytes[SHOW_SIZE], left[24] = "?";
    sp_store_info store;
    if (!progress_is_due(&r->progress) || look_at_store(r, &store) != SP_OK) return;
    const int64_t done = sp_context_describe(r->ctx).n_computed;
    const int64_t all = r->n_tokens > done ? r->n_tokens : done;
    const double passed = progress_seconds(&r->progress);
    if (!r->store) {
        progress_draw(&r->progress, "%" PRId64 "/%" PRId64 " chunks  %" PRId64 " tokens computed", r->n.n_done,
                      r->n_chunks, done);
        return;
    }
    if (done) show_left(left, sizeof left, (int)(passed / (double)done * (double)(all - done)));
    progress_draw(&r->progress,
                  "%" PRId64 "/%" PRId64 " tokens  %" PRId64 "/%" PRId64 " chunks  %s  %s left",
                  done, all, r->n.n_done, r->n_chunks, show_size(bytes, r->bytes), left);
}

/* goes_on -- asked between layers: draws, and ends at Ctrl-C. */
static bool goes_on(void *user)
{
    draw(user);
    return !progress_interrupted();
}

static sp_err fuse(run *r, const sp_hits *similar, const sp_hit *chunk)
{
    sp_prompt *p;
    bool fresh;
    int n;
    sp_err err = fitting_prompt(r, similar, chunk, &n, &p);
    if (err != SP_OK) return err;
    if (!p) {
        r->n.n_long++;
        return SP_OK;
    }
    err = sp_chunk_fuse_while(r->ctx, p, goes_on, r, &fresh);
    sp_prompt_destroy(p);
    if (err != SP_OK) return err;
    r->n.n_similar += n;
    if (n == 0 && r->o->n_similar > 0)
        r->n.n_alone++;
    else
        ++*(fresh ? &r->n.n_fused : &r->n.n_unchanged);
    return SP_OK;
}

static sp_err take_chunk(run *r, const sp_hit *chunk)
{
    const uint64_t hash = hash_of(chunk);
    if (!is_ours(r, hash)) {
        r->n.n_others++;
        return SP_OK;
    }
    if (!first_time(r, hash)) {
        r->n.n_twins++;
        return SP_OK;
    }
    sp_hits similar = {0};
    sp_err err = SP_OK;
    if (r->o->n_similar) err = sp_index_similar(r->index, r->o->similar, chunk->id, r->o->n_similar, &similar);
    if (err != SP_OK) return err;
    err = fuse(r, &similar, chunk);
    sp_hits_fini(&similar);
    return err;
}

/* -- all of them ---------------------------------------------------------------------------- */

/* is_plain -- no chunk gets a fused copy. */
static bool is_plain(const run *r)
{
    return r->o->n_similar == 0;
}

static int64_t bytes_expected(const run *r)
{
    return is_plain(r) ? r->need.plain_bytes : r->need.bytes;
}

/* check_size -- says what is to come, and refuses what cannot fit: nothing is computed then. */
static bool check_size(run *r, bool quiet)
{
    char need[SHOW_SIZE], more[SHOW_SIZE], token[SHOW_SIZE], room[SHOW_SIZE];
    sp_store_info store;
    if (!r->store) return true;
    sp_err err = look_at_store(r, &store);
    if (err == SP_OK) err = sp_store_estimate(r->ctx, r->index, r->o->system, &r->need);
    if (err != SP_OK) return cli_fail(err), false;
    const bool plain = is_plain(r);
    const int64_t bytes = bytes_expected(r), new_bytes = plain ? r->need.new_plain_bytes : r->need.new_bytes;
    if (bytes)
        r->n_tokens = (int64_t)((plain ? 1.0 : 2.0) * (double)r->need.n_tokens * (double)new_bytes / (double)bytes);
    show_size(need, bytes);
    show_size(more, new_bytes);
    show_size(token, store.token_bytes);
    if (!quiet)
        fprintf(stderr,
                "spolia: %" PRId64 " chunks with %" PRId64 " tokens take %s (%s of %s a token), "
                "%s of it new; %s are free\n",
                r->need.n_chunks, r->need.n_tokens, need, plain ? "a copy" : "two copies", token, more,
                show_size(room, store.disk_free));
    const int64_t usable = store.max_bytes / 8 * 7; /* the rest is for moving copies */
    const int64_t room_left = store.disk_free - store.disk_reserve;
    if (!store.writes)
        cli_fail_with("%s: the store is only read (see above): name another with --store", r->store);
    else if (new_bytes > room_left)
        cli_fail_with("%s: the copies need %s more, but only %s of the disk can be used; nothing "
                      "was computed",
                      r->store, more, show_size(room, room_left > 0 ? room_left : 0));
    else if (bytes > usable)
        cli_fail_with("%s: the copies need %s, but the store may hold %s; raise --store-max SIZE; "
                      "nothing was computed",
                      r->store, need, show_size(room, usable));
    else
        return true;
    return false;
}

static sp_err take_all(run *r)
{
    sp_err err = SP_OK;
    bool any = true;
    for (int64_t id = 0; err == SP_OK && any && !progress_interrupted();) {
        sp_hits chunk;
        draw(r);
        err = sp_index_chunk(r->index, id, &chunk);
        if (err != SP_OK) break;
        any = chunk.n > 0;
        if (any) {
            id = chunk.v[0].id;
            err = take_chunk(r, &chunk.v[0]);
            if (err == SP_E_CANCELED && progress_interrupted())
                err = SP_OK;
            else
                r->n.n_done += err == SP_OK;
        }
        sp_hits_fini(&chunk);
    }
    return err;
}

static void print_json(const run *r, double took)
{
    const counts *n = &r->n;
    json_t *o = json_pack(
        "{s:s?, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:f}", "store", r->store, "remote",
        (int)(r->o->model.ctx.tiers.remote != NULL), "chunks", (json_int_t)n->n_done, "fused", (json_int_t)n->n_fused,
        "unchanged", (json_int_t)n->n_unchanged, "alone", (json_int_t)n->n_alone, "too_long", (json_int_t)n->n_long,
        "duplicates", (json_int_t)n->n_twins, "others", (json_int_t)n->n_others, "similar", (json_int_t)n->n_similar,
        "removed", (json_int_t)n->n_removed, "complete", (int)(n->n_done == r->n_chunks), "bytes",
        (json_int_t)r->bytes, "bytes_expected", (json_int_t)bytes_expected(r), "seconds", took);
    cli_print_json(o, 0);
}

static void print_summary(const run *r, bool as_json)
{
    const counts *n = &r->n;
    const double took = progress_seconds(&r->progress);
    char bytes[SHOW_SIZE];
    if (as_json) {
        print_json(r, took);
        return;
    }
    printf("%s: %" PRId64 " chunks %s, %" PRId64 " unchanged", r->store ? r->store : "remote tier", n->n_fused,
           r->o->n_similar ? "fused" : "computed", n->n_unchanged);
    if (r->store) printf(", %" PRId64 " removed, %s", n->n_removed, show_size(bytes, r->bytes));
    printf(", in %.1f s", took);
    if (r->o->n_similar)
        printf("; with %.1f similar chunks each", (double)n->n_similar / (double)(n->n_fused + n->n_unchanged + 1e-9));
    putchar('\n');
    if (n->n_alone + n->n_long + n->n_twins)
        printf("  not fused: %" PRId64 " without similar chunks, %" PRId64
               " too long for the context, %" PRId64 " duplicates\n",
               n->n_alone, n->n_long, n->n_twins);
    if (n->n_others) printf("  of other parts: %" PRId64 " chunks\n", n->n_others);
}

/* print_hints -- what reads the copies. */
static void print_hints(const run *r, bool as_json)
{
    if (r->store && !r->own_store)
        fprintf(stderr, "spolia: %s was not made for this index: nothing is deleted from it\n", r->store);
    if (as_json) return;
    fprintf(stderr, "spolia: %s uses them\n",
            !r->store       ? "serve or ask with this --remote"
            : r->by_default ? "ask with this index and --reuse fusion"
                            : "ask with this --store and --reuse fusion");
}

static int finish(run *r, sp_err err, bool quiet, bool as_json)
{
    bool complete = err == SP_OK && r->n.n_done == r->n_chunks;
    if (complete && r->own_store) err = sp_store_retain(r->ctx, r->index, &r->n.n_removed);
    sp_store_info store;
    if (err == SP_OK) err = look_at_store(r, &store);
    progress_end(&r->progress);
    if (err != SP_OK) return cli_fail(err);
    if (!quiet || as_json) print_summary(r, as_json);
    if (complete && !quiet) print_hints(r, as_json);
    if (complete) return 0;
    cli_warn("interrupted after %" PRId64 " of %" PRId64
             " chunks; the same command continues from there",
             r->n.n_done, r->n_chunks);
    return 1;
}

int precompute(precompute_options *o, const char *index_path, bool quiet, bool as_json)
{
    run r = {.o = o};
    char *by_default = NULL;
    int code = 1;
    sp_tier_opts *tiers = &o->model.ctx.tiers;
    tiers->remote_must = tiers->remote != NULL;
    if (!tiers->store && !tiers->remote && asprintf(&by_default, "%s.kv", index_path) >= 0) tiers->store = by_default;
    r.by_default = by_default != NULL;
    r.store = tiers->store;
    o->model.ctx.guard.share = 0; /* there are no answers to check */
    bool fresh = r.store && is_empty(r.store);
    r.seen = json_object();
    sp_err err = sp_index_open(index_path, &r.index);
    if (err != SP_OK)
        cli_fail(err);
    else if (!r.seen || (!r.store && !tiers->remote))
        cli_fail(SP_E_NOMEM);
    else if ((r.ctx = model_options_open(&o->model))) {
        const bool asked = !o->asked || cli_note_asked(r.index, o->asked);
        r.own_store = r.store && claim(r.store, index_path, fresh);
        r.n_chunks = sp_index_n_chunks(r.index);
        progress_begin(&r.progress, quiet, o->model.verbose ? SP_LOG_DEBUG : SP_LOG_WARN);
        if (asked && check_size(&r, quiet))
            code = finish(&r, take_all(&r), quiet, as_json);
        else
            progress_end(&r.progress);
    }
    sp_context_close(r.ctx);
    sp_index_close(r.index);
    json_decref(r.seen);
    free(by_default);
    return code;
}

int cmd_precompute(int argc, char **argv)
{
    precompute_options o;
    bool quiet = false, as_json = false;
    precompute_init(&o);
    const opt table[] = {
        {OPT_FLAG, "quiet", 'q', NULL, &quiet, "print warnings only"},
        {OPT_FLAG, "json", 0, NULL, &as_json, "print the summary as JSON"},
        {0},
    };
    const opt *const tables[] = {table, o.table, o.model.table, NULL};
    int at = opt_parse(
        argc, argv,
        &(opt_usage){"precompute INDEX -m MODEL [options]",
                     "Computes copies of all chunks of an index before a question comes: into --store (INDEX.kv), or "
                     "with\n--remote for all servers that share it. Existing copies are kept, so the same "
                     "command\ncontinues after Ctrl-C. With --shard, several processes or machines share the work "
                     "without\ncoordination: each runs the same command with another K."},
        tables);
    if (at < 0) return -1 - at;
    if (at + 1 != argc) return cli_fail_with("usage: spolia precompute INDEX -m MODEL [options]"), 2;
    const int wrong = precompute_check(&o, "precompute");
    return wrong ? wrong : precompute(&o, argv[at], quiet, as_json);
}
