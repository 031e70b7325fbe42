/* repeats.c -- compares texts at anchors: windows of 64 bytes whose hash has certain bits, so that the same
 * passage has the same anchors in every text. An anchor that an earlier text shares is extended in both
 * directions, byte by byte.
 *
 *   bytes     a ring; an overwritten text is no longer used
 *   texts     a ring: which bytes, whose
 *   anchors   [power of two] hash -> text and place; a newer one takes the slot
 */
#include "serve/prompt/repeats.h"

#include <pthread.h>
#include <string.h>

#define BASE      UINT64_C(0x9e3779b97f4a7c15)
#define WINDOW    64
#define RING      ((uint64_t)8 << 20)
#define MOST_TEXT (RING / 8)

enum { TEXTS = 4096, ANCHORS = 1 << 18, TRIM = 32, TRIM_LINE = 64 };

typedef struct seen_text {
    uint64_t tenant, from, n; /* from: bytes ever written before it */
    bool gone;
} seen_text;

typedef struct anchor {
    uint64_t hash, at; /* at: as seen_text.from */
    uint64_t text;     /* number of the text */
} anchor;

struct sp_repeats {
    pthread_mutex_t lock; /* guards the following */
    char *bytes;          /* [RING]; NULL until the first text */
    anchor *anchors;      /* [ANCHORS] */
    seen_text texts[TEXTS];
    uint64_t n_bytes, n_texts; /* ever */
    uint64_t power;            /* BASE^WINDOW */
};

sp_err sp_repeats_create(sp_repeats **out)
{
    sp_repeats *r = SP_NEW(sp_repeats);
    if (!r) return sp_fail_nomem("repeated texts");
    pthread_mutex_init(&r->lock, NULL);
    r->power = 1;
    for (int i = 0; i < WINDOW; i++) r->power *= BASE;
    *out = r;
    return SP_OK;
}

void sp_repeats_destroy(sp_repeats *r)
{
    if (!r) return;
    pthread_mutex_destroy(&r->lock);
    sp_free(r->bytes);
    sp_free(r->anchors);
    sp_free(r);
}

/* -- what was seen; lock is held --------------------------------------------------------------- */

static bool has_memory(sp_repeats *r)
{
    if (!r->bytes) r->bytes = sp_alloc(RING, 1);
    if (!r->anchors) r->anchors = SP_NEW_N(anchor, ANCHORS);
    return r->bytes && r->anchors;
}

static char byte_at(const sp_repeats *r, uint64_t at)
{
    return r->bytes[at % RING];
}

static const seen_text *text_of(const sp_repeats *r, const anchor *a, uint64_t tenant)
{
    const seen_text *t = &r->texts[a->text % TEXTS];
    bool alive = a->text < r->n_texts && r->n_texts - a->text <= TEXTS && !t->gone &&
                 r->n_bytes - t->from <= RING;
    return alive && t->tenant == tenant ? t : NULL;
}

static bool is_anchor(uint64_t hash)
{
    return (hash * BASE) >> 59 == 0;
}

static anchor *slot_of(const sp_repeats *r, uint64_t hash)
{
    return &r->anchors[(hash * BASE >> 20) % ANCHORS];
}

static uint64_t roll(const sp_repeats *r, uint64_t hash, const char *text, size_t end)
{
    hash = hash * BASE + (unsigned char)text[end] + 1;
    if (end >= WINDOW) hash -= ((uint64_t)(unsigned char)text[end - WINDOW] + 1) * r->power;
    return hash;
}

/* -- a repeat ---------------------------------------------------------------------------------- */

typedef struct range {
    size_t from, to;
} range;

/* A text that is compared, and the window in it that another text has too. */
typedef struct place {
    const char *text;
    size_t n, at;
    size_t least; /* the repeat begins here or later */
} place;

/* extend -- the repeat around an anchor; empty when the bytes differ after all, and when both texts are
 * equal as wholes. */
static range extend(const sp_repeats *r, const anchor *a, const seen_text *t, const place *p)
{
    const char *text = p->text + p->at;
    size_t back = 0, ahead = 0, room = (size_t)(a->at - t->from),
           rest = (size_t)(t->from + t->n - a->at);
    while (p->at + ahead < p->n && ahead < rest && text[ahead] == byte_at(r, a->at + ahead))
        ahead++;
    if (ahead < WINDOW) return (range){p->at, p->at};
    while (p->at - back > p->least && back < room &&
           *(text - back - 1) == byte_at(r, a->at - back - 1))
        back++;
    bool whole = back == p->at && back == room && p->at + ahead == p->n && ahead == rest;
    return whole ? (range){0, 0} : (range){p->at - back, p->at + ahead};
}

static bool is_of_word(unsigned char c)
{
    return c >= 0x80 || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static bool is_inside_word(const char *text, size_t at)
{
    return is_of_word((unsigned char)text[at - 1]) && is_of_word((unsigned char)text[at]);
}

static bool is_inside_character(const char *text, size_t at)
{
    return ((unsigned char)text[at] & 0xC0) == 0x80;
}

/* trim_lines -- texts around a passage often begin or end alike: removes a short partial line at either end. */
static range trim_lines(const char *text, range r)
{
    for (size_t i = 0; i < TRIM_LINE && r.from + i < r.to; i++)
        if (text[r.from + i] == '\n') {
            r.from += i + 1;
            break;
        }
    for (size_t i = 0; i < TRIM_LINE && r.from + i < r.to; i++)
        if (text[r.to - 1 - i] == '\n') {
            r.to -= i;
            break;
        }
    return r;
}

/* trim -- to lines and words where they are short, and to whole characters. */
static range trim(const char *text, size_t n, range r)
{
    r = trim_lines(text, r);
    for (int i = 0; i < TRIM && r.from > 0 && r.from < r.to && is_inside_word(text, r.from); i++)
        r.from++;
    while (r.from < r.to && is_inside_character(text, r.from)) r.from++;
    for (int i = 0; i < TRIM && r.to < n && r.from < r.to && is_inside_word(text, r.to); i++)
        r.to--;
    while (r.to < n && r.from < r.to && is_inside_character(text, r.to)) r.to--;
    return r;
}

static int learn(sp_repeats *r, sp_known *k, uint64_t tenant, const char *text, size_t n)
{
    uint64_t hash = 0;
    size_t done = 0; /* end of the last repeat */
    int n_learned = 0;
    for (size_t end = 0; end < n; end++) {
        hash = roll(r, hash, text, end);
        if (end + 1 < done + WINDOW || !is_anchor(hash)) continue;
        const anchor *a = slot_of(r, hash ^ tenant);
        const seen_text *t = a->hash == (hash ^ tenant) ? text_of(r, a, tenant) : NULL;
        if (!t) continue;
        range found = extend(r, a, t, &(place){text, n, end + 1 - WINDOW, done});
        if (found.to == 0) return 0;
        found = trim(text, n, found);
        if (found.to - found.from < SP_REPEAT_MIN_BYTES) continue;
        sp_known_add(k, tenant, text + found.from, found.to - found.from);
        n_learned++;
        done = found.to;
    }
    return n_learned;
}

/* remember -- after learn, so that a text does not repeat itself. */
static void remember(sp_repeats *r, uint64_t tenant, const char *text, size_t n)
{
    uint64_t hash = 0, number = r->n_texts++;
    r->texts[number % TEXTS] = (seen_text){.tenant = tenant, .from = r->n_bytes, .n = n};
    for (size_t end = 0; end < n; end++) {
        hash = roll(r, hash, text, end);
        r->bytes[(r->n_bytes + end) % RING] = text[end];
        if (end + 1 < WINDOW || !is_anchor(hash)) continue;
        *slot_of(r, hash ^ tenant) =
            (anchor){.hash = hash ^ tenant, .at = r->n_bytes + end + 1 - WINDOW, .text = number};
    }
    r->n_bytes += n;
}

int sp_repeats_learn(sp_repeats *r, sp_known *k, uint64_t tenant, const char *text, size_t n)
{
    if (n < SP_REPEAT_MIN_BYTES || n > MOST_TEXT) return 0;
    pthread_mutex_lock(&r->lock);
    int n_learned = 0;
    if (has_memory(r)) {
        n_learned = learn(r, k, tenant, text, n);
        remember(r, tenant, text, n);
    }
    pthread_mutex_unlock(&r->lock);
    return n_learned;
}

void sp_repeats_forget(sp_repeats *r, uint64_t tenant)
{
    pthread_mutex_lock(&r->lock);
    for (uint64_t i = 0; i < TEXTS && i < r->n_texts; i++) {
        seen_text *t = &r->texts[i];
        if (t->tenant != tenant || t->gone) continue;
        t->gone = true;
        for (uint64_t at = t->from; r->n_bytes - t->from <= RING && at < t->from + t->n; at++)
            r->bytes[at % RING] = 0;
    }
    pthread_mutex_unlock(&r->lock);
}
