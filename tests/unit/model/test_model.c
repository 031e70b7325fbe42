/* test_model.c -- models from GGUF files: every architecture binds its weights; tensors that are
 * missing, misshapen or unknown are refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

#include "model/weights.h"
#include "tiny_model.h"

static const float *f32(const sp_mat *m)
{
    assert_int_equal(m->type, SP_F32);
    return m->data;
}

static void open_spec(const tiny_spec *s, sp_bytes *file, sp_model **m)
{
    tiny_file(s, file);
    if (tiny_open(file, m) != SP_OK) fail_msg("%s", sp_error_detail());
}

static void close_all(sp_model *m, sp_bytes *file)
{
    sp_model_close(m);
    sp_vec_fini(file);
}

/* -- what binds where ----------------------------------------------------------------------- */

static void check_hparams(const sp_model *m, const char *arch)
{
    const sp_hparams *hp = &m->hp;
    assert_string_equal(hp->arch, arch);
    assert_true(hp->n_layers == TINY_L && hp->n_embd == TINY_E && hp->n_heads == TINY_H);
    assert_true(hp->n_kv_heads == TINY_G && hp->head == TINY_D && hp->n_ff == TINY_F);
    assert_true(hp->n_vocab == TINY_V && hp->n_ctx == 512 && hp->sliding_window == 0);
    assert_true(hp->norm_eps == 1e-5f);
    assert_true(hp->attn_scale == 0.35355339f);
    assert_true(m->rope.n_rot == TINY_D && m->rope.magnitude == 1);
    assert_string_equal(m->path, TINY_NAME);
}

static void check_mat(const sp_mat *m, int64_t rows, int64_t cols)
{
    assert_true(m->n_rows == rows && m->n_cols == cols);
    assert_non_null(m->data);
}

static void check_layer(const sp_layer *y, const tiny_spec *s)
{
    check_mat(&y->wq, 32, 32);
    check_mat(&y->wk, 16, 32);
    check_mat(&y->wv, 16, 32);
    check_mat(&y->wo, 32, 32);
    check_mat(&y->mlp.w_gate, 64, 32);
    check_mat(&y->mlp.w_up, 64, 32);
    check_mat(&y->mlp.w_down, 32, 64);
    assert_true(y->attn_norm && y->ffn_norm);
    assert_true(!!y->bq == s->qkv_bias && !!y->bk == s->qkv_bias && !!y->bv == s->qkv_bias);
    assert_true(!!y->bo == s->out_bias);
    assert_true(!!y->q_norm == s->qk_norm && !!y->k_norm == s->qk_norm);
}

static void opens_every_architecture(void **state)
{
    static const struct {
        tiny_spec spec;
        bool adjacent;
    } cases[] = {
        {{.arch = "llama"}, true},
        {{.arch = "llama", .qkv_bias = true, .out_bias = true}, true},
        {{.arch = "qwen2", .qkv_bias = true}, false},
        {{.arch = "qwen3", .qk_norm = true}, false},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_bytes file = {0};
        sp_model *m;
        open_spec(&cases[i].spec, &file, &m);
        check_hparams(m, cases[i].spec.arch);
        assert_int_equal(m->rope.adjacent, cases[i].adjacent);
        check_mat(&m->embed, TINY_V, TINY_E);
        check_mat(&m->output, TINY_V, TINY_E);
        assert_ptr_not_equal(m->output.data, m->embed.data);
        assert_non_null(m->output_norm);
        for (int l = 0; l < TINY_L; l++) check_layer(&m->layers[l], &cases[i].spec);
        assert_null(m->tokenizer);
        assert_null(m->chat_template);
        close_all(m, &file);
    }
}

/* The generator writes (1 + (37 i + 11 seed) mod 101) / 64, seed = number of the tensor in the
 * file. */
static float element(size_t i, unsigned seed)
{
    return (float)(1 + (i * 37 + seed * 11) % 101) / 64;
}

static void weights_are_those_of_the_file(void **state)
{
    sp_bytes file = {0};
    sp_model *m;
    open_spec(&(tiny_spec){0}, &file, &m);
    assert_true(f32(&m->embed)[5] == element(5, 0));
    assert_true(m->layers[0].attn_norm[3] == element(3, 1));
    assert_true(f32(&m->layers[0].wq)[33] == element(33, 2));
    assert_true(f32(&m->layers[0].mlp.w_down)[1] == element(1, 9));
    assert_true(f32(&m->layers[1].wk)[511] == element(511, 12));
    assert_true(m->output_norm[31] == element(31, 19));
    assert_true(f32(&m->output)[639] == element(639, 20));
    close_all(m, &file);
}

static void vectors_are_converted(void **state)
{
    sp_bytes file = {0};
    sp_model *m;
    uint16_t half;
    open_spec(&(tiny_spec){.retype = "blk.1.ffn_norm.weight", .type = GGUF_BF16}, &file, &m);
    sp_gguf g;
    assert_int_equal(sp_gguf_parse((uint8_t *)file.v, file.n, "", &g), SP_OK);
    memcpy(&half, sp_tensor_find(&g.tensors, "blk.1.ffn_norm.weight", 21)->data + 2 * 7, 2);
    assert_true(m->layers[1].ffn_norm[7] == sp_bf16_to_f32(half));
    sp_gguf_close(&g);
    close_all(m, &file);
}

static void quantized_matrices_are_borrowed(void **state)
{
    sp_bytes file = {0};
    sp_model *m;
    open_spec(&(tiny_spec){.retype = "blk.0.ffn_up.weight", .type = GGUF_Q8_0}, &file, &m);
    const sp_mat *w = &m->layers[0].mlp.w_up;
    assert_int_equal(w->type, SP_Q8_0);
    assert_true((const char *)w->data > file.v && (const char *)w->data < file.v + file.n);
    close_all(m, &file);
}

static void embedding_serves_as_output(void **state)
{
    static const tiny_spec cases[] = {
        {.drop = "output.weight"},
        {.drop = "output.weight", .arch = "qwen2", .qkv_bias = true},
        {.drop = "output.weight", .arch = "qwen3", .qk_norm = true},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_bytes file = {0};
        sp_model *m;
        open_spec(&cases[i], &file, &m);
        assert_ptr_equal(m->output.data, m->embed.data);
        assert_int_equal(m->output.n_rows, TINY_V);
        const int64_t n_layer = 2 * 32 * 32 + 2 * 16 * 32 + 3 * 64 * 32;
        assert_int_equal(sp_model_n_params(m), TINY_V * TINY_E + TINY_L * n_layer); /* it counts once */
        close_all(m, &file);
    }
}

static void add_foreign_tensor(gguf_writer *w)
{
    gw_tensor(w, "not.known", GGUF_I32, 0, 4, 1); /* of an unsupported type */
}

/* Old converters wrote the frequencies, which follow from the parameters. */
static void add_frequencies(gguf_writer *w)
{
    gw_tensor(w, "blk.0.attn_rot_embd.weight", GGUF_F32, 0, 4, 1);
}

static void unknown_tensors_are_refused(void **state)
{
    sp_bytes file = {0};
    sp_model *m;
    open_spec(&(tiny_spec){.more = add_frequencies}, &file, &m);
    close_all(m, &file);
    tiny_refuse(&(tiny_spec){.more = add_foreign_tensor}, SP_E_UNSUPPORTED,
                "tensor not.known: is not supported for llama");
}

/* -- what is refused ------------------------------------------------------------------------ */

/* Calls fn with the name of every tensor of a complete model. */
static void for_each_tensor(const tiny_spec *all,
                            void (*fn)(const tiny_spec *all, const char *name))
{
    sp_bytes file = {0};
    sp_gguf g;
    tiny_file(all, &file);
    assert_int_equal(sp_gguf_parse((const uint8_t *)file.v, file.n, TINY_NAME, &g), SP_OK);
    for (size_t i = 0; i < g.tensors.list.n; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", SP_VIEW(g.tensors.list.v[i].name));
        fn(all, name);
    }
    sp_gguf_close(&g);
    sp_vec_fini(&file);
}

static void refuse_without(const tiny_spec *all, const char *name)
{
    char text[128];
    tiny_spec s = *all;
    s.drop = name;
    snprintf(text, sizeof text, "tensor %s: is missing", name);
    if (strcmp(name, "output.weight") != 0) tiny_refuse(&s, SP_E_FORMAT, text);
}

static void refuse_misshapen(const tiny_spec *all, const char *name)
{
    char text[128];
    tiny_spec s = *all;
    s.reshape = name;
    snprintf(text, sizeof text, "tensor %s: its shape is ", name);
    if (strcmp(name, "token_embd.weight") == 0) /* defines V, so the output has the wrong shape */
        snprintf(text, sizeof text,
                 "tensor output.weight: its shape is 20 x 32, the configuration");
    tiny_refuse(&s, SP_E_FORMAT, text);
}

static void refuse_type(const tiny_spec *all, const char *name)
{
    char text[128];
    tiny_spec s = *all;
    s.retype = name;
    s.type = GGUF_I32;
    snprintf(text, sizeof text, "tensor %s: its type i32 is not supported", name);
    tiny_refuse(&s, SP_E_UNSUPPORTED, text);
}

static const tiny_spec full_qwen2 = {.arch = "qwen2", .qkv_bias = true};
static const tiny_spec full_qwen3 = {.arch = "qwen3", .qk_norm = true};

static void every_tensor_is_needed(void **state)
{
    for_each_tensor(&full_qwen2, refuse_without);
    for_each_tensor(&full_qwen3, refuse_without);
}

static void every_shape_is_checked(void **state)
{
    for_each_tensor(&full_qwen2, refuse_misshapen);
    for_each_tensor(&full_qwen3, refuse_misshapen);
}

static void every_type_is_checked(void **state)
{
    for_each_tensor(&full_qwen2, refuse_type);
    for_each_tensor(&full_qwen3, refuse_type);
}

static void add_qkv_bias(gguf_writer *w)
{
    gw_tensor(w, "blk.1.attn_qkv.bias", GGUF_F32, 0, TINY_F, 1);
}

static void add_matrix_as_norm(gguf_writer *w)
{
    gw_tensor(w, "output_norm.weight", GGUF_F32, 1, TINY_E, 1);
}

static void what_means_another_computation_is_refused(void **state)
{
    tiny_refuse(&(tiny_spec){.more = add_qkv_bias}, SP_E_UNSUPPORTED,
                "tensor blk.1.attn_qkv.bias: is not supported for llama");
    tiny_refuse(&(tiny_spec){.drop = "output_norm.weight", .more = add_matrix_as_norm}, SP_E_FORMAT,
                "tensor output_norm.weight: its shape is 1 x 32, the configuration asks for 32");
    tiny_refuse(
        &(tiny_spec){.arch = "falcon"}, SP_E_UNSUPPORTED,
        "general.architecture: \"falcon\" is not supported: its positions, norms or layers have another form (known: "
        "llama, mistral, mixtral,");
    tiny_refuse(&(tiny_spec){.arch = "unheard-of"}, SP_E_UNSUPPORTED,
                "general.architecture: \"unheard-of\" is not supported (known: llama, mistral, mixtral,");
}

/* -- damaged files -------------------------------------------------------------------------- */

static void every_prefix_is_an_error(void **state)
{
    gguf_writer w;
    sp_bytes file = {0};
    sp_model *m;
    tiny_write(&w, &full_qwen3, 2);
    gw_file(&w, &file);
    for (size_t n = 0; n < file.n; n += n < gw_head_bytes(&w) ? 1 : 97) {
        assert_int_equal(tiny_open(&(sp_bytes){.v = file.v, .n = n}, &m), SP_E_FORMAT);
        assert_detail(TINY_NAME ": ");
    }
    gw_end(&w);
    sp_vec_fini(&file);
}

static void every_flipped_bit_is_harmless(void **state)
{
    gguf_writer w;
    sp_bytes file = {0};
    sp_model *m;
    size_t refused = 0;
    tiny_write(&w, &full_qwen2, 3);
    gw_file(&w, &file);
    for (size_t bit = 0; bit < 8 * gw_head_bytes(&w); bit++) {
        file.v[bit / 8] ^= (char)(1 << bit % 8);
        if (tiny_open(&file, &m) == SP_OK) {
            sp_model_close(m);
        } else {
            assert_detail(TINY_NAME ": ");
            refused++;
        }
        file.v[bit / 8] ^= (char)(1 << bit % 8);
    }
    assert_true(refused > 8000);
    gw_end(&w);
    sp_vec_fini(&file);
}

static void every_failed_allocation_is_reported(void **state)
{
    sp_bytes file = {0};
    sp_model *m;
    sp_err err = SP_E_NOMEM;
    long n = 0;
    tiny_file(&full_qwen2, &file);
    while (err != SP_OK) {
        sp_fault_after(++n);
        err = tiny_open(&file, &m);
        sp_fault_after(-1);
        if (err != SP_OK) assert_int_equal(err, SP_E_NOMEM);
    }
    assert_true(n > 10);
    close_all(m, &file);
}

/* -- identity ------------------------------------------------------------------------------- */

static void id_of(const sp_bytes *file, uint8_t *id)
{
    sp_model *m;
    assert_int_equal(tiny_open(file, &m), SP_OK);
    memcpy(id, m->id, 32);
    sp_model_close(m);
}

static void set_rope_base(gguf_writer *w)
{
    gw_f32(w, "llama.rope.freq_base", 500000);
}

/* Every tensor is sampled at both ends; parameters that change keys count, the path does not. */
static void identity_follows_the_weights(void **state)
{
    sp_bytes file = {0}, other = {0};
    uint8_t id[32], changed[32];
    sp_gguf g;
    tiny_file(&(tiny_spec){0}, &file);
    id_of(&file, id);
    id_of(&file, changed);
    assert_memory_equal(id, changed, 32);
    assert_int_equal(sp_gguf_parse((uint8_t *)file.v, file.n, "", &g), SP_OK);
    for (size_t i = 0; i < g.tensors.list.n; i++) {
        const sp_tensor *t = &g.tensors.list.v[i];
        for (int end = 0; end < 2; end++) {
            char *byte = &file.v[t->offset + (end ? t->n_bytes - 4 : 0)];
            *byte ^= 1;
            id_of(&file, changed);
            assert_memory_not_equal(id, changed, 32);
            *byte ^= 1;
        }
    }
    tiny_file(&(tiny_spec){.more = set_rope_base}, &other);
    id_of(&other, changed);
    assert_memory_not_equal(id, changed, 32);
    sp_gguf_close(&g);
    sp_vec_fini(&file);
    sp_vec_fini(&other);
}

/* The same numbers under another architecture, or with another constant, are another model. */
static void identity_follows_the_parameters(void **state)
{
    enum { ARCH, LAYERS, EPS, ROPE, GROWTH, PERIOD, SCALE, GROUPS, N_CHANGES };
    const sp_tensor_dir none = {0};
    sp_bytes file = {0};
    sp_model *m;
    tiny_file(&(tiny_spec){0}, &file);
    assert_int_equal(tiny_open(&file, &m), SP_OK);
    m->hp.attn_growth = 0.1f;
    m->hp.attn_period = 16384;
    m->hp.moe = (sp_moe){.n = 8, .n_used = 2, .n_ff = 4, .n_groups = 4, .n_groups_used = 3};
    sp_model first = *m;
    assert_int_equal(sp_model_identify(&first, &none), SP_OK);
    for (int i = 0; i < N_CHANGES; i++) {
        sp_model other = *m;
        if (i == ARCH) other.hp.arch = "another";
        if (i == LAYERS) other.hp.n_layers--;
        if (i == EPS) other.hp.norm_eps *= 2;
        if (i == ROPE) other.rope.magnitude += 1;
        if (i == GROWTH) other.hp.attn_growth = 0.2f;
        if (i == PERIOD) other.hp.attn_period = 8192;
        if (i == SCALE) other.hp.moe.scale = 2;
        if (i == GROUPS) other.hp.moe.n_groups_used = 2;
        assert_int_equal(sp_model_identify(&other, &none), SP_OK);
        assert_memory_not_equal(first.id, other.id, sizeof other.id);
    }
    sp_model_close(m);
    sp_vec_fini(&file);
}

static void opens_from_disk(void **state)
{
    char path[] = "/tmp/spolia-model-XXXXXX";
    sp_bytes file = {0};
    sp_model *m;
    uint8_t id[32];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(sp_model_open(path, &m), SP_E_FORMAT);
    assert_detail(path);
    tiny_file(&(tiny_spec){0}, &file);
    id_of(&file, id);
    assert_int_equal(write(fd, file.v, file.n), (ssize_t)file.n);
    close(fd);
    assert_int_equal(sp_model_open(path, &m), SP_OK);
    assert_string_equal(m->path, path);
    assert_memory_equal(id, m->id, 32);
    unlink(path);
    close_all(m, &file);
    assert_int_equal(sp_model_open(path, &m), SP_E_IO);
    assert_detail(path);
    sp_model_close(NULL);
}

/* A device gets each of them: also the bias of a norm, which few models have. */
static void weights_around_the_layers_are_listed(void **state)
{
    static const float norm[] = {1}, bias[] = {2};
    sp_model m = {.embed.n_rows = 1, .output.n_rows = 1, .output_norm = norm, .b_output_norm = bias};
    const void *const wanted[] = {&m.embed, &m.output_norm, &m.b_output_norm, &m.output};
    sp_weight w;
    int i = 0, n = 0;
    for (; sp_weights_next(&m, &i, &w); n++) {
        assert_in_range(n, 0, 3);
        assert_ptr_equal(w.mat ? (const void *)w.mat : w.vec, wanted[n]);
    }
    assert_int_equal(n, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_every_architecture),
        cmocka_unit_test(weights_are_those_of_the_file),
        cmocka_unit_test(vectors_are_converted),
        cmocka_unit_test(quantized_matrices_are_borrowed),
        cmocka_unit_test(embedding_serves_as_output),
        cmocka_unit_test(unknown_tensors_are_refused),
        cmocka_unit_test(every_tensor_is_needed),
        cmocka_unit_test(every_shape_is_checked),
        cmocka_unit_test(every_type_is_checked),
        cmocka_unit_test(what_means_another_computation_is_refused),
        cmocka_unit_test(every_prefix_is_an_error),
        cmocka_unit_test(every_flipped_bit_is_harmless),
        cmocka_unit_test(every_failed_allocation_is_reported),
        cmocka_unit_test(identity_follows_the_weights),
        cmocka_unit_test(identity_follows_the_parameters),
        cmocka_unit_test(weights_around_the_layers_are_listed),
        cmocka_unit_test(opens_from_disk),
    };
    return cmocka_run_group_tests_name("model/model", tests, NULL, NULL);
}
