/* archive_int.h -- files in a zip archive, and XML in them, both bounded. */
#ifndef SP_RETRIEVE_ARCHIVE_INT_H
#define SP_RETRIEVE_ARCHIVE_INT_H

#include <libxml/xmlreader.h>
#include <zip.h>

#include "retrieve/documents_int.h"

typedef struct sp_archive {
    zip_t *zip;
    size_t left; /* bytes that may still be unpacked: a small archive can hold a huge file */
} sp_archive;

/* sp_archive_open -- reads data in place. Errors:
 * SP_E_UNSUPPORTED (not a valid archive), SP_E_NOMEM. */
sp_err sp_archive_open(const char *data, size_t n, sp_archive *out) SP_MUST_CHECK;
void sp_archive_close(sp_archive *a);

/* sp_archive_read -- the content of one file. Errors: SP_E_NOTFOUND, SP_E_UNSUPPORTED (damaged),
 * SP_E_LIMIT, SP_E_NOMEM. */
sp_err sp_archive_read(sp_archive *a, const char *name, sp_bytes *out) SP_MUST_CHECK;

/* sp_archive_xml -- a pull parser over one file, whose content is kept in `own`. Entities stay unexpanded, nothing is
 * fetched. Free it with xmlFreeTextReader. */
sp_err sp_archive_xml(sp_archive *a, const char *name, sp_bytes *own,
                      xmlTextReader **out) SP_MUST_CHECK;

/* sp_xml_next -- the next node, *more false at the end. Errors: SP_E_UNSUPPORTED. */
sp_err sp_xml_next(xmlTextReader *x, bool *more) SP_MUST_CHECK;
/* The current node: its kind, its name without a prefix, its text (never NULL). */
bool sp_xml_is(xmlTextReader *x, int kind, const char *name);
const char *sp_xml_name(xmlTextReader *x);
const char *sp_xml_text(xmlTextReader *x);
/* sp_xml_attribute -- appends the value of the attribute with this name (without a prefix) to `out`; *found tells
 * whether it exists. */
sp_err sp_xml_attribute(xmlTextReader *x, const char *name, sp_bytes *out, bool *found);

/* sp_archive_title -- the text of the first <dc:title> of a file; having none is not an error. */
sp_err sp_archive_title(sp_archive *a, const char *name, sp_bytes *title) SP_MUST_CHECK;

#endif
