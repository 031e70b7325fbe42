/* tokenize.c -- `spolia tokenize`: the token ids of a text, and the bytes of each. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/commands.h"

/* A piece in quotes: printable ASCII as it is, everything else escaped byte by byte, so that an
 * incomplete character is visible. */
static void print_quoted(const char *s, size_t n)
{
    static const char escaped[] = "\n\t\r\"\\", letters[] = "ntr\"\\";
    putchar('"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        const char *named = c ? strchr(escaped, c) : NULL;
        if (named)
            printf("\\%c", letters[named - escaped]);
        else if (c >= 0x20 && c < 0x7F)
            putchar(c);
        else
            printf("\\x%02x", c);
    }
    putchar('"');
}

static void print_json(const int32_t *ids, size_t n)
{
    printf("{\"tokens\": [");
    for (size_t i = 0; i < n; i++) printf("%s%" PRId32, i ? ", " : "", ids[i]);
    puts("]}");
}

static sp_err print_lines(const sp_vocab *v, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *piece;
        size_t len;
        sp_err err = sp_vocab_piece(v, ids[i], &piece, &len);
        if (err != SP_OK) return err;
        printf("%8" PRId32 "  ", ids[i]);
        print_quoted(piece, len);
        putchar('\n');
        sp_buffer_free(piece);
    }
    return SP_OK;
}

static int tokenize(const char *model, const char *text, size_t n, bool special, bool as_json)
{
    sp_vocab *v = NULL;
    int32_t *ids = NULL;
    size_t n_ids = 0;
    sp_err err = sp_vocab_open(model, &v);
    if (err != SP_OK) return cli_fail(err);
    err = sp_vocab_encode(v, text, n, special, &ids, &n_ids);
    if (err == SP_OK && as_json) print_json(ids, n_ids);
    if (err == SP_OK && !as_json) err = print_lines(v, ids, n_ids);
    int code = err == SP_OK ? 0 : cli_fail(err);
    sp_buffer_free(ids);
    sp_vocab_close(v);
    return code;
}

int cmd_tokenize(int argc, char **argv)
{
    const char *model = NULL, *text = NULL, *file = NULL;
    bool plain = false, as_json = false;
    const opt table[] = {
        {OPT_STRING, "model", 'm', "PATH", &model,
         "GGUF file (a vocabulary is enough), Hugging Face folder, or hf:ORG/REPO",
         .is_model = true},
        {OPT_STRING, "prompt", 'p', "TEXT", &text, "the text"},
        {OPT_STRING, "file", 'f', "FILE", &file, "read the text from a file, - for standard input"},
        {OPT_FLAG, "no-special", 0, NULL, &plain, "no BOS; texts of special tokens are plain text"},
        {OPT_FLAG, "json", 0, NULL, &as_json, "print {\"tokens\": [ids]}"},
        {0},
    };
    const opt *const tables[] = {table, NULL};
    int at =
        opt_parse(argc, argv,
                  &(opt_usage){"tokenize -m MODEL (-p TEXT | -f FILE) [--no-special] [--json]",
                               "Prints the tokens of a text, one a line: its id and its bytes."},
                  tables);
    if (at < 0) return -1 - at;
    if (at != argc || !model || !text == !file)
        return cli_fail_with("tokenize: give a model with -m, and one text, with -p or -f"), 2;
    size_t n = text ? strlen(text) : 0;
    char *read = file ? cli_read_file(file, &n) : NULL;
    if (file && !read) return 1;
    int code = tokenize(model, read ? read : text, n, !plain, as_json);
    free(read);
    return code;
}
