#include "store/remote/link.h"

#include <string.h>

#include "base/mem.h"

sp_err sp_remote_kind_of(const char *url, const sp_remote_kind **out)
{
    static const struct {
        const char *scheme;
        const sp_remote_kind *kind;
    } all[] = {{"redis://", &sp_remote_redis}, {"rediss://", &sp_remote_redis}, {"s3://", &sp_remote_s3}};
    for (size_t i = 0; i < SP_COUNT(all); i++) {
        if (strncmp(url, all[i].scheme, strlen(all[i].scheme)) != 0) continue;
        *out = all[i].kind;
        return SP_OK;
    }
    return sp_fail(SP_E_ARG, "a remote tier is redis://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/DATABASE], "
                            "rediss:// with TLS, or s3://BUCKET[/PREFIX]");
}

sp_err sp_remote_check_url(const char *url)
{
    const sp_remote_kind *kind;
    SP_TRY(sp_remote_kind_of(url, &kind));
    return kind->check_url(url);
}
