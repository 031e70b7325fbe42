#include "lab/eval/shots.h"

#include <stdio.h>
#include <string.h>

#include "cli/alloc.h"
#include "cli/cli.h"
#include "cli/text.h"

/* is_asked -- an example must not be a question that is measured. */
static bool is_asked(const eval_questions *asked, const eval_question *shot)
{
    for (int i = 0; i < asked->n; i++)
        if (strcmp(asked->v[i].text, shot->text) == 0) return true;
    return false;
}

/* write_shots -- what a prompt without a chat template looks like, so that a base model continues it. */
static char *write_shots(const char *system, const eval_questions *shots, int n)
{
    char *text = NULL;
    size_t size;
    FILE *f = cli_text_open(&text, &size);
    if (!f) return cli_fail_with("no memory for the examples"), NULL;
    fputs(system, f);
    for (int i = 0; i < n; i++)
        fprintf(f, "\n\nQuestion: %s" EVAL_CUE "\n\n%s", shots->v[i].text, shots->v[i].answers[0]);
    fclose(f);
    return text;
}

char *eval_shots_add(const char *system, const char *path, int n, const eval_questions *asked)
{
    eval_questions shots = {0};
    char *text = NULL;
    if (n == 0) return cli_copy(system);
    if (!eval_questions_read(path, "kind", &shots)) return NULL;
    int same = 0;
    while (same < n && same < shots.n && !is_asked(asked, &shots.v[same])) same++;
    if (shots.n < n)
        cli_fail_with("%s: %d questions; --shots asks for %d", path, shots.n, n);
    else if (same < n)
        cli_fail_with("%s: line %d: field question: it is also one of %s, which --shots must not solve", path,
                      shots.v[same].line, asked->path);
    else
        text = write_shots(system, &shots, n);
    eval_questions_drop(&shots);
    return text;
}
