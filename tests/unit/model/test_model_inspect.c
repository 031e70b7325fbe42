/* test_model_inspect.c -- what `inspect` prints about known and unknown files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>

#include "model/model_int.h"
#include "temp_folder.h"
#include "tiny_model.h"

static json_t *inspect(const char *path)
{
    sp_bytes text = {0};
    if (sp_model_inspect(path, &text) != SP_OK) fail_msg("%s", sp_error_detail());
    json_t *j = json_loadb(text.v, text.n, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(j);
    sp_vec_fini(&text);
    return j;
}

/* The text of a JSON value, compact. */
static void assert_json(const json_t *j, const char *want)
{
    char *text = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    assert_non_null(text);
    assert_string_equal(text, want);
    free(text);
}

static void write_model(const temp_folder *f, const tiny_spec *s)
{
    sp_bytes file = {0};
    tiny_file(s, &file);
    temp_folder_write(f, "m.gguf", file.v, file.n);
    sp_vec_fini(&file);
}

static void add_odd_entries(gguf_writer *w)
{
    gw_number(w, "odd.u64", SP_GGUF_U64, UINT64_MAX, 8);
    gw_f32(w, "odd.inf", (float)(1e38 * 1e38));
    gw_bool(w, "odd.bool", true);
    gw_texts(w, "odd.texts", 10,
             (const char *const[]){"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
    gw_text(w, "odd.bytes", "a\xff\nb");
    gw_u32(w, "odd\x1b[31m\x7f\xff.key", 1);
    gw_i32s(w, "odd.empty", 0, NULL);
    gw_i32s(w, "odd.numbers", 3, (const int32_t[]){5, -6, 7});
    gw_describe(w, "odd\ntensor", 4000000000u, 1, (const uint64_t[]){5}, 0);
}

static void add_window(gguf_writer *w)
{
    gw_u32(w, "llama.attention.sliding_window", 100);
}

static void add_cap(gguf_writer *w)
{
    gw_f32(w, "llama.attn_logit_softcapping", 50);
}

static void describes_gguf_files(void **state)
{
    temp_folder f;
    temp_folder_make(&f);
    write_model(&f, &(tiny_spec){.arch = "falcon", .more = add_odd_entries});
    json_t *j = inspect(temp_folder_file(&f, "m.gguf")), *m = json_object_get(j, "metadata");
    assert_json(json_object_get(j, "format"), "\"gguf\"");
    assert_json(json_object_get(j, "version"), "3");
    assert_json(json_object_get(j, "architecture"), "\"falcon\"");
    assert_json(json_object_get(j, "supported"), "false");
    assert_json(json_object_get(m, "falcon.block_count"), "2");
    assert_json(json_object_get(m, "odd.u64"), "1.84467441e19");
    assert_json(json_object_get(m, "odd.inf"), "null");
    assert_json(json_object_get(m, "odd.bool"), "true");
    assert_json(json_object_get(m, "odd.texts"),
                "{\"type\":\"string\",\"length\":10,"
                "\"first\":[\"0\",\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\"]}");
    assert_json(json_object_get(m, "odd.bytes"), "\"a?\\nb\"");
    assert_json(json_object_get(m, "odd?[31m??.key"), "1");
    assert_json(json_object_get(m, "odd.empty"), "{\"type\":\"i32\",\"length\":0,\"first\":[]}");
    assert_json(json_object_get(m, "odd.numbers"), "{\"type\":\"i32\",\"length\":3,\"first\":[5,-6,7]}");
    json_t *tensors = json_object_get(j, "tensors"), *first = json_array_get(tensors, 0);
    assert_json(json_object_get(first, "name"), "\"token_embd.weight\"");
    assert_json(json_object_get(first, "type"), "\"f32\"");
    assert_json(json_object_get(first, "shape"), "[20,32]");
    assert_json(json_object_get(first, "bytes"), "2560");
    assert_true(json_equal(json_object_get(first, "offset"), json_object_get(j, "data_offset")));
    assert_null(json_object_get(first, "file")); /* only folders have several */
    json_t *last = json_array_get(tensors, json_array_size(tensors) - 1);
    assert_json(json_object_get(last, "name"), "\"odd?tensor\"");
    assert_json(json_object_get(last, "type"), "\"type 4000000000\"");
    assert_json(json_object_get(j, "totals"),
                "{\"tensors\":22,\"parameters\":19877,\"bytes\":79488,"
                "\"types\":{\"f32\":21,\"type 4000000000\":1}}");
    json_decref(j);
    write_model(&f, &(tiny_spec){0});
    j = inspect(temp_folder_file(&f, "m.gguf"));
    assert_json(json_object_get(j, "supported"), "true");
    assert_json(json_object_get(j, "reuse"), "\"prefixes exactly, chunks at any position\"");
    assert_json(json_object_get(j, "context"), "512");
    assert_null(json_object_get(j, "window"));
    json_decref(j);
    write_model(&f, &(tiny_spec){.more = add_window});
    j = inspect(temp_folder_file(&f, "m.gguf"));
    assert_json(json_object_get(j, "window"), "100");
    assert_json(json_object_get(j, "layers_with_window"), "2");
    json_decref(j);
    write_model(&f, &(tiny_spec){.more = add_cap});
    j = inspect(temp_folder_file(&f, "m.gguf"));
    assert_json(json_object_get(j, "supported"), "false");
    assert_non_null(strstr(json_string_value(json_object_get(j, "refused")),
                           "llama.attn_logit_softcapping: is not supported for llama"));
    json_decref(j);
    temp_folder_remove(&f);
}

/* A file of a vocabulary alone is of a known architecture or not; there is nothing that could be refused. */
static void describes_files_without_tensors(void **state)
{
    static const char *const archs[] = {"unheard-of", "llama"};
    temp_folder f;
    temp_folder_make(&f);
    for (int i = 0; i < 2; i++) {
        gguf_writer w;
        sp_bytes file = {0};
        gw_begin(&w, 3);
        gw_text(&w, "general.architecture", archs[i]);
        gw_file(&w, &file);
        gw_end(&w);
        temp_folder_write(&f, "m.gguf", file.v, file.n);
        sp_vec_fini(&file);
        json_t *j = inspect(temp_folder_file(&f, "m.gguf"));
        assert_json(json_object_get(j, "supported"), i ? "true" : "false");
        assert_null(json_object_get(j, "refused"));
        assert_json(json_object_get(j, "totals"), "{\"tensors\":0,\"parameters\":0,\"bytes\":0,\"types\":{}}");
        json_decref(j);
    }
    temp_folder_remove(&f);
}

static void describes_folders(void **state)
{
    static const char header[] =
        "{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,2],\"data_offsets\":[0,4]}}    ";
    temp_folder f;
    sp_bytes file = {0};
    temp_folder_make(&f);
    gw_int(&file, strlen(header), 8);
    gw_raw(&file, header, strlen(header));
    gw_raw(&file, "1234", 4);
    temp_folder_write(&f, "model.safetensors", file.v, file.n);
    sp_vec_fini(&file);
    json_t *j = inspect(f.path); /* without config.json too */
    assert_json(json_object_get(j, "format"), "\"safetensors\"");
    assert_null(json_object_get(j, "architecture"));
    json_decref(j);
    temp_folder_text(&f, "config.json", "{\"model_type\":\"mamba\",\"n\":3}");
    j = inspect(f.path);
    assert_json(json_object_get(j, "architecture"), "\"mamba\"");
    assert_json(json_object_get(j, "supported"), "false");
    assert_json(json_object_get(j, "config"), "{\"model_type\":\"mamba\",\"n\":3}");
    assert_json(json_array_get(json_object_get(j, "tensors"), 0),
                "{\"name\":\"w\",\"type\":\"F8_E4M3\",\"shape\":[2,2],\"offset\":72,\"bytes\":4,"
                "\"file\":\"model.safetensors\"}");
    json_decref(j);
    temp_folder_remove(&f);
}

/* One whose config.json does not end is not described without it. */
static void refuses_folders_of_a_damaged_config(void **state)
{
    temp_folder f;
    sp_bytes file = {0}, text = {0};
    temp_folder_make(&f);
    gw_int(&file, 8, 8);
    gw_raw(&file, "{}      ", 8);
    temp_folder_write(&f, "model.safetensors", file.v, file.n);
    temp_folder_text(&f, "config.json", "{\"model_type\": \"llama\"");
    assert_int_equal(sp_model_inspect(f.path, &text), SP_E_FORMAT);
    assert_detail("config.json");
    assert_int_equal(text.n, 0);
    sp_vec_fini(&file);
    temp_folder_remove(&f);
}

static void refuses_what_it_cannot_read(void **state)
{
    temp_folder f;
    sp_bytes text = {0};
    temp_folder_make(&f);
    gw_raw(&text, "kept", 4);
    temp_folder_text(&f, "m.gguf", "GGU");
    assert_int_equal(sp_model_inspect(temp_folder_file(&f, "m.gguf"), &text), SP_E_FORMAT);
    assert_detail("m.gguf: header: magic: needs 4 bytes");
    assert_int_equal(sp_model_inspect(f.path, &text), SP_E_IO);
    assert_detail("model.safetensors: No such file");
    assert_int_equal(sp_model_inspect("/no/such", &text), SP_E_IO);
    assert_true(text.n == 4 && memcmp(text.v, "kept", 4) == 0);
    sp_vec_fini(&text);
    temp_folder_remove(&f);
}

static void every_failed_allocation_is_reported(void **state)
{
    sp_bytes file = {0}, text = {0};
    sp_gguf g;
    sp_err err = SP_E_NOMEM;
    long n = 0;
    tiny_file(&(tiny_spec){.more = add_odd_entries}, &file);
    assert_int_equal(sp_gguf_parse((const uint8_t *)file.v, file.n, TINY_NAME, &g), SP_OK);
    while (err != SP_OK) {
        sp_fault_after(++n);
        err = sp_model_inspect_gguf(&g, TINY_NAME, &text);
        sp_fault_after(-1);
        if (err != SP_OK) assert_true(err == SP_E_NOMEM && text.n == 0);
    }
    assert_true(n > 20);
    sp_gguf_close(&g);
    sp_vec_fini(&file);
    sp_vec_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(describes_gguf_files),
        cmocka_unit_test(describes_files_without_tensors),
        cmocka_unit_test(describes_folders),
        cmocka_unit_test(refuses_folders_of_a_damaged_config),
        cmocka_unit_test(refuses_what_it_cannot_read),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("model/inspect", tests, NULL, NULL);
}
