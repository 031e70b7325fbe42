/* err.h -- how every floor reports failure.
 *
 * A fallible function returns sp_err: 0 or a negative code of the table SP_ERRORS in spolia_base.h.
 * The function that detects a failure calls sp_fail(), which writes one sentence with the file, the
 * field and the value into a buffer of the calling thread; callers return the code unchanged
 * (SP_TRY). A failure leaves outputs untouched. A cache miss is a result, not an error.
 */
#ifndef SP_BASE_ERR_H
#define SP_BASE_ERR_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spolia_base.h"

#if defined(__GNUC__)
#define SP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define SP_MUST_CHECK        __attribute__((warn_unused_result))
#define SP_LIKELY(x)         __builtin_expect(!!(x), 1)
#define SP_UNLIKELY(x)       __builtin_expect(!!(x), 0)
#else
#define SP_PRINTF(fmt, args)
#define SP_MUST_CHECK
#define SP_LIKELY(x)   (x)
#define SP_UNLIKELY(x) (x)
#endif

#define SP_COUNT(array)   (sizeof(array) / sizeof((array)[0]))
#define SP_MIN(a, b)      ((a) < (b) ? (a) : (b))
#define SP_MAX(a, b)      ((a) > (b) ? (a) : (b))
#define SP_DIV_UP(a, b)   (((a) + (b)-1) / (b))
#define SP_ROUND_UP(a, b) (SP_DIV_UP(a, b) * (b))
#define SP_UNUSED(x)      ((void)(x))

/* sp_fail -- records the detail of a failure for this thread and returns `code`.
 * The sentence names the file and the field; no full stop, no newline. */
sp_err sp_fail(sp_err code, const char *fmt, ...) SP_PRINTF(2, 3);

/* sp_fail_in -- prefixes the recorded detail with "context: ", for a caller that knows the file
 * when the callee knows only the field. Returns `code`. */
sp_err sp_fail_in(sp_err code, const char *fmt, ...) SP_PRINTF(2, 3);

/* sp_fail_nomem -- SP_E_NOMEM with the size that this thread could not allocate, if sp_nomem_note has noted one. */
sp_err sp_fail_nomem(const char *what);

/* sp_nomem_note -- notes the size of an allocation that failed, for sp_fail_nomem. */
void sp_nomem_note(size_t n_bytes);

/* SP_TRY -- evaluates a fallible expression and returns its error, if any. SP_TRY_GOTO stores the
 * error in the local variable `err` and jumps to a label, for functions that must clean up. */
#define SP_TRY(expr)                                                                               \
    do {                                                                                           \
        sp_err sp_try_err = (expr);                                                                \
        if (SP_UNLIKELY(sp_try_err != SP_OK)) return sp_try_err;                                   \
    } while (0)

#define SP_TRY_GOTO(expr, label)                                                                   \
    do {                                                                                           \
        err = (expr);                                                                              \
        if (SP_UNLIKELY(err != SP_OK)) goto label;                                                 \
    } while (0)

#endif
