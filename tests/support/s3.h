/* s3.h -- an object store of its own for a test program: moto's server on a free port of this machine. It takes any
 * key; tests/e2e/test_remote_s3.py has one that verifies signatures. */
#ifndef SP_TESTS_S3_H
#define SP_TESTS_S3_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "store/remote/s3/list.h"
#include "support/redis.h"

static pid_t s3_pid; /* 0: none */

static inline void s3_stop(void)
{
    if (!s3_pid) return;
    kill(s3_pid, SIGCONT);
    kill(s3_pid, SIGKILL);
    waitpid(s3_pid, NULL, 0);
    s3_pid = 0;
}

static inline sp_remote_site s3_site(const char *url)
{
    return (sp_remote_site){
        .url = url, .space = "00112233445566778899aabbccddeeff", .self = "me", .timeout_us = 30000000};
}

/* s3_ask -- one request; its error. */
static inline sp_err s3_ask(const char *url, const char *method, const char *key, const void *body, size_t n)
{
    sp_s3_http *h;
    const sp_remote_site site = s3_site(url);
    sp_s3_request r = {.method = method, .key = key, .body = body, .n_body = n};
    sp_err err = sp_s3_http_open(&site, &h);
    if (err != SP_OK) return err;
    err = sp_s3_run(h, &r, 1);
    sp_s3_request_fini(&r);
    sp_s3_http_close(h);
    return err;
}

/* s3_run_at -- false: moto is not installed. */
static inline bool s3_run_at(int port)
{
    char digits[12];
    snprintf(digits, sizeof digits, "%d", port);
    s3_pid = fork();
    if (s3_pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(1);
        execlp(".venv/bin/moto_server", "moto_server", "-p", digits, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 15000; i++) {
        usleep(20000);
        if (waitpid(s3_pid, NULL, WNOHANG) == s3_pid) break; /* it could not start */
        if (s3_ask("s3://first", "PUT", "", NULL, 0) == SP_OK) return true;
    }
    s3_pid = 0;
    return false;
}

/* s3_use -- the environment that leads to a server on a port of this machine. */
static inline void s3_use(int port)
{
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", port);
    setenv("AWS_ACCESS_KEY_ID", "any", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "any", 1);
    setenv("AWS_ENDPOINT_URL", endpoint, 1);
    setenv("AWS_CONFIG_FILE", "/no/such/file", 1);
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/no/such/file", 1);
}

/* s3_start -- a server for all tests of the program, and the environment that leads there. false: there is no moto. */
static inline bool s3_start(void)
{
    if (s3_pid) return true;
    const int port = free_port();
    s3_use(port);
    atexit(s3_stop);
    return s3_run_at(port);
}

static inline sp_err s3_count_row(void *user, const sp_s3_row *row)
{
    SP_UNUSED(row);
    ++*(int *)user;
    return SP_OK;
}

/* s3_count -- objects, or uploads under way, below the site's address. */
static inline int s3_count(const sp_remote_site *site, bool uploads)
{
    int n = 0;
    sp_s3_http *h;
    assert_ok(sp_s3_http_open(site, &h));
    assert_ok(sp_s3_list(h, &(sp_s3_which){.prefix = sp_s3_http_prefix(h), .uploads = uploads}, s3_count_row, &n));
    sp_s3_http_close(h);
    return n;
}

#endif
