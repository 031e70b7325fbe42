/* json_formats.c -- the formats of strings that a schema may ask for, as patterns. Each describes a subset of its
 * format: dates of the years 1000 to 2999, times without leap seconds, short addresses. */
#include <string.h>

#include "engine/grammar/grammar_int.h"

#define DAYS                                                                                       \
    "((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2["  \
    "0-8]))"
#define LEAP_YEAR "([12]\\d(0[48]|[2468][048]|[13579][26])|(1[26]|2[048])00)"
#define DATE      "([12]\\d{3}-" DAYS "|" LEAP_YEAR "-02-29)"
#define CLOCK     "([01]\\d|2[0-3]):[0-5]\\d"
#define TIME      CLOCK ":[0-5]\\d(\\.\\d{1,6})?(Z|[+-]" CLOCK ")"
#define HEX       "[0-9a-f]"
#define NAME      "[A-Za-z0-9_%+-]{1,24}"
#define LABEL     "[A-Za-z0-9]([A-Za-z0-9-]{0,24}[A-Za-z0-9])?"
#define HOST      "(" LABEL "\\.){1,3}[A-Za-z]{2,12}"
#define GROUP     "[0-9a-f]{1,4}"
#define PART      "[A-Za-z0-9._~!$&'()*+,;=:@-]{1,40}"
#define OCTET     "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"

#define URI                                                                                        \
    "^(https?|ftp)://" HOST "(:[1-9]\\d{1,3})?(/" PART "){0,8}/?(\\?" PART                         \
    ")?(#[A-Za-z0-9._-]{1,40})?$"
#define HOURS "(\\d{1,3}H(\\d{1,2}M(\\d{1,2}S)?)?|\\d{1,3}M(\\d{1,2}S)?|\\d{1,4}S)"

const char *sp_json_format(const char *name)
{
    static const struct {
        const char *name, *pattern;
    } formats[] = {
        {"date", "^" DATE "$"},
        {"time", "^" TIME "$"},
        {"date-time", "^" DATE "T" TIME "$"},
        {"uuid", "^" HEX "{8}(-" HEX "{4}){3}-" HEX "{12}$"},
        {"email", "^" NAME "(\\." NAME ")?@(" LABEL "\\.){1,3}[A-Za-z]{2,12}$"},
        {"ipv4", "^(" OCTET "\\.){3}" OCTET "$"},
        {"ipvanyaddress", "^(" OCTET "\\.){3}" OCTET "$"},
        {"ipv6", "^((" GROUP ":){7}" GROUP "|(" GROUP ":){1,5}(:" GROUP "){1,2}|::1?)$"},
        {"hostname", "^" HOST "$"},
        {"uri", URI},
        {"url", URI},
        {"uri-reference", URI},
        {"iri", URI},
        {"duration", "^P(\\d{1,4}W|\\d{1,4}Y(\\d{1,2}M)?(\\d{1,3}D)?(T" HOURS ")?|\\d{1,3}D(T" HOURS
                     ")?|T" HOURS ")$"},
        /* what a string holds for its reader: any string */
        {"password", ""},
        {"binary", ""},
        {"byte", ""},
        {"path", ""},
        {"file-path", ""},
        {"directory-path", ""},
        {"text", ""},
    };
    for (size_t i = 0; i < SP_COUNT(formats); i++)
        if (strcmp(formats[i].name, name) == 0) return formats[i].pattern;
    return NULL;
}
