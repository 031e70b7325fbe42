/* link.h -- the interface between the remote tier and each kind of store: redis/link.c, s3/link.c.
 *
 * A copy is stored as parts: a header (SP_PART_HEAD) and groups of layers (0, 1 ...). The tier seals and verifies
 * their bytes; a store keeps them, and an index: name of a copy -> notice (store/remote/notice.h).
 *
 * A link is used by one thread. No call waits longer than timeout_us for a byte.
 *
 * Invariants
 *  I1  a copy without its header is never found: `finish` makes it visible, or the header, which is written last.
 *  I2  every ask ends once. */
#ifndef SP_STORE_REMOTE_LINK_H
#define SP_STORE_REMOTE_LINK_H

#include "base/err.h"
#include "base/hash.h"

enum { SP_PART_HEAD = -1 };

/* Which store, and whose copies in it. */
typedef struct sp_remote_site {
    const char *url;     /* borrowed */
    const char *ca_file; /* borrowed; certificates of trusted authorities, NULL: the system's */
    char space[33];      /* namespace, in hexadecimal digits; "": the whole store */
    char self[20];       /* this tier, among all that use the store */
    int64_t timeout_us, ttl_s;
    void *shared; /* state of the kind that the links of a tier share, or NULL */
} sp_remote_site;

/* Stored bytes of the parts of a copy. */
typedef struct sp_remote_shape {
    uint64_t head, group, last; /* the last group may be smaller than the others */
    int n_groups;
    bool varies;                /* any group may be smaller */
} sp_remote_shape;

/* A request for the header of a copy and its groups [first, first + n). Callbacks run during `get`. */
typedef struct sp_remote_ask {
    const char *name;
    sp_remote_shape shape;
    int first, n;
    /* The header, then the groups in order. data NULL: the store does not have the part. An error ends the ask. */
    sp_err (*take)(void *user, int part, const uint8_t *data, size_t n);
    bool (*is_wanted)(void *user); /* false: the ask may end early */
    void (*end)(void *user, sp_err err);
    void *user;
} sp_remote_ask;

/* Called for copies that other processes put and drop. */
typedef struct sp_remote_ears {
    sp_err (*learn)(void *user, const char *name, const char *says); /* an error ends the call */
    void (*forget)(void *user, const char *name);
    sp_err (*suspect)(void *user, const char *name, const char *says); /* one that may be there: recall */
    void *user;
} sp_remote_ears;

typedef struct sp_remote_link sp_remote_link;

typedef struct sp_remote_kind {
    /* check_url -- Errors: SP_E_ARG names what is wrong, whatever the store and the machine. */
    sp_err (*check_url)(const char *url) SP_MUST_CHECK;
    /* check -- Errors: SP_E_ARG names what is wrong with the URL or the account. */
    sp_err (*check)(const sp_remote_site *s) SP_MUST_CHECK;
    /* share -- fills in s->shared, which unshare frees. NULL: links share nothing. */
    sp_err (*share)(sp_remote_site *s) SP_MUST_CHECK;
    void (*unshare)(sp_remote_site *s);
    /* open -- s is borrowed. Errors: SP_E_IO names the store. */
    sp_err (*open)(const sp_remote_site *s, sp_remote_link **out) SP_MUST_CHECK;
    void (*close)(sp_remote_link *l);

    /* get -- all asks are sent before the first answer is awaited. */
    void (*get)(sp_remote_link *l, const sp_remote_ask *asks, int n);

    /* begin -- says: its notice. *taken: the store has the copy, or another process writes it. Otherwise the caller
     * calls add for the groups in order and for the header, then finish, or after an error abandon. */
    sp_err (*begin)(sp_remote_link *l, const char *name, const char *says, const sp_remote_shape *shape,
                    bool *taken) SP_MUST_CHECK;
    /* add -- Errors: SP_E_IO; SP_E_LIMIT: the store is full. */
    sp_err (*add)(sp_remote_link *l, int part, const uint8_t *data, size_t n) SP_MUST_CHECK;
    /* finish -- makes the copy visible and notifies all others. *taken: another process was first. */
    sp_err (*finish)(sp_remote_link *l, bool *taken) SP_MUST_CHECK;
    void (*abandon)(sp_remote_link *l);
    /* drop -- the copy and its notice, if they exist, and what a put or a drop that did not end has left of them. */
    sp_err (*drop)(sp_remote_link *l, const char *name) SP_MUST_CHECK;
    /* strike_out -- a copy that the store has dropped, or that expired, from the index. */
    sp_err (*strike_out)(sp_remote_link *l, const char *name) SP_MUST_CHECK;

    /* hear -- the first call reads the index; later calls wait a fraction of a second for news. */
    sp_err (*hear)(sp_remote_link *l, const sp_remote_ears *ears) SP_MUST_CHECK;

    /* recall -- before a deletion: calls suspect for copies that a put or a drop which did not end may have left, and
     * that the index need not name, then learn for what is new in the index. NULL: there are none, and news come at
     * once. */
    sp_err (*recall)(sp_remote_link *l, const sp_remote_ears *ears) SP_MUST_CHECK;

    /* The store as a whole: store/remote/server.h. */
    sp_err (*each_space)(const sp_remote_site *s, sp_err (*each)(void *user, const sp_digest *space),
                         void *user) SP_MUST_CHECK;
    sp_err (*clean)(const sp_remote_site *s, int64_t *n_orphans, int64_t *n_gone) SP_MUST_CHECK;
} sp_remote_kind;

/* The first member of each kind's own struct. */
struct sp_remote_link {
    bool broken; /* no longer usable: the tier closes it */
};

extern const sp_remote_kind sp_remote_redis; /* redis/link.c */
extern const sp_remote_kind sp_remote_s3;    /* s3/link.c */

/* sp_remote_kind_of -- by the scheme of the URL. Errors: SP_E_ARG lists the known schemes. */
sp_err sp_remote_kind_of(const char *url, const sp_remote_kind **out) SP_MUST_CHECK;
/* sp_remote_check_url -- Errors: SP_E_ARG, of sp_remote_kind_of and of the kind's check_url. */
sp_err sp_remote_check_url(const char *url) SP_MUST_CHECK;

#endif
