/* What the object store and its account are read from, on any bytes: the first byte chooses the reader. Aborts when a
 * key of the index that was read is not written the same, or when a URL is taken that is none. */
#include <stdlib.h>
#include <string.h>

#include "exact.h"
#include "store/remote/s3/account.h"
#include "store/remote/s3/names.h"
#include "store/remote/s3/reply.h"

static void require(bool holds)
{
    if (!holds) abort();
}

static sp_err take_setting(void *user, const char *name, const char *value)
{
    *(size_t *)user += strlen(name) + strlen(value);
    require(!strchr(name, '\n') && !strchr(value, '\n'));
    return SP_OK;
}

static sp_err take_row(void *user, const sp_s3_row *row)
{
    *(size_t *)user += strlen(row->key) + strlen(row->upload);
    require(strlen(row->key) < sizeof row->key && strlen(row->began) < sizeof row->began);
    return SP_OK;
}

static void read_settings(const char *s, size_t n)
{
    size_t total = 0;
    bool found;
    FILE *f = n ? fmemopen((void *)(uintptr_t)s, n, "r") : NULL;
    if (!f) return;
    sp_err err = sp_s3_read_settings(f, "profile team", take_setting, &total, &found);
    require(err == SP_OK || err == SP_E_FORMAT);
    require(total <= n && (found || total == 0));
    fclose(f);
}

static void read_xml(const char *s, size_t n)
{
    size_t total = 0;
    char next[1025], id[1025];
    sp_s3_error e;
    sp_err err = sp_s3_read_list(s, n, take_row, &total, next);
    require(err == SP_OK || err == SP_E_FORMAT);
    sp_s3_read_error(s, n, &e);
    if (sp_s3_read_upload(s, n, id) == SP_OK) require(*id && strlen(id) < sizeof id);
}

static void read_key(const char *s)
{
    sp_s3_names names;
    sp_s3_entry e;
    char note[SP_S3_NOTE], key[SP_S3_KEY];
    sp_s3_names_init(&names, "", "");
    if (!sp_s3_read_index_key(&names, s, &e)) return;
    sp_s3_note(e.time_ms, e.says, note);
    require(sp_s3_index_key(&names, e.name, note, key));
    require(strcmp(key, s) == 0);
    (void)sp_s3_is_over(&e);
}

static void read_url(const char *s)
{
    sp_s3_address a;
    if (sp_s3_parse(s, &a) != SP_OK) return;
    require(strlen(a.bucket) >= 3 && !strchr(a.bucket, '/') && !strpbrk(a.prefix, " %?#"));
    require(!*a.prefix || a.prefix[strlen(a.prefix) - 1] == '/');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 1) return 0;
    char *s = (char *)exact_new(n);
    memcpy(s, data + 1, n - 1);
    s[n - 1] = '\0';
    switch (data[0] % 4) {
    case 0:
        read_settings(s, n - 1);
        break;
    case 1:
        read_xml(s, n - 1);
        break;
    case 2:
        read_key(s);
        break;
    case 3:
        read_url(s);
        break;
    }
    exact_free((uint8_t *)s, n);
    return 0;
}
