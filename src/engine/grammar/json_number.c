/* json_number.c -- numbers of JSON, with bounds as automata over their digits.
 *
 * A whole number lo .. hi: for each count of digits, a way along the digits of lo and one along those of hi
 * ("tight"), which digits leave to the inside; from there all digits are free. With multipleOf m a state also has what
 * the digits so far, followed by zeros, leave when divided by m.
 *
 * A bounded number is a whole part, then digits of a fraction that are compared in the same way; it has no exponent,
 * so that its order is that of its digits, and no more digits than a double keeps apart. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/json_int.h"

enum { MAX_DIGITS = 15, MAX_WHOLE = 19, MAX_MULTIPLE = 10000, MAX_FRACTION = 400 };

static const uint64_t MOST = 9999999999999999; /* of numbers that have no bound */

static int32_t free_digits(sp_json *b, int n, int32_t next)
{
    int32_t at = next;
    while (n--) at = sp_json_either(b, sp_json_range(b, '0', '9', at), next);
    return at;
}

/* unbounded -- any number. */
static int32_t unbounded(sp_json *b, bool integer, int32_t next)
{
    int32_t after = next;
    if (!integer) {
        int32_t power = sp_json_range(b, '0', '9', free_digits(b, 1, next));
        int32_t sign =
            sp_json_either(b, sp_json_range(b, '+', '+', power), sp_json_range(b, '-', '-', power));
        power = sp_json_either(b, power, sign);
        power =
            sp_json_either(b, sp_json_range(b, 'e', 'e', power), sp_json_range(b, 'E', 'E', power));
        after = sp_json_either(b, next, power);
        int32_t fraction = sp_json_range(b, '0', '9', free_digits(b, MAX_DIGITS, after));
        after = sp_json_either(b, after, sp_json_range(b, '.', '.', fraction));
    }
    int32_t whole = sp_json_range(b, '1', '9', free_digits(b, MAX_DIGITS, after));
    whole = sp_json_either(b, sp_json_range(b, '0', '0', after), whole);
    return sp_json_either(b, whole, sp_json_range(b, '-', '-', whole));
}

/* fan -- digits: to[d] is what follows digit d. */
static int32_t fan(sp_json *b, const int32_t *to)
{
    int32_t at = SP_JSON_NOTHING;
    for (int d = 0; d < 10;) {
        int first = d;
        while (d < 10 && to[d] == to[first]) d++;
        at = sp_json_either(b, at,
                            sp_json_range(b, (char)('0' + first), (char)('0' + d - 1), to[first]));
    }
    return at;
}

/* -- whole numbers --------------------------------------------------------------------------------- */

typedef struct digits {
    sp_json *b;
    uint64_t m, power[MAX_WHOLE + 1]; /* power[k]: of 10, modulo m */
    int32_t next;
    int32_t *inside; /* [MAX_WHOLE + 1][m]: nodes of free digits; UNKNOWN */
    char lo[24], hi[24];
    int n; /* digits */
} digits;

enum { UNKNOWN = -2 };

/* inside -- k free digits after digits that leave `rest`. */
static int32_t inside(digits *d, int k, uint64_t rest)
{
    int32_t to[10], *known = &d->inside[(uint64_t)k * d->m + rest];
    if (*known != UNKNOWN) return *known;
    if (k == 0) return *known = rest == 0 ? d->next : SP_JSON_NOTHING;
    for (uint64_t c = 0; c < 10; c++) to[c] = inside(d, k - 1, (rest + c * d->power[k - 1]) % d->m);
    return *known = fan(d->b, to);
}

static int32_t tight(digits *d, int at, bool low, bool high, uint64_t rest)
{
    int32_t to[10];
    int k = d->n - at;
    if ((!low && !high) || k == 0) return inside(d, k, rest);
    for (int c = 0; c < 10; c++) {
        bool in = (!low || c >= d->lo[at] - '0') && (!high || c <= d->hi[at] - '0');
        uint64_t after = (rest + (uint64_t)c * d->power[k - 1]) % d->m;
        to[c] = !in ? SP_JSON_NOTHING
                    : tight(d, at + 1, low && c == d->lo[at] - '0', high && c == d->hi[at] - '0',
                            after);
    }
    return fan(d->b, to);
}

int32_t sp_json_digits(sp_json *b, uint64_t lo, uint64_t hi, uint64_t m, int32_t next)
{
    digits d = {.b = b, .m = m, .next = next};
    int32_t at = SP_JSON_NOTHING;
    if (b->err != SP_OK || next < 0 || lo > hi) return SP_JSON_NOTHING;
    size_t n = (MAX_WHOLE + 1) * (size_t)m;
    if (!(d.inside = sp_alloc(n, sizeof *d.inside)))
        return sp_json_fail(b, SP_E_NOMEM, "out of memory", NULL);
    for (size_t i = 0; i < n; i++) d.inside[i] = UNKNOWN;
    d.power[0] = 1 % m;
    for (int k = 1; k <= MAX_WHOLE; k++) d.power[k] = d.power[k - 1] * 10 % m;
    uint64_t least = 0, most = 9;
    for (d.n = 1; d.n <= MAX_WHOLE && lo <= hi; d.n++) {
        uint64_t from = SP_MAX(lo, least), to = SP_MIN(hi, most);
        if (from <= to) {
            snprintf(d.lo, sizeof d.lo, "%llu", (unsigned long long)from);
            snprintf(d.hi, sizeof d.hi, "%llu", (unsigned long long)to);
            at = sp_json_either(b, at, tight(&d, 0, true, true, 0));
        }
        least = most + 1;
        most = d.n == MAX_WHOLE - 1 ? INT64_MAX : most * 10 + 9;
    }
    sp_free(d.inside);
    return at;
}

/* -- bounds ------------------------------------------------------------------------------------------- */

typedef struct bound {
    bool given, open; /* open: the bound itself is excluded */
    double v;
    int64_t whole; /* of an integer */
    bool is_whole;
} bound;

static void read_bound(sp_json *b, json_t *schema, const char *name, bool open, int sign,
                       bound *out)
{
    json_t *j = json_object_get(schema, name);
    if (!j) return;
    if (!json_is_number(j)) {
        sp_json_fail(b, SP_E_ARG, name, "is not a number");
        return;
    }
    bound n = {true, open, json_number_value(j), 0, json_is_integer(j)};
    if (n.is_whole) n.whole = json_integer_value(j);
    if (!n.is_whole && n.v == floor(n.v) && fabs(n.v) < 9e15)
        n.whole = (int64_t)n.v, n.is_whole = true;
    double by = sign * (n.v - out->v);
    if (!out->given || by > 0 || (by == 0 && open)) *out = n;
}

/* least_whole -- the least integer that a lower bound allows. */
static int64_t least_whole(const bound *n, int64_t absent)
{
    if (!n->given) return absent;
    if (n->is_whole) return n->open && n->whole < INT64_MAX ? n->whole + 1 : n->whole;
    return n->v <= -9.2e18 ? INT64_MIN : n->v >= 9.2e18 ? INT64_MAX : (int64_t)ceil(n->v);
}

static int64_t most_whole(const bound *n, int64_t absent)
{
    if (!n->given) return absent;
    if (n->is_whole) return n->open && n->whole > INT64_MIN ? n->whole - 1 : n->whole;
    return n->v >= 9.2e18 ? INT64_MAX : n->v <= -9.2e18 ? INT64_MIN : (int64_t)floor(n->v);
}

static uint64_t size_of(int64_t v)
{
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

static int32_t whole_numbers(sp_json *b, const bound *low, const bound *high, uint64_t m,
                             int32_t next)
{
    int64_t lo = least_whole(low, -(int64_t)MOST), hi = most_whole(high, (int64_t)MOST);
    if (!high->given && lo > hi) hi = INT64_MAX;
    if (!low->given && lo > hi) lo = -INT64_MAX;
    if (lo > hi) return sp_json_contradict(b, "the minimum exceeds the maximum");
    int32_t at = SP_JSON_NOTHING;
    if (lo < 0) {
        uint64_t least = hi < 0 ? size_of(hi) : 1, most = SP_MIN(size_of(lo), (uint64_t)INT64_MAX);
        at = sp_json_range(b, '-', '-', sp_json_digits(b, least, most, m, next));
    }
    if (hi >= 0)
        at = sp_json_either(b, at,
                            sp_json_digits(b, lo < 0 ? 0 : (uint64_t)lo, (uint64_t)hi, m, next));
    return at < 0 ? sp_json_contradict(b, "no multiple is within the bounds") : at;
}

/* -- fractions ------------------------------------------------------------------------------------------ */

/* A bound without its sign: whole part, and the digits of its fraction without zeros at the end. */
typedef struct decimal {
    uint64_t whole;
    char fraction[MAX_FRACTION];
    bool given, open;
} decimal;

static decimal decimal_of(const bound *n, double v)
{
    decimal out = {.given = n->given, .open = n->open};
    char text[64], all[64] = "";
    int precision = 0, n_all = 0;
    do snprintf(text, sizeof text, "%.*e", precision, v);
    while (strtod(text, NULL) != v && ++precision < 18);
    const char *power = strchr(text, 'e');
    for (const char *s = text; s < power; s++)
        if (*s >= '0' && *s <= '9') all[n_all++] = *s;
    int point = atoi(power + 1) + 1, k = 0; /* digits before the point */
    for (int i = 0; i < point; i++)
        out.whole = out.whole * 10 + (uint64_t)(i < n_all ? all[i] - '0' : 0);
    for (int i = point; i < n_all && k < MAX_FRACTION - 1; i++)
        out.fraction[k++] = (char)(i < 0 ? '0' : all[i]);
    while (k > 0 && out.fraction[k - 1] == '0') k--;
    out.fraction[k] = 0;
    return out;
}

typedef struct fraction {
    sp_json *b;
    const char *lo, *hi; /* digits to compare with; NULL: none */
    bool lo_open, hi_open;
    int n; /* most digits */
    int32_t next, free[MAX_DIGITS + 2];
} fraction;

static int digit(const char *s, int at)
{
    size_t n = strlen(s);
    return (size_t)at < n ? s[at] - '0' : 0;
}

/* may_end -- whether the number may have `at` digits of a fraction, which are those of the bounds so far. */
static bool may_end(const fraction *f, int at, bool low, bool high)
{
    bool low_is_more = low && strlen(f->lo) > (size_t)at,
         high_is_more = high && strlen(f->hi) > (size_t)at;
    return !(low && (low_is_more || f->lo_open)) && !(high && !high_is_more && f->hi_open);
}

static int32_t fraction_digits(fraction *f, int at, bool low, bool high)
{
    int32_t to[10];
    bool is_free = !low && !high;
    if (is_free && f->free[at] != UNKNOWN) return f->free[at];
    int32_t end = at > 0 && may_end(f, at, low, high) ? f->next : SP_JSON_NOTHING;
    for (int c = 0; c < 10; c++) {
        bool in = at < f->n && (!low || c >= digit(f->lo, at)) && (!high || c <= digit(f->hi, at));
        to[c] = !in ? SP_JSON_NOTHING
                    : fraction_digits(f, at + 1, low && c == digit(f->lo, at),
                                      high && c == digit(f->hi, at));
    }
    int32_t node = sp_json_either(f->b, end, fan(f->b, to));
    if (is_free) f->free[at] = node;
    return node;
}

/* tail -- what follows the whole part: nothing, or a point and digits within the bounds that are given. */
static int32_t tail(sp_json *b, const decimal *lo, const decimal *hi, int n, int32_t next)
{
    fraction f = {.b = b, .n = n, .next = next};
    for (size_t i = 0; i < SP_COUNT(f.free); i++) f.free[i] = UNKNOWN;
    if (lo) f.lo = lo->fraction, f.lo_open = lo->open;
    if (hi) f.hi = hi->fraction, f.hi_open = hi->open;
    int32_t point =
        sp_json_range(b, '.', '.', n > 0 ? fraction_digits(&f, 0, lo, hi) : SP_JSON_NOTHING);
    return sp_json_either(b, may_end(&f, 0, lo, hi) ? next : SP_JSON_NOTHING, point);
}

static int n_digits(uint64_t v)
{
    int n = 1;
    while (v >= 10) v /= 10, n++;
    return n;
}

/* sizes -- numbers lo .. hi without a sign. */
static int32_t sizes(sp_json *b, const decimal *lo, const decimal *hi, int32_t next)
{
    uint64_t from = lo->whole, to = hi->given ? hi->whole : MOST;
    int n = MAX_DIGITS - n_digits(SP_MAX(from, hi->given ? to : 0));
    const decimal *last = hi->given ? hi : NULL;
    if (from > to) return SP_JSON_NOTHING;
    if (from == to) return sp_json_digits(b, from, from, 1, tail(b, lo, last, n, next));
    int32_t at = sp_json_digits(b, from, from, 1, tail(b, lo, NULL, n, next));
    if (last)
        at = sp_json_either(b, at, sp_json_digits(b, to, to, 1, tail(b, NULL, last, n, next)));
    else
        to++;
    if (from + 1 > to - 1) return at;
    return sp_json_either(b, at,
                          sp_json_digits(b, from + 1, to - 1, 1, tail(b, NULL, NULL, n, next)));
}

static int32_t fractions(sp_json *b, const bound *low, const bound *high, int32_t next)
{
    static const bound none = {0};
    decimal zero = {.given = true}, above_zero = {.given = true, .open = true};
    int32_t at = SP_JSON_NOTHING;
    if (low->given && high->given &&
        (low->v > high->v || (low->v == high->v && (low->open || high->open))))
        return sp_json_contradict(b, "the minimum exceeds the maximum");
    if (!low->given ||
        low->v < 0) { /* below 0: sizes from that of the maximum to that of the minimum */
        bool below = high->given && (high->v < 0 || (high->v == 0 && high->open));
        decimal from = below && high->v < 0 ? decimal_of(high, -high->v) : above_zero;
        decimal to = decimal_of(low->given ? low : &none, low->given ? -low->v : 0);
        at = sp_json_range(b, '-', '-', sizes(b, &from, &to, next));
    }
    if (!high->given || high->v >= 0) {
        decimal from = low->given && low->v >= 0 ? decimal_of(low, low->v) : zero;
        decimal to = decimal_of(high->given ? high : &none, high->given ? high->v : 0);
        at = sp_json_either(b, at, sizes(b, &from, &to, next));
    }
    return at < 0 ? sp_json_contradict(b, "no number is within the bounds") : at;
}

/* -- keywords ---------------------------------------------------------------------------------------------- */

static uint64_t multiple(sp_json *b, json_t *schema)
{
    json_t *j = json_object_get(schema, "multipleOf");
    double v = j ? json_number_value(j) : 1;
    if (j && (!json_is_number(j) || v <= 0))
        sp_json_fail(b, SP_E_ARG, "multipleOf", "is not a number above 0");
    else if (v != floor(v) || v > MAX_MULTIPLE)
        sp_json_fail(b, SP_E_UNSUPPORTED, "multipleOf", "is not a whole number up to 10000");
    return b->err == SP_OK ? (uint64_t)v : 1;
}

int32_t sp_json_number(sp_json *b, json_t *schema, bool integer, int32_t next)
{
    bound low = {0}, high = {0};
    bool open = json_is_true(json_object_get(schema, "exclusiveMinimum")),
         high_open = json_is_true(json_object_get(schema, "exclusiveMaximum"));
    read_bound(b, schema, "minimum", open, 1, &low);
    read_bound(b, schema, "maximum", high_open, -1, &high);
    if (!json_is_boolean(json_object_get(schema, "exclusiveMinimum")))
        read_bound(b, schema, "exclusiveMinimum", true, 1, &low);
    if (!json_is_boolean(json_object_get(schema, "exclusiveMaximum")))
        read_bound(b, schema, "exclusiveMaximum", true, -1, &high);
    uint64_t m = multiple(b, schema);
    if (b->err != SP_OK) return 0;
    bool whole = integer || json_object_get(schema, "multipleOf");
    if (!whole && high.given && high.v >= 1e15) high.given = false; /* beyond all that is written */
    if (!whole && low.given && low.v <= -1e15) low.given = false;
    if (!low.given && !high.given && m == 1) return unbounded(b, whole, next);
    if (!whole && ((low.given && low.v >= 1e15) || (high.given && high.v <= -1e15)))
        return sp_json_fail(b, SP_E_UNSUPPORTED, "a bound of a number is beyond 1e15", NULL);
    return whole ? whole_numbers(b, &low, &high, m, next) : fractions(b, &low, &high, next);
}
