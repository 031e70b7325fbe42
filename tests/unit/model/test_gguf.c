/* test_gguf.c -- the GGUF reader alone: what it reads, and that no file makes it misbehave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gguf_writer.h"

#define NAME "some.gguf"

/* The bytes of the last parsed file: a heap copy of exact size, so that a sanitizer detects every
 * read past the end. */
static uint8_t *parsed;

static int forget(void **state)
{
    free(parsed);
    parsed = NULL;
    return 0;
}

static sp_err parse(const sp_bytes *file, sp_gguf *g)
{
    forget(NULL);
    parsed = malloc(file->n ? file->n : 1);
    assert_non_null(parsed);
    if (file->n) memcpy(parsed, file->v, file->n);
    return sp_gguf_parse(parsed, file->n, NAME, g);
}

static void refuse(const gguf_writer *w, sp_err code, const char *text)
{
    sp_bytes file = {0};
    sp_gguf g = {0};
    gw_file(w, &file);
    assert_int_equal(parse(&file, &g), code);
    assert_detail(NAME);
    assert_detail(text);
    assert_null(g.path); /* outputs are unchanged */
    sp_vec_fini(&file);
}

/* Every type of value, an array of each kind, three tensors. */
static void fill(gguf_writer *w, uint32_t version)
{
    gw_begin(w, version);
    gw_text(w, "general.architecture", "llama");
    gw_number(w, "a.u8", SP_GGUF_U8, 200, 1);
    gw_number(w, "a.i8", SP_GGUF_I8, (uint8_t)-3, 1);
    gw_number(w, "a.u16", SP_GGUF_U16, 60000, 2);
    gw_number(w, "a.i16", SP_GGUF_I16, (uint16_t)-300, 2);
    gw_u32(w, "a.u32", 4000000000u);
    gw_number(w, "a.i32", SP_GGUF_I32, (uint32_t)-70000, 4);
    gw_f32(w, "a.f32", 0.5f);
    gw_bool(w, "a.bool", true);
    gw_number(w, "a.u64", SP_GGUF_U64, (uint64_t)1 << 40, 8);
    gw_number(w, "a.i64", SP_GGUF_I64, (uint64_t)-5, 8);
    gw_number(w, "a.f64", SP_GGUF_F64, 0xbff8000000000000u, 8);
    gw_texts(w, "a.texts", 3, (const char *const[]){"one", "", "three"});
    gw_f32s(w, "a.floats", 2, (const float[]){1.25f, -2.0f});
    gw_i32s(w, "a.empty", 0, NULL);
    gw_tensor(w, "t.matrix", GGUF_F32, 3, 5, 1);
    gw_tensor(w, "t.vector", GGUF_F16, 0, 7, 2);
    gw_tensor(w, "t.foreign", GGUF_IQ2_XS, 1, 256, 3);
}

static double number(const sp_gguf *g, const char *key)
{
    double x = -99;
    const sp_gguf_entry *e = sp_gguf_find(g, key);
    assert_non_null(e);
    assert_true(sp_gguf_number(e, 0, &x));
    return x;
}

static void check_metadata(const sp_gguf *g)
{
    static const struct {
        const char *key;
        double value;
    } want[] = {{"a.u8", 200},         {"a.i8", -3},   {"a.u16", 60000}, {"a.i16", -300},
                {"a.u32", 4000000000}, {"a.f32", 0.5}, {"a.bool", 1},    {"a.i32", -70000},
                {"a.u64", 0x1p40},     {"a.i64", -5},  {"a.f64", -1.5}};
    for (size_t i = 0; i < SP_COUNT(want); i++)
        assert_true(number(g, want[i].key) == want[i].value);
    sp_text_view s, list[3];
    assert_int_equal(sp_gguf_text(g, "general.architecture", &s), SP_OK);
    assert_true(sp_view_is(s, "llama"));
    assert_int_equal(sp_gguf_text(g, "no.such", &s), SP_OK);
    assert_null(s.s);
    assert_int_equal(sp_gguf_text(g, "a.u8", &s), SP_E_FORMAT);
    assert_detail("a.u8: is u8, not a string");
    const sp_gguf_entry *e = sp_gguf_find(g, "a.texts");
    assert_true(e->is_array && e->n == 3);
    sp_gguf_strings(e, 3, list);
    assert_true(sp_view_is(list[0], "one") && list[1].n == 0 && sp_view_is(list[2], "three"));
    double x;
    assert_false(sp_gguf_number(e, 0, &x));
    assert_true(sp_gguf_number(sp_gguf_find(g, "a.floats"), 1, &x) && x == -2);
    assert_false(sp_gguf_number(sp_gguf_find(g, "a.floats"), 2, &x));
    assert_int_equal(sp_gguf_find(g, "a.empty")->n, 0);
    assert_null(sp_gguf_find(g, "a.u"));
}

static void check_tensors(const sp_gguf *g)
{
    assert_int_equal(g->tensors.list.n, 3);
    const sp_tensor *t = sp_tensor_find(&g->tensors, "t.matrix", 8);
    assert_non_null(t);
    assert_int_equal(t->dtype, SP_F32);
    assert_true(t->n_dims == 2 && t->shape[0] == 3 && t->shape[1] == 5);
    assert_int_equal(t->n_bytes, 60);
    assert_int_equal(t->offset, g->data_offset);
    float first;
    memcpy(&first, t->data, 4);
    assert_true(first == 12.0f / 64);
    t = sp_tensor_find(&g->tensors, "t.vector", 8);
    assert_true(t->n_dims == 1 && t->shape[0] == 7 && t->n_bytes == 14 && t->offset % 32 == 0);
    assert_string_equal(t->type, "f16");
    t = sp_tensor_find(&g->tensors, "t.foreign", 9);
    assert_int_equal(t->dtype, SP_DTYPE_N);
    assert_string_equal(t->type, "iq2_xs");
    assert_int_equal(t->n_bytes, 74);
    assert_null(sp_tensor_find(&g->tensors, "t.matri", 7));
}

static void reads_versions_2_and_3(void **state)
{
    for (uint32_t version = 2; version <= 3; version++) {
        gguf_writer w;
        sp_bytes file = {0};
        sp_gguf g;
        fill(&w, version);
        gw_file(&w, &file);
        assert_int_equal(parse(&file, &g), SP_OK);
        assert_int_equal(g.version, version);
        check_metadata(&g);
        check_tensors(&g);
        sp_gguf_close(&g);
        sp_vec_fini(&file);
        gw_end(&w);
    }
}

static void reads_from_disk(void **state)
{
    char path[] = "/tmp/spolia-gguf-XXXXXX";
    gguf_writer w;
    sp_bytes file = {0};
    sp_gguf g;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    fill(&w, 3);
    gw_file(&w, &file);
    assert_int_equal(write(fd, file.v, file.n), (ssize_t)file.n);
    close(fd);
    assert_int_equal(sp_gguf_open(path, &g), SP_OK);
    check_tensors(&g);
    sp_gguf_close(&g);
    unlink(path);
    assert_int_equal(sp_gguf_open(path, &g), SP_E_IO);
    assert_detail(path);
    sp_vec_fini(&file);
    gw_end(&w);
}

static void honours_alignment(void **state)
{
    const uint32_t all[] = {8, 256, 1u << 20};
    for (size_t i = 0; i < 3; i++) {
        gguf_writer w;
        sp_bytes file = {0};
        sp_gguf g;
        gw_begin(&w, 3);
        w.alignment = all[i];
        gw_u32(&w, "general.alignment", all[i]);
        gw_tensor(&w, "a", GGUF_F32, 0, 3, 1);
        gw_tensor(&w, "b", GGUF_F32, 0, 3, 2);
        gw_file(&w, &file);
        assert_int_equal(parse(&file, &g), SP_OK);
        assert_int_equal(g.data_offset % all[i], 0);
        assert_in_range(g.data_offset, 1, SP_MAX(256, all[i])); /* the header has less than 256 bytes */
        assert_int_equal(g.tensors.list.v[1].offset, g.data_offset + SP_ROUND_UP(12, all[i]));
        sp_gguf_close(&g);
        sp_vec_fini(&file);
        gw_end(&w);
    }
}

/* -- damaged files -------------------------------------------------------------------------- */

static void every_prefix_is_an_error(void **state)
{
    gguf_writer w;
    sp_bytes file = {0};
    sp_gguf g;
    fill(&w, 3);
    gw_file(&w, &file);
    for (size_t n = file.n; n-- > 0;) {
        assert_int_equal(parse(&(sp_bytes){.v = file.v, .n = n}, &g), SP_E_FORMAT);
        assert_detail(NAME ": ");
        assert_true(strstr(sp_error_detail(), "header") || strstr(sp_error_detail(), "a.") ||
                    strstr(sp_error_detail(), "general.") || strstr(sp_error_detail(), "tensor") ||
                    strstr(sp_error_detail(), "metadata entry"));
    }
    sp_vec_fini(&file);
    gw_end(&w);
}

/* Any flipped bit of the header gives an error or other values, never an invalid access. */
static void every_flipped_bit_is_harmless(void **state)
{
    gguf_writer w;
    sp_bytes file = {0};
    sp_gguf g;
    size_t n_refused = 0;
    fill(&w, 3);
    gw_file(&w, &file);
    for (size_t bit = 0; bit < 8 * gw_head_bytes(&w); bit++) {
        file.v[bit / 8] ^= (char)(1 << bit % 8);
        if (parse(&file, &g) == SP_OK) {
            sp_gguf_close(&g);
        } else {
            assert_detail(NAME);
            n_refused++;
        }
        file.v[bit / 8] ^= (char)(1 << bit % 8);
    }
    assert_true(n_refused > 1000);
    sp_vec_fini(&file);
    gw_end(&w);
}

/* Overwrites n bytes of a good file at `at`, counted from the end of the entries when from_tensors.
 */
static void refuse_patched(size_t at, uint64_t x, int n, sp_err code, const char *text)
{
    gguf_writer w;
    sp_bytes file = {0};
    sp_gguf g = {0};
    fill(&w, 3);
    gw_file(&w, &file);
    for (int i = 0; i < n; i++) file.v[at + (size_t)i] = (char)(x >> (8 * i));
    assert_int_equal(parse(&file, &g), code);
    assert_detail(NAME ": ");
    assert_detail(text);
    sp_vec_fini(&file);
    gw_end(&w);
}

static void wrong_header_fields(void **state)
{
    refuse_patched(0, 'X', 1, SP_E_FORMAT, "not a GGUF file");
    refuse_patched(4, 1, 4, SP_E_UNSUPPORTED, "version 1 ");
    refuse_patched(4, 4, 4, SP_E_UNSUPPORTED, "version 4 ");
    refuse_patched(4, 3u << 24, 4, SP_E_UNSUPPORTED, "big-endian file, version 3");
    refuse_patched(8, UINT64_MAX, 8, SP_E_FORMAT, "18446744073709551615 tensors do not");
    refuse_patched(8, 1000, 8, SP_E_FORMAT, "header: 1000 tensors do not");
    refuse_patched(16, (uint64_t)1 << 63, 8, SP_E_FORMAT, "metadata entries do not");
    refuse_patched(24, UINT64_MAX - 7, 8, SP_E_FORMAT, "metadata entry 1 of 15: key: needs");
}

static void wrong_metadata(void **state)
{
    static const struct {
        uint32_t type, element;
        uint64_t n;
        sp_err code;
        const char *text;
    } cases[] = {
        {13, 0, 0, SP_E_FORMAT, "bad.key: unknown value type 13"},
        {SP_GGUF_ARRAY, 77, 0, SP_E_FORMAT, "bad.key: unknown value type 77"},
        {SP_GGUF_ARRAY, SP_GGUF_ARRAY, 1, SP_E_UNSUPPORTED, "bad.key: an array of arrays"},
        {SP_GGUF_ARRAY, SP_GGUF_F64, (uint64_t)1 << 61, SP_E_FORMAT,
         "bad.key: 2305843009213693952"},
        {SP_GGUF_ARRAY, SP_GGUF_STRING, UINT64_MAX, SP_E_FORMAT, "bad.key: 18446744073709551615"},
        {SP_GGUF_ARRAY, SP_GGUF_U8, 1, SP_E_FORMAT,
         "bad.key: 1 elements do not fit in the 0 bytes"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        gguf_writer w;
        gw_begin(&w, 3);
        gw_key(&w, "bad.key", cases[i].type);
        gw_int(&w.entries, cases[i].element, 4);
        gw_int(&w.entries, cases[i].n, 8);
        refuse(&w, cases[i].code, cases[i].text);
        gw_end(&w);
    }
}

static void wrong_alignment(void **state)
{
    for (uint32_t i = 0; i < 4; i++) {
        gguf_writer w;
        gw_begin(&w, 3);
        gw_u32(&w, "general.alignment", (const uint32_t[]){0, 4, 48, 1u << 21}[i]);
        refuse(&w, SP_E_FORMAT, "general.alignment: not a power of two");
        gw_end(&w);
    }
    gguf_writer w;
    gw_begin(&w, 3);
    gw_text(&w, "general.alignment", "32");
    refuse(&w, SP_E_FORMAT, "general.alignment");
    gw_end(&w);
}

static void names_are_unique(void **state)
{
    gguf_writer w;
    gw_begin(&w, 3);
    gw_u32(&w, "twice", 1);
    gw_u32(&w, "once", 1);
    gw_u32(&w, "twice", 2);
    refuse(&w, SP_E_FORMAT, "twice: the key occurs twice");
    gw_end(&w);
    gw_begin(&w, 3);
    gw_tensor(&w, "t", GGUF_F32, 0, 8, 1);
    gw_tensor(&w, "t", GGUF_F32, 0, 8, 1);
    refuse(&w, SP_E_FORMAT, "tensor t: is listed twice");
    gw_end(&w);
}

static void wrong_tensors(void **state)
{
    static const struct {
        uint32_t type;
        int n_dims;
        uint64_t dims[5], offset;
        const char *text;
    } cases[] = {
        {GGUF_F32, 0, {0}, 0, "0 dimensions"},
        {GGUF_F32, 5, {1, 1, 1, 1, 1}, 0, "5 dimensions"},
        {GGUF_F32, 2, {4, 0}, 0, "a dimension of 0"},
        {GGUF_F32, 2, {4, UINT64_MAX}, 0, "a dimension of 18446744073709551615"},
        {GGUF_F32, 2, {(uint64_t)1 << 32, (uint64_t)1 << 32}, 0, "more than 2^63 elements"},
        {GGUF_F32, 1, {(uint64_t)1 << 62}, 0, "over 2^63 bytes"},
        {GGUF_F32, 1, {17}, 0, "needs 68 bytes at offset 64, the file has 128"},
        {GGUF_Q8_0, 1, {33}, 0, "rows of 33 are not whole groups of 32 (q8_0)"},
        {GGUF_F32, 1, {1}, 33, "offset 33 is not a multiple of 32"},
        {GGUF_F32, 1, {1}, 64, "needs 4 bytes at offset 128, the file has 128"},
        {GGUF_F32, 1, {1}, UINT64_MAX - 31, "offset 18446744073709551584 is outside the file"},
        {4000000000u, 1, {1}, 96, "needs 0 bytes at offset 160, the file has 128"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        gguf_writer w;
        gw_begin(&w, 3);
        for (int k = 0; k < 64; k++) gw_raw(&w.data, "", 1);
        gw_describe(&w, "t", cases[i].type, cases[i].n_dims, cases[i].dims, cases[i].offset);
        refuse(&w, SP_E_FORMAT, cases[i].text);
        gw_end(&w);
    }
}

static void tensors_do_not_overlap(void **state)
{
    gguf_writer w;
    gw_begin(&w, 3);
    gw_tensor(&w, "first", GGUF_F32, 0, 16, 1);
    gw_tensor(&w, "second", GGUF_F32, 0, 8, 1);
    gw_describe(&w, "third", GGUF_F32, 1, (const uint64_t[]){2}, 32);
    refuse(&w, SP_E_FORMAT, "tensor third: its bytes overlap those of first");
    gw_end(&w);
}

/* Bytes of 256 elements, as in the format's own package. */
static void foreign_types_have_their_sizes(void **state)
{
    static const struct {
        uint32_t id;
        const char *name;
        size_t n_bytes;
    } types[] = {{9, "q8_1", 320},    {10, "q2_k", 84},   {11, "q3_k", 110},    {15, "q8_k", 292}, {16, "iq2_xxs", 66},
                 {17, "iq2_xs", 74},  {18, "iq3_xxs", 98}, {19, "iq1_s", 50},   {20, "iq4_nl", 144}, {21, "iq3_s", 110},
                 {22, "iq2_s", 82},   {23, "iq4_xs", 136}, {24, "i8", 256},     {25, "i16", 512},  {26, "i32", 1024},
                 {27, "i64", 2048},   {28, "f64", 2048},   {29, "iq1_m", 56},   {34, "tq1_0", 54}, {35, "tq2_0", 66},
                 {39, "mxfp4", 136}};
    for (size_t i = 0; i < SP_COUNT(types); i++) {
        gguf_writer w;
        sp_bytes file = {0};
        sp_gguf g;
        gw_begin(&w, 3);
        gw_describe(&w, "t", types[i].id, 1, &(uint64_t){256}, 0);
        for (int k = 0; k < 256; k++) gw_int(&w.data, 0, 8);
        gw_file(&w, &file);
        assert_int_equal(parse(&file, &g), SP_OK);
        assert_string_equal(g.tensors.list.v[0].type, types[i].name);
        assert_int_equal(g.tensors.list.v[0].n_bytes, types[i].n_bytes);
        sp_gguf_close(&g);
        sp_vec_fini(&file);
        gw_end(&w);
    }
}

/* A tensor of an unknown type is listed; its size is unknown. */
static void unknown_types_are_listed(void **state)
{
    gguf_writer w;
    sp_bytes file = {0};
    sp_gguf g;
    gw_begin(&w, 3);
    gw_describe(&w, "t", 4000000000u, 1, (const uint64_t[]){5}, 0);
    gw_pad(&w.data, 32);
    gw_raw(&w.data, "x", 1);
    gw_file(&w, &file);
    assert_int_equal(parse(&file, &g), SP_OK);
    assert_string_equal(g.tensors.list.v[0].type, "type 4000000000");
    assert_int_equal(g.tensors.list.v[0].dtype, SP_DTYPE_N);
    assert_null(g.tensors.list.v[0].data);
    sp_gguf_close(&g);
    sp_vec_fini(&file);
    gw_end(&w);
}

static void every_failed_allocation_is_reported(void **state)
{
    gguf_writer w;
    sp_bytes file = {0};
    sp_gguf g;
    sp_err err = SP_E_NOMEM;
    long n = 0;
    fill(&w, 3);
    gw_file(&w, &file);
    while (err != SP_OK) {
        sp_fault_after(++n);
        err = sp_gguf_parse((const uint8_t *)file.v, file.n, NAME, &g);
        sp_fault_after(-1);
        if (err != SP_OK) assert_int_equal(err, SP_E_NOMEM);
    }
    assert_true(n > 4);
    sp_gguf_close(&g);
    sp_vec_fini(&file);
    gw_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_versions_2_and_3),
        cmocka_unit_test(reads_from_disk),
        cmocka_unit_test(honours_alignment),
        cmocka_unit_test(every_prefix_is_an_error),
        cmocka_unit_test(every_flipped_bit_is_harmless),
        cmocka_unit_test(wrong_header_fields),
        cmocka_unit_test(wrong_metadata),
        cmocka_unit_test(wrong_alignment),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(wrong_tensors),
        cmocka_unit_test(tensors_do_not_overlap),
        cmocka_unit_test(foreign_types_have_their_sizes),
        cmocka_unit_test(unknown_types_are_listed),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("model/gguf", tests, NULL, forget);
}
