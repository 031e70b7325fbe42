/* load.c -- the weights of a model on a device, in one piece of its memory:
 *
 *   | embedding | layer 0: norms, wq, wk, ... | layer 1 | ... | norm, output |
 *
 * without those that the device reads in place: on the CPU vectors, the embedding, and
 * matrices that no kernel needs in another layout. The mapped pages that a matrix was packed from
 * are released, so that weights are in memory once. The file stays readable.
 *
 * A pack (pack_file.c) is a copy of that piece. Where there is one, it is mapped instead:
 *
 *   first start    model file -> packed into device memory -> pack, in the background
 *   next start     pack, mapped
 *
 * The key of a pack is a hash of everything that its bytes depend on: the model's id, which file it
 * is (inode, size, time of modification), and the layout. Only the device knows its layout, so it
 * packs a small matrix of each type, and the key includes the result. Kernels with equal results
 * share a pack, and no version number can be forgotten. */
#include "base/log.h"
#include "model/model_int.h"
#include "model/pack_cache.h"
#include "model/weights.h"

struct sp_model_packs {
    sp_pack_map map;        /* the weights are there, or */
    sp_pack_writer *writer; /* they are being written; or NULL */
};

static sp_err load_all(sp_model *m, sp_device *d, size_t n_bytes)
{
    sp_weight w;
    SP_TRY(sp_mem_alloc(d, n_bytes, "the weights", &m->on_device));
    uint8_t *to = m->on_device.p;
    m->device = d;
    for (int i = 0; sp_weights_next(m, &i, &w);) {
        size_t n = sp_weight_bytes(d, &w);
        if (n == 0) continue; /* the device reads it in place; `to` may be NULL */
        SP_TRY(sp_weight_load(d, &w, m->files, to));
        to += n;
    }
    sp_log(SP_LOG_DEBUG, "%s: %zu MiB of weights packed for %s, %s", m->path, n_bytes >> 20,
           d->name, d->kernels);
    return SP_OK;
}

/* -- packs ---------------------------------------------------------------------------------- */

/* Three panels of the largest form, and the padding of a fourth. */
enum { SAMPLE_ROWS = 97, SAMPLE_COLS = 512 };

/* hash_layout -- adds the device's packing of a small matrix of this type. */
static sp_err hash_layout(sp_device *d, sp_dtype type, sp_sha256 *s)
{
    const size_t n = SAMPLE_ROWS * sp_row_bytes(type, SAMPLE_COLS);
    uint8_t *sample = sp_alloc_aligned(n);
    if (!sample) return sp_fail_nomem("a sample of weights");
    uint32_t x = 1;
    for (size_t i = 0; i < n; i++) sample[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
    sp_mat mat = {.type = type, .n_rows = SAMPLE_ROWS, .n_cols = SAMPLE_COLS, .data = sample};
    sp_mem out = {0};
    sp_err err =
        sp_mem_alloc(d, sp_device_weight_bytes(d, &mat, SP_WEIGHT_PRODUCTS), "a sample", &out);
    if (err == SP_OK && out.p) sp_device_weight_load(d, &mat, SP_WEIGHT_PRODUCTS, out.p);
    if (err == SP_OK) sp_sha256_field(s, sp_dtype_of(type)->name, out.p, out.n_bytes);
    sp_mem_free(&out);
    sp_free(sample);
    return err;
}

static sp_err hash_layouts(sp_model *m, sp_device *d, sp_sha256 *s)
{
    bool seen[SP_DTYPE_N] = {0};
    sp_weight w;
    for (int i = 0; sp_weights_next(m, &i, &w);)
        if (w.mat && sp_weight_bytes(d, &w) && !seen[w.mat->type]) {
            seen[w.mat->type] = true;
            SP_TRY(hash_layout(d, w.mat->type, s));
        }
    return SP_OK;
}

/* has_files -- false for a model that was made or parsed in memory. */
static bool has_files(const sp_model *m)
{
    return m->files && (m->files->gguf.map.data || m->files->folder.files.n > 0);
}

static void hash_file(sp_sha256 *s, const sp_file_id *id)
{
    const uint64_t v[] = {id->inode, id->size, (uint64_t)id->modified_ns};
    sp_sha256_field(s, "file", v, sizeof v);
}

static sp_err name_pack(sp_model *m, sp_device *d, size_t n_bytes, sp_pack_name *out)
{
    sp_sha256 *s;
    SP_TRY(sp_sha256_create(&s));
    sp_sha256_field(s, "spolia/pack/1", m->id, sizeof m->id);
    hash_file(s, &m->files->gguf.map.id);
    for (size_t i = 0; i < m->files->gguf.parts.n; i++) hash_file(s, &m->files->gguf.parts.v[i].map.id);
    for (size_t i = 0; i < m->files->folder.files.n; i++)
        hash_file(s, &m->files->folder.files.v[i].map.id);
    sp_err err = hash_layouts(m, d, s);
    sp_sha256_final(s, &out->key);
    out->n_bytes = n_bytes;
    return err;
}

static void adopt(sp_model *m, sp_device *d, const sp_pack_map *map, size_t n_bytes)
{
    sp_weight w;
    const uint8_t *at = map->weights;
    m->device = d;
    m->packs->map = *map;
    m->mapped_bytes = n_bytes;
    for (int i = 0; sp_weights_next(m, &i, &w);) {
        const size_t n = sp_weight_bytes(d, &w);
        const void *made = n ? w.mat->data : NULL;
        if (n) sp_device_weight_adopt(d, w.mat, w.use, at);
        if (n) sp_made_let_go(&m->files->made, made);
        at += n;
    }
    sp_log(SP_LOG_DEBUG, "%s: %zu MiB of packed weights mapped for %s, %s", m->path, n_bytes >> 20,
           d->name, d->kernels);
}

static sp_err load_with_packs(sp_model *m, sp_device *d, size_t n_bytes, const sp_pack_opts *o)
{
    sp_pack_name name;
    sp_pack_map map;
    SP_TRY(name_pack(m, d, n_bytes, &name));
    m->packs = SP_NEW(struct sp_model_packs);
    if (!m->packs) return sp_fail_nomem("packs");
    sp_err err = sp_pack_cache_find(o->dir, &name, d->n_threads, &map);
    if (err == SP_OK) {
        adopt(m, d, &map, n_bytes);
        return SP_OK;
    }
    if (err != SP_E_NOTFOUND) return err;
    SP_TRY(load_all(m, d, n_bytes));
    m->packs->writer = sp_pack_writer_start(o, &name, m->on_device.p);
    return SP_OK;
}

/* -- loading -------------------------------------------------------------------------------- */

sp_err sp_model_load(sp_model *m, sp_device *d, const sp_pack_opts *packs)
{
    size_t n_bytes = 0;
    sp_weight w;
    assert(!m->device);
    for (int i = 0; sp_weights_next(m, &i, &w);) n_bytes += sp_weight_bytes(d, &w);
    const bool kept = packs && packs->dir && packs->dir[0] && has_files(m) && sp_device_adopts(d) &&
                      n_bytes > 0 && n_bytes >= packs->min_bytes;
    sp_err err = kept ? load_with_packs(m, d, n_bytes, packs) : load_all(m, d, n_bytes);
    if (err != SP_OK) sp_model_unload(m);
    return err;
}

void sp_model_unload(sp_model *m)
{
    if (m->packs) {
        sp_pack_writer_finish(m->packs->writer);
        sp_file_map_close(&m->packs->map.file);
        sp_free(m->packs);
    }
    m->packs = NULL;
    m->mapped_bytes = 0;
    sp_mem_free(&m->on_device);
    m->device = NULL;
}
