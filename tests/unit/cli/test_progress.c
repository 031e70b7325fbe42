/* The line that a long command redraws at a terminal. */
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/progress.h"
#include "support/check.h"

/* A terminal in place of standard error. */
typedef struct terminal {
    int outside, inside, before;
} terminal;

static terminal terminal_open(void)
{
    terminal t;
    assert_int_equal(openpty(&t.outside, &t.inside, NULL, NULL, NULL), 0);
    t.before = dup(STDERR_FILENO);
    assert_true(t.before >= 0 && dup2(t.inside, STDERR_FILENO) >= 0);
    return t;
}

/* terminal_close -- what it shows; valid until the next call. */
static const char *terminal_close(terminal *t)
{
    static char out[200];
    fflush(stderr);
    assert_true(dup2(t->before, STDERR_FILENO) >= 0);
    close(t->before);
    close(t->inside);
    size_t n = 0; /* it comes in pieces */
    for (ssize_t got; n + 1 < sizeof out && (got = read(t->outside, out + n, sizeof out - 1 - n)) > 0;)
        n += (size_t)got;
    out[n] = '\0';
    close(t->outside);
    return out;
}

static void a_line_is_not_drawn_twice_at_once(void **state)
{
    progress p;
    terminal t = terminal_open();
    progress_begin(&p, false, SP_LOG_WARN);
    progress_draw(&p, "one");
    p.drawn += 3600; /* however slow this machine is */
    progress_draw(&p, "two");
    p.drawn -= 7200;
    progress_draw(&p, "three");
    progress_end(&p);
    assert_string_equal(terminal_close(&t), "\r\033[Kone\r\033[Kthree\r\033[K");
}

/* --quiet: not even at a terminal. What is logged is a line of its own, in any case. */
static void what_is_quiet_draws_nothing(void **state)
{
    progress p;
    terminal t = terminal_open();
    progress_begin(&p, true, SP_LOG_WARN);
    progress_draw(&p, "one");
    sp_log(SP_LOG_WARN, "a\nwarning");
    sp_log(SP_LOG_INFO, "no warning");
    progress_end(&p);
    sp_log(SP_LOG_WARN, "after the end");
    assert_string_equal(terminal_close(&t), "spolia: a warning\r\n");
}

/* Ctrl-C while a command runs is for the command; after that it ends the program, as everywhere. */
static void an_interrupt_is_for_the_command_that_runs(void **state)
{
    progress p;
    struct sigaction now;
    assert_false(progress_interrupted());
    for (int i = 0; i < 2; i++) {
        const int signal_number = i ? SIGTERM : SIGINT;
        progress_begin(&p, true, SP_LOG_WARN);
        assert_int_equal(raise(signal_number), 0);
        assert_true(progress_interrupted());
        progress_end(&p);
        assert_int_equal(sigaction(signal_number, NULL, &now), 0);
        assert_true(now.sa_handler == SIG_DFL);
    }
    p.started -= 90;
    assert_true(progress_seconds(&p) >= 90 && progress_seconds(&p) < 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_not_drawn_twice_at_once),
        cmocka_unit_test(what_is_quiet_draws_nothing),
        cmocka_unit_test(an_interrupt_is_for_the_command_that_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
