/* hub_int.h -- the parts of a pull: listing the hub's files, choosing those of the model, downloading them. */
#ifndef SP_CLI_HUB_HUB_INT_H
#define SP_CLI_HUB_HUB_INT_H

#include <curl/curl.h>

#include "cli/hub/hub.h"
#include "cli/progress.h"

typedef struct hub_site {
    CURL *curl;
    char endpoint[512];
    char why[CURL_ERROR_SIZE];
} hub_site;

bool hub_site_open(hub_site *s);
void hub_site_close(hub_site *s);
/* hub_site_request -- prepares a GET of a URL; the caller adds what takes the body. */
void hub_site_request(hub_site *s, const char *url);
/* hub_explain -- the error message for an HTTP status that is not success. said: the beginning of the body. */
void hub_explain(const hub_site *s, const char *repo, long status, const char *said);

typedef struct hub_file {
    char *path;
    int64_t size;  /* bytes; -1: not given */
    char hash[65]; /* 64 hex digits: SHA-256; 40: Git's id of a blob; "": not given */
    bool wanted;
} hub_file;

typedef struct hub_list {
    char commit[65];
    hub_file *v;
    size_t n;
} hub_list;

/* hub_list_read -- the files of a revision. Owns: hub_list_fini, also after false. */
bool hub_list_read(hub_site *s, const char *repo, const char *revision, hub_list *out);
void hub_list_fini(hub_list *l);

/* hub_is_gguf -- whether a file is a whole model, or the first part of one. */
bool hub_is_gguf(const char *path);

/* hub_choose -- marks the files of the model. *file: the GGUF file to open, the first of a split model; NULL: a
 * folder. */
bool hub_choose(const hub_name *name, hub_list *l, const hub_file **file);

typedef struct hub_download {
    hub_site *site;
    const char *repo, *commit;
    const hub_file *file;
    const char *to; /* path */
    progress *progress;
} hub_download;

/* hub_download_file -- resumes TO.part if there is one, checks size and hash, and renames it. */
bool hub_download_file(const hub_download *d);

/* hub_escape -- appends text to url [size], percent-encoded except for '/'. */
void hub_escape(char *url, size_t size, const char *text);

#endif
