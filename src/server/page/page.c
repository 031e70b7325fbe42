#include "server/page/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "server/http/reply.h"

/* -- the files --------------------------------------------------------------------------------- */

/* Symbol, name and type of each. `make` compresses src/server/page/files/NAME to SRV_PAGE_FILES/NAME.gz. */
#define FILES(X)                                                \
    X(index_html, "index.html", "text/html; charset=utf-8")     \
    X(style_css, "style.css", "text/css; charset=utf-8")        \
    X(icon_svg, "icon.svg", "image/svg+xml")                    \
    X(main_js, "main.js", SCRIPT)                               \
    X(texts_js, "texts.js", SCRIPT)                             \
    X(dom_js, "dom.js", SCRIPT)                                 \
    X(server_js, "server.js", SCRIPT)                           \
    X(markdown_js, "markdown.js", SCRIPT)                       \
    X(account_js, "account.js", SCRIPT)                         \
    X(conversations_js, "conversations.js", SCRIPT)             \
    X(ask_js, "ask.js", SCRIPT)                                 \
    X(documents_js, "documents.js", SCRIPT)                     \
    X(charts_js, "charts.js", SCRIPT)                           \
    X(copies_js, "copies.js", SCRIPT)                           \
    X(cite_js, "cite.js", SCRIPT)                               \
    X(graph_js, "graph.js", SCRIPT)                             \
    X(watch_js, "watch.js", SCRIPT)

#define SCRIPT "text/javascript; charset=utf-8"

#define EMBED(symbol, name, type)                                                     \
    __asm__(".pushsection .rodata\n"                                                  \
            "page_" #symbol ":\n.incbin \"" SRV_PAGE_FILES "/" name ".gz\"\n"         \
            "page_" #symbol "_end:\n.popsection\n");                                  \
    extern const unsigned char page_##symbol[], page_##symbol##_end[];
FILES(EMBED)

typedef struct page_file {
    const char *name, *type;
    const unsigned char *data, *end; /* a gzip file */
} page_file;

#define ROW(symbol, name, type) {name, type, page_##symbol, page_##symbol##_end},
static const page_file files[] = {FILES(ROW)};

/* A gzip file ends with the CRC-32 of the plain bytes and their number. */
enum { TRAILER_BYTES = 8 };

static uint32_t word_before(const unsigned char *end)
{
    return (uint32_t)end[-4] | (uint32_t)end[-3] << 8 | (uint32_t)end[-2] << 16 | (uint32_t)end[-1] << 24;
}

static uint32_t plain_size(const page_file *f)
{
    return word_before(f->end);
}

static uint32_t checksum(const page_file *f)
{
    return word_before(f->end - TRAILER_BYTES / 2);
}

static const page_file *find(const char *path)
{
    static const char folder[] = "/page/";
    const char *name = strcmp(path, "/") == 0 ? "index.html" : path + strlen(folder);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(files[i].name, name) == 0) return &files[i];
    return NULL;
}

/* inflate_file -- the plain bytes, allocated; NULL: out of memory. */
static char *inflate_file(const page_file *f)
{
    const int gzip = 16 + MAX_WBITS;
    size_t n = plain_size(f);
    char *out = malloc(n + 1);
    z_stream z = {.next_in = (unsigned char *)f->data,
                  .avail_in = (unsigned)(f->end - f->data),
                  .next_out = (unsigned char *)out,
                  .avail_out = (unsigned)n};
    if (!out || inflateInit2(&z, gzip) != Z_OK) {
        free(out);
        return NULL;
    }
    bool whole = inflate(&z, Z_FINISH) == Z_STREAM_END;
    inflateEnd(&z);
    if (whole) return out;
    free(out);
    return NULL;
}

/* -- replies ----------------------------------------------------------------------------------- */

/* Scripts and styles are the server's own files, and the page talks to nobody else. */
static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                             "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static const char *header(const srv_call *call, const char *name)
{
    return MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, name);
}

/* response_of -- the file as the client can read it; NULL: out of memory. */
static struct MHD_Response *response_of(const page_file *f, bool gzip)
{
    struct MHD_Response *r;
    char *plain = gzip ? NULL : inflate_file(f);
    if (gzip)
        r = MHD_create_response_from_buffer((size_t)(f->end - f->data), (void *)f->data, MHD_RESPMEM_PERSISTENT);
    else
        r = plain ? MHD_create_response_from_buffer(plain_size(f), plain, MHD_RESPMEM_MUST_FREE) : NULL;
    if (!r) free(plain);
    if (r && gzip) srv_add_header(r, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
    return r;
}

static void add_headers(struct MHD_Response *r, const page_file *f, const char *tag)
{
    srv_add_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, f->type);
    srv_add_header(r, MHD_HTTP_HEADER_ETAG, tag);
    srv_add_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    srv_add_header(r, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    srv_add_header(r, "Content-Security-Policy", policy);
    srv_add_header(r, "X-Content-Type-Options", "nosniff");
    srv_add_header(r, "Referrer-Policy", "no-referrer");
}

/* takes_gzip -- whether an Accept-Encoding names gzip, not with a weight of 0. */
static bool takes_gzip(const char *encodings)
{
    static const char weight[] = "q=";
    const char *at = encodings ? strstr(encodings, "gzip") : NULL;
    if (!at) return false;
    at += strlen("gzip");
    at += strspn(at, " \t;");
    return strncmp(at, weight, sizeof weight - 1) != 0 || strtod(at + sizeof weight - 1, NULL) > 0;
}

srv_sent srv_page(srv_call *call)
{
    char tag[32];
    const page_file *f = call->s->o.no_page ? NULL : find(call->path);
    if (!f) return srv_reply_error(call->connection, 404, NULL, NULL, "there is no such path");
    const char *known = header(call, MHD_HTTP_HEADER_IF_NONE_MATCH);
    const bool gzip = takes_gzip(header(call, MHD_HTTP_HEADER_ACCEPT_ENCODING));
    snprintf(tag, sizeof tag, "\"%08x%s\"", checksum(f), gzip ? "-gzip" : "");
    bool same = known && strstr(known, tag);
    struct MHD_Response *r =
        same ? MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT) : response_of(f, gzip);
    if (!r) return srv_reply_error(call->connection, 503, NULL, "out_of_memory", "out of memory");
    add_headers(r, f, tag);
    srv_sent sent = srv_send(call->connection, same ? 304 : 200, r);
    MHD_destroy_response(r);
    return sent;
}
