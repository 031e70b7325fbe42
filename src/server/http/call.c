/* call.c -- of a request to the server. */
#include "server/http/call.h"

#include <stdio.h>
#include <string.h>

bool srv_salt_of(const srv_call *call, char **out)
{
    const char *tenant = call->salt ? call->salt : "";
    *out = NULL;
    if (call->cache_salt) return asprintf(out, "%s/%s", tenant, call->cache_salt) >= 0;
    if (call->salt) *out = strdup(call->salt);
    return *out || !call->salt;
}
