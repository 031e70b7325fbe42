/* A model folder in one input: config.json up to the first zero byte, then model.safetensors;
 * without a zero byte the whole is taken for both. Each ends in good order, and so does binding one
 * to the other. */
#include <stdlib.h>
#include <string.h>

#include "model/model_int.h"
#include "model/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_message(void)
{
    if (strncmp(sp_error_detail(), "fuzz: ", 6) != 0) abort();
}

static bool read_config(const uint8_t *data, size_t n, sp_config *c)
{
    json_t *root;
    sp_err err = sp_json_parse((const char *)data, n, "fuzz", &root);
    if (err == SP_OK) {
        err = sp_config_of_json(root, "fuzz", c);
        json_decref(root);
    }
    if (err != SP_OK) check_message();
    return err == SP_OK;
}

static void bind(const sp_safetensors *s, const sp_config *c)
{
    sp_model_files files = {0};
    sp_model m = {0};
    sp_arena_init(&files.arena);
    if (sp_weights_bind(&s->tensors, c, "fuzz", false, &files, &m) != SP_OK) check_message();
    sp_made_fini(&files.made);
    sp_arena_fini(&files.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sp_config c;
    sp_safetensors s = {0};
    const uint8_t *zero = memchr(data, 0, size);
    size_t n_config = zero ? (size_t)(zero - data) : size, from = zero ? n_config + 1 : 0;
    bool good = read_config(data, n_config, &c);
    if (sp_safetensors_parse(&s, data + from, size - from, "fuzz") != SP_OK)
        check_message();
    else if (good)
        bind(&s, &c);
    sp_safetensors_close(&s);
    return 0;
}
