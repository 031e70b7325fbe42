/* test_gguf_split.c -- models in several files: what is joined, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "gguf_writer.h"
#include "temp_folder.h"

static temp_folder folder;

static int make(void **state)
{
    temp_folder_make(&folder);
    return 0;
}

static int end(void **state)
{
    temp_folder_remove(&folder);
    return 0;
}

/* n_mapped -- files of the folder that the process has mapped. */
static int n_mapped(void)
{
    char line[1024];
    FILE *maps = fopen("/proc/self/maps", "r");
    int n = 0;
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) n += strstr(line, folder.path) != NULL;
    fclose(maps);
    return n;
}

/* Writes file `no` (from 0) of `count`, with one tensor, under a name. total: of tensors; -1: not said. */
static void put(const char *name, int no, int count, int total, const char *tensor)
{
    gguf_writer w = {0};
    sp_bytes file = {0};
    gw_begin(&w, 3);
    gw_number(&w, "split.no", SP_GGUF_U16, (uint64_t)no, 2);
    gw_number(&w, "split.count", SP_GGUF_U16, (uint64_t)count, 2);
    if (total >= 0) gw_number(&w, "split.tensors.count", SP_GGUF_I32, (uint64_t)total, 4);
    gw_tensor(&w, tensor, GGUF_F32, 1, 4, no + 1);
    gw_file(&w, &file);
    temp_folder_write(&folder, name, file.v, file.n);
    sp_vec_fini(&file);
    gw_end(&w);
}

static void refuse(const char *name, sp_err code, const char *text)
{
    sp_gguf g = {0};
    assert_int_equal(sp_gguf_open(temp_folder_file(&folder, name), &g), code);
    assert_detail(text);
    assert_null(g.path);
    assert_int_equal(n_mapped(), 0);
}

static void the_files_of_a_model_are_one_directory(void **state)
{
    sp_gguf g;
    put("m-00001-of-00003.gguf", 0, 3, 3, "a");
    put("m-00002-of-00003.gguf", 1, 3, -1, "b");
    put("m-00003-of-00003.gguf", 2, 3, 3, "c");
    assert_int_equal(sp_gguf_open(temp_folder_file(&folder, "m-00001-of-00003.gguf"), &g), SP_OK);
    assert_int_equal(g.tensors.list.n, 3);
    for (size_t i = 0; i < 3; i++) {
        const sp_tensor *t = sp_tensor_find(&g.tensors, (const char *)&"abc"[i], 1);
        const sp_file_map *map = i ? &g.parts.v[i - 1].map : &g.map;
        assert_non_null(t);
        assert_true(t->data >= map->data && t->data + t->n_bytes <= map->data + map->size);
    }
    assert_int_equal(n_mapped(), 3);
    sp_gguf_close(&g);
    assert_int_equal(n_mapped(), 0);
}

static void parts_that_do_not_fit_are_refused(void **state)
{
    put("m-00001-of-00002.gguf", 0, 2, 2, "a");
    refuse("m-00001-of-00002.gguf", SP_E_IO, "m-00002-of-00002.gguf");
    put("m-00002-of-00002.gguf", 1, 2, 2, "b");
    refuse("m-00002-of-00002.gguf", SP_E_ARG, "is file 2 of a model in 2 files: name the first");
    put("m-00002-of-00002.gguf", 1, 2, 2, "a");
    refuse("m-00001-of-00002.gguf", SP_E_FORMAT, "tensor a: is in ");
    put("m-00002-of-00002.gguf", 1, 3, 2, "b");
    refuse("m-00001-of-00002.gguf", SP_E_FORMAT, "file 2 of 3, not 2 of 2");
    put("m-00002-of-00002.gguf", 0, 2, 2, "b");
    refuse("m-00001-of-00002.gguf", SP_E_FORMAT, "file 1 of 2, not 2 of 2");
    put("m-00002-of-00002.gguf", 1, 2, 2, "b");
    put("m-00001-of-00002.gguf", 0, 2, 3, "a");
    refuse("m-00001-of-00002.gguf", SP_E_FORMAT, "split.tensors.count: 3, the 2 files have 2");
    put("m-00001-of-00002.gguf", 0, 2, 1, "a");
    refuse("m-00001-of-00002.gguf", SP_E_FORMAT, "split.tensors.count: 1, the 2 files have 2");
    put("other.gguf", 0, 2, 2, "a");
    refuse("other.gguf", SP_E_FORMAT, "the name does not end in -00001-of-00002.gguf");
}

static void one_file_of_one_is_a_whole_model(void **state)
{
    sp_gguf g;
    put("whole.gguf", 0, 1, 1, "a");
    assert_int_equal(sp_gguf_open(temp_folder_file(&folder, "whole.gguf"), &g), SP_OK);
    assert_int_equal(g.parts.n, 0);
    sp_gguf_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_files_of_a_model_are_one_directory, make, end),
        cmocka_unit_test_setup_teardown(parts_that_do_not_fit_are_refused, make, end),
        cmocka_unit_test_setup_teardown(one_file_of_one_is_a_whole_model, make, end),
    };
    return cmocka_run_group_tests_name("model/gguf_split", tests, NULL, NULL);
}
