#include "serve/tiers/tiers_int.h"

#include <string.h>

#include "compute/kv_convert.h"

/* wants -- whether to convert a copy; path copies stay exact. */
static bool wants(void *user, const sp_record *r)
{
    SP_UNUSED(user);
    return r->facts.kind != SP_COPY_PATH;
}

static size_t packed_bytes(void *user, size_t layer_bytes)
{
    const sp_host_kv *kv = user;
    return layer_bytes / kv->device.block_bytes * kv->host.block_bytes;
}

/* convert -- `from` is not written: a view has no form for memory that is only read. */
static void convert(sp_kv_view from, const uint8_t *bytes, sp_kv_view to, uint8_t *out, size_t n)
{
    memcpy(&from.base, &bytes, sizeof bytes);
    to.base = out;
    sp_kv_convert(&from, &to, (int64_t)n);
}

static void pack(void *user, const uint8_t *layer, size_t layer_bytes, uint8_t *out)
{
    const sp_host_kv *kv = user;
    convert(kv->device, layer, kv->host, out, layer_bytes / kv->device.block_bytes);
}

static void unpack(void *user, const uint8_t *packed, size_t layer_bytes, uint8_t *out)
{
    const sp_host_kv *kv = user;
    convert(kv->host, packed, kv->device, out, layer_bytes / kv->device.block_bytes);
}

static sp_kv_view view_of(sp_kv_shape s, sp_dtype type)
{
    s.n_layers = 1;
    s.type = type;
    return (sp_kv_view){
        .type = type, .n_heads = s.n_heads, .head = s.head, .block_bytes = sp_kv_block_bytes(&s)};
}

sp_err sp_host_kv_init(sp_host_kv *kv, const sp_kv_shape *shape, const char *name,
                       const sp_kv_packing **packing)
{
    static const sp_dtype types[] = {SP_Q8_0, SP_Q16, SP_F16, SP_BF16, SP_F32};
    sp_kv_shape host = *shape;
    *packing = NULL;
    if (!name) return SP_OK;
    size_t i = 0;
    while (i < SP_COUNT(types) && strcmp(name, sp_dtype_of(types[i])->name) != 0) i++;
    if (i == SP_COUNT(types))
        return sp_fail(SP_E_ARG, "host_kv: type \"%s\" is unknown: q8_0, q16, f16, bf16, f32",
                       name);
    host.type = types[i];
    SP_TRY(sp_kv_shape_check(&host));
    if (host.type == shape->type) return SP_OK;
    *kv = (sp_host_kv){.device = view_of(*shape, shape->type), .host = view_of(*shape, host.type)};
    kv->packing = (sp_kv_packing){.name = sp_dtype_of(host.type)->name,
                                    .wants = wants,
                                    .packed_bytes = packed_bytes,
                                    .pack = pack,
                                    .unpack = unpack,
                                    .user = kv};
    *packing = &kv->packing;
    return SP_OK;
}
