/* log.h -- one line on standard error for each answered request, as text or as JSON.
 *
 *   2026-11-22T14:40:01.123Z POST /v1/chat/completions 200 id=... key=anna prompt=322 computed=22
 *   {"time": "2026-11-22T14:40:01.123Z", "id": "...", "key": "anna", "method": "POST", ...}
 *
 * Probes (/health, /ping, /metrics) are not logged, nor are keys and texts. */
#ifndef SP_SERVER_HTTP_LOG_H
#define SP_SERVER_HTTP_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "server/http/limits.h"
#include "spolia.h"

#define SRV_WHY_SIZE      256
#define SRV_ID_SIZE       65 /* of a request: at most 64 characters and NUL */

typedef enum srv_log_format { SRV_LOG_NONE, SRV_LOG_TEXT, SRV_LOG_JSON } srv_log_format;

/* srv_log_format_of -- "none", "text", "json"; false: unknown. */
bool srv_log_format_of(const char *name, srv_log_format *out);

/* What the log says about a request. */
typedef struct srv_record {
    char id[SRV_ID_SIZE];
    char key[SRV_KEY_NAME_SIZE]; /* name of the API key; "": none is needed, or it is unknown */
    char method[16], path[160];  /* cut where longer */
    bool probe, canceled;
    int status; /* 0: the client left before the reply */
    char error[SRV_WHY_SIZE]; /* of a request that was refused or failed; "": none */
    int64_t start_us;
    int n_results; /* of the following; 0: nothing was generated */
    int n_prompt, n_recomputed, n_computed, n_generated;
    struct {
        const char *from; /* tier */
        int n;
    } reused[4];
    int64_t queue_us, ttft_us; /* of the first choice */
} srv_record;

/* srv_record_begin -- a request with the client's X-Request-Id, or NULL. An id of up to 64 letters,
 * digits and "-_.:" is kept, else a random one is made. */
void srv_record_begin(srv_record *r, const char *id, const char *method, const char *path);
/* srv_record_add -- the tokens and times of a choice; first: of its prompt, which counts once. NULL is allowed. */
void srv_record_add(srv_record *r, const sp_result *result, bool first);

/* srv_record_error -- why it was refused: the field, the code, the message; each may be NULL, and r. */
void srv_record_error(srv_record *r, const char *param, const char *code, const char *message);

/* srv_log_request -- writes the line. Thread: any. */
void srv_log_request(srv_log_format format, const srv_record *r);
/* srv_log_event -- a line about the server itself: "draining". */
void srv_log_event(srv_log_format format, const char *event);

#endif
