/* account.h -- the login and endpoint of an object store: from environment variables, and the files that AWS's tools
 * share. */
#ifndef SP_STORE_REMOTE_S3_ACCOUNT_H
#define SP_STORE_REMOTE_S3_ACCOUNT_H

#include <stdio.h>

#include "base/err.h"

/* s3://BUCKET[/PREFIX] */
typedef struct sp_s3_address {
    char bucket[64], prefix[256]; /* prefix: "" or with a slash at its end */
} sp_s3_address;

/* sp_s3_parse -- Errors: SP_E_ARG names what is wrong. */
sp_err sp_s3_parse(const char *url, sp_s3_address *out) SP_MUST_CHECK;

typedef struct sp_s3_account {
    char key[256], secret[256], token[8192]; /* token "": none */
    char region[64];
    char endpoint[512]; /* "": AWS; otherwise without a slash at its end */
    char from[512];     /* the source of the key, for messages */
} sp_s3_account;

/* sp_s3_account_find -- the first that is set of
 *   key, secret, token  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN; the profile AWS_PROFILE
 *                       ("default") of AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials), of AWS_CONFIG_FILE
 *                       (~/.aws/config)
 *   region              AWS_REGION, AWS_DEFAULT_REGION, the profile's region, us-east-1
 *   endpoint            AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's endpoint_url
 * Errors: SP_E_ARG names the variable, or the file and its field. Owns: sp_s3_account_fini. */
sp_err sp_s3_account_find(sp_s3_account *out) SP_MUST_CHECK;
/* sp_s3_account_fini -- overwrites it. */
void sp_s3_account_fini(sp_s3_account *a);

/* sp_s3_read_settings -- each `name = value` in a section of such a file; *found: the section exists. Indented lines
 * belong to the setting before them and are skipped. Lines may have any length. Errors: SP_E_FORMAT names the number
 * of a line that is not a setting; SP_E_IO, SP_E_NOMEM: it cannot be read to its end; those of `each`. */
sp_err sp_s3_read_settings(FILE *f, const char *section,
                           sp_err (*each)(void *user, const char *name, const char *value), void *user,
                           bool *found) SP_MUST_CHECK;

#endif
