#include "server/documents/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/documents/work.h"
#include "server/http/exchange.h"
#include "server/http/reply.h"

#define POLL_MS     100
#define PING_POLLS  50 /* of POLL_MS without a change */
#define EVENT_BYTES 512

typedef struct watch {
    srv_server *s;
    char *salt, *id;
    srv_progress last;
    bool begun, over;
    char out[EVENT_BYTES]; /* what is being sent */
    size_t n, at;
} watch;

static void free_watch(void *user)
{
    watch *w = user;
    free(w->salt);
    free(w->id);
    free(w);
}

static void write_event(watch *w, const srv_progress *p)
{
    w->n = (size_t)snprintf(w->out, sizeof w->out,
                            "data: {\"status\": \"%s\", \"done\": %lld, \"total\": %lld, "
                            "\"computed\": %lld, \"known\": %lld}\n\n%s",
                            srv_phase_name(p->phase), (long long)p->done, (long long)p->total,
                            (long long)p->sum.n_computed, (long long)p->sum.n_known,
                            p->phase > SRV_RUNNING ? "data: [DONE]\n\n" : "");
    w->at = 0;
    w->over = p->phase > SRV_RUNNING;
    w->last = *p;
    w->begun = true;
}

static bool has_changed(const watch *w, const srv_progress *p)
{
    return !w->begun || p->phase != w->last.phase || p->done != w->last.done;
}

/* fill -- waits for a change; false: nothing follows. */
static bool fill(watch *w)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    for (int i = 0; !w->over && !w->s->counts.draining; i++) {
        srv_progress p;
        if (!srv_work_get(w->s->work, w->salt, w->id, &p)) return false;
        if (has_changed(w, &p)) {
            write_event(w, &p);
            return true;
        }
        if (i == PING_POLLS) {
            w->n = (size_t)snprintf(w->out, sizeof w->out, ": ping\n\n");
            w->at = 0;
            return true;
        }
        nanosleep(&pause, NULL);
    }
    return false;
}

/* A callback of libmicrohttpd. */
static ssize_t read_events(void *user, uint64_t at, char *to, size_t most)
{
    watch *w = user;
    (void)at;
    if (w->at == w->n && !fill(w)) return MHD_CONTENT_READER_END_OF_STREAM;
    size_t n = w->n - w->at < most ? w->n - w->at : most;
    memcpy(to, w->out + w->at, n);
    w->at += n;
    return (ssize_t)n;
}

srv_sent srv_watch_reply(srv_call *call, const char *salt, const char *id)
{
    watch *w = calloc(1, sizeof *w);
    if (w) *w = (watch){.s = call->s, .id = strdup(id), .salt = salt ? strdup(salt) : NULL};
    struct MHD_Response *r = NULL;
    if (w && w->id && (w->salt || !salt))
        r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, EVENT_BYTES, read_events, w,
                                              free_watch);
    if (!r) {
        if (w) free_watch(w);
        return srv_reply_error(call->connection, 503, NULL, "out_of_memory", "out of memory");
    }
    return srv_reply_events(call->connection, r, false);
}
