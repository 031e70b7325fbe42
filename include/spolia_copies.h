/* spolia_copies.h -- cached copies as a tree: the parent of a copy is what it was computed after. spolia.h includes
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
    const char *kind; /* "path": computed after all its ancestors; "plain": after the head alone; "fused": after the
                         head and similar chunks; "placed": after what preceded it in some prompt */
    const char *text; /* the first n_text bytes of the segment, which may cut a character; empty while unknown */
    size_t n_text;
    unsigned tiers;     /* set of sp_copy_tier; 0: it is being loaded, or only its descendants are kept */
    int n_tokens;       /* 0: unknown */
    int n_recomputed;   /* tokens that it stores over another copy of the segment */
    bool exact;         /* equals a plain forward pass after what it was computed after */
    int64_t n_uses;     /* by requests, the one that computed it included */
    double cost_us;     /* time to compute it; 0: unknown */
    int64_t n_below;    /* its children */
} sp_copy_info;

typedef struct sp_copies {
    sp_copy_info *v;
    int n;
    bool more;
    void *memory; /* what v points into */
} sp_copies;

typedef struct sp_copies_query {
    uint64_t parent; /* name of a copy of kind "path"; 0: copies without a parent, such as system prompts */
    /* Start after the copy of this name, which had this many uses; name 0: start at the first. */
    uint64_t after_name;
    int64_t after_uses;
    int limit; /* 0: 100 */
} sp_copies_query;

/* sp_copies_list -- copies of the tenant `salt` (NULL: none), most used first; a copy that is used between two pages
 * may be missed. Plain, fused and placed copies that are only in lower tiers are listed once the head that they were
 * computed after is known. q NULL: defaults. Errors: SP_E_NOTFOUND (the parent is not, or no longer, a copy of this
 * tenant), SP_E_ARG, SP_E_NOMEM. Owns: sp_copies_fini.
 * Thread: any, with an engine thread; else that of the context. Cost: O(all copies), between two steps. */
SP_API sp_err sp_copies_list(sp_context *c, const char *salt, const sp_copies_query *q, sp_copies *out);
SP_API void sp_copies_fini(sp_copies *l);

#ifdef __cplusplus
}
#endif

#endif
