/* The line that a long command redraws at a terminal. */
#include <pty.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/progress.h"
#include "support/check.h"

static void a_line_is_not_drawn_twice_at_once(void **state)
{
    char out[200];
    int outside, inside;
    progress p;
    assert_int_equal(openpty(&outside, &inside, NULL, NULL, NULL), 0);
    const int before = dup(STDERR_FILENO);
    assert_true(before >= 0 && dup2(inside, STDERR_FILENO) >= 0);
    progress_begin(&p, false, SP_LOG_WARN);
    progress_draw(&p, "one");
    p.drawn += 3600; /* however slow this machine is */
    progress_draw(&p, "two");
    p.drawn -= 7200;
    progress_draw(&p, "three");
    progress_end(&p);
    fflush(stderr);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    close(inside);
    size_t n = 0; /* it comes in pieces */
    for (ssize_t got; n + 1 < sizeof out && (got = read(outside, out + n, sizeof out - 1 - n)) > 0;) n += (size_t)got;
    out[n] = '\0';
    close(outside);
    assert_string_equal(out, "\r\033[Kone\r\033[Kthree\r\033[K");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_not_drawn_twice_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
