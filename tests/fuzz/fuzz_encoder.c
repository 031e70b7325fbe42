/* The files beside an encoder's weights: config.json, modules.json, 1_Pooling/config.json,
 * config_sentence_transformers.json, sentence_bert_config.json and tokenizer_config.json are the parts of the input,
 * each ended by a byte 0xFF; an empty one is not there. Aborts when sizes or a recipe that were accepted cannot be
 * used. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "model/encoder/encoder_int.h"

static const char *const names[] = {"config.json",
                                    "modules.json",
                                    "1_Pooling/config.json",
                                    "config_sentence_transformers.json",
                                    "sentence_bert_config.json",
                                    "tokenizer_config.json"};
static char dir[64];

static void require(bool holds)
{
    if (!holds) abort();
}

static void remove_all(void)
{
    char path[128];
    for (size_t i = 0; i < SP_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/1_Pooling", dir);
    rmdir(path);
    rmdir(dir);
}

static void make(void)
{
    char path[128];
    snprintf(dir, sizeof dir, "/dev/shm/fuzz-encoder-%ld", (long)getpid());
    snprintf(path, sizeof path, "%s/1_Pooling", dir);
    require(mkdir(dir, 0700) == 0 && mkdir(path, 0700) == 0);
    atexit(remove_all);
}

static void put(const char *name, const void *bytes, size_t n)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    unlink(path);
    if (n == 0) return;
    FILE *f = fopen(path, "wb");
    require(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

static void check(const sp_encoder *m)
{
    const sp_encoder_sizes *s = &m->size;
    require(s->n_layers > 0 && s->n_embd > 0 && s->n_heads > 0 && s->n_embd % s->n_heads == 0 && s->n_ff > 0);
    require(s->n_ctx > 0 && s->n_skipped >= 0 && s->norm_eps >= 0); /* n_vocab, n_types: the weights have them */
    require(m->recipe.max_tokens > 0 && m->recipe.max_tokens <= s->n_ctx);
    for (int i = 0; i < SP_ENCODE_KINDS && !m->head; i++) require(m->recipe.prompt[i] != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t n)
{
    if (!*dir) make();
    for (size_t i = 0; i < SP_COUNT(names); i++) {
        const uint8_t *end = n ? memchr(in, 0xFF, n) : NULL;
        const size_t length = end ? (size_t)(end - in) : n;
        put(names[i], in, length);
        in += length + (end != NULL);
        n -= length + (end != NULL);
    }
    sp_encoder m = {0};
    (void)sp_path_is_encoder(dir);
    require(sp_model_files_create(dir, &m.files) == SP_OK);
    m.path = m.files->path;
    sp_err err = sp_encoder_config_of_folder(dir, &m);
    if (err == SP_OK) err = sp_encoder_recipe_of_folder(dir, &m);
    if (err == SP_OK) check(&m);
    sp_model_files_close(m.files);
    return 0;
}
