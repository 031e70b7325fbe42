/* text.c -- strings of chat templates. Each string carries runs: the bytes that come from the
 * input, and from where. Invariants: runs are sorted and disjoint; bytes outside of all runs come
 * from the template. */
#include <stdarg.h>
#include <string.h>

#include "model/template/template_int.h"

sp_err sp_tpl_str_new(sp_tpl_machine *m, sp_tpl_str s, sp_tpl_val *out)
{
    sp_tpl_str *copy;
    SP_TRY(sp_tpl_take(m, 1, sizeof *copy, &copy));
    *copy = s;
    *out = (sp_tpl_val){.kind = SP_TPL_STRING, .s = copy};
    return SP_OK;
}

sp_err sp_tpl_slice(sp_tpl_machine *m, const sp_tpl_str *s, size_t from, size_t to, sp_tpl_val *out)
{
    sp_tpl_str part = {.s = s->s + from, .n = to > from ? to - from : 0};
    sp_tpl_run *runs = NULL;
    if (s->n_runs) SP_TRY(sp_tpl_take(m, s->n_runs, sizeof *runs, &runs));
    for (size_t i = 0; i < s->n_runs; i++) {
        sp_tpl_run r = s->runs[i];
        size_t a = SP_MAX(r.from, from), b = SP_MIN(r.from + r.n, to);
        if (a >= b) continue;
        if (r.at >= 0) r.at += (int64_t)(a - r.from);
        r.from = a - from;
        r.n = b - a;
        runs[part.n_runs++] = r;
    }
    part.runs = runs;
    return sp_tpl_str_new(m, part, out);
}

/* -- writing ----------------------------------------------------------------------------------- */

static sp_err write_bytes(sp_tpl_machine *m, sp_tpl_writer *w, const char *s, size_t n)
{
    if (w->n + n + 1 > w->cap) {
        size_t cap = SP_MAX(2 * w->cap, w->n + n + 64);
        char *bigger;
        SP_TRY(sp_tpl_take(m, cap, 1, &bigger));
        if (w->n) memcpy(bigger, w->s, w->n);
        w->s = bigger;
        w->cap = cap;
    }
    if (n) memcpy(w->s + w->n, s, n);
    w->n += n;
    w->s[w->n] = 0;
    return SP_OK;
}

/* add_run -- extends the last run where this one continues it. */
static sp_err add_run(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_run r)
{
    sp_tpl_run *last = w->n_runs ? &w->runs[w->n_runs - 1] : NULL;
    if (last && last->from + last->n == r.from && last->source == r.source &&
        (last->at < 0 ? r.at < 0 : r.at == last->at + (int64_t)last->n)) {
        last->n += r.n;
        return SP_OK;
    }
    if (w->n_runs == w->cap_runs) {
        size_t cap = SP_MAX(2 * w->cap_runs, 8);
        sp_tpl_run *bigger;
        SP_TRY(sp_tpl_take(m, cap, sizeof *bigger, &bigger));
        if (w->n_runs) memcpy(bigger, w->runs, w->n_runs * sizeof *bigger);
        w->runs = bigger;
        w->cap_runs = cap;
    }
    w->runs[w->n_runs++] = r;
    return SP_OK;
}

sp_err sp_tpl_write(sp_tpl_machine *m, sp_tpl_writer *w, const sp_tpl_str *s)
{
    size_t at = w->n;
    SP_TRY(write_bytes(m, w, s->s, s->n));
    for (size_t i = 0; i < s->n_runs; i++) {
        sp_tpl_run r = s->runs[i];
        r.from += at;
        SP_TRY(add_run(m, w, r));
    }
    return SP_OK;
}

sp_err sp_tpl_write_plain(sp_tpl_machine *m, sp_tpl_writer *w, const char *s, size_t n)
{
    return write_bytes(m, w, s, n);
}

sp_err sp_tpl_written(sp_tpl_machine *m, const sp_tpl_writer *w, sp_tpl_val *out)
{
    return sp_tpl_str_new(
        m, (sp_tpl_str){.s = w->s ? w->s : "", .n = w->n, .runs = w->runs, .n_runs = w->n_runs},
        out);
}

sp_err sp_tpl_to_string(sp_tpl_machine *m, sp_tpl_val v, sp_tpl_val *out)
{
    sp_tpl_writer w = {0};
    if (v.kind == SP_TPL_STRING) {
        *out = v;
        return SP_OK;
    }
    SP_TRY(sp_tpl_write_value(m, &w, v));
    return sp_tpl_written(m, &w, out);
}

/* -- characters -------------------------------------------------------------------------------- */

static size_t char_bytes(const char *s)
{
    unsigned char c = (unsigned char)*s;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

size_t sp_tpl_length(const sp_tpl_str *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) n += ((unsigned char)s->s[i] & 0xC0) != 0x80;
    return n;
}

size_t sp_tpl_offset(const sp_tpl_str *s, size_t i)
{
    size_t at = 0;
    while (i-- && at < s->n) at += char_bytes(s->s + at);
    return SP_MIN(at, s->n);
}

/* sp_tpl_space -- what Python's str.isspace() accepts. */
size_t sp_tpl_space(const char *s, size_t n)
{
    unsigned char c = n ? (unsigned char)*s : 'x';
    if (c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F)) return 1;
    if (n >= 2 && c == 0xC2 && (s[1] == '\x85' || s[1] == '\xA0')) return 2;
    if (n < 3) return 0;
    int code = (c & 15) << 12 | (s[1] & 63) << 6 | (s[2] & 63);
    if (c < 0xE0 || c > 0xEF) return 0;
    bool space = code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
                 code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
    return space ? 3 : 0;
}

const char *sp_tpl_search(const char *s, size_t n, const char *what, size_t n_what)
{
    if (n_what > n) return NULL;
    return n_what ? memmem(s, n, what, n_what) : s;
}

/* -- operations ---------------------------------------------------------------------------------- */

/* stripped -- how many bytes of the character at s to strip; 0: keep it. */
static size_t stripped(const char *s, size_t n, const sp_tpl_str *chars)
{
    if (!chars) return sp_tpl_space(s, n);
    size_t k = SP_MIN(char_bytes(s), n);
    return sp_tpl_search(chars->s, chars->n, s, k) ? k : 0;
}

sp_err sp_tpl_strip(sp_tpl_machine *m, const sp_tpl_str *s, const sp_tpl_str *chars, int sides,
                    sp_tpl_val *out)
{
    size_t from = 0, to = s->n;
    for (size_t k; (sides & 1) && from < to && (k = stripped(s->s + from, to - from, chars));)
        from += k;
    while ((sides & 2) && to > from) {
        size_t at = to - 1;
        while (at > from && ((unsigned char)s->s[at] & 0xC0) == 0x80) at--;
        if (!stripped(s->s + at, to - at, chars)) break;
        to = at;
    }
    return sp_tpl_slice(m, s, from, to, out);
}

sp_err sp_tpl_replace(sp_tpl_machine *m, const sp_tpl_str *s, const sp_tpl_str *old,
                      const sp_tpl_str *with, int64_t count, sp_tpl_val *out)
{
    sp_tpl_writer w = {0};
    size_t at = 0;
    if (!old->n)
        return sp_tpl_fail(m, SP_E_UNSUPPORTED, "replace of an empty string is not supported");
    while (count-- != 0) {
        const char *hit = sp_tpl_search(s->s + at, s->n - at, old->s, old->n);
        sp_tpl_val part;
        if (!hit) break;
        SP_TRY(sp_tpl_step(m));
        SP_TRY(sp_tpl_slice(m, s, at, (size_t)(hit - s->s), &part));
        SP_TRY(sp_tpl_write(m, &w, part.s));
        SP_TRY(sp_tpl_write(m, &w, with));
        at = (size_t)(hit - s->s) + old->n;
    }
    sp_tpl_val rest;
    SP_TRY(sp_tpl_slice(m, s, at, s->n, &rest));
    SP_TRY(sp_tpl_write(m, &w, rest.s));
    return sp_tpl_written(m, &w, out);
}

static size_t skip_space(const sp_tpl_str *s, size_t at)
{
    for (size_t k; at < s->n && (k = sp_tpl_space(s->s + at, s->n - at));) at += k;
    return at;
}

/* next_part -- bytes *from .. *to of the part at *at, which is advanced; the last part is the rest.
 * sep NULL: parts are separated by white space. */
static bool next_part(const sp_tpl_str *s, const sp_tpl_str *sep, bool last, size_t *at, size_t *to)
{
    if (sep) {
        const char *hit = last ? NULL : sp_tpl_search(s->s + *at, s->n - *at, sep->s, sep->n);
        *to = hit ? (size_t)(hit - s->s) : s->n;
        return hit != NULL;
    }
    for (*to = *at; *to < s->n && (last || !sp_tpl_space(s->s + *to, s->n - *to));)
        *to += char_bytes(s->s + *to);
    *to = SP_MIN(*to, s->n);
    return skip_space(s, *to) < s->n;
}

sp_err sp_tpl_split(sp_tpl_machine *m, const sp_tpl_str *s, const sp_tpl_str *sep, int64_t max,
                    sp_tpl_val *out)
{
    if (sep && !sep->n) return sp_tpl_fail(m, SP_E_ARG, "split: the separator is empty");
    sp_tpl_list *list = NULL;
    for (int pass = 0; pass < 2; pass++) { /* counts, then fills */
        size_t at = sep ? 0 : skip_space(s, 0), to, n = 0;
        bool more = sep || at < s->n;
        while (more) {
            SP_TRY(sp_tpl_step(m));
            more = next_part(s, sep, max >= 0 && (int64_t)n == max, &at, &to);
            if (pass) SP_TRY(sp_tpl_slice(m, s, at, to, &list->v[n]));
            at = sep ? to + sep->n : skip_space(s, to);
            n++;
        }
        if (!pass) SP_TRY(sp_tpl_list_new(m, n, &list));
    }
    *out = sp_tpl_of_list(list);
    return SP_OK;
}

static char change(char c, char how, bool begins)
{
    bool upper = how == 'u' || ((how == 't' || how == 'c') && begins);
    if (upper) return c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

sp_err sp_tpl_case(sp_tpl_machine *m, const sp_tpl_str *s, char how, sp_tpl_val *out)
{
    char *text;
    sp_tpl_run *runs = NULL;
    bool begins = true;
    SP_TRY(sp_tpl_take(m, s->n + 1, 1, &text));
    for (size_t i = 0; i < s->n; i++) {
        char c = s->s[i];
        text[i] = change(c, how, begins);
        begins = how == 't' && !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'));
    }
    if (s->n_runs) SP_TRY(sp_tpl_take(m, s->n_runs, sizeof *runs, &runs));
    for (size_t i = 0; i < s->n_runs; i++) {
        runs[i] = s->runs[i];
        runs[i].at = -1;
    }
    return sp_tpl_str_new(m, (sp_tpl_str){.s = text, .n = s->n, .runs = runs, .n_runs = s->n_runs},
                          out);
}
