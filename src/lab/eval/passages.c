/* passages.c -- see passages.h.
 *
 *   chunk     ... w w w w w w w w w w w w | w w w w w w w w ...
 *                     question: Q words   middle   answer: A words
 *
 * No label is needed: what is measured is how far a setting's distribution moves from full attention's along the
 * continuation. The quoted words also retrieve the chunk and those like it. */
#include "lab/eval/passages.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "cli/alloc.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "lab/eval/dataset.h"

enum { QUOTED = 14, CONTINUED = 10, FEWEST = QUOTED + CONTINUED };

static bool is_space(char c)
{
    return isspace((unsigned char)c) != 0;
}

/* word_at -- where word i of the text begins; its end when it has fewer. */
static const char *word_at(const char *text, int i)
{
    for (;; i--) {
        while (is_space(*text)) text++;
        if (i == 0 || !*text) return text;
        while (*text && !is_space(*text)) text++;
    }
}

static int count_words(const char *text)
{
    int n = 0;
    for (const char *p = word_at(text, 0); *p; p = word_at(p, 1)) n++;
    return n;
}

/* quote -- words [from, from + n) of the text, as prefix + them. Owns: free. */
static char *quote(const char *prefix, const char *text, int from, int n)
{
    const char *first = word_at(text, from), *end = word_at(first, n);
    while (end > first && is_space(end[-1])) end--;
    char *words = strndup(first, (size_t)(end - first));
    char *all = cli_join(prefix, cli_checked(words));
    free(words);
    return all;
}

/* put -- false, and why. */
static bool put(FILE *f, const sp_hit *hit, const char **why)
{
    const int n = count_words(hit->text);
    if (n < FEWEST) return true;
    const int middle = n / 2 > QUOTED ? n / 2 : QUOTED;
    const int begin = middle + CONTINUED > n ? n - CONTINUED : middle;
    char *question = quote("Continue this text: ", hit->text, begin - QUOTED, QUOTED);
    char *answer = quote("", hit->text, begin, CONTINUED);
    json_t *line = json_pack("{s:s, s:[s]}", "question", question, "answers", answer);
    char *text = cli_json_text(line, JSON_COMPACT, why);
    const bool good = text && fprintf(f, "%s\n", text) > 0;
    if (text && !good) *why = strerror(errno);
    json_decref(line);
    free(text);
    free(question);
    free(answer);
    return good;
}

static bool put_all(sp_index *ix, int n, FILE *f)
{
    const int64_t all = sp_index_n_chunks(ix);
    int64_t after = 0, i = 0, next = 0;
    for (int taken = 0; taken < n; i++) {
        sp_hits hits = {0};
        const char *why;
        if (sp_index_chunk(ix, after, &hits) != SP_OK) return cli_fail_with("%s", sp_error_detail()), false;
        const bool any = hits.n > 0, wanted = any && i >= next;
        if (any) after = hits.v[0].id;
        if (wanted && !put(f, &hits.v[0], &why)) {
            sp_hits_fini(&hits);
            return cli_fail_with("a temporary file cannot be written: %s", why), false;
        }
        sp_hits_fini(&hits);
        if (!any) break;
        if (wanted) next = ++taken * all / n;
    }
    return true;
}

bool eval_passages_write(const char *index, int n, char **path)
{
    sp_index *ix;
    int fd;
    if (sp_index_open(index, &ix) != SP_OK) return cli_fail_with("%s", sp_error_detail()), false;
    char *draft = eval_temporary(&fd);
    FILE *f = draft ? cli_checked(fdopen(fd, "w")) : NULL;
    bool good = f && put_all(ix, n, f);
    if (good && ftell(f) == 0)
        good = (cli_fail_with("%s: no chunk is long enough to be quoted (%d words); give --questions", index, FEWEST),
                false);
    if (f && fclose(f) != 0 && good) good = (cli_fail_with("%s: %s", draft, strerror(errno)), false);
    sp_index_close(ix);
    if (draft && !good) unlink(draft);
    if (good)
        *path = draft;
    else
        free(draft);
    return good;
}
