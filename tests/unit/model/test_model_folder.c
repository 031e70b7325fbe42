/* test_model_folder.c -- models from Hugging Face folders: config.json, safetensors and the chat
 * template together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/file.h"
#include "gguf_writer.h"
#include "model/model_int.h"
#include "temp_folder.h"

enum { L = 2, E = 8, H = 2, G = 1, D = 4, F = 12, V = 10 };

/* The only safetensors file of the folder, while it is written. */
typedef struct st_writer {
    sp_bytes header, data;
    const char *drop;
    size_t shift; /* bytes of padding that put weights at odd addresses */
} st_writer;

static void add(st_writer *w, const char *name, const char *dtype, int rows, int cols)
{
    size_t n = (size_t)(rows ? rows : 1) * (size_t)cols, from = w->data.n;
    char shape[32];
    if (w->drop && strcmp(name, w->drop) == 0) return;
    if (rows)
        snprintf(shape, sizeof shape, "%d,%d", rows, cols);
    else
        snprintf(shape, sizeof shape, "%d", cols);
    for (size_t i = 0; i < n; i++) {
        float x = (float)(from + i) / 4096;
        uint16_t half = sp_f32_to_bf16(x);
        gw_raw(&w->data, strcmp(dtype, "F32") == 0 ? (void *)&x : (void *)&half,
               strcmp(dtype, "F32") == 0 ? 4 : 2);
    }
    assert_int_equal(sp_bytes_addf(&w->header,
                                   "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],"
                                   "\"data_offsets\":[%zu,%zu]}",
                                   w->header.n > 1 ? "," : "", name, dtype, shape, from, w->data.n),
                     SP_OK);
}

static void add_layer(st_writer *w, int layer, bool qkv_bias)
{
    static const struct {
        const char *part;
        int rows, cols;
    } parts[] = {
        {"input_layernorm.weight", 0, E},      {"self_attn.q_proj.weight", H * D, E},
        {"self_attn.k_proj.weight", G * D, E}, {"self_attn.v_proj.weight", G * D, E},
        {"self_attn.o_proj.weight", E, H * D}, {"post_attention_layernorm.weight", 0, E},
        {"mlp.gate_proj.weight", F, E},        {"mlp.up_proj.weight", F, E},
        {"mlp.down_proj.weight", E, F},        {"self_attn.q_proj.bias", 0, H * D},
        {"self_attn.k_proj.bias", 0, G * D},   {"self_attn.v_proj.bias", 0, G * D},
    };
    for (size_t i = 0; i < SP_COUNT(parts) - (qkv_bias ? 0 : 3); i++) {
        char name[96];
        snprintf(name, sizeof name, "model.layers.%d.%s", layer, parts[i].part);
        add(w, name, layer ? "F32" : "BF16", parts[i].rows, parts[i].cols);
    }
}

static void write_weights(const temp_folder *f, st_writer *w, bool qkv_bias, bool with_output)
{
    sp_bytes file = {0};
    gw_raw(&w->header, "{", 1);
    add(w, "model.embed_tokens.weight", "F32", V, E);
    for (int l = 0; l < L; l++) add_layer(w, l, qkv_bias);
    add(w, "model.norm.weight", "F32", 0, E);
    if (with_output) add(w, "lm_head.weight", "F32", V, E);
    gw_raw(&w->header, "}", 1);
    gw_pad(&w->header, 8);
    for (size_t i = 0; i < w->header.n; i++)
        if (w->header.v[i] == '\0') w->header.v[i] = ' ';
    for (size_t i = 0; i < w->shift; i++) gw_raw(&w->header, " ", 1);
    gw_int(&file, w->header.n, 8);
    gw_raw(&file, w->header.v, w->header.n);
    gw_raw(&file, w->data.v, w->data.n);
    temp_folder_write(f, "model.safetensors", file.v, file.n);
    sp_vec_fini(&file);
    sp_vec_fini(&w->header);
    sp_vec_fini(&w->data);
}

static void write_config(const temp_folder *f, const char *type, const char *more)
{
    char text[512];
    snprintf(text, sizeof text,
             "{\"model_type\":\"%s\",\"hidden_size\":%d,\"intermediate_size\":%d,"
             "\"num_hidden_layers\":%d,\"num_attention_heads\":%d,\"num_key_value_heads\":%d,"
             "\"max_position_embeddings\":256,\"rms_norm_eps\":1e-5,\"vocab_size\":%d%s}",
             type, E, F, L, H, G, V, more);
    temp_folder_text(f, "config.json", text);
}

static sp_model *open_folder(const temp_folder *f)
{
    sp_model *m;
    if (sp_model_open(f->path, &m) != SP_OK) fail_msg("%s", sp_error_detail());
    return m;
}

static void refuse_folder(const temp_folder *f, sp_err code, const char *text)
{
    sp_model *m = NULL;
    assert_int_equal(sp_model_open(f->path, &m), code);
    assert_detail(f->path);
    assert_detail(text);
    assert_null(m);
}

static float element(size_t i)
{
    return (float)i / 4096;
}

/* -- weights -------------------------------------------------------------------------------- */

static void check_folder_model(const sp_model *m)
{
    const sp_layer *y = &m->layers[0];
    assert_true(m->hp.n_layers == L && m->hp.n_vocab == V && m->hp.head == D && m->hp.n_ctx == 256);
    assert_false(m->rope.adjacent);
    assert_true(m->embed.type == SP_F32 && m->embed.n_rows == V && m->embed.n_cols == E);
    assert_true(((const float *)m->embed.data)[79] == element(79));
    assert_true(y->wq.type == SP_BF16 && y->wq.n_rows == H * D && m->layers[1].wq.type == SP_F32);
    assert_true(y->wk.n_rows == G * D && y->mlp.w_down.n_cols == F && y->mlp.w_down.n_rows == E);
    /* bf16 elements follow the 320 bytes of the embedding */
    assert_true(y->attn_norm[1] == sp_bf16_to_f32(sp_f32_to_bf16(element(321))));
    assert_null(m->tokenizer);
}

static void opens_folders(void **state)
{
    temp_folder f;
    temp_folder_make(&f);
    refuse_folder(&f, SP_E_IO, "/config.json: there is no such file");
    write_config(&f, "mistral", ",\"sliding_window\":null");
    refuse_folder(&f, SP_E_IO, "/model.safetensors: No such file");
    write_weights(&f, &(st_writer){0}, false, true);
    sp_model *m = open_folder(&f);
    check_folder_model(m);
    assert_string_equal(m->hp.arch, "mistral");
    assert_ptr_not_equal(m->embed.data, m->output.data);
    assert_null(m->layers[0].bq);
    sp_model_close(m);
    char slash[80];
    snprintf(slash, sizeof slash, "%s/", f.path);
    assert_int_equal(sp_model_open(slash, &m), SP_OK);
    assert_null(strstr(m->files->folder.files.v[0].path, "//"));
    sp_model_close(m);

    write_config(&f, "qwen2", "");
    refuse_folder(&f, SP_E_FORMAT, "tensor model.layers.0.self_attn.q_proj.bias: is missing");
    write_weights(&f, &(st_writer){0}, true, true);
    m = open_folder(&f);
    assert_true(m->layers[1].bq && m->layers[1].bk && m->layers[1].bv && !m->layers[1].bo);
    sp_model_close(m);

    write_config(&f, "llama", ",\"num_hidden_layers\":2");
    refuse_folder(&f, SP_E_FORMAT, "config.json: line 1: duplicate");
    temp_folder_remove(&f);
}

/* The output is tied to the embedding by config.json, or because it is missing. */
static void ties_the_output(void **state)
{
    temp_folder f;
    temp_folder_make(&f);
    write_config(&f, "llama", ",\"tie_word_embeddings\":true");
    write_weights(&f, &(st_writer){0}, false, true);
    refuse_folder(&f, SP_E_UNSUPPORTED, "lm_head.weight: differs from model.embed_tokens.weight");
    write_weights(&f, &(st_writer){0}, false, false);
    sp_model *m = open_folder(&f);
    assert_ptr_equal(m->embed.data, m->output.data);
    sp_model_close(m);
    write_config(&f, "llama", "");
    write_weights(&f, &(st_writer){0}, false, false);
    m = open_folder(&f);
    assert_ptr_equal(m->embed.data, m->output.data);
    sp_model_close(m);
    write_config(&f, "llama", ",\"tie_word_embeddings\":false");
    refuse_folder(&f, SP_E_FORMAT, "tensor lm_head.weight: is missing");
    temp_folder_remove(&f);
}

static void sizes_must_agree(void **state)
{
    temp_folder f;
    temp_folder_make(&f);
    write_weights(&f, &(st_writer){0}, false, true);
    write_config(&f, "llama", ",\"head_dim\":8");
    refuse_folder(&f, SP_E_FORMAT,
                  "q_proj.weight: its shape is 8 x 8, the configuration asks for 16 x 8");
    write_config(&f, "llama", "");
    write_weights(&f, &(st_writer){.drop = "model.layers.1.mlp.up_proj.weight"}, false, true);
    refuse_folder(&f, SP_E_FORMAT, "tensor model.layers.1.mlp.up_proj.weight: is missing");
    write_weights(&f, &(st_writer){0}, false, true);
    temp_folder_text(&f, "config.json",
                     "{\"model_type\":\"llama\",\"hidden_size\":8,\"intermediate_size\":12,\"num_hidden_layers\":2,"
                     "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"max_position_embeddings\":256,"
                     "\"rms_norm_eps\":1e-5,\"vocab_size\":9}");
    refuse_folder(&f, SP_E_FORMAT, "embed_tokens.weight: its shape is 10 x 8, the configuration asks for 9 x 8");
    temp_folder_remove(&f);
}

/* Headers of odd length put every weight at an odd address, those of 2 bytes more F32: those are copied. */
static void unaligned_weights_are_copied(void **state)
{
    temp_folder f;
    temp_folder_make(&f);
    write_config(&f, "llama", "");
    for (size_t shift = 1; shift <= 2; shift++) {
        write_weights(&f, &(st_writer){.shift = shift}, false, true);
        sp_model *m = open_folder(&f);
        assert_int_equal((uintptr_t)m->embed.data % sizeof(float), 0);
        assert_int_equal((uintptr_t)m->layers[0].wq.data % sizeof(uint16_t), 0);
        check_folder_model(m);
        sp_model_close(m);
    }
    temp_folder_remove(&f);
}

/* -- chat template -------------------------------------------------------------------------- */

static void assert_template(const temp_folder *f, const char *want)
{
    sp_model *m = open_folder(f);
    if (want)
        assert_string_equal(m->chat_template, want);
    else
        assert_null(m->chat_template);
    sp_model_close(m);
}

static void finds_the_chat_template(void **state)
{
    temp_folder f;
    temp_folder_make(&f);
    write_config(&f, "llama", "");
    write_weights(&f, &(st_writer){0}, false, true);
    assert_template(&f, NULL);
    temp_folder_text(&f, "tokenizer_config.json", "{\"chat_template\":\"one {{x}}\"}");
    assert_template(&f, "one {{x}}");
    temp_folder_text(&f, "tokenizer_config.json",
                     "{\"chat_template\":[{\"name\":\"tool\",\"template\":\"t\"},"
                     "{\"name\":\"default\",\"template\":\"two\"}]}");
    assert_template(&f, "two");
    temp_folder_text(&f, "tokenizer_config.json", "{\"chat_template\":[3,{\"name\":\"tool\"}]}");
    assert_template(&f, NULL);
    temp_folder_text(&f, "chat_template.json", "{\"chat_template\":\"of a processor\"}");
    assert_template(&f, "of a processor");
    temp_folder_text(&f, "tokenizer_config.json", "{\"chat_template\":\"one {{x}}\"}");
    assert_template(&f, "one {{x}}");
    temp_folder_text(&f, "tokenizer_config.json", "{");
    refuse_folder(&f, SP_E_FORMAT, "/tokenizer_config.json: line 1");
    temp_folder_text(&f, "chat_template.jinja", "three\n");
    assert_template(&f, "three\n");
    temp_folder_remove(&f);
}

static void every_failed_allocation_is_reported(void **state)
{
    temp_folder f;
    sp_model *m = NULL;
    sp_err err = SP_E_NOMEM;
    long n = 0;
    temp_folder_make(&f);
    write_config(&f, "llama", "");
    write_weights(&f, &(st_writer){.shift = 1}, false, true);
    temp_folder_text(&f, "chat_template.jinja", "text");
    while (err != SP_OK) {
        sp_fault_after(++n);
        err = sp_model_open(f.path, &m);
        sp_fault_after(-1);
        if (err != SP_OK) assert_int_equal(err, SP_E_NOMEM);
    }
    assert_true(n > 20);
    sp_model_close(m);
    temp_folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_folders),
        cmocka_unit_test(ties_the_output),
        cmocka_unit_test(sizes_must_agree),
        cmocka_unit_test(unaligned_weights_are_copied),
        cmocka_unit_test(finds_the_chat_template),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("model/folder", tests, NULL, NULL);
}
