/* tiny_model.h -- a complete model of two layers as a GGUF file in memory, optionally with one
 * defect. */
#ifndef TEST_TINY_MODEL_H
#define TEST_TINY_MODEL_H

#include <stdlib.h>

#include "gguf_writer.h"
#include "model/model_int.h"

enum { TINY_L = 2, TINY_E = 32, TINY_H = 4, TINY_G = 2, TINY_D = 8, TINY_F = 64, TINY_V = 20 };

typedef struct tiny_spec {
    const char *arch;    /* NULL: llama */
    const char *drop;    /* tensor or metadata key to omit */
    const char *reshape; /* tensor to give one row (a vector: one element) more */
    const char *retype;  /* tensor to give the type `type` */
    uint32_t type;
    bool qkv_bias, out_bias, qk_norm;
    void (*more)(gguf_writer *w); /* writes further entries and tensors */
} tiny_spec;

static inline bool tiny_is(const char *name, const char *other)
{
    return other && strcmp(name, other) == 0;
}

static inline void tiny_tensor(gguf_writer *w, const tiny_spec *s, const char *name, size_t rows,
                               size_t cols)
{
    if (tiny_is(name, s->drop)) return;
    bool more = tiny_is(name, s->reshape);
    gw_tensor(w, name, tiny_is(name, s->retype) ? s->type : GGUF_F32,
              rows && more ? rows + 1 : rows, !rows && more ? cols + 1 : cols,
              (unsigned)w->n_tensors);
}

static inline void tiny_layer_tensor(gguf_writer *w, const tiny_spec *s, int layer,
                                     const char *part, size_t rows, size_t cols)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s", layer, part);
    tiny_tensor(w, s, name, rows, cols);
}

static inline void tiny_layer(gguf_writer *w, const tiny_spec *s, int l)
{
    const size_t q = TINY_H * TINY_D, k = TINY_G * TINY_D;
    tiny_layer_tensor(w, s, l, "attn_norm.weight", 0, TINY_E);
    tiny_layer_tensor(w, s, l, "attn_q.weight", q, TINY_E);
    tiny_layer_tensor(w, s, l, "attn_k.weight", k, TINY_E);
    tiny_layer_tensor(w, s, l, "attn_v.weight", k, TINY_E);
    tiny_layer_tensor(w, s, l, "attn_output.weight", TINY_E, q);
    if (s->qkv_bias) {
        tiny_layer_tensor(w, s, l, "attn_q.bias", 0, q);
        tiny_layer_tensor(w, s, l, "attn_k.bias", 0, k);
        tiny_layer_tensor(w, s, l, "attn_v.bias", 0, k);
    }
    if (s->out_bias) tiny_layer_tensor(w, s, l, "attn_output.bias", 0, TINY_E);
    if (s->qk_norm) {
        tiny_layer_tensor(w, s, l, "attn_q_norm.weight", 0, TINY_D);
        tiny_layer_tensor(w, s, l, "attn_k_norm.weight", 0, TINY_D);
    }
    tiny_layer_tensor(w, s, l, "ffn_norm.weight", 0, TINY_E);
    tiny_layer_tensor(w, s, l, "ffn_gate.weight", TINY_F, TINY_E);
    tiny_layer_tensor(w, s, l, "ffn_up.weight", TINY_F, TINY_E);
    tiny_layer_tensor(w, s, l, "ffn_down.weight", TINY_E, TINY_F);
}

static inline const char *tiny_key(const tiny_spec *s, const char *suffix)
{
    static char key[128];
    snprintf(key, sizeof key, "%s.%s", s->arch ? s->arch : "llama", suffix);
    return key;
}

static inline void tiny_metadata(gguf_writer *w, const tiny_spec *s)
{
    static const struct {
        const char *key;
        uint32_t value;
    } sizes[] = {{"block_count", TINY_L},
                 {"embedding_length", TINY_E},
                 {"feed_forward_length", TINY_F},
                 {"attention.head_count", TINY_H},
                 {"attention.head_count_kv", TINY_G},
                 {"context_length", 512}};
    gw_text(w, "general.architecture", s->arch ? s->arch : "llama");
    for (size_t i = 0; i < SP_COUNT(sizes); i++)
        if (!tiny_is(tiny_key(s, sizes[i].key), s->drop))
            gw_u32(w, tiny_key(s, sizes[i].key), sizes[i].value);
    const char *eps = tiny_key(s, "attention.layer_norm_rms_epsilon");
    if (!tiny_is(eps, s->drop)) gw_f32(w, eps, 1e-5f);
}

static inline void tiny_write(gguf_writer *w, const tiny_spec *s, uint32_t version)
{
    gw_begin(w, version);
    tiny_metadata(w, s);
    tiny_tensor(w, s, "token_embd.weight", TINY_V, TINY_E);
    for (int l = 0; l < TINY_L; l++) tiny_layer(w, s, l);
    tiny_tensor(w, s, "output_norm.weight", 0, TINY_E);
    tiny_tensor(w, s, "output.weight", TINY_V, TINY_E);
    if (s->more) s->more(w);
}

static inline void tiny_file(const tiny_spec *s, sp_bytes *file)
{
    gguf_writer w;
    tiny_write(&w, s, 3);
    gw_file(&w, file);
    gw_end(&w);
}

#define TINY_NAME "dir/tiny.gguf"

/* Opens file bytes that outlive the model. */
static inline sp_err tiny_open(const sp_bytes *file, sp_model **out)
{
    sp_gguf g;
    SP_TRY(sp_gguf_parse((const uint8_t *)file->v, file->n, TINY_NAME, &g));
    return sp_model_from_gguf(&g, out);
}

static inline void tiny_refuse(const tiny_spec *s, sp_err code, const char *text)
{
    sp_bytes file = {0};
    sp_model *m = NULL;
    tiny_file(s, &file);
    sp_err err = tiny_open(&file, &m);
    if (err == SP_OK) sp_model_close(m);
    sp_vec_fini(&file);
    if (err != code)
        fail_msg("%d, not %d: \"%s\" was expected (%s)", err, code, text, sp_error_detail());
    assert_detail(TINY_NAME ": ");
    assert_detail(text);
}

#endif
