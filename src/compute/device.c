/* device.c -- the devices by name, and memory on them. */
#include "compute/device.h"

#include <string.h>

#include "base/mem.h"
#include "compute/cpu.h"

static const struct {
    const char *name;
    sp_err (*open)(const sp_device_opts *o, sp_device **out);
} devices[] = {
    {"cpu", sp_cpu_open},
};

sp_err sp_device_open(const char *name, const sp_device_opts *o, sp_device **out)
{
    if (!name) name = devices[0].name;
    for (size_t i = 0; i < SP_COUNT(devices); i++)
        if (strcmp(name, devices[i].name) == 0) return devices[i].open(o, out);
    return sp_fail(SP_E_ARG, "device: '%s' is unknown; known: cpu", name);
}

void sp_device_close(sp_device *d)
{
    if (d) d->calls->close(d);
}

/* -- memory --------------------------------------------------------------------------------- */

sp_err sp_mem_alloc(sp_device *d, size_t n_bytes, const char *what, sp_mem *out)
{
    void *p = n_bytes ? d->calls->alloc(d, n_bytes) : NULL;
    if (n_bytes && !p) return sp_fail_nomem(what);
    *out = (sp_mem){p, n_bytes, d};
    return SP_OK;
}

void sp_mem_free(sp_mem *m)
{
    if (m->p) m->device->calls->free(m->device, m->p, m->n_bytes);
    *m = (sp_mem){0};
}

sp_err sp_mem_grow(sp_device *d, size_t n_bytes, const char *what, sp_mem *m)
{
    sp_mem more;
    if (n_bytes <= m->n_bytes) return SP_OK;
    SP_TRY(sp_mem_alloc(d, n_bytes, what, &more));
    sp_mem_free(m);
    *m = more;
    return SP_OK;
}

/* -- mirrors -------------------------------------------------------------------------------- */

sp_err sp_mirror_alloc(sp_device *d, size_t n_bytes, const char *what, sp_mirror *out)
{
    sp_mirror m = {0};
    SP_TRY(sp_mem_alloc(d, n_bytes, what, &m.mem));
    m.dev = m.host = m.mem.p;
    if (!d->unified && n_bytes && !(m.host = sp_alloc_aligned(n_bytes))) {
        sp_mem_free(&m.mem);
        return sp_fail_nomem(what);
    }
    *out = m;
    return SP_OK;
}

void sp_mirror_free(sp_mirror *m)
{
    if (m->host != m->dev) sp_free(m->host);
    sp_mem_free(&m->mem);
    *m = (sp_mirror){0};
}

sp_err sp_mirror_grow(sp_device *d, size_t n_bytes, const char *what, sp_mirror *m)
{
    sp_mirror more;
    if (n_bytes <= m->mem.n_bytes) return SP_OK;
    SP_TRY(sp_mirror_alloc(d, n_bytes, what, &more));
    sp_mirror_free(m);
    *m = more;
    return SP_OK;
}

void sp_mirror_push(sp_mirror *m, size_t n_bytes)
{
    assert(n_bytes <= m->mem.n_bytes);
    m->pushed = sp_device_copy_in(m->mem.device, m->dev, m->host, n_bytes);
}

sp_err sp_mirror_settle(sp_mirror *m)
{
    SP_TRY(sp_device_wait(m->mem.device, m->pushed));
    m->pushed = (sp_event){0};
    return SP_OK;
}

sp_err sp_mirror_pull(sp_mirror *m, size_t n_bytes)
{
    assert(n_bytes <= m->mem.n_bytes);
    return sp_device_wait(m->mem.device,
                          sp_device_copy_out(m->mem.device, m->host, m->dev, n_bytes));
}
