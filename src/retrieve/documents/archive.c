#include "retrieve/documents/archive_int.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "retrieve/documents/libxml.h"

#define READ_BYTES 4096 /* what reading a file counts as at least: a small list can name one file many times */

/* no_memory -- whether that is why libzip failed. Not every failing allocation is ZIP_ER_MEMORY: some make a good
 * archive a damaged one. malloc sets errno, which was 0 before the call. */
static bool no_memory(const zip_error_t *why)
{
    return errno == ENOMEM || zip_error_code_zip(why) == ZIP_ER_MEMORY;
}

sp_err sp_archive_open(const char *data, size_t n, sp_archive *out)
{
    zip_error_t why;
    zip_error_init(&why);
    errno = 0;
    zip_source_t *source = zip_source_buffer_create(data, n, 0, &why);
    zip_t *zip = source ? zip_open_from_source(source, ZIP_RDONLY, &why) : NULL;
    const bool short_of_memory = !zip && no_memory(&why);
    if (!zip) zip_source_free(source);
    zip_error_fini(&why);
    if (short_of_memory) return sp_fail_nomem("an archive");
    if (!zip) return sp_fail(SP_E_UNSUPPORTED, "not a zip archive, or a damaged one");
    *out = (sp_archive){.zip = zip, .left = SP_DOC_MAX_BYTES};
    return SP_OK;
}

void sp_archive_close(sp_archive *a)
{
    if (a->zip) zip_discard(a->zip);
    a->zip = NULL;
}

/* unreadable -- why a file in the archive cannot be read. */
static sp_err unreadable(const zip_error_t *why, const char *name)
{
    if (no_memory(why)) return sp_fail_nomem(name);
    return sp_fail(SP_E_UNSUPPORTED, "%s in the archive is damaged or encrypted", name);
}

static sp_err read_all(sp_archive *a, zip_file_t *f, const char *name, sp_bytes *out)
{
    for (;;) {
        SP_TRY(sp_vec_reserve(out, 1 << 16));
        errno = 0;
        zip_int64_t n = zip_fread(f, out->v + out->n, 1 << 16);
        if (n < 0) return unreadable(zip_file_get_error(f), name);
        if (n == 0) return SP_OK;
        if ((size_t)n > a->left)
            return sp_fail(SP_E_LIMIT, "the archive unpacks to more than %zu MiB",
                           SP_DOC_MAX_BYTES >> 20);
        a->left -= (size_t)n;
        out->n += (size_t)n;
    }
}

sp_err sp_archive_read(sp_archive *a, const char *name, sp_bytes *out)
{
    errno = 0;
    zip_int64_t at = zip_name_locate(a->zip, name, 0);
    if (at < 0 && no_memory(zip_get_error(a->zip))) return sp_fail_nomem(name);
    if (at < 0) return sp_fail(SP_E_NOTFOUND, "no %s in the archive", name);
    zip_file_t *f = zip_fopen_index(a->zip, (zip_uint64_t)at, 0);
    if (!f) return unreadable(zip_get_error(a->zip), name);
    out->n = 0;
    sp_err err = a->left < READ_BYTES ? sp_fail(SP_E_LIMIT, "too many files in the archive are read") : SP_OK;
    if (err == SP_OK) a->left -= READ_BYTES;
    if (err == SP_OK) err = read_all(a, f, name, out);
    zip_fclose(f);
    return err;
}

/* -- links ------------------------------------------------------------------------------------ */

static int digit_of(char c)
{
    const char *digits = "0123456789abcdef", *at = c >= '0' ? strchr(digits, c | 0x20) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* unescape -- "%41" is the byte 0x41. s [n]; returns the new length. */
static size_t unescape(char *s, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        const int high = s[i] == '%' && i + 2 < n ? digit_of(s[i + 1]) : -1;
        const int low = high < 0 ? -1 : digit_of(s[i + 2]);
        s[k++] = low < 0 ? s[i] : (char)(high << 4 | low);
        i += low < 0 ? 0 : 2;
    }
    return k;
}

/* drop_dots -- without "." and ".." of a path, in place. */
static void drop_dots(char *path)
{
    char *to = path;
    for (const char *from = path, *end; *from; from = end) {
        end = strchrnul(from, '/');
        const size_t n = (size_t)(end - from);
        end += *end == '/';
        if (n == 1 && *from == '.') continue;
        if (n == 2 && memcmp(from, "..", 2) == 0) {
            if (to > path) to--; /* the slash of the folder before */
            while (to > path && to[-1] != '/') to--;
            continue;
        }
        memmove(to, from, (size_t)(end - from));
        to += end - from;
    }
    *to = '\0';
}

sp_err sp_archive_path(const char *from, const char *link, sp_bytes *out)
{
    const char *slash = *link == '/' ? NULL : strrchr(from, '/');
    out->n = 0;
    link += *link == '/';
    if (slash) SP_TRY(sp_bytes_add(out, from, (size_t)(slash + 1 - from)));
    const size_t at = out->n;
    SP_TRY(sp_bytes_add(out, link, strcspn(link, "#")));
    out->n = at + (out->n > at ? unescape(out->v + at, out->n - at) : 0);
    SP_TRY(sp_bytes_add(out, "", 1));
    drop_dots(out->v);
    return SP_OK;
}

/* -- XML -------------------------------------------------------------------------------------- */

static void ignore_error(void *user, const char *text, xmlParserSeverities severity,
                         xmlTextReaderLocatorPtr at)
{
}

sp_err sp_archive_xml(sp_archive *a, const char *name, sp_bytes *own, xmlTextReader **out)
{
    const int options = XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING |
                        XML_PARSE_COMPACT | XML_PARSE_NOCDATA;
    SP_TRY(sp_archive_read(a, name, own));
    if (own->n == 0 || own->n > INT_MAX)
        return sp_fail(SP_E_UNSUPPORTED, "%s in the archive is empty", name);
    SP_TRY(sp_libxml_enter());
    xmlTextReader *x = xmlReaderForMemory(own->v, (int)own->n, NULL, NULL, options);
    if (!x) return sp_fail_nomem("an XML parser");
    xmlTextReaderSetErrorHandler(x, ignore_error, NULL);
    *out = x;
    return SP_OK;
}

sp_err sp_xml_next(xmlTextReader *x, bool *more)
{
    xmlResetLastError();
    const int rc = xmlTextReaderRead(x);
    const xmlError *why = xmlGetLastError();
    if (why && why->code == XML_ERR_NO_MEMORY) return sp_fail_nomem("XML");
    if (rc < 0) return sp_fail(SP_E_UNSUPPORTED, "malformed XML");
    *more = rc > 0;
    return SP_OK;
}

const char *sp_xml_name(xmlTextReader *x)
{
    const xmlChar *name = xmlTextReaderConstLocalName(x);
    return name ? (const char *)name : "";
}

const char *sp_xml_text(xmlTextReader *x)
{
    const xmlChar *text = xmlTextReaderConstValue(x);
    return text ? (const char *)text : "";
}

bool sp_xml_is(xmlTextReader *x, int kind, const char *name)
{
    return xmlTextReaderNodeType(x) == kind && strcmp(sp_xml_name(x), name) == 0;
}

/* take_attribute -- the first one of this name; with a prefix if that is wanted. */
static sp_err take_attribute(xmlTextReader *x, const char *name, bool prefixed, sp_bytes *out, bool *found)
{
    sp_err err = SP_OK;
    *found = false;
    for (int rc = xmlTextReaderMoveToFirstAttribute(x); rc == 1 && !*found;
         rc = xmlTextReaderMoveToNextAttribute(x)) {
        *found = strcmp(sp_xml_name(x), name) == 0 && (!prefixed || xmlTextReaderConstPrefix(x));
        if (*found) err = sp_bytes_add(out, sp_xml_text(x), strlen(sp_xml_text(x)));
    }
    xmlTextReaderMoveToElement(x);
    return err;
}

sp_err sp_xml_attribute(xmlTextReader *x, const char *name, sp_bytes *out, bool *found)
{
    return take_attribute(x, name, false, out, found);
}

sp_err sp_xml_reference(xmlTextReader *x, sp_bytes *out, bool *found)
{
    return take_attribute(x, "id", true, out, found);
}

sp_err sp_archive_title(sp_archive *a, const char *name, sp_bytes *title)
{
    sp_bytes own = {0};
    xmlTextReader *x = NULL;
    bool more = true, inside = false;
    sp_err err = sp_archive_xml(a, name, &own, &x);
    while (err == SP_OK && more && (err = sp_xml_next(x, &more)) == SP_OK && more) {
        if (sp_xml_is(x, XML_READER_TYPE_END_ELEMENT, "title")) break;
        if (sp_xml_is(x, XML_READER_TYPE_ELEMENT, "title"))
            inside = !xmlTextReaderIsEmptyElement(x);
        bool text = xmlTextReaderNodeType(x) == XML_READER_TYPE_TEXT;
        if (inside && text) err = sp_bytes_add(title, sp_xml_text(x), strlen(sp_xml_text(x)));
    }
    if (x) xmlFreeTextReader(x);
    sp_vec_fini(&own);
    bool fatal = err == SP_E_NOMEM || err == SP_E_LIMIT;
    return fatal ? err : SP_OK; /* an unreadable title counts as none */
}
