/* chat.c -- a conversation at the terminal.
 *
 *   prompt --line--> answering --done--> prompt        Ctrl-C: at the prompt it clears the line,
 *     |                  |                             while answering it ends the answer; pressed
 *   Ctrl-D: end        Ctrl-C: as done                 three times it ends the program
 *
 * Every turn keeps the chunks of its question; the next prompt repeats them (answer.c). A line
 * that begins with '/' and a word is a command. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/line.h"
#include "cli/options/policies.h"
#include "cmd/ask/ask.h"

typedef struct chat {
    asking *a;
    sp_reuse_opts reuse; /* of /reuse */
    char policy[CLI_SPEC];
} chat;

static volatile sig_atomic_t stop;

/* on_interrupt -- the first ends the answer; the third the program, should the answer not end. */
static void on_interrupt(int signal_number)
{
    if (++stop < 3) return;
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void on_sigint(void (*handler)(int))
{
    struct sigaction act = {.sa_handler = handler};
    sigaction(SIGINT, &act, NULL);
}

/* -- commands ------------------------------------------------------------------------------- */

static void do_help(chat *c, const char *rest)
{
    fputs(
        "  /sources              the documents of the conversation, by number\n"
        "  /reuse POLICY [SHARE] use this reuse policy from now on, and recompute this share of tokens\n"
        "  /clear                begin a new conversation\n"
        "  /save FILE            write the conversation as Markdown\n"
        "  /quit                 end, as Ctrl-D does\n"
        "Anything else is a question. Ctrl-C stops an answer or clears the line.\n",
        stderr);
}

static void do_sources(chat *c, const char *rest)
{
    int n = 0;
    for (int i = 0; i < c->a->n_turns; i++) {
        const ask_turn *t = &c->a->turns[i];
        ask_show_table(t, n + 1, NULL, 0);
        n += t->hits.n;
    }
    if (n == 0) fputs("The conversation has no documents.\n", stderr);
}

/* set_share -- what was given, or what was calibrated for the model, or the default. False after an
 * error message. */
static bool set_share(chat *c, const cli_policy *p, const char *share, sp_reuse_opts *out)
{
    char *end = NULL;
    if (!p->recomputes) {
        if (*share) cli_warn("--reuse %s recomputes nothing: the share has no effect", p->name);
        return !*share;
    }
    if (*share) {
        out->recompute = strtof(share, &end);
        const bool good = !*end && out->recompute >= 0 && out->recompute <= 1;
        if (!good) cli_warn("/reuse: \"%s\" is not a share from 0 to 1", share);
        return good;
    }
    sp_calibration found;
    if (sp_calibration_of_policy(c->policy, c->a->model, &found) != SP_OK)
        return cli_warn("%s", sp_error_detail()), false;
    snprintf(c->policy, sizeof c->policy, "%s", found.policy);
    out->recompute = found.recompute;
    return true;
}

static void do_reuse(chat *c, const char *rest)
{
    chat now = {.a = c->a};
    char share[24] = "";
    const cli_policy *p;
    sp_reuse_opts chosen = {.exact_first = true};
    if (sscanf(rest, "%79s %23s", now.policy, share) < 1) {
        cli_warn("/reuse: choose one of %s", cli_policy_names(CLI_ALL));
        return;
    }
    if (sp_reuse_parse(now.policy, &p, NULL) != SP_OK) {
        cli_warn("/reuse: %s", sp_error_detail());
        return;
    }
    if (!set_share(&now, p, share, &chosen)) return;
    memcpy(c->policy, now.policy, sizeof c->policy);
    chosen.policy = c->policy;
    c->reuse = chosen;
    c->a->reuse = &c->reuse;
    fprintf(stderr, "reuse: %s", c->policy);
    if (p->recomputes && !cli_policy_amount(c->policy)) fprintf(stderr, ", share %.3g", (double)chosen.recompute);
    fputc('\n', stderr);
}

static void do_clear(chat *c, const char *rest)
{
    ask_forget(c->a);
    fputs("A new conversation begins.\n", stderr);
}

static void save_turn(FILE *f, const ask_turn *t, int *n)
{
    fprintf(f, "## %s\n\n%s\n", t->question, t->answer);
    for (int i = 0; i < t->hits.n; i++) {
        fprintf(f, "%s%d. ", i ? "" : "\n", ++*n);
        ask_print_place(f, &t->hits.v[i]);
        fputc('\n', f);
    }
    fputc('\n', f);
}

static void do_save(chat *c, const char *rest)
{
    int n = 0;
    if (!*rest) {
        cli_warn("/save: name a file");
        return;
    }
    FILE *f = fopen(rest, "wx"); /* never over another file */
    for (int i = 0; f && i < c->a->n_turns; i++) save_turn(f, &c->a->turns[i], &n);
    bool good = f && !ferror(f);
    if (f && fclose(f) != 0) good = false;
    if (good)
        fprintf(stderr, "%d question%s saved\n", c->a->n_turns, c->a->n_turns == 1 ? "" : "s");
    else
        cli_warn("%s: %m", rest);
}

static const struct {
    const char *name;
    void (*run)(chat *c, const char *rest);
} commands[] = {{"/help", do_help},   {"/sources", do_sources}, {"/reuse", do_reuse},
                {"/clear", do_clear}, {"/save", do_save},       {"/quit", NULL}};

/* run_command -- whether the line was a command; *end: the conversation ends. "/etc/hosts ..." is a
 * question. */
static bool run_command(chat *c, const char *line, bool *end)
{
    size_t n = strcspn(line, " \t");
    if (*line != '/' || strspn(line + 1, "abcdefghijklmnopqrstuvwxyz") + 1 != n || n < 2)
        return false;
    const char *rest = line + n + strspn(line + n, " \t");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strlen(commands[i].name) != n || strncmp(commands[i].name, line, n) != 0) continue;
        *end = !commands[i].run;
        if (commands[i].run) commands[i].run(c, rest);
        return true;
    }
    cli_warn("%.*s is unknown; /help lists the commands", (int)n, line);
    return true;
}

/* -- the conversation ----------------------------------------------------------------------- */

int ask_chat(asking *a)
{
    chat c = {.a = a};
    bool end = false;
    const char *line;
    line_reader *reader = line_open("\n> ");
    if (!reader) return cli_fail_with("the terminal cannot be read");
    a->stop = &stop;
    fprintf(stderr, "%s /help lists commands, Ctrl-D ends.\n",
            a->index || a->graph ? "Ask about the documents." : "Type a message.");
    on_sigint(on_interrupt); /* also between an answer and the prompt: a late Ctrl-C ends nothing */
    while (!end && !ferror(stdout) && (line = line_read(reader))) {
        line += strspn(line, " \t");
        if (!*line || run_command(&c, line, &end)) continue;
        stop = 0;
        ask_question(a, line, true); /* what failed has been said */
        if (!ferror(stdout)) ask_idle(a);
    }
    on_sigint(SIG_DFL);
    line_close(reader);
    ask_forget(a);
    return 0;
}
