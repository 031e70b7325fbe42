#include "serve/request/decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[SP_SUMMARY_N] = {[SP_SUMMARY_BOUNDS] = "bounds",
                                                [SP_SUMMARY_QUEST] = "quest",
                                                [SP_SUMMARY_HASH128] = "hash128",
                                                [SP_SUMMARY_HASH256] = "hash256",
                                                [SP_SUMMARY_KEYS4] = "keys4"};

static bool is_word(const char *text, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(text, word, n) == 0;
}

/* read_number -- a number in least .. most that ends at text + n. */
static bool read_number(const char *text, size_t n, double least, double most, double *out)
{
    char *end;
    errno = 0;
    *out = strtod(text, &end);
    return n > 0 && end == text + n && !errno && *out >= least && *out <= most;
}

static bool read_budget(const char *text, size_t n, sp_sparse_opts *o)
{
    double v;
    if (n > 1 && text[n - 1] == '%') {
        if (!read_number(text, n - 1, 0, 100, &v) || v == 0) return false;
        o->share = (float)(v / 100);
        return true;
    }
    if (!read_number(text, n, 1, INT32_MAX, &v) || v != (double)(int32_t)v) return false;
    o->tokens = (int32_t)v;
    return true;
}

/* read_value -- "name=number" in least .. most; false for another word or number. */
static bool read_value(const char *text, size_t n, const char *name, const double range[2],
                       double *out)
{
    const size_t at = strlen(name);
    return n > at && memcmp(text, name, at) == 0 &&
           read_number(text + at, n - at, range[0], range[1], out);
}

static bool read_option(const char *text, size_t n, sp_sparse_opts *o)
{
    static const double tokens[] = {0, INT32_MAX}, cosines[] = {-1, 1}, powers[] = {1e-3, 100},
                        times[] = {1, 1000};
    double v;
    for (int k = 0; k < SP_SUMMARY_N; k++)
        if (is_word(text, n, kinds[k])) return o->kind = (sp_summary_kind)k, true;
    if (is_word(text, n, "reuse")) return o->reuse = true;
    if (is_word(text, n, "least")) return o->least = true;
    if (is_word(text, n, "ahead")) return o->ahead = true;
    if (is_word(text, n, "lru")) return o->seats = SP_SEATS_LRU, true;
    if (is_word(text, n, "forget")) return o->seats = SP_SEATS_FORGET, true;
    if (read_value(text, n, "depth=", tokens, &v) && v == (double)(int32_t)v) {
        o->min_depth = v == 0 ? -1 : (int32_t)v;
    } else if (read_value(text, n, "reuse=", cosines, &v)) {
        o->reuse = true;
        o->power = -1;
        o->eta = v == 0 ? 1e-6f : (float)v;
    } else if (read_value(text, n, "eta=", cosines, &v)) {
        o->eta = v == 0 ? 1e-6f : (float)v;
    } else if (read_value(text, n, "refine=", times, &v)) {
        o->refine = (float)v;
    } else if (read_value(text, n, "power=", powers, &v)) {
        o->power = (float)v;
    } else {
        return false;
    }
    return true;
}

static sp_err read_window(const char *text, const char *number, int32_t *out)
{
    double v;
    if (!read_number(number, strlen(number), SP_BLOCK_TOKENS, INT32_MAX, &v) ||
        v != (double)(int32_t)v)
        return sp_fail(SP_E_ARG, "decode: \"%s\": a window is a number of tokens, %d or more", text,
                       SP_BLOCK_TOKENS);
    *out = (int32_t)v;
    return SP_OK;
}

/* read_sparse -- what follows "sparse": a budget, options, both or neither. */
static sp_err read_sparse(const char *text, const char *at, sp_sparse_opts *o)
{
    if (*at == ':') {
        const size_t n = strcspn(++at, ",");
        if (!read_budget(at, n, o))
            return sp_fail(SP_E_ARG,
                           "decode: \"%.*s\" in \"%s\" is neither a share (10%%) nor a number of tokens",
                           (int)n, at, text);
        at += n;
    } else {
        o->share = SP_SPARSE_SHARE;
    }
    while (*at == ',') {
        const size_t n = strcspn(++at, ",");
        if (!read_option(at, n, o))
            return sp_fail(SP_E_ARG,
                           "decode: \"%.*s\" in \"%s\" is not one of bounds, quest, hash128, "
                           "hash256, keys4, refine=X, depth=N, reuse, reuse=TAU, eta=X, power=X, "
                           "least, ahead, lru, forget",
                           (int)n, at, text);
        at += n;
    }
    return SP_OK;
}

sp_err sp_decode_parse(const char *text, sp_decode_choice *out)
{
    *out = (sp_decode_choice){0};
    if (!text) return SP_OK;
    const char *rest = text + strcspn(text, ":,");
    const size_t n = (size_t)(rest - text);
    if (is_word(text, strlen(text), "exact")) return SP_OK;
    if (is_word(text, n, "window") && *rest == ':')
        return read_window(text, rest + 1, &out->window);
    if (!is_word(text, n, "sparse"))
        return sp_fail(SP_E_ARG,
                       "decode: \"%s\" is neither \"exact\" nor \"sparse\" nor \"sparse:10%%\" nor "
                       "\"window:4096\"",
                       text);
    out->sparse = true;
    return read_sparse(text, rest, &out->o);
}
