/* forms.c -- notes under which other titles, or without one, requests send registered texts: a deletion finds copies
 * by content ids, and these forms have ids of their own.
 *
 *   texts     registered texts, by hash; it may have some that no longer are
 *   checked   (title, text) whose id the shelf has, or whose text it has not
 *
 * A text is added before its document is published, and once more after it; then `checked` is emptied. It is dropped
 * only if nothing was published since it was found in no document. So `texts` always has all registered texts. */
#include <string.h>

#include "base/log.h"
#include "serve/documents/documents_int.h"

/* -- sets of hashes ---------------------------------------------------------------------------- */

typedef struct sp_key_set key_set;

enum { FEWEST = 64 };

static size_t place_of(const key_set *s, uint64_t key)
{
    size_t at = (size_t)key & (s->cap - 1);
    while (s->v[at] && s->v[at] != key) at = (at + 1) & (s->cap - 1);
    return at;
}

static bool has(const key_set *s, uint64_t key)
{
    return s->n && s->v[place_of(s, key)] == key;
}

static sp_err grow(key_set *s)
{
    key_set larger = {.cap = s->cap ? 2 * s->cap : FEWEST, .n = s->n};
    larger.v = sp_alloc_zero(larger.cap, sizeof *larger.v);
    if (!larger.v) return sp_fail_nomem("hashes of registered texts");
    for (size_t i = 0; i < s->cap; i++)
        if (s->v[i]) larger.v[place_of(&larger, s->v[i])] = s->v[i];
    sp_free(s->v);
    *s = larger;
    return SP_OK;
}

static sp_err add(key_set *s, uint64_t key)
{
    if (2 * (s->n + 1) > s->cap) SP_TRY(grow(s));
    const size_t at = place_of(s, key);
    s->n += s->v[at] == 0;
    s->v[at] = key;
    return SP_OK;
}

/* drop -- puts in their places the keys that follow without a gap. */
static void drop(key_set *s, uint64_t key)
{
    if (!has(s, key)) return;
    size_t at = place_of(s, key);
    s->v[at] = 0;
    s->n--;
    for (at = (at + 1) & (s->cap - 1); s->v[at]; at = (at + 1) & (s->cap - 1)) {
        const uint64_t moved = s->v[at];
        s->v[at] = 0;
        s->v[place_of(s, moved)] = moved;
    }
}

static void clear(key_set *s)
{
    if (s->n) memset(s->v, 0, s->cap * sizeof *s->v);
    s->n = 0;
}

static uint64_t join(uint64_t a, uint64_t b)
{
    const uint64_t both[] = {a, b};
    const uint64_t key = sp_hash64(both, sizeof both);
    return key ? key : 1;
}

static uint64_t key_of(uint64_t tenant, const char *text)
{
    return join(tenant, sp_hash64(text, strlen(text)));
}

static uint64_t form_key(uint64_t text, const char *title)
{
    return join(text, title ? sp_hash64(title, strlen(title)) : 0);
}

/* -- what is registered ------------------------------------------------------------------------ */

void sp_forms_init(sp_forms *f)
{
    pthread_mutex_init(&f->lock, NULL);
}

void sp_forms_fini(sp_forms *f)
{
    pthread_mutex_destroy(&f->lock);
    sp_free(f->texts.v);
    sp_free(f->checked.v);
}

sp_err sp_forms_add(sp_forms *f, uint64_t tenant, const char *text)
{
    pthread_mutex_lock(&f->lock);
    sp_err err = add(&f->texts, key_of(tenant, text));
    pthread_mutex_unlock(&f->lock);
    return err;
}

void sp_forms_published(sp_forms *f)
{
    pthread_mutex_lock(&f->lock);
    f->n_published++;
    clear(&f->checked);
    pthread_mutex_unlock(&f->lock);
}

uint64_t sp_forms_n_published(sp_forms *f)
{
    pthread_mutex_lock(&f->lock);
    const uint64_t n = f->n_published;
    pthread_mutex_unlock(&f->lock);
    return n;
}

void sp_forms_drop(sp_forms *f, uint64_t n_published, uint64_t tenant, const char *text)
{
    pthread_mutex_lock(&f->lock);
    if (f->n_published == n_published) drop(&f->texts, key_of(tenant, text));
    pthread_mutex_unlock(&f->lock);
}

/* -- what requests send ------------------------------------------------------------------------ */

/* bare_id -- of the text alone, as documents are registered. */
static sp_err bare_id(sp_documents *d, const char *salt, const char *text, sp_digest *out)
{
    sp_prompt *p;
    SP_TRY(sp_prompt_create_for(d->ctx, salt, &p));
    sp_err err = sp_prompt_system(p, "");
    if (err == SP_OK) err = sp_prompt_piece(p, text, strlen(text));
    if (err == SP_OK) *out = p->segs.v[p->segs.n - 1].id;
    sp_prompt_destroy(p);
    return err;
}

/* note -- the last segment of the prompt is a form of the text. The request continues if the shelf cannot be written;
 * the next one with this form tries again. */
static sp_err note(sp_documents *d, const sp_prompt *p, const char *text, bool *known)
{
    sp_digest bare;
    SP_TRY(bare_id(d, p->salt, text, &bare));
    sp_err err = sp_shelf_add_form(d->shelf, &bare, &p->segs.v[p->segs.n - 1].id);
    *known = err == SP_OK;
    if (err == SP_OK || err == SP_E_NOMEM) return err;
    if (sp_shelf_writes(d->shelf))
        sp_log(SP_LOG_WARN, "copies of a registered text under another title may stay when it is deleted: %s",
               sp_error_detail());
    return SP_OK;
}

sp_err sp_forms_watch(void *user, const sp_prompt *p, const char *title, const char *text)
{
    sp_documents *d = user;
    sp_forms *f = &d->forms;
    const uint64_t key = key_of(p->tenant, text), form = form_key(key, title);
    bool known = false;
    pthread_mutex_lock(&f->lock);
    const bool look = has(&f->texts, key) && !has(&f->checked, form);
    const uint64_t n_published = f->n_published;
    pthread_mutex_unlock(&f->lock);
    if (!look) return SP_OK;
    SP_TRY(note(d, p, text, &known));
    pthread_mutex_lock(&f->lock);
    sp_err err = known && f->n_published == n_published ? add(&f->checked, form) : SP_OK;
    pthread_mutex_unlock(&f->lock);
    return err;
}
