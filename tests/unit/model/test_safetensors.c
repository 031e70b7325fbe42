/* test_safetensors.c -- the safetensors reader alone: one file in memory, and folders of shards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/json.h"
#include "model/json_file.h"
#include "model/safetensors.h"
#include "temp_folder.h"

#define NAME "some.safetensors"

static void assert_detail(const char *text)
{
    if (!strstr(sp_error_detail(), text))
        fail_msg("\"%s\" does not hold \"%s\"", sp_error_detail(), text);
}

/* A file of `header` and n_data bytes 0, 1, 2 ...; the header length in the file may be wrong. */
static size_t build(uint8_t *out, const char *header, uint64_t claimed, size_t n_data)
{
    size_t n = strlen(header);
    for (int i = 0; i < 8; i++) out[i] = (uint8_t)(claimed >> (8 * i));
    memcpy(out + 8, header, n);
    for (size_t i = 0; i < n_data; i++) out[8 + n + i] = (uint8_t)i;
    return 8 + n + n_data;
}

/* Parses a heap copy of exact size, so that a sanitizer detects every read past the end. The data
 * of the directory are freed afterwards. */
static sp_err parse_n(const uint8_t *file, size_t n, size_t *n_tensors)
{
    sp_safetensors s = {0};
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, file, n);
    sp_err err = sp_safetensors_parse(&s, copy, n, NAME);
    if (n_tensors) *n_tensors = s.tensors.list.n;
    sp_safetensors_close(&s);
    free(copy);
    return err;
}

static sp_err parse(const char *header, size_t n_data)
{
    uint8_t file[4096];
    return parse_n(file, build(file, header, strlen(header), n_data), NULL);
}

static const char good[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[24,32]},"
    "\"c\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[32,34]},"
    "\"d\":{\"dtype\":\"I64\",\"shape\":[0],\"data_offsets\":[34,34]},"
    "\"e\":{\"dtype\":\"F4_E2M1\",\"shape\":[3],\"data_offsets\":[34,36]}}  ";

static void reads_a_file(void **state)
{
    uint8_t file[1024];
    size_t n = build(file, good, strlen(good), 36);
    sp_safetensors s = {0};
    assert_int_equal(sp_safetensors_parse(&s, file, n, NAME), SP_OK);
    assert_int_equal(s.tensors.list.n, 5);
    const sp_tensor *t = sp_tensor_find(&s.tensors, "a", 1);
    assert_true(t->n_dims == 2 && t->shape[0] == 2 && t->shape[1] == 3 && t->n_bytes == 24);
    assert_int_equal(t->dtype, SP_F32);
    assert_ptr_equal(t->data, file + 8 + strlen(good));
    assert_string_equal(t->path, NAME);
    t = sp_tensor_find(&s.tensors, "b", 1);
    assert_true(t->dtype == SP_BF16 && t->data[0] == 24);
    assert_string_equal(t->type, "bf16"); /* one name for a type, whatever the file format */
    t = sp_tensor_find(&s.tensors, "c", 1);
    assert_true(t->dtype == SP_F16 && t->n_dims == 1 && t->shape[0] == 1);
    t = sp_tensor_find(&s.tensors, "d", 1);
    assert_true(t->dtype == SP_DTYPE_N && t->data == NULL);
    t = sp_tensor_find(&s.tensors, "e", 1);
    assert_true(t->dtype == SP_DTYPE_N && t->n_bytes == 2);
    assert_string_equal(t->type, "F4_E2M1");
    sp_safetensors_close(&s);
}

/* -- damaged files -------------------------------------------------------------------------- */

static void every_prefix_is_an_error(void **state)
{
    uint8_t file[1024];
    size_t n = build(file, good, strlen(good), 36);
    while (n-- > 0) {
        assert_int_equal(parse_n(file, n, NULL), SP_E_FORMAT);
        assert_detail(NAME ": ");
    }
}

static void every_flipped_bit_is_harmless(void **state)
{
    uint8_t file[1024];
    size_t n = build(file, good, strlen(good), 36), refused = 0, n_tensors;
    for (size_t bit = 0; bit < 8 * (8 + strlen(good)); bit++) {
        file[bit / 8] ^= (uint8_t)(1 << bit % 8);
        sp_err err = parse_n(file, n, &n_tensors);
        if (err != SP_OK) assert_detail(NAME ": ");
        refused += err != SP_OK;
        file[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_true(refused > 500);
}

static void wrong_headers(void **state)
{
    static const struct {
        uint64_t claimed;
        sp_err code;
        const char *header, *text;
    } cases[] = {
        {UINT64_MAX, SP_E_FORMAT, "{}", "header: needs 18446744073709551615 bytes at offset 8"},
        {3, SP_E_FORMAT, "{}", "header: needs 3 bytes at offset 8, the file has 10"},
        {0, SP_E_FORMAT, "{}", "line 1"},
        {2, SP_E_FORMAT, "[]", "not an object"},
        {3, SP_E_FORMAT, "{1}", "line 1"},
        {13, SP_E_FORMAT, "{\"a\":1,\"a\":2}", "duplicate"},
        {7, SP_E_FORMAT, "{\"a\":1}", "tensor a: description: is not an object"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        uint8_t file[256];
        size_t n = build(file, cases[i].header, cases[i].claimed, 0);
        assert_int_equal(parse_n(file, n, NULL), cases[i].code);
        assert_detail(NAME ": ");
        assert_detail(cases[i].text);
    }
}

/* A header nested deeper than any parser's stack should go. */
static void deep_json_is_refused(void **state)
{
    size_t depth = 200000, n = 8 + depth;
    uint8_t *file = malloc(n);
    assert_non_null(file);
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)depth >> (8 * i));
    memset(file + 8, '[', depth);
    assert_int_equal(parse_n(file, n, NULL), SP_E_FORMAT);
    assert_detail(NAME ": line 1: ");
    free(file);
}

static void wrong_tensors(void **state)
{
    static const struct {
        const char *tensor, *text;
    } cases[] = {
        {"\"shape\":[2],\"data_offsets\":[0,8]", "dtype: is not a string"},
        {"\"dtype\":\"F32\",\"data_offsets\":[0,8]", "shape: is not an array"},
        {"\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,2],\"data_offsets\":[0,8]",
         "shape: has more than five"},
        {"\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]",
         "shape: is not a list of sizes"},
        {"\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]",
         "shape: is not a list of sizes"},
        {"\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]",
         "more than 2^63 el"},
        {"\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,8]",
         "more than 2^63 by"},
        {"\"dtype\":\"F32\",\"shape\":[2]", "data_offsets: is not [begin, end]"},
        {"\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]",
         "data_offsets: is not [begin, end]"},
        {"\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]",
         "data_offsets: is not [begin, end]"},
        {"\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]",
         "[-8, 0] is not a range of the 16 by"},
        {"\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]",
         "[8, 0] is not a range of the 16 byt"},
        {"\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[10,18]",
         "[10, 18] is not a range of the 16"},
        {"\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,9223372036854775807]",
         "is not a range"},
        {"\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,9]",
         "data_offsets: 9 bytes, the shape requires 8"},
        {"\"dtype\":\"Q9\",\"shape\":[2],\"data_offsets\":[0,17]",
         "[0, 17] is not a range of the 16 b"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char header[512];
        snprintf(header, sizeof header, "{\"the.tensor\":{%s}}", cases[i].tensor);
        assert_int_equal(parse(header, 16), SP_E_FORMAT);
        assert_detail(NAME ": tensor the.tensor: ");
        assert_detail(cases[i].text);
    }
}

static void tensors_do_not_overlap(void **state)
{
    assert_int_equal(parse("{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[6,14]},"
                           "\"y\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
                           16),
                     SP_E_FORMAT);
    assert_detail("tensor x: its bytes overlap those of y");
}

/* -- folders -------------------------------------------------------------------------------- */

static void write_shard(const temp_folder *f, const char *name, const char *tensor)
{
    char header[256];
    uint8_t file[512];
    snprintf(header, sizeof header,
             "{\"%s\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", tensor);
    temp_folder_write(f, name, file, build(file, header, strlen(header), 8));
}

static void reads_one_file_or_shards(void **state)
{
    temp_folder f;
    sp_safetensors s;
    temp_folder_make(&f);
    assert_int_equal(sp_safetensors_open(f.path, &s), SP_E_IO);
    assert_detail("/model.safetensors: No such file");
    write_shard(&f, "model.safetensors", "alone");
    assert_int_equal(sp_safetensors_open(f.path, &s), SP_OK);
    assert_non_null(sp_tensor_find(&s.tensors, "alone", 5));
    sp_safetensors_close(&s);

    write_shard(&f, "x-2.safetensors", "two");
    write_shard(&f, "x-1.safetensors", "one");
    temp_folder_text(&f, "model.safetensors.index.json",
                     "{\"weight_map\":{\"two\":\"x-2.safetensors\",\"one\":\"x-1.safetensors\"}}");
    assert_int_equal(sp_safetensors_open(f.path, &s), SP_OK);
    assert_int_equal(s.files.n, 2);
    assert_int_equal(s.tensors.list.n, 2);
    assert_non_null(strstr(s.files.v[0].path, "/x-1.safetensors"));
    assert_true(sp_view_is(s.tensors.list.v[0].name, "one"));
    sp_safetensors_close(&s);
    temp_folder_remove(&f);
}

static void wrong_indexes(void **state)
{
    static const struct {
        const char *index;
        sp_err code;
        const char *text;
    } cases[] = {
        {"{\"weight_map\":{\"a\":\"s1\",\"b\":\"gone\"}}", SP_E_IO, "/gone: No such file"},
        {"{\"weight_map\":{\"a\":\"s2\",\"b\":\"s1\"}}", SP_E_FORMAT, "tensor a is not in s2"},
        {"{\"weight_map\":{\"a\":\"s1\",\"z\":\"s2\"}}", SP_E_FORMAT, "tensor z is not in s2"},
        {"{\"weight_map\":{\"a\":\"s1\",\"b\":\"twin\"}}", SP_E_FORMAT, "tensor a: is in "},
        {"{\"weight_map\":{\"a\":\"../s1\"}}", SP_E_FORMAT, "weight_map: a: not a file name"},
        {"{\"weight_map\":{\"a\":\"/s1\"}}", SP_E_FORMAT, "weight_map: a: not a file name"},
        {"{\"weight_map\":{\"a\":\"\"}}", SP_E_FORMAT, "weight_map: a: not a file name"},
        {"{\"weight_map\":{\"a\":\"..\"}}", SP_E_FORMAT, "weight_map: a: not a file name"},
        {"{\"weight_map\":{\"a\":7}}", SP_E_FORMAT, "weight_map: a: not a file name"},
        {"{\"weight_map\":{}}", SP_E_FORMAT, "weight_map: is not an object with entries"},
        {"{\"weight_map\":[]}", SP_E_FORMAT, "weight_map: is not an object with entries"},
        {"{}", SP_E_FORMAT, "weight_map: is not an object with entries"},
        {"{", SP_E_FORMAT, "index.json: line 1"},
    };
    temp_folder f;
    temp_folder_make(&f);
    write_shard(&f, "s1", "a");
    write_shard(&f, "s2", "b");
    write_shard(&f, "twin", "a");
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_safetensors s = {0};
        temp_folder_text(&f, "model.safetensors.index.json", cases[i].index);
        assert_int_equal(sp_safetensors_open(f.path, &s), cases[i].code);
        assert_detail(f.path);
        assert_detail(cases[i].text);
        assert_null(s.files.v);
    }
    temp_folder_remove(&f);
}

static void every_failed_allocation_is_reported(void **state)
{
    temp_folder f;
    sp_safetensors s;
    sp_err err = SP_E_NOMEM;
    long n = 0;
    temp_folder_make(&f);
    write_shard(&f, "s1", "a");
    write_shard(&f, "s2", "b");
    temp_folder_text(&f, "model.safetensors.index.json",
                     "{\"weight_map\":{\"a\":\"s1\",\"b\":\"s2\"}}");
    while (err != SP_OK) {
        sp_fault_after(++n);
        err = sp_safetensors_open(f.path, &s);
        sp_fault_after(-1);
        if (err != SP_OK) assert_int_equal(err, SP_E_NOMEM);
    }
    assert_true(n > 8);
    sp_safetensors_close(&s);
    temp_folder_remove(&f);
}

/* -- memory --------------------------------------------------------------------------------- */

static int n_left; /* allocations of jansson until one fails */

static void *take(size_t n)
{
    return --n_left == 0 ? NULL : malloc(n);
}

/* jansson calls a string without memory a syntax error, or cuts it. */
static void json_is_whole_or_memory_was_short(void **state)
{
    static const char text[] = "{\"a\": [1, \"b\"], \"a text that is longer than any first buffer is\": 12.5}";
    json_t *root;
    sp_err err = SP_E_NOMEM;
    int n = 1;
    sp_json_watch(take);
    for (; err != SP_OK; n++) {
        assert_true(n < 100);
        n_left = n;
        err = sp_json_parse(text, sizeof text - 1, "f", &root);
        if (err != SP_OK) assert_int_equal(err, SP_E_NOMEM);
    }
    assert_true(n > 10 && n_left > 0);
    assert_int_equal(json_object_size(root), 2);
    json_decref(root);
    json_set_alloc_funcs(malloc, free);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_file),
        cmocka_unit_test(every_prefix_is_an_error),
        cmocka_unit_test(every_flipped_bit_is_harmless),
        cmocka_unit_test(wrong_headers),
        cmocka_unit_test(deep_json_is_refused),
        cmocka_unit_test(wrong_tensors),
        cmocka_unit_test(tensors_do_not_overlap),
        cmocka_unit_test(reads_one_file_or_shards),
        cmocka_unit_test(wrong_indexes),
        cmocka_unit_test(every_failed_allocation_is_reported),
        cmocka_unit_test(json_is_whole_or_memory_was_short),
    };
    return cmocka_run_group_tests_name("model/safetensors", tests, NULL, NULL);
}
