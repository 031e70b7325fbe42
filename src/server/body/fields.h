/* fields.h -- typed fields of a JSON object. A missing field and null give the default. The first
 * error is recorded with the name of its field; later ones are not, so a caller reads all fields and
 * checks once. */
#ifndef SP_SERVER_BODY_FIELDS_H
#define SP_SERVER_BODY_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "server/http/call.h"

#define SRV_MAX_DEPTH 64 /* of a body's nested arrays and objects */

typedef struct srv_fields {
    const json_t *object;
    bool failed;
    char param[80]; /* the field; "" if the body is not a JSON object */
    char why[320];
    sp_err err; /* SP_OK: the body is wrong; else what failed while it was read: no memory, a file */
} srv_fields;

/* srv_fields_parse -- the body; NULL after an error in *f. Owns: json_decref. */
json_t *srv_fields_parse(srv_fields *f, const char *body, size_t n);

void srv_fields_refuse(srv_fields *f, const char *param, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* srv_fields_fail -- the same with the library's detail, after `prefix` and a colon unless it is NULL. A first word of
 * the detail that ends the prefix, too ("grammar: "), is left out. Missing memory or an unreadable file is not an
 * error of the body. */
void srv_fields_fail(srv_fields *f, const char *param, const char *prefix, sp_err err);
/* srv_fields_break -- records an error that is not of the body: what a field names could not be read. */
void srv_fields_break(srv_fields *f, const char *param, sp_err err);
/* srv_fields_reply -- the error, with the status of its cause. */
srv_sent srv_fields_reply(const srv_call *call, const srv_fields *f);

/* srv_field -- NULL when it is missing or null. */
json_t *srv_field(const srv_fields *f, const char *name);
json_int_t srv_field_int(srv_fields *f, const char *name, json_int_t otherwise, json_int_t least,
                         json_int_t most);
double srv_field_number(srv_fields *f, const char *name, double otherwise, double least,
                        double most);
bool srv_field_bool(srv_fields *f, const char *name, bool otherwise);
const char *srv_field_string(srv_fields *f, const char *name);
json_t *srv_field_list(srv_fields *f, const char *name);
json_t *srv_field_object(srv_fields *f, const char *name);
/* srv_fields_only -- refuses the first field of `o`, an object of this server's own, that is not null and not one of
 * `names`, which blanks separate. where: what has the object, "" for the body. */
void srv_fields_only(srv_fields *f, const json_t *o, const char *where, const char *names);

/* srv_query_limit -- the argument ?limit= of a list: 1 to `most`, all of it a number. False: anything else. */
bool srv_query_limit(const srv_call *call, int otherwise, int most, int *out);

#endif
