/* serve_stream.h -- the streamed answer to one request of a load test, as its bytes arrive. */
#ifndef SP_LAB_BENCH_SERVE_STREAM_H
#define SP_LAB_BENCH_SERVE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Durations or moments, for quantiles. */
typedef struct load_times {
    double *v; /* [n] seconds */
    size_t n, cap;
} load_times;

void load_times_add(load_times *t, double seconds);
void load_times_fini(load_times *t);

typedef struct load_answer {
    int64_t first_us, last_us;           /* the first and last event with a token; 0: none yet */
    int n_events;                        /* with a token; one may carry several */
    int n_generated, n_prompt, n_cached; /* as the server counts; -1: it does not say */
    bool is_stream, done;                /* done: [DONE] has arrived */
    char wrong[192];                     /* what was wrong with the stream; "": nothing */
    load_times gaps;                     /* between events with tokens */
    char *line; /* the line being received; of a reply that is no stream: its beginning */
    size_t n_line, room;
} load_answer;

/* load_answer_reset -- for the next request; memory is kept. */
void load_answer_reset(load_answer *a);
void load_answer_fini(load_answer *a);

/* load_answer_feed -- n more bytes of the body, which arrived at now_us. False when the stream
 * cannot be read; `wrong` says why. */
bool load_answer_feed(load_answer *a, const char *data, size_t n, int64_t now_us);

#endif
