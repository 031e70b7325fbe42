#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

/* The library's only global setting: the sink and the level of the log. */
static struct {
    _Atomic int level;
    sp_log_sink *sink;
    void *user;
} log_to;

void sp_log_set(sp_log_level level, sp_log_sink *sink, void *user)
{
    log_to.sink = sink;
    log_to.user = user;
    atomic_store(&log_to.level, sink ? (int)level : 0);
}

void sp_log(sp_log_level level, const char *fmt, ...)
{
    if ((int)level > atomic_load_explicit(&log_to.level, memory_order_acquire)) return;
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    log_to.sink(level, line, log_to.user);
}
