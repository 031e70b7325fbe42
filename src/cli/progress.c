#include "cli/progress.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/show.h"

#define REDRAW_S 0.1

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number)
{
    interrupted = 1;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void wipe(const progress *p)
{
    if (p->on_terminal) fputs("\r\033[K", stderr);
}

static void log_line(sp_log_level level, const char *line, void *user)
{
    wipe(user);
    fputs("spolia: ", stderr);
    show_line(stderr, line, 0);
    fputc('\n', stderr);
}

void progress_begin(progress *p, bool quiet, sp_log_level level)
{
    *p = (progress){.started = now(), .on_terminal = !quiet && isatty(STDERR_FILENO)};
    sp_log_set(level, log_line, p);
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
}

void progress_end(progress *p)
{
    wipe(p);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    sp_log_set(SP_LOG_WARN, NULL, NULL);
}

bool progress_is_due(const progress *p)
{
    return p->on_terminal && now() - p->drawn >= REDRAW_S;
}

void progress_draw(progress *p, const char *fmt, ...)
{
    double t = now();
    if (!progress_is_due(p)) return;
    va_list ap;
    va_start(ap, fmt);
    wipe(p);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fflush(stderr);
    p->drawn = t;
}

double progress_seconds(const progress *p)
{
    return now() - p->started;
}

bool progress_interrupted(void)
{
    return interrupted != 0;
}
