#include "store/remote/server.h"

#include <stdio.h>
#include <string.h>

#include "store/remote/link.h"

sp_err sp_remote_read_key(const char *path, uint8_t out[SP_REMOTE_KEY_BYTES], size_t *n)
{
    *n = 0;
    if (!path) return SP_OK;
    FILE *f = fopen(path, "rb");
    if (!f) return sp_fail(SP_E_IO, "%s: the key of the remote tier cannot be read", path);
    uint8_t bytes[SP_REMOTE_KEY_BYTES + 2];
    size_t k = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    if (k && bytes[k - 1] == '\n') k--;
    if (k < 16 || k > SP_REMOTE_KEY_BYTES)
        return sp_fail(SP_E_ARG, "%s: the key of the remote tier must have 16 to %d bytes", path,
                       SP_REMOTE_KEY_BYTES);
    memcpy(out, bytes, k);
    *n = k;
    return SP_OK;
}

static sp_remote_site site_of(const sp_remote_server *s)
{
    return (sp_remote_site){.url = s->url, .ca_file = s->ca_file, .timeout_us = s->timeout_us};
}

sp_err sp_remote_each_space(const sp_remote_server *s, sp_err (*each)(void *user, const sp_digest *space), void *user)
{
    const sp_remote_kind *kind;
    const sp_remote_site site = site_of(s);
    SP_TRY(sp_remote_kind_of(s->url, &kind));
    return kind->each_space(&site, each, user);
}

sp_err sp_remote_clean(const sp_remote_server *s, int64_t *n_orphans, int64_t *n_gone)
{
    const sp_remote_kind *kind;
    const sp_remote_site site = site_of(s);
    *n_orphans = *n_gone = 0;
    SP_TRY(sp_remote_kind_of(s->url, &kind));
    return kind->clean(&site, n_orphans, n_gone);
}
