#include "cmd/live.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

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

static void wipe(const live *l)
{
    if (l->on_terminal) fputs("\r\033[K", stderr);
}

static void log_line(sp_log_level level, const char *line, void *user)
{
    wipe(user);
    fprintf(stderr, "spolia: %s\n", line);
}

void live_begin(live *l, bool quiet, sp_log_level level)
{
    *l = (live){.started = now(), .on_terminal = !quiet && isatty(STDERR_FILENO)};
    sp_log_set(level, log_line, l);
    signal(SIGINT, interrupt);
}

void live_end(live *l)
{
    wipe(l);
    signal(SIGINT, SIG_DFL);
    sp_log_set(SP_LOG_WARN, NULL, NULL);
}

void live_draw(live *l, const char *fmt, ...)
{
    double t = now();
    if (!l->on_terminal || t - l->drawn < REDRAW_S) return;
    va_list ap;
    va_start(ap, fmt);
    wipe(l);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fflush(stderr);
    l->drawn = t;
}

double live_seconds(const live *l)
{
    return now() - l->started;
}

bool live_interrupted(void)
{
    return interrupted != 0;
}
