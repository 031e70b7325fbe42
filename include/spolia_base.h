/* spolia_base.h -- the version, errors and logging. Include spolia.h: it includes this. */
#ifndef SPOLIA_BASE_H
#define SPOLIA_BASE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SP_API         __attribute__((visibility("default")))

/* sp_version -- SPOLIA_VERSION of the library that is loaded. */
SP_API const char *sp_version(void);

/* -- errors --------------------------------------------------------------------------------- */

#define SP_ERRORS(X)                                                                               \
    X(OK, 0, "success")                                                                            \
    X(E_NOMEM, -1, "out of memory")                                                                \
    X(E_IO, -2, "input/output error")                                                              \
    X(E_FORMAT, -3, "malformed data")                                                              \
    X(E_UNSUPPORTED, -4, "not supported")                                                          \
    X(E_ARG, -5, "invalid argument")                                                               \
    X(E_LIMIT, -6, "over a limit")                                                                 \
    X(E_NOKV, -7, "out of KV memory")                                                              \
    X(E_CONTEXT, -8, "prompt longer than the context")                                             \
    X(E_NOTFOUND, -9, "not found")                                                                 \
    X(E_CANCELED, -10, "canceled")

typedef enum sp_err {
#define X(name, value, text) SP_##name = value,
    SP_ERRORS(X)
#undef X
} sp_err;

/* sp_error_text -- the general text of a code; never NULL. */
SP_API const char *sp_error_text(sp_err code);
/* sp_error_detail -- details of the last failure on this thread: file, field, value. Valid until the next failing
 * call on this thread. */
SP_API const char *sp_error_detail(void);

/* -- JSON without memory --------------------------------------------------------------------- */

/* jansson, which the library reads JSON with, ignores some failed allocations: a text loses its end, an object a
 * member; others it calls syntax errors. When it reads a text, it may go on beyond the end of its memory, or end the
 * process. Where failed allocations are noted, the library refuses such JSON with SP_E_NOMEM, and its reading is safe.
 *
 * sp_json_watch -- jansson allocates with `allocate` from now on, everywhere in the process, and frees with free. Call
 * it before any thread uses jansson. */
SP_API void sp_json_watch(void *(*allocate)(size_t n));
/* sp_json_whole -- runs read(user), which calls json_loadb or the like, and nothing else that must come to its end.
 * false: an allocation of jansson's failed; read was left there by longjmp, and what jansson had allocated in it is
 * freed. Without sp_json_watch always true. */
SP_API bool sp_json_whole(void (*read)(void *user), void *user);
/* sp_json_lost -- notes a failed allocation of jansson's on this thread: for programs that give it an allocator
 * themselves (json_set_alloc_funcs). */
SP_API void sp_json_lost(void);

/* -- logging -------------------------------------------------------------------------------- */

typedef enum sp_log_level { SP_LOG_ERROR = 1, SP_LOG_WARN, SP_LOG_INFO, SP_LOG_DEBUG } sp_log_level;
typedef void sp_log_sink(sp_log_level level, const char *line, void *user);

/* sp_log_set -- where log lines go; sink NULL turns logging off (the default). Call it before any
 * other thread uses the library. A context with a store also calls the sink from a thread of its own. */
SP_API void sp_log_set(sp_log_level level, sp_log_sink *sink, void *user);

#ifdef __cplusplus
}
#endif
#endif
