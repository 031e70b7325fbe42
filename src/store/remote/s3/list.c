#include "store/remote/s3/list.h"

#include <string.h>

#include "store/remote/s3/names.h"

static sp_err read_page(sp_s3_http *h, const sp_s3_which *w, const char *token,
                        sp_err (*each)(void *user, const sp_s3_row *row), void *user, char next[1025])
{
    sp_s3_query q = {0};
    if (*token) sp_s3_query_add(&q, "continuation-token", token);
    if (w->folders) sp_s3_query_add(&q, "delimiter", "/");
    if (!w->uploads) sp_s3_query_add(&q, "list-type", "2");
    sp_s3_query_add(&q, "prefix", w->prefix);
    if (w->after && !*token) sp_s3_query_add(&q, "start-after", w->after);
    if (w->uploads) sp_s3_query_add(&q, "uploads", "");
    if (q.is_full) return sp_fail(SP_E_FORMAT, "an object store lists a token that is too long");
    sp_s3_request r = {.method = "GET", .key = "", .query = q.v};
    sp_err err = sp_s3_run(h, &r, 1);
    if (err == SP_OK) err = sp_s3_read_list(r.text.v, r.text.n, each, user, next);
    sp_s3_request_fini(&r);
    return err;
}

sp_err sp_s3_list(sp_s3_http *h, const sp_s3_which *which, sp_err (*each)(void *user, const sp_s3_row *row),
                  void *user)
{
    char token[1025] = "", next[1025];
    do {
        SP_TRY(read_page(h, which, token, each, user, next));
        if (*next && strcmp(next, token) == 0)
            return sp_fail(SP_E_FORMAT, "an object store repeats one page of a list");
        memcpy(token, next, sizeof token);
    } while (*token);
    return SP_OK;
}

sp_err sp_s3_delete(sp_s3_http *h, const char *key, const char *query)
{
    sp_s3_request r = {.method = "DELETE", .key = key, .query = query};
    sp_err err = sp_s3_run(h, &r, 1);
    sp_s3_request_fini(&r);
    return err == SP_E_NOTFOUND ? SP_OK : err;
}
