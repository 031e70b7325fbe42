/* names.h -- keys of objects, and the queries that list them (link.c has the table). */
#ifndef SP_STORE_REMOTE_S3_NAMES_H
#define SP_STORE_REMOTE_S3_NAMES_H

#include "store/remote/notice.h"

enum { SP_S3_KEY = 640, SP_S3_NOTE = 16 + SP_REMOTE_NOTICE };

/* What the keys of a namespace begin with. */
typedef struct sp_s3_names {
    char copy[320], index[320], change[320];
} sp_s3_names;

/* sp_s3_names_init -- prefix: "" or with a slash at its end. */
void sp_s3_names_init(sp_s3_names *n, const char *prefix, const char *space);
void sp_s3_copy_key(const sp_s3_names *n, const char *name, char out[SP_S3_KEY]);

/* sp_s3_note -- the metadata of a copy: when its put began, and its notice. */
void sp_s3_note(uint64_t time_ms, const char *says, char out[SP_S3_NOTE]);
/* sp_s3_index_key -- false: not such a note. */
bool sp_s3_index_key(const sp_s3_names *n, const char *name, const char *note, char out[SP_S3_KEY]);
/* sp_s3_index_from -- a key that sorts before all keys of the index since time_ms. */
void sp_s3_index_from(const sp_s3_names *n, uint64_t time_ms, char out[SP_S3_KEY]);

typedef struct sp_s3_entry {
    uint64_t time_ms;
    char name[SP_REMOTE_NAME], says[SP_REMOTE_NOTICE];
} sp_s3_entry;

/* sp_s3_read_index_key -- false: not a key of this namespace. */
bool sp_s3_read_index_key(const sp_s3_names *n, const char *key, sp_s3_entry *out);

/* sp_s3_change_key -- of a change of a copy; note: "" gives what the keys of all its changes begin with. */
void sp_s3_change_key(const sp_s3_names *n, const char *name, const char *note, char out[SP_S3_KEY]);
/* sp_s3_read_change_key -- false: not a key of a change in this namespace. */
bool sp_s3_read_change_key(const sp_s3_names *n, const char *key, sp_s3_entry *out);

/* sp_s3_is_over -- whether the copy has expired, by its notice. */
bool sp_s3_is_over(const sp_s3_entry *e);

/* Names and values of a query, in the order in which they are signed. */
typedef struct sp_s3_query {
    char v[4096];
    size_t n;
    bool is_full; /* something did not fit */
} sp_s3_query;

/* sp_s3_query_add -- value: escaped here. Pre: names come in the order of their bytes. */
void sp_s3_query_add(sp_s3_query *q, const char *name, const char *value);

#endif
