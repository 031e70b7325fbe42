/* spolia_copies.h -- what is cached, as a tree to walk: a copy is below what it was computed after. spolia.h includes
 * it. */
#ifndef SPOLIA_COPIES_H
#define SPOLIA_COPIES_H

#include "spolia_context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tiers that have a copy: a set. */
typedef enum sp_copy_tier {
    SP_COPY_IN_MEMORY = 1, /* of the device */
    SP_COPY_IN_HOST = 2,
    SP_COPY_IN_DISK = 4,
    SP_COPY_IN_REMOTE = 8,
} sp_copy_tier;

typedef struct sp_copy_info {
    uint64_t name;    /* for sp_copies_query; never 0; the same after a restart */
    const char *id;   /* of the segment: 64 hex digits; it may have several copies */
    const char *kind; /* "path": after all that is above it; "plain": after the head alone; "fused": after the head and
                         similar chunks; "placed": after what preceded it in some prompt */
    const char *text; /* how the segment begins, [n_text] bytes, a character may be cut; empty while it is unknown */
    size_t n_text;
    unsigned tiers;     /* set of sp_copy_tier; 0: it is being loaded, or only copies below it are kept */
    int n_tokens;       /* 0: unknown */
    int n_recomputed;   /* of these, tokens that are stored over another copy of the segment */
    bool exact;         /* equals a plain forward pass after what it was computed after */
    int64_t n_uses;     /* by requests; the one that computed it is the first */
    double cost_us;     /* time that computing it took; 0: unknown */
    int64_t n_below;    /* copies directly below it */
} sp_copy_info;

typedef struct sp_copies {
    sp_copy_info *v;
    int n;
    bool more;
    void *memory; /* what v points into */
} sp_copies;

typedef struct sp_copies_query {
    uint64_t parent; /* name of a copy of kind "path"; 0: copies that are below none, such as system prompts */
    /* After the copy of this name, which had these uses; name 0: from the first. */
    uint64_t after_name;
    int64_t after_uses;
    int limit; /* 0: 100 */
} sp_copies_query;

/* sp_copies_list -- copies of the tenant `salt` (NULL: none), most used first; one that is used between two pages may
 * be missed. Plain, fused and placed copies that only a tier below has are listed once the head that they were
 * computed after is known. q NULL: defaults. Errors: SP_E_NOTFOUND (the parent is not, or no longer, a copy of this
 * tenant), SP_E_ARG, SP_E_NOMEM. Owns: sp_copies_fini.
 * Thread: any, with an engine thread; else that of the context. Cost: O(all copies), between two steps. */
SP_API sp_err sp_copies_list(sp_context *c, const char *salt, const sp_copies_query *q, sp_copies *out);
SP_API void sp_copies_fini(sp_copies *l);

#ifdef __cplusplus
}
#endif

#endif
