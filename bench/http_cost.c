/* http_cost.c -- what HTTP adds to a request and to a streamed token, against the library in process.
 *
 *     build/bench/http_cost demo/model.gguf build/spolia [ROUNDS] > cost.csv
 *
 * The same prompt, cached after its first time, is answered by the library in this process and by a
 * server of its own process, in turn, with answers of 1 and of LONG tokens. For both the time of the
 * wall, and the CPU time of the process that serves: all threads of it. Medians of all rounds:
 *
 *     request = server(1) - library(1)
 *     token   = ((server(LONG) - server(1)) - (library(LONG) - library(1))) / (LONG - 1)
 */
#include <curl/curl.h>
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <spolia.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LONG       257
#define MOST       10000
#define N_CHUNKS   4
#define WALL       0
#define CPU        1
#define LIBRARY    0
#define SERVER     1

static const char chunk[] = "The harbour of the town has %d piers. The keeper lights the lamp every evening.";
static double samples[2][2][2][MOST]; /* where, answer, clock */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* cpu_of -- microseconds that all threads of a process have run. */
static double cpu_of(pid_t pid)
{
    char path[64], name[384];
    double sum = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        uint64_t ns = 0;
        snprintf(name, sizeof name, "%s/%s/schedstat", path, e->d_name);
        FILE *f = e->d_name[0] == '.' ? NULL : fopen(name, "r");
        if (f && fscanf(f, "%" SCNu64, &ns) == 1) sum += (double)ns / 1e3;
        if (f) fclose(f);
    }
    if (d) closedir(d);
    return sum;
}

static bool take_text(const char *text, size_t n, void *user)
{
    *(size_t *)user += n;
    return true;
}

static sp_err ask_library(sp_context *c, int n_predict)
{
    char text[256];
    size_t n = 0;
    sp_prompt *p = NULL;
    sp_request *r = NULL;
    sp_err err = sp_prompt_create(c, &p);
    if (err == SP_OK) err = sp_prompt_system(p, "Answer the question from the documents.");
    for (int i = 0; err == SP_OK && i < N_CHUNKS; i++) {
        snprintf(text, sizeof text, chunk, i);
        err = sp_prompt_chunk(p, "", text);
    }
    if (err == SP_OK) err = sp_prompt_question(p, "Who lights the lamp?");
    if (err == SP_OK)
        err = sp_generate(c, p, &(sp_request_opts){.sampling = sp_sampling_default(), .max_tokens = n_predict,
                                                   .ignore_end = true, .on_text = take_text, .user = &n}, &r);
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    return err;
}

static void body_of(int n_predict, char *out, size_t size)
{
    char text[256];
    size_t n = (size_t)snprintf(out, size, "{\"stream\": true, \"ignore_eos\": true, \"temperature\": 0, \"max_tokens\": %d, "
                                "\"messages\": [{\"role\": \"system\", \"content\": \"Answer the question from the "
                                "documents.\"}, {\"role\": \"user\", \"content\": \"Who lights the lamp?\"}], "
                                "\"documents\": [", n_predict);
    for (int i = 0; i < N_CHUNKS; i++) {
        snprintf(text, sizeof text, chunk, i);
        n += (size_t)snprintf(out + n, size - n, "%s\"%s\"", i ? ", " : "", text);
    }
    snprintf(out + n, size - n, "]}");
}

static size_t drop(char *data, size_t size, size_t n, void *user)
{
    return size * n;
}

/* start -- the server's process; its port is in *port. */
static pid_t start(const char *program, const char *model, int *port)
{
    int fds[2];
    if (pipe(fds) != 0) return -1;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        execl(program, program, "serve", "-m", model, "--port", "0", "-t", "1", "--reuse", "full", "--guard", "0",
              "--log-format", "none", (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    char line[128] = "";
    FILE *f = fdopen(fds[0], "r");
    bool good = f && fgets(line, sizeof line, f) && strrchr(line, ':');
    *port = good ? atoi(strrchr(line, ':') + 1) : 0;
    return good ? pid : -1; /* f stays open: the server may write to it */
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, ascending);
    return v[n / 2];
}

/* ask_server -- false after an error message. */
static bool ask_server(CURL *curl, const char *body)
{
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    const CURLcode code = curl_easy_perform(curl);
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK) fprintf(stderr, "http_cost: %s, status %ld\n", curl_easy_strerror(code), status);
    return code == CURLE_OK;
}

static bool ask_library_or_say(sp_context *c, int n_predict)
{
    if (ask_library(c, n_predict) == SP_OK) return true;
    return fprintf(stderr, "http_cost: %s\n", sp_error_detail()), false;
}

static bool measure(sp_context *c, CURL *curl, pid_t server, int n_rounds)
{
    static const int answers[] = {1, LONG};
    char bodies[2][4096];
    for (int a = 0; a < 2; a++) body_of(answers[a], bodies[a], sizeof bodies[a]);
    for (int round = -3; round < n_rounds; round++) /* the first ones fill caches and connect */
        for (int a = 0; a < 2; a++)
            for (int where = LIBRARY; where <= SERVER; where++) {
                pid_t pid = where == SERVER ? server : getpid();
                double cpu = cpu_of(pid), wall = now();
                bool good = where == SERVER ? ask_server(curl, bodies[a]) : ask_library_or_say(c, answers[a]);
                wall = now() - wall;
                usleep(2000); /* what the server does after the last byte counts, too */
                if (!good) return false;
                if (round < 0) continue;
                samples[where][a][WALL][round] = wall;
                samples[where][a][CPU][round] = cpu_of(pid) - cpu;
            }
    return true;
}

static void report(int n_rounds)
{
    static const char *const clocks[] = {"wall", "cpu"};
    printf("clock,library_1_us,library_%d_us,server_1_us,server_%d_us,request_us,token_us\n", LONG, LONG);
    for (int k = 0; k < 2; k++) {
        double m[2][2];
        for (int where = 0; where < 2; where++)
            for (int a = 0; a < 2; a++) m[where][a] = median(samples[where][a][k], n_rounds);
        printf("%s,%.1f,%.1f,%.1f,%.1f,%.1f,%.2f\n", clocks[k], m[0][0], m[0][1], m[1][0], m[1][1], m[1][0] - m[0][0],
               (m[1][1] - m[1][0] - (m[0][1] - m[0][0])) / (LONG - 1));
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) return fprintf(stderr, "usage: http_cost MODEL PROGRAM [ROUNDS]\n"), 2;
    int n_rounds = argc > 3 ? atoi(argv[3]) : 200, port = 0;
    if (n_rounds < 1 || n_rounds > MOST) return fprintf(stderr, "http_cost: 1 to %d rounds\n", MOST), 2;
    sp_context *c = NULL;
    const sp_context_opts o = {
        .model = argv[1], .machine.n_threads = 1, .reuse = {.policy = "full"}};
    pid_t server = start(argv[2], argv[1], &port);
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/v1/chat/completions", port);
    CURL *curl = curl_easy_init();
    struct curl_slist *json = curl_slist_append(NULL, "Content-Type: application/json");
    bool good = server > 0 && curl && json;
    if (!good) fprintf(stderr, "http_cost: the server does not start\n");
    if (good && sp_context_open(&o, &c) != SP_OK) good = (fprintf(stderr, "http_cost: %s\n", sp_error_detail()), false);
    if (good) {
        curl_easy_setopt(curl, CURLOPT_URL, url);
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, json);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop);
        curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
        good = measure(c, curl, server, n_rounds);
    }
    if (good) report(n_rounds);
    curl_slist_free_all(json);
    curl_easy_cleanup(curl);
    sp_context_close(c);
    if (server > 0) kill(server, SIGTERM);
    if (server > 0) waitpid(server, NULL, 0);
    return good ? 0 : 1;
}
