/* change.c -- `spolia cache verify`, `export`, `import`, `drop` and `gc`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/progress.h"
#include "cli/show.h"
#include "cmd/cache/cache.h"

/* -- verify --------------------------------------------------------------------------------- */

static bool draw(int64_t done, int64_t total, void *user)
{
    progress_draw(user, "%" PRId64 "/%" PRId64 " copies", done, total);
    return !progress_interrupted();
}

/* open_to_check -- to write, so that damage is put out of the store; else to read. */
static sp_err open_to_check(const cache_options *o, sp_store **out)
{
    sp_err err = cache_open(o, SP_STORE_WRITE, out);
    return err == SP_E_IO && o->store ? cache_open(o, SP_STORE_READ, out) : err;
}

static void print_check(const cache_options *o, const sp_store_stats *s, double took)
{
    char bytes[SHOW_SIZE];
    if (o->as_json) {
        cli_print_json(json_pack("{s:s, s:I, s:I, s:I, s:b, s:f}", "store", o->name, "copies",
                                 (json_int_t)s->n_copies, "bytes", (json_int_t)s->bytes, "damaged",
                                 (json_int_t)s->n_damaged, "quarantined", (int)s->writes, "seconds",
                                 took), 0);
        return;
    }
    show_line(stdout, o->name, 0);
    printf(": %" PRId64 " %s of %s %s good", s->n_copies, cache_copies(s->n_copies), show_size(bytes, s->bytes),
           s->n_copies == 1 ? "is" : "are");
    if (s->n_damaged)
        printf("; %" PRId64 " damaged%s", s->n_damaged,
               s->writes ? ", which are not used any more"
                         : "; they stay in the store, which another process writes");
    printf("; %.1f s\n", took);
}

int cmd_cache_verify(int argc, char **argv)
{
    cache_options o;
    progress p;
    sp_store *s = NULL;
    sp_store_stats sum = {0};
    int at = cache_parse(argc, argv,
                         &(opt_usage){"cache verify (--store DIR | --remote URL) [--json]",
                                      "Reads every layer of every copy and compares checksums. "
                                      "Damaged copies are no longer\nused; a damaged index is "
                                      "rebuilt. Exit code 1 if anything was damaged."},
                         &o, NULL, 0);
    if (at < 0) return -1 - at;
    progress_begin(&p, o.as_json, SP_LOG_WARN);
    sp_err err = open_to_check(&o, &s);
    if (err == SP_OK) err = sp_store_verify(s, draw, &p, &sum);
    progress_end(&p);
    if (err == SP_OK) print_check(&o, &sum, progress_seconds(&p));
    sp_store_close(s);
    if (err != SP_OK) return cli_fail(err);
    return sum.n_damaged ? 1 : 0;
}

/* -- files ---------------------------------------------------------------------------------- */

static void print_moved(const cache_options *o, const char *file, const sp_store_stats *s,
                        const char *verb)
{
    char bytes[SHOW_SIZE];
    if (o->as_json) {
        cli_print_json(json_pack("{s:s, s:s, s:I, s:I, s:I}", "store", o->name, "file", file,
                                 "copies", (json_int_t)s->n_copies, "bytes", (json_int_t)s->bytes,
                                 "damaged", (json_int_t)s->n_damaged), 0);
        return;
    }
    show_line(stdout, file, 0);
    printf(": %" PRId64 " %s %s, %s", s->n_copies, cache_copies(s->n_copies), verb, show_size(bytes, s->bytes));
    if (s->n_damaged) printf("; %" PRId64 " damaged, left out", s->n_damaged);
    putchar('\n');
}

static int no_archive(void)
{
    return cli_fail_with("cache: files of copies are written from a folder and read into one: --store DIR"), 2;
}

int cmd_cache_export(int argc, char **argv)
{
    cache_options o;
    const char *space = NULL;
    sp_store *s = NULL;
    sp_store_stats sum;
    const opt own[] = {{OPT_STRING, "namespace", 0, "NAME", &space,
                        "a prefix of the namespace, if the store has several"},
                       {0}};
    int at = cache_parse(argc, argv,
                         &(opt_usage){"cache export FILE --store DIR [options]",
                                      "Writes the copies of one model and KV type to a file, for "
                                      "a machine with the same model."},
                         &o, own, 1);
    if (at < 0) return -1 - at;
    if (o.remote) return no_archive();
    sp_err err = sp_store_open(o.store, SP_STORE_READ, &s);
    if (err == SP_OK) err = sp_store_export(s, space, argv[at], &sum);
    if (err == SP_OK) print_moved(&o, argv[at], &sum, "written");
    sp_store_close(s);
    if (err != SP_OK) return cli_fail(err);
    return sum.n_damaged ? 1 : 0;
}

int cmd_cache_import(int argc, char **argv)
{
    cache_options o;
    const char *model = NULL, *type = NULL;
    char space[65];
    sp_store *s = NULL;
    sp_store_stats sum;
    sp_err err = SP_OK;
    const opt own[] = {{OPT_STRING, "model", 'm', "PATH", &model,
                        "refuse copies of any other model (one that the store has)",
                        .is_model = true},
                       {OPT_STRING, "ctk", 0, "TYPE", &type,
                        "with --model: type of keys and values (" SP_KV_TYPE ")"},
                       {0}};
    int at =
        cache_parse(argc, argv,
                    &(opt_usage){"cache import FILE --store DIR [options]",
                                 "Adds the copies that spolia cache export wrote. The store is "
                                 "created if need be; one that has\ncopies takes those of its own "
                                 "models, or of the one that --model names."},
                    &o, own, 1);
    if (at < 0) return -1 - at;
    if (o.remote) return no_archive();
    if (model) err = sp_store_space(model, type, space);
    if (err == SP_OK) err = sp_store_open(o.store, SP_STORE_CREATE, &s);
    if (err == SP_OK) err = sp_store_import(s, model ? space : NULL, argv[at], &sum);
    if (err == SP_OK) print_moved(&o, argv[at], &sum, "read");
    sp_store_close(s);
    if (err != SP_OK) return cli_fail(err);
    return sum.n_damaged ? 1 : 0;
}

/* -- less ----------------------------------------------------------------------------------- */

int cmd_cache_drop(int argc, char **argv)
{
    cache_options o;
    int64_t n = 0;
    sp_store *s = NULL;
    int at = cache_parse(argc, argv,
                         &(opt_usage){"cache drop ID (--store DIR | --remote URL) [--json]",
                                      "Deletes all copies of one chunk. ID: a prefix of the copy's id."},
                         &o, NULL, 1);
    if (at < 0) return -1 - at;
    sp_err err = cache_open(&o, SP_STORE_WRITE, &s);
    if (err == SP_OK) err = sp_store_drop(s, argv[at], &n);
    sp_store_close(s);
    if (err != SP_OK) return cli_fail(err);
    if (o.as_json)
        cli_print_json(json_pack("{s:s, s:s, s:I}", "store", o.name, "id", argv[at], "dropped",
                                 (json_int_t)n), 0);
    else
        printf("%" PRId64 " %s deleted\n", n, cache_copies(n));
    return 0;
}

static void print_freed(const cache_options *o, int64_t budget, const sp_store_stats *before,
                        const sp_store_stats *now)
{
    char bytes[SHOW_SIZE], was[SHOW_SIZE];
    const int64_t n = before->n_copies - now->n_copies;
    if (o->as_json) {
        cli_print_json(json_pack("{s:s, s:I, s:I, s:I, s:I}", "store", o->name, "budget",
                                 (json_int_t)budget, "dropped", (json_int_t)n, "copies",
                                 (json_int_t)now->n_copies, "file_bytes",
                                 (json_int_t)now->file_bytes), 0);
        return;
    }
    printf("%" PRId64 " %s deleted, %" PRId64 " left; %s of %s\n", n, cache_copies(n), now->n_copies,
           show_size(bytes, now->file_bytes), show_size(was, before->file_bytes));
}

/* clean -- `gc` of a server. */
static int clean(const cache_options *o)
{
    int64_t n_orphans = 0, n_gone = 0;
    sp_store *s = NULL;
    sp_err err = cache_open(o, SP_STORE_WRITE, &s);
    if (err == SP_OK) err = sp_store_clean(s, &n_orphans, &n_gone);
    sp_store_close(s);
    if (err != SP_OK) return cli_fail(err);
    if (o->as_json)
        cli_print_json(json_pack("{s:s, s:I, s:I}", "store", o->name, "dropped", (json_int_t)n_orphans, "forgotten",
                                 (json_int_t)n_gone), 0);
    else
        printf("%" PRId64 " %s deleted that no index names; %" PRId64 " forgotten that the server has dropped\n",
               n_orphans, cache_copies(n_orphans), n_gone);
    return 0;
}

int cmd_cache_gc(int argc, char **argv)
{
    cache_options o;
    int64_t budget = 0;
    sp_store *s = NULL;
    sp_store_stats before, now;
    const opt own[] = {{OPT_SIZE, "budget", 0, "SIZE", &budget,
                        "size of the files afterwards, such as 20G"},
                       {0}};
    int at =
        cache_parse(argc, argv,
                    &(opt_usage){"cache gc (--budget SIZE --store DIR | --remote URL) [--json]",
                                 "Deletes the least recently used copies until the "
                                 "files of the store fit into SIZE. If several\nmodels have "
                                 "copies, each loses its share. With --remote, deletes copies that no index names, "
                                 "and\nforgets copies that the server has dropped; the budget is the server's own "
                                 "(maxmemory, or a\nlifecycle rule)."},
                    &o, own, 0);
    if (at < 0) return -1 - at;
    if (o.remote && budget)
        return cli_fail_with("cache gc: --budget is for a folder (--store): the server has a budget of its own"), 2;
    if (o.remote) return clean(&o);
    if (!budget) return cli_fail_with("cache gc: --budget SIZE is missing"), 2;
    sp_err err = cache_open(&o, SP_STORE_WRITE, &s);
    if (err == SP_OK) err = sp_store_stats_of(s, &before);
    if (err == SP_OK) err = sp_store_trim(s, budget);
    if (err == SP_OK) err = sp_store_stats_of(s, &now);
    if (err == SP_OK) print_freed(&o, budget, &before, &now);
    sp_store_close(s);
    return err == SP_OK ? 0 : cli_fail(err);
}
