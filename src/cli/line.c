#include "cli/line.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/alloc.h"

enum { KEPT_LINES = 1000, CTRL_D = 4 };

struct line_reader {
    EditLine *el;
    History *history;
    const char *prompt;
    char *file; /* of the history; NULL: nowhere */
    char *line;
};

static char *prompt_of(EditLine *el)
{
    static char prompt[32];
    line_reader *l = NULL;
    el_get(el, EL_CLIENTDATA, &l);
    snprintf(prompt, sizeof prompt, "%s", l->prompt);
    return prompt;
}

/* make_folders -- all that the path's file is in. */
static void make_folders(const char *path)
{
    char *part = cli_copy(path);
    for (char *s = part + 1; (s = strchr(s, '/')); s++) {
        *s = '\0';
        mkdir(part, 0700); /* that it cannot be made shows when the history is saved */
        *s = '/';
    }
    free(part);
}

static char *history_file(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state == '/') return cli_join(state, "/spolia/history");
    return home && *home == '/' ? cli_join(home, "/.local/state/spolia/history") : NULL;
}

static void open_history(line_reader *l)
{
    HistEvent event;
    l->history = history_init();
    if (!l->history) return;
    history(l->history, &event, H_SETSIZE, KEPT_LINES);
    history(l->history, &event, H_SETUNIQUE, 1);
    l->file = history_file();
    if (l->file) history(l->history, &event, H_LOAD, l->file);
    el_set(l->el, EL_HIST, history, l->history);
}

/* end_or_delete -- Ctrl-D: the end on an empty line, otherwise deletes a character. One that was typed while the
 * terminal changed its mode is in the line as a character, and does not make it less empty. */
static unsigned char end_or_delete(EditLine *el, int key)
{
    const LineInfo *line = el_line(el);
    const char *at = line->buffer;
    (void)key;
    while (at < line->lastchar && *at == CTRL_D) at++;
    if (at == line->lastchar) return CC_EOF;
    if (line->cursor == line->lastchar) return CC_ERROR;
    el_cursor(el, 1);
    el_deletestr(el, 1);
    return CC_REFRESH;
}

line_reader *line_open(const char *prompt)
{
    setlocale(LC_CTYPE, ""); /* libedit moves by characters */
    line_reader *l = cli_alloc(1, sizeof *l);
    l->prompt = prompt;
    l->el = el_init("spolia", stdin, stderr, stderr);
    if (!l->el) {
        free(l);
        return NULL;
    }
    el_set(l->el, EL_CLIENTDATA, l);
    el_set(l->el, EL_PROMPT, prompt_of);
    el_set(l->el, EL_EDITOR, "emacs");
    open_history(l);
    /* while a line is edited, Ctrl-C is a key: it clears the line */
    el_set(l->el, EL_SETTY, "-d", "-isig", NULL);
    el_set(l->el, EL_BIND, "^C", "em-kill-line", NULL);
    el_set(l->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_set(l->el, EL_ADDFN, "end-or-delete", "ends input, or deletes a character", end_or_delete);
    el_set(l->el, EL_BIND, "^D", "end-or-delete", NULL);
    return l;
}

static void remember(line_reader *l)
{
    HistEvent event;
    if (*l->line && l->history) history(l->history, &event, H_ENTER, l->line);
}

const char *line_read(line_reader *l)
{
    int n = 0;
    const char *typed = el_gets(l->el, &n);
    free(l->line);
    l->line = NULL;
    if (!typed && n < 0 && errno == EINTR) typed = "";
    if (!typed) return NULL;
    l->line = cli_copy(typed);
    l->line[strcspn(l->line, "\r\n")] = '\0';
    remember(l);
    return l->line;
}

void line_close(line_reader *l)
{
    HistEvent event;
    if (!l) return;
    if (l->file && l->history) {
        make_folders(l->file);
        mode_t mask = umask(0077);
        history(l->history, &event, H_SAVE, l->file);
        umask(mask);
    }
    if (l->history) history_end(l->history);
    el_end(l->el);
    free(l->file);
    free(l->line);
    free(l);
}
