/* documents.c -- `spolia documents`: a server's file of registered documents, when it is damaged. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "cli/json.h"
#include "cli/show.h"
#include "cmd/commands.h"

static int cmd_repair(int argc, char **argv);
static int cmd_rebuild(int argc, char **argv);

const cli_command cmd_documents[] = {
    {"repair", NULL, "save what can be read of a damaged file", cmd_repair},
    {"rebuild", NULL, "begin a new file; the old one is kept", cmd_rebuild},
    {0},
};

typedef sp_err change(const char *path, sp_documents_lost *lost, void *user, sp_documents_repaired *out);

/* note -- a lost document: a line, or an element of the array `user`. */
static void note(const char *id, const char *title, void *user)
{
    if (user) {
        json_array_append_new(user, json_pack("{s:s?, s:s?}", "id", id, "title", title));
        return;
    }
    printf("lost: ");
    show_line(stdout, id ? id : "a document whose id cannot be read", 0);
    if (title && *title) printf(" (");
    if (title && *title) show_line(stdout, title, 0);
    puts(title && *title ? ")" : "");
}

static void print_sum(const char *path, const sp_documents_repaired *sum, json_t *lost)
{
    if (lost) {
        json_t *o = json_pack("{s:s, s:b, s:I, s:O}", "file", path, "whole", (int)sum->was_whole, "saved",
                              (json_int_t)sum->n_saved, "lost", lost);
        cli_print_json(o, 0);
        return;
    }
    show_line(stdout, path, 0);
    if (sum->was_whole)
        puts(": nothing is damaged");
    else
        printf(": %" PRId64 " documents saved, %" PRId64 " lost; the damaged file is kept beside it, as .damaged: "
               "delete it when you need nothing more of it\n",
               sum->n_saved, sum->n_lost);
}

static int run(int argc, char **argv, const opt_usage *usage, change *fn)
{
    bool as_json = false;
    sp_documents_repaired sum;
    const opt table[] = {{OPT_FLAG, "json", 0, NULL, &as_json, "print JSON"}, {0}};
    const opt *const tables[] = {table, NULL};
    int at = opt_parse(argc, argv, usage, tables);
    if (at < 0) return -1 - at;
    if (at + 1 != argc) return cli_fail_with("usage: spolia %s", usage->synopsis), 2;
    json_t *lost = as_json ? json_array() : NULL;
    sp_err err = fn(argv[at], note, lost, &sum);
    if (err == SP_OK) print_sum(argv[at], &sum, lost);
    json_decref(lost);
    if (err != SP_OK) return cli_fail(err);
    return sum.n_lost ? 1 : 0;
}

static int cmd_repair(int argc, char **argv)
{
    static const opt_usage usage = {"documents repair FILE [--json]",
                                    "Moves the documents that can be read whole to a new file, names those that are "
                                    "lost,\nand keeps the damaged file. Stop the server first. Exit code 1 if any is "
                                    "lost."};
    return run(argc, argv, &usage, sp_documents_repair);
}

static int cmd_rebuild(int argc, char **argv)
{
    static const opt_usage usage = {"documents rebuild FILE [--json]",
                                    "Begins a new file without documents, names those that it had as far as they can "
                                    "be read,\nand keeps the old file. Stop the server first. Exit code 1 if there "
                                    "were any."};
    return run(argc, argv, &usage, sp_documents_rebuild);
}
