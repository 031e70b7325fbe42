/* sweeps.c -- removes the copies of deleted segments from the tiers.
 *
 *   engine thread   erasing: no copy of these segments is written to a tier from now on
 *                   begin: writes of such copies are cancelled, and each tier is swept (store/sweep.h)
 *   any thread      wait: until all tiers are done, or one makes no progress for timeout_us
 *   engine thread   end: the ledger forgets the places of dropped copies
 *
 * A sweep whose tier does not answer is abandoned; no other begins until it has ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "serve/tiers/tiers_int.h"

/* A tier that is swept. */
typedef struct part {
    sp_post post; /* first */
    sp_tiers_sweep *of;
    sp_sweep *sweep; /* NULL: the tier is not swept */
    sp_place place;
} part;

struct sp_tiers_sweep {
    sp_tiers *tiers;
    part parts[SP_LEVELS];
    int64_t timeout_us;
    int n_refs; /* the engine thread's: the owner, and parts under way */
    bool left; /* a tier has not answered */
};

static void release(sp_tiers_sweep *s)
{
    if (--s->n_refs > 0) return;
    if (s->left) s->tiers->sweeps.n_left--;
    for (int i = 0; i < SP_LEVELS; i++) sp_sweep_release(s->parts[i].sweep);
    sp_free(s);
}

/* -- what is not written -------------------------------------------------------------------- */

sp_err sp_tiers_erasing(sp_tiers *t, const sp_digest *ids, size_t n)
{
    if (n > t->sweeps.erasing.cap) SP_TRY(sp_vec_reserve(&t->sweeps.erasing, n));
    if (n) memcpy(t->sweeps.erasing.v, ids, n * sizeof *ids);
    t->sweeps.erasing.n = n;
    return SP_OK;
}

bool sp_copy_has_seen(const sp_copy *c, const sp_digest *ids, size_t n)
{
    for (const sp_copy *p = c->parent; p; p = p->parent)
        if (sp_digest_among(&p->facts.id, ids, n)) return true;
    return sp_copy_depends(&c->facts, ids, n);
}

bool sp_tiers_is_erasing(const sp_tiers *t, const sp_copy *c)
{
    return t->sweeps.erasing.n && sp_copy_has_seen(c, t->sweeps.erasing.v, t->sweeps.erasing.n);
}

/* -- a sweep -------------------------------------------------------------------------------- */

typedef SP_VEC(sp_tier_key) key_list;
typedef SP_VEC(const sp_copy *) copy_list;

static void part_done(sp_post *post)
{
    release(((part *)post)->of);
}

/* part_ended -- on the tier's thread. */
static void part_ended(void *user)
{
    part *p = user;
    sp_posts_end(p->of->tiers->posts, &p->post, SP_OK);
}

static sp_err begin_part(sp_tiers_sweep *s, int i, const sp_sweep_opts *o)
{
    sp_tiers *t = s->tiers;
    part *p = &s->parts[i];
    sp_sweep_opts own = *o;
    *p = (part){.post.done = part_done, .of = s, .place = t->levels[i].place};
    own.done = part_ended;
    own.user = p;
    SP_TRY(sp_sweep_begin(t->levels[i].tier, &own, &p->sweep));
    s->n_refs++;
    sp_posts_begin(t->posts);
    return SP_OK;
}

/* may_sweep -- whether all tiers answer, as far as is known. */
static sp_err may_sweep(const sp_tiers *t)
{
    bool answers = !t->writes.stuck && t->sweeps.n_left == 0;
    for (int i = 0; i < SP_LEVELS; i++) answers &= t->levels[i].n_abandoned == 0;
    return answers ? SP_OK : sp_fail(SP_E_IO, "the store does not answer");
}

/* begin_all -- what has begun when it fails is cancelled. */
static sp_err begin_all(sp_tiers_sweep *s, const sp_sweep_opts *o, unsigned places)
{
    const sp_tiers *t = s->tiers;
    sp_err err = SP_OK;
    for (int i = 0; i < SP_LEVELS && err == SP_OK; i++)
        if (t->levels[i].tier && t->levels[i].place & places) err = begin_part(s, i, o);
    for (int i = 0; i < SP_LEVELS && err != SP_OK; i++)
        if (s->parts[i].sweep) sp_sweep_cancel(s->parts[i].sweep);
    return err;
}

sp_err sp_tiers_sweep_begin(sp_tiers *t, const sp_sweep_opts *o, unsigned places,
                            sp_tiers_sweep **out)
{
    SP_TRY(may_sweep(t));
    sp_tiers_sweep *s = SP_NEW(sp_tiers_sweep);
    if (!s) return sp_fail_nomem("a sweep");
    *s = (sp_tiers_sweep){.tiers = t, .timeout_us = t->timeout_us, .n_refs = 1};
    sp_tiers_cancel_erased(t);
    sp_tiers_cancel_erased_shares(t);
    sp_err err = begin_all(s, o, places);
    if (err == SP_OK)
        *out = s;
    else
        release(s);
    return err;
}

void sp_tiers_sweep_wait(sp_tiers_sweep *s)
{
    bool all = true;
    for (int i = 0; i < SP_LEVELS && all; i++)
        if (s->parts[i].sweep) all = sp_sweep_wait(s->parts[i].sweep, s->timeout_us);
}

/* -- the end -------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(sp_tier_key));
}

/* clean -- a key without undefined padding, which can be compared as bytes. */
static sp_tier_key clean(const sp_tier_key *key)
{
    sp_tier_key k;
    memset(&k, 0, sizeof k);
    k.id = key->id;
    k.head = key->head;
    k.kind = key->kind;
    return k;
}

static sp_err sorted_keys(const sp_sweep *s, key_list *out)
{
    size_t n;
    const sp_tier_key *gone = sp_sweep_gone(s, &n);
    SP_TRY(sp_vec_reserve(out, n));
    for (size_t i = 0; i < n; i++) out->v[out->n++] = clean(&gone[i]);
    if (n) qsort(out->v, n, sizeof *out->v, by_key);
    return SP_OK;
}

/* list_gone -- copies of chunks that the ledger has with this place. A list: the walk allows no change. */
static sp_err list_gone(sp_tiers *t, sp_place place, const key_list *keys, copy_list *out)
{
    for (const sp_copy *c = NULL; keys->n && (c = sp_ledger_next(t->ledger, c));) {
        if (!(c->places & place) || c->facts.kind == SP_COPY_PATH) continue;
        const sp_tier_key name = {
            .id = c->facts.id, .head = sp_copy_key_head(&c->facts), .kind = (uint32_t)c->facts.kind};
        const sp_tier_key key = clean(&name);
        if (!bsearch(&key, keys->v, keys->n, sizeof key, by_key)) continue;
        SP_TRY(sp_vec_reserve(out, 1));
        out->v[out->n++] = c;
    }
    return SP_OK;
}

/* tell -- the ledger forgets the places of what a tier has dropped. Paths are the caller's: they leave the
 * ledger, or are missed when they are loaded. */
static sp_err tell(sp_tiers *t, const part *p)
{
    key_list keys = {0};
    copy_list copies = {0};
    sp_err err = sorted_keys(p->sweep, &keys);
    if (err == SP_OK) err = list_gone(t, p->place, &keys, &copies);
    for (size_t i = 0; i < copies.n; i++) sp_ledger_unplaced(t->ledger, copies.v[i], p->place);
    sp_vec_fini(&copies);
    sp_vec_fini(&keys);
    return err;
}

static sp_err end_part(sp_tiers *t, part *p, int64_t *n_gone)
{
    size_t n;
    if (!p->sweep) return SP_OK;
    if (!sp_sweep_wait(p->sweep, 0)) {
        sp_sweep_cancel(p->sweep);
        p->of->left = true;
        return sp_fail(SP_E_IO, "the store does not answer");
    }
    sp_err err = sp_sweep_result(p->sweep);
    sp_sweep_gone(p->sweep, &n);
    *n_gone += (int64_t)n;
    sp_err told = tell(t, p);
    return err == SP_OK ? told : err;
}

sp_err sp_tiers_sweep_end(sp_tiers_sweep *s, int64_t *n_gone)
{
    sp_tiers *t = s->tiers;
    sp_err err = SP_OK;
    char why[256] = "";
    sp_posts_poll(t->posts); /* writes that ended earlier are handled first */
    for (int i = 0; i < SP_LEVELS; i++) {
        sp_err one = end_part(t, &s->parts[i], n_gone);
        if (one == SP_OK || err != SP_OK) continue;
        err = one;
        snprintf(why, sizeof why, "%s", sp_error_detail());
    }
    t->sweeps.n_left += s->left;
    release(s);
    return err == SP_OK ? SP_OK : sp_fail(err, "%s", why);
}
