#include "lab/bench/peer_program.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <regex.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"

#define FIRST_NUMBER "([0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?)"
#define MAX_OUTPUT   ((size_t)1 << 20) /* more is read and dropped */
#define SHOWN_BYTES  200               /* of its last line */

extern char **environ;

struct peer_program {
    const char *command;
    regex_t match;
};

peer_program *peer_program_open(const char *command, const char *match)
{
    peer_program *p = calloc(1, sizeof *p);
    if (!p) return cli_fail_with("out of memory"), NULL;
    p->command = command;
    int code = regcomp(&p->match, match ? match : FIRST_NUMBER, REG_EXTENDED | REG_NEWLINE);
    if (code != 0) {
        char why[128];
        regerror(code, &p->match, why, sizeof why);
        free(p);
        return cli_fail_with("--peer-match: \"%s\": %s", match, why), NULL;
    }
    if (p->match.re_nsub > 0) return p;
    peer_program_close(p);
    return cli_fail_with("--peer-match: \"%s\" has no group for the number", match), NULL;
}

void peer_program_close(peer_program *p)
{
    if (!p) return;
    regfree(&p->match);
    free(p);
}

/* -- the command ---------------------------------------------------------------------------- */

static void put_quoted(FILE *to, const char *text)
{
    fputc('\'', to);
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", to);
        else
            fputc(*text, to);
    fputc('\'', to);
}

/* value_at -- the value whose {name} begins the text; *n: length of {name}. */
static const char *value_at(const char *text, const bench_value *v, size_t *n)
{
    for (; *text == '{' && v->name; v++) {
        size_t len = strlen(v->name);
        if (strncmp(text + 1, v->name, len) != 0 || text[1 + len] != '}') continue;
        *n = len + 2;
        return v->value;
    }
    return NULL;
}

/* fill_in -- the command for one setting; free() it. NULL: out of memory. */
static char *fill_in(const char *command, const bench_value *values)
{
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    if (!f) return NULL;
    for (const char *at = command; *at;) {
        size_t len = 1;
        const char *value = value_at(at, values, &len);
        if (value)
            put_quoted(f, value);
        else
            fputc(*at, f);
        at += len;
    }
    if (fclose(f) == 0) return text;
    free(text);
    return NULL;
}

/* -- running it ----------------------------------------------------------------------------- */

static char *read_all(int fd)
{
    char *text = malloc(MAX_OUTPUT + 1), rest[4096];
    size_t n = 0;
    for (ssize_t got = 1; text && got > 0;) {
        bool full = n == MAX_OUTPUT;
        do got = read(fd, full ? rest : text + n, full ? sizeof rest : MAX_OUTPUT - n);
        while (got < 0 && errno == EINTR);
        if (got > 0 && !full) n += (size_t)got;
    }
    if (text) text[n] = '\0';
    return text;
}

/* start -- runs the command in a shell, with its standard output and error redirected. */
static bool start(char *command, int out, int err, pid_t *pid)
{
    char *argv[] = {"sh", "-c", command, NULL};
    posix_spawn_file_actions_t files;
    if (posix_spawn_file_actions_init(&files) != 0) return false;
    bool good = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0) == 0 &&
                posix_spawn_file_actions_adddup2(&files, out, 1) == 0 &&
                posix_spawn_file_actions_adddup2(&files, err, 2) == 0 &&
                posix_spawn(pid, "/bin/sh", &files, NULL, argv, environ) == 0;
    posix_spawn_file_actions_destroy(&files);
    return good;
}

/* run_shell -- its standard output, and what it wrote to standard error; free() both. */
static bool run_shell(char *command, char **out, char **err, int *status)
{
    int ends[2];
    pid_t pid;
    FILE *errors = tmpfile();
    if (!errors || pipe2(ends, O_CLOEXEC) != 0) {
        if (errors) fclose(errors);
        return false;
    }
    bool good = start(command, ends[1], fileno(errors), &pid);
    close(ends[1]);
    if (good) {
        *out = read_all(ends[0]);
        while (waitpid(pid, status, 0) < 0 && errno == EINTR)
            ;
        lseek(fileno(errors), 0, SEEK_SET);
        *err = read_all(fileno(errors));
    }
    close(ends[0]);
    fclose(errors);
    return good;
}

/* -- its result ----------------------------------------------------------------------------- */

/* last_line -- the last line of a text, which is cut off after it; "" when the text is blank. */
static const char *last_line(char *text)
{
    size_t n = text ? strlen(text) : 0;
    while (n && (unsigned char)text[n - 1] <= ' ') n--;
    if (!n) return "";
    text[n] = '\0';
    char *end = strrchr(text, '\n');
    char *line = end ? end + 1 : text;
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < ' ') *c = ' ';
    return line;
}

static bool complain(const char *command, const char *what, char *out, char *err)
{
    const char *line = last_line(err);
    if (!*line) line = last_line(out);
    return cli_fail_with("peer \"%s\": %s%s%.*s", command, what,
                         *line ? "; its last line: " : "; it printed nothing", SHOWN_BYTES, line),
           false;
}

static bool find_rate(const regex_t *match, const char *out, double *rate)
{
    regmatch_t at[2];
    if (regexec(match, out, 2, at, 0) != 0 || at[1].rm_so < 0) return false;
    double v = strtod(out + at[1].rm_so, NULL);
    if (!isfinite(v) || v <= 0) return false;
    *rate = v;
    return true;
}

static bool judge(const peer_program *p, const char *command, int status, char *out, char *err,
                  double *rate)
{
    char what[64];
    if (!out || !err) return complain(command, "out of memory", NULL, NULL);
    if (WIFSIGNALED(status)) {
        snprintf(what, sizeof what, "ended by signal %d", WTERMSIG(status));
        return complain(command, what, out, err);
    }
    if (WEXITSTATUS(status) != 0) {
        snprintf(what, sizeof what, "exit code %d", WEXITSTATUS(status));
        return complain(command, what, out, err);
    }
    if (find_rate(&p->match, out, rate)) return true;
    return complain(command, "--peer-match finds no number above 0", out, NULL);
}

bool peer_program_run(peer_program *p, const bench_value *values, double *rate)
{
    char *command = fill_in(p->command, values), *out = NULL, *err = NULL;
    int status = 0;
    if (!command) return cli_fail_with("out of memory"), false;
    bool good = run_shell(command, &out, &err, &status) ||
                (cli_fail_with("peer \"%s\": cannot be started", command), false);
    good = good && judge(p, command, status, out, err, rate);
    free(out);
    free(err);
    free(command);
    return good;
}
