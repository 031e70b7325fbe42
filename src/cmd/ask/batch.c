/* batch.c -- questions from standard input, one a line. A question that fails is reported, and the
 * next one is answered. Lines of a chat are one conversation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cmd/ask/ask.h"

static bool is_blank(const char *line)
{
    return line[strspn(line, " \t\r\n")] == '\0';
}

int ask_batch(asking *a)
{
    char *line = NULL;
    size_t cap = 0;
    int code = 0;
    while (getline(&line, &cap, stdin) >= 0) {
        line[strcspn(line, "\r\n")] = '\0';
        if (is_blank(line)) continue;
        int failed = ask_question(a, line, !a->index && !a->graph);
        if (code == 0 || failed == 1) code = failed;
        if (ferror(stdout)) break; /* nobody reads the answers */
        ask_idle(a);
    }
    if (!ferror(stdout) && !cli_check_end(stdin, "standard input")) code = 1;
    free(line);
    ask_forget(a);
    return code;
}
