/* archive_int.h -- files in a zip archive, and XML in them, both bounded. */
#ifndef SP_RETRIEVE_DOCUMENTS_ARCHIVE_INT_H
#define SP_RETRIEVE_DOCUMENTS_ARCHIVE_INT_H

#include <libxml/xmlreader.h>
#include <zip.h>

#include "base/dict.h"
#include "retrieve/documents/readers_int.h"

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

/* sp_archive_path -- what a link in file `from` names: relative to the folder of that file, or to the archive if it
 * begins with '/'. Escapes and dots are resolved. NUL-terminated. */
sp_err sp_archive_path(const char *from, const char *link, sp_bytes *out) SP_MUST_CHECK;

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
/* sp_xml_reference -- the same for r:id, which names a relation; an element may have an id without a prefix, too. */
sp_err sp_xml_reference(xmlTextReader *x, sp_bytes *out, bool *found);

/* sp_archive_title -- the text of the first <dc:title> of a file; having none is not an error. */
sp_err sp_archive_title(sp_archive *a, const char *name, sp_bytes *title) SP_MUST_CHECK;

/* -- relations of OOXML (relations.c) --------------------------------------------------------- */

typedef struct sp_relation {
    const char *type; /* the last word of its address: "slide", "worksheet", "sharedStrings" */
    const char *part; /* the file in the archive */
} sp_relation;

/* What a part of the file names. Zeroed: none. */
typedef struct sp_relations {
    sp_arena names;
    SP_VEC(sp_relation) all;
    sp_dict by_id; /* -> all */
} sp_relations;

/* sp_relations_read -- those of a part; of the whole file with "". A part without such a file has none. Errors:
 * SP_E_UNSUPPORTED (damaged), SP_E_LIMIT, SP_E_NOMEM. */
sp_err sp_relations_read(sp_archive *a, const char *part, sp_relations *out) SP_MUST_CHECK;
void sp_relations_fini(sp_relations *r);
/* The file that a relation names, or NULL. With several of a type: the first. */
const char *sp_relation_by_id(const sp_relations *r, const char *id);
const char *sp_relation_by_type(const sp_relations *r, const char *type);
/* sp_main_part -- the part with the document, the workbook or the slides; `usual` if the file does not say.
 * NUL-terminated. */
sp_err sp_main_part(sp_archive *a, const char *usual, sp_bytes *out) SP_MUST_CHECK;

#endif
