/* cache.c -- `spolia cache list` and `show`; options that all commands of `spolia cache` have. */
#include "cmd/cache/cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/show.h"
#include "cmd/commands.h"

const cli_command cmd_caches[] = {
    {"list", NULL, "list the copies in a store", cmd_cache_list},
    {"show", NULL, "print what is known of a chunk's copies", cmd_cache_show},
    {"verify", NULL, "read all copies and check them", cmd_cache_verify},
    {"export", NULL, "write copies to a file for another machine", cmd_cache_export},
    {"import", NULL, "add copies from an exported file", cmd_cache_import},
    {"drop", NULL, "delete the copies of one chunk", cmd_cache_drop},
    {"gc", NULL, "delete copies until the store is small enough", cmd_cache_gc},
    {0},
};

enum { SHORT_ID = 12, SHORT_SPACE = 8 };

/* -- options -------------------------------------------------------------------------------- */

static void log_line(sp_log_level level, const char *line, void *user)
{
    (void)user;
    if (level <= SP_LOG_WARN) cli_warn("%s", line);
}

int cache_parse(int argc, char **argv, const opt_usage *usage, cache_options *o, const opt *own,
                int n_operands)
{
    *o = (cache_options){0};
    const opt table[] = {
        {OPT_STRING, "store", 0, "DIR", &o->store, "folder of copies"},
        {OPT_STRING, "remote", 0, "URL", &o->remote, "instead of --store: redis:// or s3://, as for serve"},
        {OPT_STRING, "remote-key-file", 0, "FILE", &o->remote_key_file, "the key of its copies"},
        {OPT_STRING, "remote-ca", 0, "FILE", &o->remote_ca, "certificates that rediss:// and s3:// trust (the system's)"},
        {OPT_FLAG, "json", 0, NULL, &o->as_json, "print JSON"},
        {0},
    };
    _Static_assert(sizeof table <= sizeof o->table, "cache_options.table is too short");
    memcpy(o->table, table, sizeof table);
    const opt *const tables[] = {o->table, own, NULL};
    int at = opt_parse(argc, argv, usage, tables);
    if (at < 0) return at;
    sp_log_set(SP_LOG_WARN, log_line, NULL);
    const char *password = o->remote ? strrchr(o->remote, '@') : NULL;
    o->name = password ? password + 1 : o->remote ? o->remote : o->store;
    if (at + n_operands != argc)
        cli_fail_with("usage: spolia %s", usage->synopsis);
    else if (!o->store == !o->remote)
        cli_fail_with("cache: which copies: --store DIR or --remote URL");
    else if (o->remote && sp_store_check_url(o->remote) != SP_OK)
        cli_fail_with("--remote: %s", sp_error_detail());
    else
        return at;
    return -3;
}

sp_err cache_open(const cache_options *o, sp_store_mode mode, sp_store **out)
{
    return o->remote ? sp_store_open_remote(o->remote, o->remote_key_file, o->remote_ca, out)
                     : sp_store_open(o->store, mode, out);
}

/* -- list ----------------------------------------------------------------------------------- */

static json_t *copy_json(const sp_store_copy *c)
{
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:i, s:I, s:I, s:b, s:b}", "id", c->id, "namespace", c->space,
                  "kind", c->kind, "tokens", c->n_tokens, "bytes", (json_int_t)c->bytes, "uses",
                  (json_int_t)c->n_uses, "exact", (int)c->exact, "measured", (int)c->measured);
    if (c->cost_us > 0) json_object_set_new(o, "cost_ms", json_real(c->cost_us / 1000));
    return o;
}

static sp_err add_json(const sp_store_copy *c, void *user)
{
    json_array_append_new(user, copy_json(c));
    return SP_OK;
}

static sp_err print_row(const sp_store_copy *c, void *user)
{
    char bytes[SHOW_SIZE];
    bool *any = user;
    if (!*any)
        printf("%-*s  %-5s  %7s  %10s  %9s  %5s  %s\n", SHORT_ID, "id", "kind", "tokens", "size",
               "cost", "uses", "namespace");
    *any = true;
    printf("%.*s  %-5s  %7d  %10s  ", SHORT_ID, c->id, c->kind, c->n_tokens,
           show_size(bytes, c->bytes));
    if (c->cost_us > 0)
        printf("%6.1f ms", c->cost_us / 1000);
    else
        printf("%9s", "");
    printf("  %5" PRId64 "  %.*s\n", c->n_uses, SHORT_SPACE, c->space);
    return SP_OK;
}

const char *cache_copies(int64_t n)
{
    return n == 1 ? "copy" : "copies";
}

static void print_sum(const char *dir, const sp_store_stats *s)
{
    char bytes[SHOW_SIZE], files[SHOW_SIZE];
    show_line(stdout, dir, 0);
    printf(": %" PRId64 " %s, %s in files of %s\n", s->n_copies, cache_copies(s->n_copies), show_size(bytes, s->bytes),
           show_size(files, s->file_bytes));
}

static sp_err list(const cache_options *o, sp_store *s)
{
    sp_store_stats sum;
    bool any = false;
    json_t *copies = o->as_json ? json_array() : NULL;
    sp_err err = sp_store_list(s, copies ? add_json : print_row, copies ? (void *)copies : &any);
    if (err == SP_OK) err = sp_store_stats_of(s, &sum);
    if (err != SP_OK)
        json_decref(copies);
    else if (copies)
        cli_print_json(json_pack("{s:s, s:I, s:I, s:o}", "store", o->name, "bytes",
                                 (json_int_t)sum.bytes, "file_bytes", (json_int_t)sum.file_bytes,
                                 "copies", copies), 0);
    else
        print_sum(o->name, &sum);
    return err;
}

int cmd_cache_list(int argc, char **argv)
{
    cache_options o;
    sp_store *s = NULL;
    int at = cache_parse(argc, argv,
                         &(opt_usage){"cache list (--store DIR | --remote URL) [--json]",
                                      "Lists copies, least recently used first. A namespace "
                                      "is a hash of model and KV type."},
                         &o, NULL, 0);
    if (at < 0) return -1 - at;
    sp_err err = cache_open(&o, SP_STORE_READ, &s);
    if (err == SP_OK) err = list(&o, s);
    sp_store_close(s);
    return err == SP_OK ? 0 : cli_fail(err);
}

/* -- show ----------------------------------------------------------------------------------- */

static sp_err add_details(const sp_store_copy *c, void *user)
{
    json_t *o = copy_json(c), *before = json_array();
    for (int i = 0; i < c->n_before; i++) json_array_append_new(before, json_string(c->before[i]));
    json_object_set_new(o, "before", before);
    json_object_set_new(o, "head", json_integer(c->n_head));
    json_object_set_new(o, "position", json_integer(c->position));
    json_object_set_new(o, "layers", json_integer(c->n_layers));
    json_object_set_new(o, "layer_bytes", json_integer(c->layer_bytes));
    json_array_append_new(user, o);
    return SP_OK;
}

static sp_err print_details(const sp_store_copy *c, void *user)
{
    char bytes[SHOW_SIZE], layer[SHOW_SIZE];
    (void)user;
    printf("%s\n  %-10s %s%s%s\n  %-10s %s\n  %-10s %d, from position %d\n", c->id, "kind", c->kind,
           c->exact ? ", exact" : "", c->measured ? ", attention measured" : "", "namespace",
           c->space, "tokens", c->n_tokens, c->position);
    printf("  %-10s %s: %d layers of %s\n", "size", show_size(bytes, c->bytes), c->n_layers,
           show_size(layer, c->layer_bytes));
    if (c->cost_us > 0) printf("  %-10s %.1f ms\n", "cost", c->cost_us / 1000);
    printf("  %-10s %" PRId64 "\n", "uses", c->n_uses);
    for (int i = 0; i < c->n_before; i++)
        printf("  %-10s %.*s%s\n", i ? "" : "after", SHORT_ID, c->before[i],
               i < c->n_head ? " (before the first chunk)" : "");
    return SP_OK;
}

int cmd_cache_show(int argc, char **argv)
{
    cache_options o;
    sp_store *s = NULL;
    int at = cache_parse(argc, argv,
                         &(opt_usage){"cache show ID (--store DIR | --remote URL) [--json]",
                                      "Prints what is known of the copies of one chunk. ID: a prefix of the copy's "
                                      "id."},
                         &o, NULL, 1);
    if (at < 0) return -1 - at;
    json_t *copies = o.as_json ? json_array() : NULL;
    sp_err err = cache_open(&o, SP_STORE_READ, &s);
    if (err == SP_OK)
        err = sp_store_show(s, argv[at], copies ? add_details : print_details, copies);
    if (err == SP_OK && copies)
        cli_print_json(json_pack("{s:s, s:O}", "store", o.name, "copies", copies), 0);
    json_decref(copies);
    sp_store_close(s);
    return err == SP_OK ? 0 : cli_fail(err);
}
