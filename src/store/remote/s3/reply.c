#include "store/remote/s3/reply.h"

#include <libxml/parser.h>
#include <libxml/tree.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* parse -- NULL: no XML. Entities and files that it names are not read. */
static xmlDoc *parse(const char *xml, size_t n)
{
    if (!xml || n == 0 || n > INT_MAX) return NULL;
    return xmlReadMemory(xml, (int)n, NULL, NULL, XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
}

static bool is_named(const xmlNode *node, const char *name)
{
    return node->type == XML_ELEMENT_NODE && strcmp((const char *)node->name, name) == 0;
}

/* text_of -- of the child of this name; "" if there is none. false: it does not fit. */
static bool text_of(const xmlNode *parent, const char *name, char *out, size_t size)
{
    int n = 0;
    *out = '\0';
    for (xmlNode *c = parent->children; c; c = c->next) {
        if (!is_named(c, name)) continue;
        xmlChar *text = xmlNodeGetContent(c);
        n = snprintf(out, size, "%s", text ? (const char *)text : "");
        xmlFree(text);
        break;
    }
    return n >= 0 && (size_t)n < size;
}

void sp_s3_read_error(const char *xml, size_t n, sp_s3_error *out)
{
    xmlDoc *doc = parse(xml, n);
    const xmlNode *root = doc ? xmlDocGetRootElement(doc) : NULL;
    *out = (sp_s3_error){0};
    if (root && !text_of(root, "Code", out->code, sizeof out->code)) *out->code = '\0';
    if (root && !text_of(root, "Message", out->message, sizeof out->message))
        out->message[sizeof out->message - 1] = '\0';
    xmlFreeDoc(doc);
}

/* take_row -- Contents, CommonPrefixes, Upload. */
static sp_err take_row(const xmlNode *node, sp_err (*each)(void *user, const sp_s3_row *row), void *user)
{
    sp_s3_row row = {0};
    bool good = true;
    if (is_named(node, "Contents")) {
        good = text_of(node, "Key", row.key, sizeof row.key);
    } else if (is_named(node, "CommonPrefixes")) {
        good = text_of(node, "Prefix", row.key, sizeof row.key);
    } else if (is_named(node, "Upload")) {
        good = text_of(node, "Key", row.key, sizeof row.key) &&
               text_of(node, "UploadId", row.upload, sizeof row.upload) &&
               text_of(node, "Initiated", row.began, sizeof row.began);
    } else {
        return SP_OK;
    }
    if (!good) return sp_fail(SP_E_FORMAT, "an object store lists a key that is too long");
    return each(user, &row);
}

sp_err sp_s3_read_list(const char *xml, size_t n, sp_err (*each)(void *user, const sp_s3_row *row), void *user,
                       char next[1025])
{
    xmlDoc *doc = parse(xml, n);
    const xmlNode *root = doc ? xmlDocGetRootElement(doc) : NULL;
    sp_err err = root ? SP_OK : sp_fail(SP_E_FORMAT, "an object store sent a malformed list");
    *next = '\0';
    for (const xmlNode *c = root ? root->children : NULL; c && err == SP_OK; c = c->next)
        err = take_row(c, each, user);
    if (err == SP_OK && !text_of(root, "NextContinuationToken", next, 1025))
        err = sp_fail(SP_E_FORMAT, "an object store lists a token that is too long");
    xmlFreeDoc(doc);
    return err;
}

sp_err sp_s3_read_upload(const char *xml, size_t n, char id[1025])
{
    xmlDoc *doc = parse(xml, n);
    const xmlNode *root = doc ? xmlDocGetRootElement(doc) : NULL;
    const bool good = root && text_of(root, "UploadId", id, 1025) && *id;
    xmlFreeDoc(doc);
    return good ? SP_OK : sp_fail(SP_E_FORMAT, "an object store began an upload without an id");
}
