#include "cli/asked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/fail.h"
#include "cli/json.h"

enum { TOGETHER = 8 }; /* the best chunks of a question: as many as a prompt has */

/* note -- the question of a line; false after an error message. */
static bool note(sp_index *ix, const char *where, const char *line)
{
    const size_t blank = strspn(line, " \t\r");
    const bool is_json = line[blank] == '{';
    if (!line[blank]) return true;
    json_t *all = is_json ? cli_read_json(where, line, 0) : NULL;
    if (is_json && !all) return false;
    const char *question = is_json ? json_string_value(json_object_get(all, "question")) : line + blank;
    sp_err err = question ? sp_index_note_question(ix, question, TOGETHER) : SP_OK;
    if (!question) cli_fail_with("%s: the object has no text \"question\"", where);
    if (err != SP_OK) cli_fail(err);
    json_decref(all);
    return question && err == SP_OK;
}

bool cli_note_asked(sp_index *ix, const char *path)
{
    char *text = cli_read_text(path, &(size_t){0}), *rest = text;
    bool good = text != NULL;
    int number = 0;
    char where[4200];
    for (char *line; good && (line = strsep(&rest, "\n"));) {
        snprintf(where, sizeof where, "%s:%d", path, ++number);
        good = note(ix, where, line);
    }
    free(text);
    return good;
}

const char *cli_asked_wrong(const char *similar, const char *asked)
{
    static const char *const sources[] = {"bm25", "neighbour", "vectors", "together", "graph", "random"};
    const bool together = strcmp(similar, "together") == 0;
    size_t i = 0;
    while (i < sizeof sources / sizeof *sources && strcmp(similar, sources[i]) != 0) i++;
    return i == sizeof sources / sizeof *sources
               ? "--similar must be bm25, neighbour, vectors, together, graph or random"
           : together && !asked   ? "--similar together needs --asked"
           : asked && !together ? "--asked is for --similar together"
                                : NULL;
}
