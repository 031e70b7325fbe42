/* main.c -- finds the command and runs it. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} commands[] = {
    {"ask", cmd_ask, "answer a question over indexed documents, reusing their KV"},
    {"index", cmd_index, "cut a folder of documents into chunks and index them"},
    {"search", cmd_search, "show the chunks that a question would retrieve"},
    {"graph", cmd_graph, "import knowledge graphs and find relation paths for questions"},
    {"eval", cmd_eval, "hold every way of reuse against full attention, on questions"},
    {"calibrate", cmd_calibrate, "find the least recomputation that keeps the answers good"},
    {"run", cmd_run, "generate text from a prompt"},
    {"inspect", cmd_inspect, "print what a model file holds"},
    {"tokenize", cmd_tokenize, "turn text into token ids"},
    {"logits", cmd_logits, "print the log-probabilities of every position"},
    {"bench", cmd_bench, "measure the engine on this machine"},
    {"perplexity", cmd_perplexity, "measure how well a model predicts a text"},
};
#define N_COMMANDS (sizeof commands / sizeof *commands)

int cmd_fail(sp_err err)
{
    const char *detail = sp_error_detail();
    fprintf(stderr, "spolia: %s (%s)\n", *detail ? detail : "failed", sp_error_text(err));
    return 1;
}

int cmd_fail_with(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("spolia: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    return 1;
}

char *cmd_read_file(const char *path, size_t *n)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    size_t len = 0, cap = 1 << 16;
    char *text = f ? malloc(cap) : NULL;
    while (text) {
        len += fread(text + len, 1, cap - len - 1, f);
        if (len < cap - 1) break;
        char *more = realloc(text, cap *= 2);
        if (!more) free(text);
        text = more;
    }
    if (!text || ferror(f)) {
        cmd_fail_with("%s: %s", path, strerror(errno));
        free(text);
        text = NULL;
    } else {
        text[len] = '\0';
        *n = len;
    }
    if (f && f != stdin) fclose(f);
    return text;
}

static void usage(FILE *to)
{
    fputs(
        "usage: spolia COMMAND [options]\n\n"
        "An LLM inference engine for answers from documents: what the model has read once is set\n"
        "into the next prompt instead of being read again.\n\ncommands:\n",
        to);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(to, "  %-12s %s\n", commands[i].name, commands[i].summary);
    fputs("\nspolia COMMAND --help explains one of them; spolia --version tells the version.\n",
          to);
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN); /* a reader that hangs up is a failed write, not a death */
    if (argc < 2) {
        usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("spolia " SPOLIA_VERSION);
        return 0;
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "spolia: there is no command \"%s\"; spolia --help lists them\n", argv[1]);
    return 2;
}
