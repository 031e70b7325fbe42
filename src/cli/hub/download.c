/* download.c -- one file of the hub.
 *
 *   FILE.part --append--> whole --SHA-256--> FILE       a download that ends early leaves FILE.part, and the next one
 *                            \-- differs --> deleted    asks for the rest; it is locked meanwhile
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "cli/fail.h"
#include "cli/hub/hub_int.h"
#include "cli/show.h"

#define TRIES 5 /* in a row that bring nothing */

typedef struct transfer {
    const hub_download *d;
    int file;
    int64_t at, from; /* bytes there: now, and when the command began */
    long status;
    char said[300]; /* the beginning of an answer that is no success */
    size_t n_said;
    int failed; /* errno of a write */
    bool too_long;
} transfer;

/* -- the hash ------------------------------------------------------------------------------------ */

static void to_hex(const unsigned char *digest, unsigned n, char *out)
{
    for (unsigned i = 0; i < n; i++) sprintf(out + 2 * i, "%02x", digest[i]);
}

/* hash_of -- SHA-256 of the bytes, or Git's id of them. */
static bool hash_of(int file, const hub_file *f, char *out)
{
    static unsigned char buffer[1 << 16];
    const bool git = strlen(f->hash) == 40;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n_digest = 0;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool good = md && EVP_DigestInit_ex(md, git ? EVP_sha1() : EVP_sha256(), NULL) == 1;
    if (good && git) {
        char head[40];
        int n = snprintf(head, sizeof head, "blob %" PRId64, f->size);
        good = EVP_DigestUpdate(md, head, (size_t)n + 1) == 1;
    }
    good = good && lseek(file, 0, SEEK_SET) == 0;
    for (ssize_t n = 1; good && n > 0;) {
        n = read(file, buffer, sizeof buffer);
        good = n >= 0 && EVP_DigestUpdate(md, buffer, (size_t)n) == 1;
    }
    good = good && EVP_DigestFinal_ex(md, digest, &n_digest) == 1;
    EVP_MD_CTX_free(md);
    if (good) to_hex(digest, n_digest, out);
    return good;
}

/* -- a transfer ---------------------------------------------------------------------------------- */

static void draw(const transfer *t)
{
    char done[SHOW_SIZE], all[SHOW_SIZE], speed[SHOW_SIZE];
    double seconds = progress_seconds(t->d->progress),
           rate = (double)(t->at - t->from) / (seconds + 1e-9);
    int left = rate > 0 ? (int)((double)(t->d->file->size - t->at) / rate) : 0;
    progress_draw(t->d->progress, "%s  %s of %s  %s/s  %d:%02d:%02d left", t->d->file->path,
                  show_size(done, t->at), show_size(all, t->d->file->size),
                  show_size(speed, (int64_t)rate), left / 3600, left / 60 % 60, left % 60);
}

/* start_over -- the hub sends the file from its beginning. */
static bool start_over(transfer *t)
{
    t->at = t->from = 0;
    return ftruncate(t->file, 0) == 0;
}

static size_t take(char *data, size_t size, size_t n, void *user)
{
    transfer *t = user;
    if (!t->status) {
        curl_easy_getinfo(t->d->site->curl, CURLINFO_RESPONSE_CODE, &t->status);
        if (t->status == 200 && t->at && !start_over(t)) return t->failed = errno, 0;
    }
    if (t->status != 200 && t->status != 206) {
        size_t room = sizeof t->said - 1 - t->n_said, part = n < room ? n : room;
        memcpy(t->said + t->n_said, data, part);
        t->n_said += part;
        return n;
    }
    t->too_long = (int64_t)n > t->d->file->size - t->at;
    if (t->too_long) return 0;
    for (size_t done = 0; done < n;) {
        ssize_t wrote = pwrite(t->file, data + done, n - done, t->at);
        if (wrote < 0 && errno != EINTR) return t->failed = errno, 0;
        if (wrote < 0) continue;
        done += (size_t)wrote;
        t->at += wrote;
    }
    return n;
}

static int look(void *user, curl_off_t total, curl_off_t now, curl_off_t up, curl_off_t up_now)
{
    draw(user);
    return progress_interrupted();
}

/* get -- asks for the bytes from t->at on. */
static CURLcode get(transfer *t)
{
    const hub_download *d = t->d;
    char url[2048], range[32];
    CURL *c = d->site->curl;
    snprintf(url, sizeof url, "%s/%s/resolve/%s/", d->site->endpoint, d->repo, d->commit);
    hub_escape(url, sizeof url, d->file->path);
    hub_site_request(d->site, url);
    snprintf(range, sizeof range, "%" PRId64 "-", t->at);
    if (t->at) curl_easy_setopt(c, CURLOPT_RANGE, range);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, look);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, t);
    t->status = 0;
    t->n_said = 0;
    memset(t->said, 0, sizeof t->said);
    CURLcode rc = curl_easy_perform(c);
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &t->status);
    return rc;
}

static bool is_passing(long status)
{
    return status == 408 || status == 429 || status >= 500;
}

static void rest(int tries)
{
    for (int i = 0; i < 10 * tries && !progress_interrupted(); i++)
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
}

/* explain -- why the file is not complete. */
static void explain(const transfer *t, CURLcode rc)
{
    const hub_download *d = t->d;
    char done[SHOW_SIZE], all[SHOW_SIZE];
    show_size(done, t->at);
    show_size(all, d->file->size);
    if (progress_interrupted())
        cli_fail_with("%s: interrupted at %s of %s; the same command resumes there",
                      d->file->path, done, all);
    else if (t->failed)
        cli_fail_with("%s.part: %s", d->to, strerror(t->failed));
    else if (t->too_long)
        cli_fail_with("%s: the hub sent more than the %s that it lists", d->file->path, all);
    else if (t->status && t->status != 200 && t->status != 206)
        hub_explain(d->site, d->repo, t->status, t->said);
    else
        cli_fail_with("%s: %s (got %s of %s; the same command resumes)", d->file->path,
                      rc == CURLE_OK  ? "the hub sent less than it lists"
                      : *d->site->why ? d->site->why
                                      : curl_easy_strerror(rc),
                      done, all);
}

/* fetch -- until the file is as long as the list says. */
static bool fetch(transfer *t)
{
    const int64_t size = t->d->file->size;
    CURLcode rc = CURLE_OK;
    for (int tries = 0; t->at < size && tries < TRIES; tries++) {
        int64_t before = t->at;
        rest(tries);
        if (progress_interrupted()) break;
        rc = get(t);
        if (t->status == 416 && t->at && start_over(t)) continue;
        bool good = t->status == 200 || t->status == 206 || t->status == 0;
        if (t->failed || t->too_long || (!good && !is_passing(t->status))) break;
        if (t->at > before) tries = -1;
    }
    if (t->at == size && !t->too_long) return true;
    explain(t, rc);
    return false;
}

/* -- a file -------------------------------------------------------------------------------------- */

/* open_part -- locked. Negative after an error message. */
static int open_part(const hub_download *d, const char *part)
{
    int file = open(part, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) {
        cli_fail_with("%s: %s", part, strerror(errno));
    } else if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) { /* some file systems have no locks */
        cli_fail_with("%s: another process is downloading this file", d->file->path);
        close(file);
        file = -1;
    }
    return file;
}

static bool has_room(const hub_download *d, int file, int64_t at)
{
    struct statvfs disk;
    char need[SHOW_SIZE], there[SHOW_SIZE];
    if (fstatvfs(file, &disk) != 0) return true;
    int64_t room = (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
    if (room >= d->file->size - at) return true;
    cli_fail_with("%s: needs %s, the disk has %s free; XDG_CACHE_HOME chooses another folder",
                  d->to, show_size(need, d->file->size - at), show_size(there, room));
    return false;
}

/* check -- deletes what is not the file that the hub lists. */
static bool check(const hub_download *d, int file, const char *part)
{
    char hash[2 * EVP_MAX_MD_SIZE + 1] = "";
    if (!*d->file->hash) return true;
    progress_draw(d->progress, "%s  checking", d->file->path);
    if (!hash_of(file, d->file, hash))
        return cli_fail_with("%s: cannot be read: %s", part, strerror(errno)), false;
    if (strcmp(hash, d->file->hash) == 0) return true;
    unlink(part);
    cli_fail_with("%s: %s is %s, the hub lists %s: the download is deleted; try again",
                  d->file->path, strlen(hash) == 40 ? "its Git id" : "its SHA-256", hash,
                  d->file->hash);
    return false;
}

static bool finish(const hub_download *d, int file, const char *part)
{
    if (!check(d, file, part)) return false;
    if (fchmod(file, 0644) == 0 && fsync(file) == 0 && rename(part, d->to) == 0) return true;
    cli_fail_with("%s: %s", d->to, strerror(errno));
    return false;
}

bool hub_download_file(const hub_download *d)
{
    char part[4200];
    struct stat st;
    if (d->file->size < 0)
        return cli_fail_with("%s: the hub does not list its size", d->file->path), false;
    snprintf(part, sizeof part, "%s.part", d->to);
    int file = open_part(d, part);
    if (file < 0) return false;
    transfer t = {.d = d, .file = file};
    bool good = fstat(file, &st) == 0;
    t.at = good ? st.st_size : 0;
    if (t.at > d->file->size) good = start_over(&t);
    t.from = t.at;
    good = good && has_room(d, file, t.at) && fetch(&t) && finish(d, file, part);
    close(file);
    return good;
}
