/* gzip.c -- documents packed with gzip: unpacked in memory, within the limit of all documents. */
#include "retrieve/documents/readers_int.h"

#include <string.h>
#include <strings.h>
#include <zlib.h>

#define PIECE (1 << 16)

/* unpack -- all members of the file, one after another. */
static sp_err unpack(z_stream *z, const char *data, size_t n, sp_bytes *out)
{
    int rc = Z_OK;
    for (size_t at = 0; at < n || z->avail_in;) {
        if (!z->avail_in) {
            z->next_in = (Bytef *)(uintptr_t)(data + at);
            z->avail_in = (uInt)SP_MIN(n - at, (size_t)1 << 30);
            at += z->avail_in;
        }
        SP_TRY(sp_vec_reserve(out, PIECE));
        z->next_out = (Bytef *)out->v + out->n;
        z->avail_out = PIECE;
        rc = inflate(z, Z_NO_FLUSH);
        out->n += PIECE - z->avail_out;
        if (rc == Z_MEM_ERROR) return sp_fail_nomem("a gzip file");
        if (rc != Z_OK && rc != Z_STREAM_END)
            return sp_fail(SP_E_UNSUPPORTED, "a damaged gzip file");
        if (out->n > SP_DOC_MAX_BYTES)
            return sp_fail(SP_E_LIMIT, "it unpacks to more than %zu MiB", SP_DOC_MAX_BYTES >> 20);
        if (rc == Z_STREAM_END && inflateReset(z) != Z_OK)
            return sp_fail(SP_E_UNSUPPORTED, "a damaged gzip file");
    }
    return rc == Z_STREAM_END ? SP_OK
                              : sp_fail(SP_E_UNSUPPORTED, "a gzip file that ends too early");
}

/* inner_format -- of r->path without its ".gz". */
static sp_err inner_format(const sp_reading *r, sp_doc_format *out)
{
    size_t n = strlen(r->path);
    char *name = sp_strdup_n(r->path, n > 3 ? n - 3 : 0);
    if (!name) return sp_fail_nomem("a file name");
    *out = sp_document_format(name);
    sp_free(name);
    bool none = *out == SP_DOC_NONE || *out == SP_DOC_GZIP;
    return none ? sp_fail(SP_E_UNSUPPORTED, "no reader for its content") : SP_OK;
}

sp_err sp_gzip_read(sp_reading *r, const char *data, size_t n)
{
    enum { GZIP_ONLY = 16 };
    sp_bytes text = {0};
    z_stream z = {0};
    sp_doc_format format = SP_DOC_NONE;
    SP_TRY(inner_format(r, &format));
    if (inflateInit2(&z, GZIP_ONLY + MAX_WBITS) != Z_OK) return sp_fail_nomem("zlib");
    sp_err err = unpack(&z, data, n, &text);
    inflateEnd(&z);
    if (err == SP_OK) err = sp_document_read(r, format, text.n ? text.v : "", text.n);
    sp_vec_fini(&text);
    return err;
}
