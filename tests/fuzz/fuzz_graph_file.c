/* A graph file with damaged bytes. The file is a small graph, imported at the start; the input is a list
 * of {offset, 3 bytes, value, 1 byte} to write into it. Aborts when a question or a description ends in
 * another error than that of a damaged file, or when a path has no end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/need.h"
#include "spolia.h"

static const char triples[] = "Anna Berg\tkeeps\tlighthouse of Velm\tports.md\n"
                              "Anna Berg\tborn_in\tVelm\n"
                              "lighthouse of Velm\tis_in\tVelm\n"
                              "Velm\tborders\tTorin\n"
                              "Torin\tborders\tVelm\n"
                              "Torin\thas\tAnchor hotel\n";
static uint8_t *whole;
static size_t n_whole;
static char path[64];

static void require(bool holds)
{
    if (!holds) abort();
}

static void write_file(const char *to, const void *data, size_t n)
{
    FILE *f = fopen(to, "wb");
    require(f && fwrite(data, 1, n, f) == n && fclose(f) == 0);
}

static void remove_file(void)
{
    unlink(path);
}

/* make -- the undamaged file. */
static void make(void)
{
    char source[64];
    snprintf(path, sizeof path, "/dev/shm/fuzz-graph-%ld.db", (long)getpid());
    snprintf(source, sizeof source, "/dev/shm/fuzz-graph-%ld.tsv", (long)getpid());
    write_file(source, triples, sizeof triples - 1);
    const char *const sources[] = {source};
    sp_graph_stats stats;
    require(sp_graph_import(sources, 1, path, NULL, &stats) == SP_OK);
    unlink(source);
    FILE *f = fopen(path, "rb");
    require(f && fseek(f, 0, SEEK_END) == 0);
    n_whole = (size_t)ftell(f);
    whole = malloc(n_whole);
    rewind(f);
    require(whole && fread(whole, 1, n_whole, f) == n_whole && fclose(f) == 0);
    atexit(remove_file);
}

static bool is_expected(sp_err err)
{
    return err == SP_OK || err == SP_E_IO || err == SP_E_FORMAT || err == SP_E_ARG ||
           err == SP_E_NOMEM || err == SP_E_LIMIT;
}

static void ask(sp_graph *g, const char *question)
{
    const sp_graph_paths_opts o = {.hops = 3, .max_steps = 500, .explain = true};
    sp_graph_answer a = {0};
    sp_graph_tree t = {0};
    sp_err err = sp_graph_find_paths(g, question, &o, &a);
    require(is_expected(err));
    for (int i = 0; i < a.n_paths; i++)
        require(a.paths[i].n_hops >= 1 && a.paths[i].n_hops <= 3 && strlen(a.paths[i].text) > 0);
    if (err == SP_OK)
        require(sp_graph_tree_build(a.paths, a.n_paths, SP_GRAPH_SENTENCES, &t) == SP_OK);
    sp_graph_tree_fini(&t);
    sp_graph_answer_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!whole) make();
    uint8_t *bytes = malloc(n_whole);
    sp_graph *g;
    sp_graph_info info = {0};
    require(bytes != NULL);
    memcpy(bytes, whole, n_whole);
    for (size_t i = 0; i + 4 <= n; i += 4)
        bytes[((size_t)data[i] << 16 | (size_t)data[i + 1] << 8 | data[i + 2]) % n_whole] =
            data[i + 3];
    write_file(path, bytes, n_whole);
    free(bytes);
    sp_err err = sp_graph_open(&(sp_graph_open_opts){.where = path}, &g);
    require(is_expected(err));
    if (err != SP_OK) return 0;
    ask(g, "Where was Anna Berg born?");
    ask(g, "Who keeps the lighthouze of Velm?"); /* misspelt: by letters */
    require(is_expected(sp_graph_describe(g, &info)));
    sp_graph_info_fini(&info);
    sp_graph_close(g);
    return 0;
}
