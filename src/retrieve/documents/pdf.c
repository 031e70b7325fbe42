/* pdf.c -- the text of a PDF, by page.
 *
 * poppler's pdftotext reads it in a process of its own: a PDF is a program that strangers wrote, so
 * it gets limited memory, time and output, and if it crashes the reader, it crashes nothing
 * else. (This also keeps poppler's GPL out of this library.) The file is handed over in memory
 * and the text comes back through a pipe, a form feed after each page.
 */
#include "retrieve/documents/readers_int.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "retrieve/text/text.h"

#define MAX_MEMORY   ((rlim_t)1 << 30)
#define MAX_SECONDS  60
#define EXIT_MISSING 127

/* -- the process ------------------------------------------------------------------------------ */

/* become_reader -- in the child, where only async-signal-safe functions may be called. */
static void become_reader(int in, int out)
{
    static char name[] = "pdftotext", quiet[] = "-q", enc[] = "-enc", utf8[] = "UTF-8",
                eol[] = "-eol", lf[] = "unix", standard[] = "-";
    char *const argv[] = {name, quiet, enc, utf8, eol, lf, standard, standard, NULL};
    struct rlimit memory = {MAX_MEMORY, MAX_MEMORY}, seconds = {MAX_SECONDS, MAX_SECONDS},
                  none = {0, 0};
    int nowhere = open("/dev/null", O_WRONLY);
    setrlimit(RLIMIT_AS, &memory);
    setrlimit(RLIMIT_CPU, &seconds);
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_FSIZE, &none);
    bool ready = dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(nowhere, 2) == 2;
    if (ready) execvp(name, argv);
    _exit(EXIT_MISSING);
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* collect -- everything the child writes, until it closes the pipe or a limit is reached. */
static sp_err collect(int from, sp_bytes *out)
{
    int64_t end = now_ms() + MAX_SECONDS * 1000;
    for (;;) {
        int64_t left = end - now_ms();
        struct pollfd p = {.fd = from, .events = POLLIN};
        int rc = left > 0 ? poll(&p, 1, (int)left) : 0;
        if (rc == 0) return sp_fail(SP_E_LIMIT, "reading it takes more than %d s", MAX_SECONDS);
        if (rc < 0 && errno != EINTR) return sp_fail(SP_E_IO, "poll: %s", strerror(errno));
        if (rc < 0) continue;
        SP_TRY(sp_vec_reserve(out, 1 << 16));
        ssize_t n = read(from, out->v + out->n, 1 << 16);
        if (n < 0 && errno != EINTR) return sp_fail(SP_E_IO, "a pipe: %s", strerror(errno));
        if (n == 0) return SP_OK;
        if (n > 0) out->n += (size_t)n;
        if (out->n > SP_DOC_MAX_BYTES) return sp_fail(SP_E_LIMIT, "too much text");
    }
}

static sp_err verdict(int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code == 0) return SP_OK;
    if (code == EXIT_MISSING)
        return sp_fail(SP_E_UNSUPPORTED, "PDFs need pdftotext (package poppler-utils)");
    return sp_fail(SP_E_UNSUPPORTED, "a damaged or too large PDF");
}

static sp_err run(int in, int pipes[2], sp_bytes *out)
{
    pid_t child = fork();
    if (child < 0) return sp_fail(SP_E_IO, "fork: %s", strerror(errno));
    if (child == 0) become_reader(in, pipes[1]);
    close(pipes[1]);
    pipes[1] = -1;
    sp_err err = collect(pipes[0], out);
    if (err != SP_OK) kill(child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return err == SP_OK ? verdict(status) : err;
}

static sp_err write_all(int f, const char *data, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t done = write(f, data + at, n - at);
        if (done < 0 && errno != EINTR) return sp_fail(SP_E_IO, "memory: %s", strerror(errno));
        if (done > 0) at += (size_t)done;
    }
    if (lseek(f, 0, SEEK_SET) != 0) return sp_fail(SP_E_IO, "memory: %s", strerror(errno));
    return SP_OK;
}

static sp_err extract(const char *data, size_t n, sp_bytes *out)
{
    int pipes[2] = {-1, -1};
    int in = memfd_create("pdf", MFD_CLOEXEC);
    sp_err err = in < 0 || pipe2(pipes, O_CLOEXEC) != 0
                     ? sp_fail(SP_E_IO, "cannot start pdftotext: %s", strerror(errno))
                     : SP_OK;
    if (err == SP_OK) err = write_all(in, data, n);
    if (err == SP_OK) err = run(in, pipes, out);
    if (in >= 0) close(in);
    if (pipes[0] >= 0) close(pipes[0]);
    if (pipes[1] >= 0) close(pipes[1]);
    return err;
}

/* -- pages ------------------------------------------------------------------------------------ */

static sp_err take_pages(const char *s, size_t n, sp_bytes *text, sp_marks *marks)
{
    int64_t page = 1;
    for (size_t at = 0; at < n; page++) {
        const char *feed = memchr(s + at, '\f', n - at);
        size_t end = feed ? (size_t)(feed - s) : n;
        SP_TRY(sp_vec_reserve(marks, 1));
        marks->v[marks->n++] = (sp_mark){text->n, page};
        SP_TRY(sp_bytes_add(text, s + at, end - at));
        SP_TRY(sp_bytes_add(text, "\n", 1));
        at = end + 1;
    }
    return SP_OK;
}

sp_err sp_pdf_pages(sp_reading *r, const char *s, size_t n)
{
    sp_bytes own = {0}, text = {0};
    sp_marks marks = {0};
    sp_err err = sp_text_decode(s, n, &own, &s, &n);
    if (err == SP_OK) err = take_pages(s, n, &text, &marks);
    if (err == SP_OK && sp_skip_blanks(text.v, 0, text.n) == text.n)
        err = sp_fail(SP_E_UNSUPPORTED, "a PDF without text (of images only?)");
    if (err == SP_OK) {
        sp_document d = {.text = text.v,
                         .n = text.n,
                         .place = SP_PLACE_MARKED_PAGES,
                         .marks = marks.v,
                         .n_marks = marks.n};
        err = sp_document_emit(r, &d, NULL);
    }
    sp_vec_fini(&own);
    sp_vec_fini(&text);
    sp_vec_fini(&marks);
    return err;
}

/* is_encrypted -- whether a trailer says so; pdftotext, which reads files that need no password to open,
 * does not distinguish damage from encryption. */
static bool is_encrypted(const char *data, size_t n)
{
    return n && memmem(data, n, "/Encrypt", 8);
}

sp_err sp_pdf_read(sp_reading *r, const char *data, size_t n)
{
    sp_bytes text = {0};
    sp_err err = extract(data, n, &text);
    if (err == SP_E_UNSUPPORTED && is_encrypted(data, n))
        err = sp_fail(SP_E_UNSUPPORTED, "an encrypted PDF: it needs a password");
    if (err == SP_E_IO) err = sp_fail_in(SP_E_IO, "%s", r->path);
    if (err == SP_OK) err = sp_pdf_pages(r, text.v, text.n);
    sp_vec_fini(&text);
    return err;
}
