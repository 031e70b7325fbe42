#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The library's only thread-local variables: the text that explains this thread's last error, and the size of the
 * allocation that failed before it, or 0. */
static _Thread_local char detail[1024];
static _Thread_local size_t refused;

/* one_line -- replaces control characters: a name from a file may contain any byte, and a message
 * must be one line without terminal sequences. */
static void one_line(void)
{
    for (char *c = detail; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
}

sp_err sp_fail(sp_err code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(detail, sizeof detail, fmt, ap);
    va_end(ap);
    one_line();
    refused = 0;
    return code;
}

sp_err sp_fail_in(sp_err code, const char *fmt, ...)
{
    char inner[sizeof detail];
    memcpy(inner, detail, sizeof inner);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(detail, sizeof detail, fmt, ap);
    va_end(ap);
    int left = (int)sizeof detail - 1 - n; /* characters; longer text is truncated */
    if (n >= 0 && left >= 2) snprintf(detail + n, (size_t)left + 1, ": %.*s", left - 2, inner);
    one_line();
    return code;
}

sp_err sp_fail_nomem(const char *what)
{
    if (refused) return sp_fail(SP_E_NOMEM, "cannot allocate %zu bytes for %s", refused, what);
    return sp_fail(SP_E_NOMEM, "cannot allocate memory for %s", what);
}

void sp_nomem_note(size_t n_bytes)
{
    refused = n_bytes;
}

const char *sp_error_detail(void)
{
    return detail;
}

const char *sp_error_text(sp_err code)
{
    switch (code) {
#define X(name, value, text)                                                                       \
    case SP_##name:                                                                                \
        return text;
        SP_ERRORS(X)
#undef X
    }
    return "unknown error";
}
