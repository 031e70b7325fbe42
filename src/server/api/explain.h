/* explain.h -- explains reuse in recent requests: GET /v1/requests/{id}/explain. The accounts of each tenant's last
 * requests are kept, without texts of prompts and answers. Thread: any. */
#ifndef SP_SERVER_API_EXPLAIN_H
#define SP_SERVER_API_EXPLAIN_H

#include <jansson.h>
#include <stdbool.h>

#define SRV_EXPLAINED     256   /* requests of a tenant */
#define SRV_EXPLAINED_ALL 16384 /* of all tenants */

typedef struct srv_explain srv_explain;

srv_explain *srv_explain_open(void); /* NULL: out of memory */
void srv_explain_close(srv_explain *x);
/* srv_explain_add -- consumes o and adds it under both names, of which the second may be ""; adds nothing if memory is
 * exhausted. */
void srv_explain_add(srv_explain *x, const char *salt, const char *id, const char *other_id,
                     json_t *o);
/* srv_explain_get -- a copy; NULL: unknown, or another tenant's. Owns: json_decref. */
json_t *srv_explain_get(srv_explain *x, const char *salt, const char *id);

#endif
