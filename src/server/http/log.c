#include "server/http/log.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "cli/show.h"
#include "cli/text.h"
#include "server/http/call.h"
#include "server/http/reply.h"

#define TIME_SIZE 32
#define GONE      499 /* as nginx: the client left */

bool srv_log_format_of(const char *name, srv_log_format *out)
{
    static const char *const names[] = {"none", "text", "json"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (srv_log_format)i;
            return true;
        }
    return false;
}

/* -- records -------------------------------------------------------------------------------------- */

static bool is_sane(const char *id)
{
    size_t n =
        id ? strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:") : 0;
    return n > 0 && n < SRV_ID_SIZE && !id[n];
}

static void make_id(char out[SRV_ID_SIZE])
{
    unsigned char bytes[12];
    /* libcrypto's generator would start with the first request, and can crash if memory is short then. */
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) memset(bytes, 0, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

void srv_record_begin(srv_record *r, const char *id, const char *method, const char *path)
{
    *r = (srv_record){.start_us = srv_now_us()};
    if (is_sane(id))
        snprintf(r->id, sizeof r->id, "%s", id);
    else
        make_id(r->id);
    snprintf(r->method, sizeof r->method, "%s", method);
    snprintf(r->path, sizeof r->path, "%s", path);
}

static void add_reused(srv_record *r, const char *from, int n)
{
    for (size_t i = 0; n > 0 && i < sizeof r->reused / sizeof *r->reused; i++)
        if (!r->reused[i].from || strcmp(r->reused[i].from, from) == 0) {
            r->reused[i].from = from;
            r->reused[i].n += n;
            return;
        }
}

void srv_record_add(srv_record *r, const sp_result *result, bool first)
{
    if (!r) return;
    if (r->n_results++ == 0) {
        r->queue_us = result->queue_us;
        r->ttft_us = result->ttft_us;
    }
    r->canceled |= result->finish == SP_FINISH_CANCELED;
    r->n_generated += result->n_generated;
    if (!first) return;
    r->n_prompt += result->n_prompt;
    r->n_recomputed += result->n_recomputed;
    r->n_computed += result->n_computed - result->n_recomputed;
    for (int i = 0; i < result->n_segments; i++)
        add_reused(r, result->segments[i].from, result->segments[i].n_reused);
}

/* names -- whether a message begins with this field: most do. */
static bool names(const char *message, const char *field)
{
    size_t n = strlen(field);
    return strncmp(message, field, n) == 0 && (message[n] == ' ' || message[n] == ':');
}

void srv_record_error(srv_record *r, const char *param, const char *code, const char *message)
{
    if (!r) return;
    if (!message) message = "";
    bool add_param = param && *param && !names(message, param);
    snprintf(r->error, sizeof r->error, "%s%s%s%s%s", code ? code : "", code ? ": " : "",
             add_param ? param : "", add_param ? ": " : "", message);
}

/* -- lines ------------------------------------------------------------------------------------------ */

static void write_time(char out[TIME_SIZE])
{
    struct timespec now;
    struct tm t;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &t);
    size_t n = strftime(out, TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &t);
    snprintf(out + n, TIME_SIZE - n, ".%03dZ", (int)(now.tv_nsec / 1000000));
}

static double ms(int64_t us)
{
    return (double)us / 1e3;
}

static json_t *tokens_json(const srv_record *r)
{
    json_t *o = json_pack("{s:i, s:i, s:i, s:i}", "prompt", r->n_prompt, "recomputed",
                          r->n_recomputed, "computed", r->n_computed, "generated", r->n_generated);
    for (size_t i = 0; i < sizeof r->reused / sizeof *r->reused && r->reused[i].from; i++)
        json_object_set_new(o, r->reused[i].from, json_integer(r->reused[i].n));
    return o;
}

static json_t *record_json(const srv_record *r)
{
    char now[TIME_SIZE], *path = show_copy(r->path, 0);
    write_time(now);
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:i, s:f}", "time", now, "id", r->id, "method",
                          r->method, "path", path ? path : "", "status",
                          r->status ? r->status : GONE, "total_ms", ms(srv_now_us() - r->start_us));
    if (*r->key) json_object_set_new(o, "key", json_string(r->key));
    if (*r->error) json_object_set_new(o, "error", srv_text_json(r->error, strlen(r->error)));
    if (r->canceled) json_object_set_new(o, "canceled", json_true());
    if (r->n_results) {
        json_object_set_new(o, "tokens", tokens_json(r));
        json_object_set_new(o, "queue_ms", json_real(ms(r->queue_us)));
        json_object_set_new(o, "ttft_ms", json_real(ms(r->ttft_us)));
    }
    free(path);
    return o;
}

/* print_json -- a whole line at once, so that lines of several threads do not mix; consumes o. */
static void print_json(json_t *o)
{
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(7)) : NULL;
    if (text) fprintf(stderr, "%s\n", text);
    free(text);
    json_decref(o);
}

/* print_quoted -- a field whose value may have blanks and quotes. */
static void print_quoted(FILE *f, const char *field, const char *value)
{
    fprintf(f, "%s=\"", field);
    for (const char *s = value; *s; s++) {
        if (*s == '"') fputc('\\', f);
        fputc(*s, f);
    }
    fputc('"', f);
}

static void print_text(const srv_record *r)
{
    char now[TIME_SIZE], *line = NULL, *path = show_copy(r->path, 0), *error = show_copy(r->error, 0);
    size_t n;
    FILE *f = cli_text_open(&line, &n);
    if (!f || !path || !error) goto done;
    write_time(now);
    fprintf(f, "%s %s %s %d id=%s", now, r->method, path, r->status ? r->status : GONE, r->id);
    if (*r->key) fprintf(f, " key=%s", r->key);
    if (r->n_results) fprintf(f, " prompt=%d", r->n_prompt);
    for (size_t i = 0; i < sizeof r->reused / sizeof *r->reused && r->reused[i].from; i++)
        fprintf(f, " %s=%d", r->reused[i].from, r->reused[i].n);
    if (r->n_results)
        fprintf(f, " recomputed=%d computed=%d generated=%d queue_ms=%.1f ttft_ms=%.1f",
                r->n_recomputed, r->n_computed, r->n_generated, ms(r->queue_us), ms(r->ttft_us));
    fprintf(f, " total_ms=%.1f%s", ms(srv_now_us() - r->start_us), r->canceled ? " canceled" : "");
    if (*error) print_quoted(f, " error", error);
    if (fclose(f) == 0) fprintf(stderr, "%s\n", line);
    f = NULL;
done:
    if (f) fclose(f);
    free(line);
    free(path);
    free(error);
}

void srv_log_request(srv_log_format format, const srv_record *r)
{
    if (r->probe) return;
    if (format == SRV_LOG_JSON) print_json(record_json(r));
    if (format == SRV_LOG_TEXT) print_text(r);
}

void srv_log_event(srv_log_format format, const char *event)
{
    char now[TIME_SIZE];
    write_time(now);
    if (format == SRV_LOG_JSON) print_json(json_pack("{s:s, s:s}", "time", now, "event", event));
    if (format == SRV_LOG_TEXT) fprintf(stderr, "%s %s\n", now, event);
}
