/* relations.c -- the parts of an OOXML file (ECMA-376, part 2) name each other by relations, in a file for each part:
 *
 *     part                     its relations
 *     (the whole file)         _rels/.rels                         type officeDocument: the main part
 *     ppt/presentation.xml     ppt/_rels/presentation.xml.rels     id rId7, type slide, target slides/slide3.xml
 */
#include "retrieve/documents/archive_int.h"

#include <string.h>

/* file_of -- where the relations of a part are. */
static sp_err file_of(const char *part, sp_bytes *out)
{
    const char *slash = strrchr(part, '/'), *name = slash ? slash + 1 : part;
    out->n = 0;
    SP_TRY(sp_bytes_add(out, part, (size_t)(name - part)));
    SP_TRY(sp_bytes_addf(out, "_rels/%s.rels", name));
    return sp_bytes_add(out, "", 1);
}

static sp_err keep(sp_relations *r, const char *s, const char **out)
{
    const size_t n = strlen(s) + 1;
    char *copy = sp_arena_take(&r->names, n, 1);
    if (!copy) return sp_fail_nomem("a relation");
    *out = memcpy(copy, s, n);
    return SP_OK;
}

static sp_err attribute(xmlTextReader *x, const char *name, sp_bytes *value)
{
    bool found;
    value->n = 0;
    SP_TRY(sp_xml_attribute(x, name, value, &found));
    return sp_bytes_add(value, "", 1);
}

/* take -- one relation. What is outside of the file (a link of the text) does not count. */
static sp_err take(sp_relations *r, const char *part, xmlTextReader *x, sp_bytes *value, sp_bytes *path)
{
    sp_relation new;
    const char *id;
    SP_TRY(attribute(x, "TargetMode", value));
    if (strcmp(value->v, "External") == 0) return SP_OK;
    SP_TRY(attribute(x, "Target", value));
    SP_TRY(sp_archive_path(part, value->v, path));
    SP_TRY(keep(r, path->v, &new.part));
    SP_TRY(attribute(x, "Type", value));
    const char *slash = strrchr(value->v, '/');
    SP_TRY(keep(r, slash ? slash + 1 : value->v, &new.type));
    SP_TRY(attribute(x, "Id", value));
    SP_TRY(keep(r, value->v, &id));
    SP_TRY(sp_vec_reserve(&r->all, 1));
    SP_TRY(sp_dict_put(&r->by_id, id, strlen(id), (uint32_t)r->all.n));
    r->all.v[r->all.n++] = new;
    return SP_OK;
}

sp_err sp_relations_read(sp_archive *a, const char *part, sp_relations *out)
{
    sp_bytes own = {0}, file = {0}, value = {0}, path = {0};
    xmlTextReader *x = NULL;
    bool more = true;
    sp_relations_fini(out);
    sp_arena_init(&out->names);
    sp_err err = sp_dict_init(&out->by_id, 64);
    if (err == SP_OK) err = file_of(part, &file);
    if (err == SP_OK) err = sp_archive_xml(a, file.v, &own, &x);
    while (err == SP_OK && (err = sp_xml_next(x, &more)) == SP_OK && more)
        if (sp_xml_is(x, XML_READER_TYPE_ELEMENT, "Relationship")) err = take(out, part, x, &value, &path);
    if (x) xmlFreeTextReader(x);
    sp_vec_fini(&own);
    sp_vec_fini(&file);
    sp_vec_fini(&value);
    sp_vec_fini(&path);
    return err == SP_E_NOTFOUND ? SP_OK : err;
}

void sp_relations_fini(sp_relations *r)
{
    sp_arena_fini(&r->names);
    sp_dict_fini(&r->by_id);
    sp_vec_fini(&r->all);
    *r = (sp_relations){0};
}

const char *sp_relation_by_id(const sp_relations *r, const char *id)
{
    const uint32_t i = sp_dict_get(&r->by_id, id, strlen(id));
    return i == SP_DICT_NONE ? NULL : r->all.v[i].part;
}

const char *sp_relation_by_type(const sp_relations *r, const char *type)
{
    for (size_t i = 0; i < r->all.n; i++)
        if (strcmp(r->all.v[i].type, type) == 0) return r->all.v[i].part;
    return NULL;
}

sp_err sp_main_part(sp_archive *a, const char *usual, sp_bytes *out)
{
    sp_relations of_file = {0};
    sp_err err = sp_relations_read(a, "", &of_file);
    if (err == SP_E_UNSUPPORTED) err = SP_OK; /* damaged relations count as none */
    const char *part = err == SP_OK ? sp_relation_by_type(&of_file, "officeDocument") : NULL;
    if (!part) part = usual;
    if (err == SP_OK) err = sp_bytes_add(out, part, strlen(part) + 1);
    sp_relations_fini(&of_file);
    return err;
}
