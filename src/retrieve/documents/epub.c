/* epub.c -- EPUB: META-INF/container.xml names the package file; that lists the book's files (the
 * manifest) and which of them are read in which order (the spine). They are HTML. */
#include "retrieve/documents/archive_int.h"

#include <string.h>

#include "base/dict.h"

typedef struct book {
    sp_archive archive;
    sp_bytes package; /* path of the package file, NUL-terminated */
    sp_arena names;
    SP_VEC(const char *) files; /* of the manifest, relative to the package file */
    sp_dict by_id;              /* -> files */
    SP_VEC(uint32_t) spine;     /* -> files */
    sp_bytes text, title, page, markdown;
} book;

static sp_err find_package(book *b)
{
    sp_bytes own = {0};
    xmlTextReader *x = NULL;
    bool more = true, found = false;
    sp_err err = sp_archive_xml(&b->archive, "META-INF/container.xml", &own, &x);
    while (err == SP_OK && !found && (err = sp_xml_next(x, &more)) == SP_OK && more)
        if (sp_xml_is(x, XML_READER_TYPE_ELEMENT, "rootfile"))
            err = sp_xml_attribute(x, "full-path", &b->package, &found);
    if (err == SP_OK) err = sp_bytes_add(&b->package, "", 1);
    if (err == SP_OK && !found) err = sp_fail(SP_E_UNSUPPORTED, "container.xml names no book");
    if (x) xmlFreeTextReader(x);
    sp_vec_fini(&own);
    return err;
}

/* keep -- a copy of an attribute that lives as long as the book; "" when there is none. */
static sp_err keep(book *b, xmlTextReader *x, const char *name, const char **out)
{
    sp_bytes value = {0};
    bool found;
    sp_err err = sp_xml_attribute(x, name, &value, &found);
    char *copy = err == SP_OK ? sp_arena_take(&b->names, value.n + 1, 1) : NULL;
    if (err == SP_OK && !copy) err = sp_fail_nomem("a name in a book");
    if (err == SP_OK && value.n) memcpy(copy, value.v, value.n);
    if (err == SP_OK) *out = copy;
    sp_vec_fini(&value);
    return err;
}

static sp_err take_item(book *b, xmlTextReader *x)
{
    const char *id, *href;
    SP_TRY(keep(b, x, "id", &id));
    SP_TRY(keep(b, x, "href", &href));
    if (!*id || !*href) return SP_OK;
    SP_TRY(sp_vec_reserve(&b->files, 1));
    SP_TRY(sp_dict_put(&b->by_id, id, strlen(id), (uint32_t)b->files.n));
    b->files.v[b->files.n++] = href;
    return SP_OK;
}

static sp_err take_reference(book *b, xmlTextReader *x)
{
    const char *id;
    SP_TRY(keep(b, x, "idref", &id));
    uint32_t file = sp_dict_get(&b->by_id, id, strlen(id));
    if (file == SP_DICT_NONE) return SP_OK;
    SP_TRY(sp_vec_reserve(&b->spine, 1));
    b->spine.v[b->spine.n++] = file;
    return SP_OK;
}

static sp_err read_package(book *b)
{
    sp_bytes own = {0};
    xmlTextReader *x = NULL;
    bool more = true;
    sp_err err = sp_archive_xml(&b->archive, b->package.v, &own, &x);
    while (err == SP_OK && (err = sp_xml_next(x, &more)) == SP_OK && more) {
        if (sp_xml_is(x, XML_READER_TYPE_ELEMENT, "item")) err = take_item(b, x);
        if (sp_xml_is(x, XML_READER_TYPE_ELEMENT, "itemref")) err = take_reference(b, x);
    }
    if (x) xmlFreeTextReader(x);
    sp_vec_fini(&own);
    return err;
}

/* read_page -- one file of the spine, as Markdown at the end of the text; a missing one is passed
 * over. */
static sp_err read_page(book *b, const char *href)
{
    sp_bytes unused = {0}, path = {0};
    sp_err err = sp_archive_path(b->package.v, href, &path);
    if (err == SP_OK) err = sp_archive_read(&b->archive, path.v, &b->page);
    b->markdown.n = 0;
    if (err == SP_OK) err = sp_html_to_markdown(b->page.v, b->page.n, &b->markdown, &unused, NULL);
    if (err == SP_OK) err = sp_bytes_add(&b->text, b->markdown.v, b->markdown.n);
    if (err == SP_OK) err = sp_bytes_add(&b->text, "\n\n", 2);
    sp_vec_fini(&path);
    sp_vec_fini(&unused);
    return err == SP_E_NOTFOUND ? SP_OK : err;
}

static sp_err read_book(book *b)
{
    SP_TRY(sp_dict_init(&b->by_id, 64));
    SP_TRY(find_package(b));
    sp_err err = read_package(b);
    if (err == SP_E_NOTFOUND) { /* some books escape its path, too */
        sp_bytes escaped = b->package;
        b->package = (sp_bytes){0};
        err = sp_archive_path("", escaped.v, &b->package);
        sp_vec_fini(&escaped);
        if (err == SP_OK) err = read_package(b);
    }
    SP_TRY(err);
    SP_TRY(sp_archive_title(&b->archive, b->package.v, &b->title));
    for (size_t i = 0; i < b->spine.n; i++) SP_TRY(read_page(b, b->files.v[b->spine.v[i]]));
    return SP_OK;
}

sp_err sp_epub_read(sp_reading *r, const char *data, size_t n)
{
    book b = {0};
    sp_bytes own = {0};
    SP_TRY(sp_archive_open(data, n, &b.archive));
    sp_arena_init(&b.names);
    sp_err err = read_book(&b);
    if (err == SP_E_NOTFOUND) err = sp_fail_in(SP_E_UNSUPPORTED, "not a book");
    const char *text = "";
    size_t n_text = 0;
    if (err == SP_OK) err = sp_text_decode(b.text.v, b.text.n, &own, &text, &n_text);
    if (err == SP_OK) {
        sp_document d = {.text = text, .n = n_text, .syntax = SP_SYNTAX_MARKDOWN};
        d.title = b.title.v;
        d.n_title = b.title.n;
        err = b.title.n ? sp_document_give(r, &d) : sp_document_emit(r, &d, NULL);
    }
    sp_archive_close(&b.archive);
    sp_arena_fini(&b.names);
    sp_dict_fini(&b.by_id);
    sp_vec_fini(&b.files);
    sp_vec_fini(&b.spine);
    sp_vec_fini(&b.package);
    sp_vec_fini(&b.text);
    sp_vec_fini(&b.title);
    sp_vec_fini(&b.page);
    sp_vec_fini(&b.markdown);
    sp_vec_fini(&own);
    return err;
}
