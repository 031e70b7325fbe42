/* tokenizer.json from any bytes; after a NUL byte, tokenizer_config.json. What loads must encode
 * and decode without a fault, whatever it says. */
#include <stdlib.h>
#include <string.h>

#include "model/json_file.h"
#include "model/tokenizer/tokenizer_json.h"

static void require(bool holds)
{
    if (!holds) abort();
}

static void use(const sp_tokenizer *t, const char *text, size_t n)
{
    for (unsigned flags = 0; flags < 8; flags++) {
        sp_tokens ids = {0};
        sp_bytes back = {0};
        sp_text_stream s;
        require(sp_tokenizer_encode(t, text, n, flags, &ids) == SP_OK);
        require(sp_tokenizer_decode(t, ids.v, ids.n, flags & SP_TOK_SPECIAL, &back) == SP_OK);
        sp_text_stream_init(&s, t);
        for (size_t i = 0; i < ids.n; i++) {
            require(sp_text_stream_push(&s, ids.v[i], &back) == SP_OK);
            (void)sp_tokenizer_is_end(t, ids.v[i]);
        }
        require(sp_text_stream_flush(&s, &back) == SP_OK);
        sp_vec_fini(&ids);
        sp_vec_fini(&back);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *text = (const char *)data, *nul = n ? memchr(text, '\0', n) : NULL;
    size_t n_root = nul ? (size_t)(nul - text) : n;
    json_t *root = NULL, *config = NULL;
    sp_tokenizer *t = NULL;
    if (sp_json_parse(n_root ? text : "", n_root, "fuzz.json", &root) != SP_OK) return 0;
    if (nul && sp_json_parse(nul + 1, n - n_root - 1, "config.json", &config) != SP_OK)
        config = NULL;
    sp_err err = sp_tokenizer_parse(root, config, "fuzz.json", &t);
    require(err == SP_OK || err == SP_E_FORMAT || err == SP_E_UNSUPPORTED || err == SP_E_LIMIT);
    require((err == SP_OK) == (t != NULL));
    if (t) use(t, text, SP_MIN(n, 256));
    if (t) use(t, "It's  <s>a\xE2\x96\x81 b\xFF 12\n\n", 20);
    sp_tokenizer_destroy(t);
    json_decref(root);
    json_decref(config);
    return 0;
}
