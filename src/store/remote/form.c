#include "store/remote/form.h"

#include <string.h>
#include <zstd.h>

#include "store/bytes.h"

enum {
    HEADER = 24,
    NAME = 8, /* bytes of a type's name */
    PACKED = 1,
    COMPRESSED = 2,
};

#define MOST_BYTES ((size_t)1 << 30) /* of a group */

static const char magic[4] = {'S', 'P', 'F', '1'};

bool sp_form_packs(const sp_remote_form *f, const sp_record *r)
{
    const sp_kv_packing *p = &f->packing;
    return f->packs && p->name && p->wants(p->user, r) &&
           p->packed_bytes(p->user, r->layer_bytes) + HEADER < r->layer_bytes;
}

/* -- put -------------------------------------------------------------------------------------------------- */

sp_err sp_form_writer_init(sp_form_writer *w, const sp_remote_form *f, const sp_record *r, int per, size_t tail)
{
    const sp_kv_packing *p = &f->packing;
    *w = (sp_form_writer){.form = f, .r = r, .packed = sp_form_packs(f, r), .kept = r->layer_bytes, .tail = tail};
    if (w->packed) w->kept = p->packed_bytes(p->user, r->layer_bytes);
    const size_t bytes = (size_t)per * (w->kept + r->facts.note_bytes);
    w->n_less = f->level ? ZSTD_compressBound(bytes) : 0;
    w->group = sp_alloc(1, HEADER + bytes + tail);
    w->raw = w->packed ? sp_alloc(1, r->layer_bytes + r->facts.note_bytes) : NULL;
    w->less = f->level ? sp_alloc(1, HEADER + w->n_less + tail) : NULL;
    if (w->group && (w->raw || !w->packed) && (w->less || !f->level)) return SP_OK;
    sp_form_writer_fini(w);
    return sp_fail_nomem("a copy for the remote tier");
}

void sp_form_writer_fini(sp_form_writer *w)
{
    sp_free(w->group);
    sp_free(w->raw);
    sp_free(w->less);
}

static uint8_t *stored(const sp_form_writer *w, int i)
{
    return w->group + HEADER + (size_t)i * (w->kept + w->r->facts.note_bytes);
}

uint8_t *sp_form_slot(const sp_form_writer *w, int i)
{
    return w->packed ? w->raw : stored(w, i);
}

void sp_form_add(const sp_form_writer *w, int i, int layer, sp_layer_sum *sums)
{
    const sp_kv_packing *p = &w->form->packing;
    const size_t notes = w->r->facts.note_bytes;
    uint8_t *to = stored(w, i);
    if (w->packed) {
        p->pack(p->user, w->raw, w->r->layer_bytes, to);
        memcpy(to + w->kept, w->raw + w->r->layer_bytes, notes);
    }
    sums[layer] = sp_layer_sum_of(to, w->kept);
    if (notes) sums[w->r->n_layers + layer] = sp_layer_sum_of(to + w->kept, notes);
}

static void write_header(const sp_form_writer *w, unsigned flags, uint8_t *to)
{
    memset(to, 0, HEADER);
    memcpy(to, magic, sizeof magic);
    put32(to + 4, flags);
    put64(to + 8, w->kept);
    if (w->packed) memcpy(to + 16, w->form->packing.name, SP_MIN(strlen(w->form->packing.name), (size_t)NAME));
}

uint8_t *sp_form_end(const sp_form_writer *w, int n, size_t *size)
{
    const size_t bytes = (size_t)n * (w->kept + w->r->facts.note_bytes);
    const unsigned flags = w->packed ? PACKED : 0;
    if (w->less) {
        const size_t less = ZSTD_compress(w->less + HEADER, w->n_less, w->group + HEADER, bytes, w->form->level);
        if (!ZSTD_isError(less) && HEADER + less < bytes) {
            write_header(w, flags | COMPRESSED, w->less);
            *size = HEADER + less;
            return w->less;
        }
    }
    *size = w->packed ? HEADER + bytes : bytes;
    if (w->packed) write_header(w, flags, w->group);
    return w->packed ? w->group : w->group + HEADER;
}

/* -- get -------------------------------------------------------------------------------------------------- */

static sp_err damaged(const char *what)
{
    return sp_fail(SP_E_FORMAT, "remote tier: %s", what);
}

/* read_header -- of a value that has one; *flags. */
static sp_err read_header(sp_form_reader *f, const uint8_t *data, size_t n, unsigned *flags)
{
    const sp_kv_packing *p = &f->form->packing;
    if (n < HEADER || memcmp(data, magic, sizeof magic) != 0) return damaged("layers of a wrong size");
    *flags = get32(data + 4);
    const uint64_t kept = get64(data + 8);
    if (!*flags || *flags > (PACKED | COMPRESSED)) return damaged("layers in a form that is unknown");
    f->packed = *flags & PACKED;
    if (f->packed ? kept == 0 || kept >= f->r->layer_bytes : kept != f->r->layer_bytes)
        return damaged("layers of a wrong size");
    f->kept = (size_t)kept;
    if (!f->packed || f->form->only_checks) return SP_OK;
    if (!p->name || strncmp(p->name, (const char *)data + 16, NAME) != 0)
        return sp_fail(SP_E_UNSUPPORTED, "remote tier: a copy of a KV type that cannot be read");
    return p->packed_bytes(p->user, f->r->layer_bytes) == kept ? SP_OK : damaged("layers of a wrong size");
}

/* expand -- bytes: what the layers must have; nothing else is believed, so that memory is bounded. */
static sp_err expand(sp_form_reader *f, const uint8_t *data, size_t n, size_t bytes)
{
    if (ZSTD_getFrameContentSize(data, n) != bytes) return damaged("compressed layers of a wrong size");
    f->plain = sp_alloc(1, bytes);
    if (!f->plain) return sp_fail_nomem("compressed layers of the remote tier");
    f->layers = f->plain;
    return ZSTD_decompress(f->plain, bytes, data, n) == bytes ? SP_OK : damaged("compressed layers are damaged");
}

static sp_err open_value(sp_form_reader *f, int n_layers, const uint8_t *data, size_t n)
{
    const size_t notes = f->r->facts.note_bytes, stride = f->r->layer_bytes + notes;
    unsigned flags = 0;
    f->kept = f->r->layer_bytes;
    f->layers = data;
    if (n_layers <= 0 || stride > MOST_BYTES / (size_t)n_layers) return damaged("layers of a wrong size");
    if (n == (size_t)n_layers * stride) return SP_OK;
    SP_TRY(read_header(f, data, n, &flags));
    const size_t bytes = (size_t)n_layers * (f->kept + notes);
    f->layers = data + HEADER;
    if (flags & COMPRESSED) SP_TRY(expand(f, data + HEADER, n - HEADER, bytes));
    if (!(flags & COMPRESSED) && n - HEADER != bytes) return damaged("layers of a wrong size");
    f->raw = f->packed && !f->form->only_checks ? sp_alloc(1, stride) : NULL;
    return f->packed && !f->form->only_checks && !f->raw ? sp_fail_nomem("a layer") : SP_OK;
}

sp_err sp_form_reader_init(sp_form_reader *f, const sp_remote_form *form, const sp_record *r, int n_layers,
                           const uint8_t *data, size_t n)
{
    *f = (sp_form_reader){.form = form, .r = r};
    sp_err err = open_value(f, n_layers, data, n);
    if (err != SP_OK) sp_form_reader_fini(f);
    return err;
}

void sp_form_reader_fini(sp_form_reader *f)
{
    sp_free(f->plain);
    sp_free(f->raw);
}

sp_err sp_form_layer(const sp_form_reader *f, int i, int layer, const uint8_t **out)
{
    const sp_kv_packing *p = &f->form->packing;
    const sp_record *r = f->r;
    const size_t notes = r->facts.note_bytes;
    const uint8_t *from = f->layers + (size_t)i * (f->kept + notes);
    if (!sp_layer_sum_eq(sp_layer_sum_of(from, f->kept), r->sums[layer]) ||
        (notes && !sp_layer_sum_eq(sp_layer_sum_of(from + f->kept, notes), r->sums[r->n_layers + layer])))
        return sp_fail(SP_E_FORMAT, "remote tier: the checksum of layer %d is wrong", layer);
    *out = f->form->only_checks ? NULL : from;
    if (!f->raw) return SP_OK;
    p->unpack(p->user, from, r->layer_bytes, f->raw);
    memcpy(f->raw + r->layer_bytes, from + f->kept, notes);
    *out = f->raw;
    return SP_OK;
}
