/* cut.c -- finds known texts in a longer one.
 *
 * The hash of a text is the polynomial sum of c[i] B^(n-1-i) modulo 2^64. With the hashes of all
 * prefixes of a text, that of any part costs one multiplication:
 *
 *     hash(part from i, n long) = prefix[i + n] - prefix[i] B^n
 *
 * A known text is stored as its length, its hash, and the hash of its first 64 bytes, the key of a table.
 * A scan looks up each window of 64 bytes; texts with the same beginning are told apart by the hash of
 * the whole. Both hashes are xored with the tenant's number. B is odd: texts of equal length that differ in one byte
 * never have equal hashes.
 *
 *     texts    [max] a ring, oldest at `next` once full
 *     buckets  [power of two] --> newest text --> older text --> ...       (index + 1; 0: none)
 */
#include "serve/prompt/cut.h"

#include <pthread.h>
#include <string.h>

#include "kv/segment.h"

#define BASE   UINT64_C(0x9e3779b97f4a7c15)
#define WINDOW SP_CUT_MIN_BYTES

typedef struct known_text {
    uint64_t start, whole; /* hashes */
    uint64_t power;        /* B^n */
    size_t n;
    int32_t older; /* in the same bucket */
} known_text;

struct sp_known {
    pthread_mutex_t lock; /* guards the following */
    known_text *texts;    /* [max] */
    int32_t *buckets;
    uint32_t n_buckets;
    int32_t n, max, next; /* next: the slot to be taken */
    uint64_t window_power;
};

/* -- hashes --------------------------------------------------------------------------------- */

static uint64_t hash_on(uint64_t h, char c)
{
    return h * BASE + (unsigned char)c + 1;
}

static uint64_t hash_of(const char *s, size_t n)
{
    uint64_t h = 0;
    for (size_t i = 0; i < n; i++) h = hash_on(h, s[i]);
    return h;
}

static uint64_t power_of(size_t n)
{
    uint64_t p = 1;
    for (uint64_t b = BASE; n; n >>= 1, b *= b)
        if (n & 1) p *= b;
    return p;
}

static uint64_t hash_part(const uint64_t *prefix, size_t from, size_t n, uint64_t power)
{
    return prefix[from + n] - prefix[from] * power;
}

static int32_t *bucket_of(const sp_known *k, uint64_t start)
{
    return &k->buckets[(start * BASE >> 32) & (k->n_buckets - 1)];
}

/* -- what is known -------------------------------------------------------------------------- */

sp_err sp_known_create(int32_t max_texts, sp_known **out)
{
    sp_known *k = SP_NEW(sp_known);
    if (!k) return sp_fail_nomem("known texts");
    *k = (sp_known){.max = max_texts, .n_buckets = 1, .window_power = power_of(WINDOW)};
    pthread_mutex_init(&k->lock, NULL);
    while (k->n_buckets < (uint32_t)max_texts) k->n_buckets *= 2;
    k->texts = SP_NEW_N(known_text, (size_t)max_texts);
    k->buckets = SP_NEW_N(int32_t, k->n_buckets);
    if (!k->texts || !k->buckets) {
        sp_known_destroy(k);
        return sp_fail_nomem("known texts");
    }
    *out = k;
    return SP_OK;
}

void sp_known_destroy(sp_known *k)
{
    if (!k) return;
    pthread_mutex_destroy(&k->lock);
    sp_free(k->texts);
    sp_free(k->buckets);
    sp_free(k);
}

int32_t sp_known_n(sp_known *k)
{
    pthread_mutex_lock(&k->lock);
    int32_t n = k->n;
    pthread_mutex_unlock(&k->lock);
    return n;
}

static void forget(sp_known *k, int32_t slot)
{
    int32_t *link = bucket_of(k, k->texts[slot].start);
    while (*link != slot + 1) link = &k->texts[*link - 1].older;
    *link = k->texts[slot].older;
    k->n--;
}

static bool has(const sp_known *k, const known_text *t)
{
    for (int32_t i = *bucket_of(k, t->start); i; i = k->texts[i - 1].older)
        if (k->texts[i - 1].n == t->n && k->texts[i - 1].whole == t->whole) return true;
    return false;
}

static void enter(sp_known *k, known_text t)
{
    if (k->n == k->max) forget(k, k->next);
    int32_t *bucket = bucket_of(k, t.start);
    t.older = *bucket;
    k->texts[k->next] = t;
    *bucket = k->next + 1;
    k->next = (k->next + 1) % k->max;
    k->n++;
}

uint64_t sp_known_tenant(const char *salt)
{
    sp_digest id;
    uint64_t tenant = 1; /* out of memory for the hash: a tenant whose texts no other tenant finds */
    const sp_digest space = {{0}};
    if (!salt) return 0;
    if (sp_segment_id(&space, salt, NULL, 0, &id) == SP_OK) memcpy(&tenant, &id, sizeof tenant);
    return tenant;
}

void sp_known_add(sp_known *k, uint64_t tenant, const char *text, size_t n)
{
    if (n < WINDOW) return;
    known_text t = {.start = hash_of(text, WINDOW) ^ tenant,
                    .whole = hash_of(text, n) ^ tenant,
                    .power = power_of(n),
                    .n = n};
    pthread_mutex_lock(&k->lock);
    if (!has(k, &t)) enter(k, t);
    pthread_mutex_unlock(&k->lock);
}

/* A forgotten text keeps its slot but is never found: its length is 0. */
void sp_known_drop(sp_known *k, uint64_t tenant, const char *text, size_t n)
{
    if (n < WINDOW) return;
    uint64_t start = hash_of(text, WINDOW) ^ tenant, whole = hash_of(text, n) ^ tenant;
    pthread_mutex_lock(&k->lock);
    for (int32_t i = *bucket_of(k, start); i; i = k->texts[i - 1].older) {
        known_text *t = &k->texts[i - 1];
        if (t->start == start && t->n == n && t->whole == whole) t->n = t->whole = 0;
    }
    pthread_mutex_unlock(&k->lock);
}

/* longest_at -- bytes of the longest known text at s[at], with at least a window left; or 0. */
static size_t longest_at(const sp_known *k, uint64_t tenant, const uint64_t *prefix, size_t at,
                         size_t n)
{
    uint64_t start = hash_part(prefix, at, WINDOW, k->window_power) ^ tenant;
    size_t best = 0;
    for (int32_t i = *bucket_of(k, start); i; i = k->texts[i - 1].older) {
        const known_text *t = &k->texts[i - 1];
        if (t->start != start || t->n <= best || t->n > n - at) continue;
        if ((hash_part(prefix, at, t->n, t->power) ^ tenant) == t->whole) best = t->n;
    }
    return best;
}

/* -- cutting -------------------------------------------------------------------------------- */

static sp_err add(sp_cut_list *out, const char *text, size_t n, bool is_chunk)
{
    if (n == 0) return SP_OK;
    SP_TRY(sp_vec_reserve(out, 1));
    out->v[out->n++] = (sp_cut_piece){text, n, is_chunk};
    return SP_OK;
}

/* cut_known -- pieces of a text without separators. Called with the lock held. */
static sp_err cut_known(const sp_known *k, uint64_t tenant, const char *text, size_t n,
                        sp_cut_list *out)
{
    if (!k || k->n == 0 || n < WINDOW) return add(out, text, n, false);
    uint64_t *prefix = sp_alloc(n + 1, sizeof *prefix);
    if (!prefix) return sp_fail_nomem("a text");
    prefix[0] = 0;
    for (size_t i = 0; i < n; i++) prefix[i + 1] = hash_on(prefix[i], text[i]);
    sp_err err = SP_OK;
    size_t from = 0; /* where the text outside of chunks begins */
    for (size_t i = 0; i + WINDOW <= n && err == SP_OK;) {
        size_t len = longest_at(k, tenant, prefix, i, n);
        if (len) {
            err = add(out, text + from, i - from, false);
            if (err == SP_OK) err = add(out, text + i, len, true);
            from = i + len;
        }
        i += len ? len : 1;
    }
    sp_free(prefix);
    return err == SP_OK ? add(out, text + from, n - from, false) : err;
}

/* cut_all -- the head, chunks that end with a separator, and the rest. */
static sp_err cut_all(const sp_known *k, uint64_t tenant, const char *text, size_t n,
                      const char *separator, sp_cut_list *out)
{
    size_t len = separator ? strlen(separator) : 0, from = 0;
    const char *at = len ? memmem(text, n, separator, len) : NULL;
    for (bool head = true; at; head = false) {
        size_t to = (size_t)(at - text) + len;
        bool is_chunk = !head && to - from > len; /* an empty text between separators is not a chunk */
        SP_TRY(is_chunk ? add(out, text + from, to - from, true)
                        : cut_known(k, tenant, text + from, to - from, out));
        from = to;
        at = memmem(text + from, n - from, separator, len);
    }
    return cut_known(k, tenant, text + from, n - from, out);
}

sp_err sp_cut(sp_known *k, uint64_t tenant, const char *text, size_t n, const char *separator,
              sp_cut_list *out)
{
    size_t before = out->n;
    if (k) pthread_mutex_lock(&k->lock);
    sp_err err = cut_all(k, tenant, text, n, separator, out);
    if (k) pthread_mutex_unlock(&k->lock);
    if (err != SP_OK) out->n = before;
    return err;
}
