#include "server/api/room.h"

#include <ctype.h>
#include <string.h>

#define SLACK 4 /* times the bytes of the longest tokens */

size_t srv_room_most(const sp_vocab *v, const sp_context_info *i)
{
    size_t longest = 1;
    for (int32_t id = 0; id < i->n_vocab; id++) {
        char *piece;
        size_t n;
        if (sp_vocab_piece(v, id, &piece, &n) != SP_OK) continue;
        if (n > longest) longest = n;
        sp_buffer_free(piece);
    }
    return SLACK * longest * (size_t)i->n_ctx;
}

/* n_bytes -- of a text; of blanks in a row only one counts. */
static size_t n_bytes(const json_t *text)
{
    const char *s = json_string_value(text);
    size_t n = 0;
    for (bool blank = false; s && *s; s++) {
        bool next = isspace((unsigned char)*s);
        n += !(blank && next);
        blank = next;
    }
    return n;
}

/* of_message -- a string, or the texts of its parts. */
static size_t of_message(const json_t *m)
{
    const json_t *content = json_object_get(m, "content"), *part;
    size_t n = n_bytes(content), i;
    json_array_foreach(content, i, part) n += n_bytes(json_is_string(part) ? part : json_object_get(part, "text"));
    return n;
}

static size_t of_document(const json_t *d)
{
    static const char *const names[] = {"text", "content", "page_content"};
    size_t n = n_bytes(d);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) n += n_bytes(json_object_get(d, names[i]));
    return n;
}

static bool check(const srv_call *call, srv_fields *f, const char *param, size_t n)
{
    if (n <= call->s->most_text) return false;
    srv_fields_refuse(f, param, "%s: %zu bytes of text cannot fit the context of %d tokens", param, n,
                      call->s->info.n_ctx);
    return true;
}

static size_t sum(const json_t *list, size_t of(const json_t *item))
{
    const json_t *item;
    size_t n = 0, i;
    json_array_foreach(list, i, item) n += of(item);
    return n;
}

/* check_prompts -- of completions: each is a request of its own. */
static bool check_prompts(const srv_call *call, srv_fields *f, const json_t *prompt)
{
    const json_t *item;
    size_t i;
    if (check(call, f, "prompt", n_bytes(prompt))) return true;
    json_array_foreach(prompt, i, item)
        if (check(call, f, "prompt", n_bytes(item))) return true;
    return false;
}

bool srv_room_lacks(const srv_call *call, srv_fields *f)
{
    const json_t *documents = srv_field(f, "documents");
    const json_t *arguments = srv_field(f, "chat_template_kwargs");
    if (!documents) documents = json_object_get(arguments, "documents");
    size_t n_documents = sum(documents, of_document);
    size_t n = sum(srv_field(f, "messages"), of_message);
    return check_prompts(call, f, srv_field(f, "prompt")) || check(call, f, "documents", n_documents) ||
           check(call, f, "messages", n + n_documents);
}
