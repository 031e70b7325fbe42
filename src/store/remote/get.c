#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "store/bytes.h"
#include "store/remote/remote_int.h"

enum { BATCH = 64 /* gets that are asked for at once */ };

/* A get of a batch. */
typedef struct getting {
    sp_remote_tier *t;
    sp_tier_op *op;  /* until it ends */
    sp_tier_key key; /* its copy */
    char name[SP_REMOTE_NAME];
    int per;           /* layers of a group */
    sp_remote_ask ask; /* groups [first, first + n); n 0: the header alone */
    uint8_t *head;     /* what the record points into */
    sp_record record;
    bool is_gone; /* the store has dropped it, or should */
    bool skips;   /* nobody takes the rest */
} getting;

/* prepare -- fills in what to ask for. Errors: SP_E_NOTFOUND without a message: the index does not have the copy. */
static sp_err prepare(getting *g)
{
    sp_remote_tier *t = g->t;
    const sp_tier_job *job = &g->op->job;
    SP_TRY(sp_tier_op_begin(g->op));
    pthread_mutex_lock(&t->lock);
    const uint32_t i = job->n_layers ? sp_remote_find(t, &job->key) : sp_table_find(&t->table, &job->key);
    const sp_disk_place place = i == SP_NO_ENTRY ? (sp_disk_place){0} : t->table.entries.v[i].place;
    t->stats.n_missed += i == SP_NO_ENTRY;
    pthread_mutex_unlock(&t->lock);
    if (i == SP_NO_ENTRY) return sp_fail(SP_E_NOTFOUND, "no such copy in the remote tier");
    if (job->first < 0 || job->n_layers < 0 || job->n_layers > (int)place.n_layers - job->first)
        return sp_fail(SP_E_ARG, "layers %d to %d of a copy of %u layers", job->first, job->first + job->n_layers - 1,
                       place.n_layers);
    g->per = (int)place.segment;
    sp_remote_name(&job->key, g->name);
    g->ask.name = g->name;
    g->ask.shape = sp_remote_shape_of(t, place.head_pages, place.page, (int)place.n_layers,
                                      place.facts & SP_REMOTE_VARIES);
    g->ask.first = job->first / g->per;
    g->ask.n = job->n_layers ? (job->first + job->n_layers - 1) / g->per + 1 - g->ask.first : 0;
    return SP_OK;
}

/* check_expiry -- of a header of n bytes. Errors: SP_E_NOTFOUND. */
static sp_err check_expiry(getting *g, const uint8_t *head, size_t n)
{
    const bool expires = n % SP_PAGE == SP_REMOTE_EXPIRY_BYTES;
    if (!expires || get64(head + n - SP_REMOTE_EXPIRY_BYTES) > (uint64_t)time(NULL)) return SP_OK;
    g->is_gone = true;
    return sp_fail(SP_E_NOTFOUND, "a copy of the remote tier has expired");
}

/* check_key -- of a header of n bytes whose layers are wanted. Errors: SP_E_UNSUPPORTED: it has a code (seal.h), and
 * so have its layers, but this process has no key. */
static sp_err check_key(const getting *g, size_t n)
{
    const size_t head = sp_record_layout_of(&g->record).head_pages * (size_t)SP_PAGE;
    if (g->t->seal.n_key || !g->op->job.n_layers) return SP_OK;
    if (n != head + SP_SEAL_BYTES && n != head + SP_REMOTE_EXPIRY_BYTES + SP_SEAL_BYTES) return SP_OK;
    return sp_fail(SP_E_UNSUPPORTED, "remote tier: a copy was written with a key; none is set (--remote-key-file)");
}

/* take_head -- verifies that the header belongs to the requested copy. */
static sp_err take_head(getting *g, const uint8_t *data, size_t n)
{
    if (!data) return sp_fail(SP_E_NOTFOUND, "the remote tier has dropped the copy");
    if (!sp_seal_check(&g->t->seal, g->name, "head", data, &n))
        return sp_fail(SP_E_FORMAT, "remote tier: the header of a copy is not authentic");
    SP_TRY(check_expiry(g, data, n));
    g->head = sp_alloc(1, n + 1);
    if (!g->head) return sp_fail_nomem("the header of a copy");
    memcpy(g->head, data, n);
    SP_TRY(sp_record_read(g->head, n, &g->record));
    const sp_tier_key is = sp_tier_key_of(&g->record);
    const bool same =
        sp_digest_eq(&is.id, &g->op->job.key.id) && is.head == g->op->job.key.head && is.kind == g->op->job.key.kind;
    if (!same || sp_remote_per_group(sp_remote_stride(&g->record)) != g->per)
        return sp_fail(SP_E_FORMAT, "remote tier: the header is of another copy");
    SP_TRY(check_key(g, n));
    return g->op->job.head ? g->op->job.head(g->op->job.user, &g->record) : SP_OK;
}

/* deliver -- those of a group of layers [from, to) that were asked for. */
static sp_err deliver(const getting *g, const sp_form_reader *f, int from, int to)
{
    const sp_tier_job *job = &g->op->job;
    for (int l = SP_MAX(from, job->first); l < SP_MIN(to, job->first + job->n_layers); l++) {
        const uint8_t *layer;
        if (sp_tier_op_is_cancelled(g->op)) return sp_fail(SP_E_CANCELED, "a load was cancelled");
        SP_TRY(sp_form_layer(f, l - from, l, &layer));
        if (job->sink && layer) SP_TRY(job->sink(job->user, l, layer));
    }
    return SP_OK;
}

/* take_group -- verifies the layers of one value. */
static sp_err take_group(const getting *g, int group, const uint8_t *data, size_t n)
{
    char field[SP_REMOTE_FIELD];
    sp_form_reader f;
    const int from = group * g->per, to = SP_MIN(from + g->per, g->record.n_layers);
    if (!data) return sp_fail(SP_E_NOTFOUND, "the remote tier has dropped layers of the copy");
    sp_remote_field(group, field);
    if (!sp_seal_check(&g->t->seal, g->name, field, data, &n))
        return sp_fail(SP_E_FORMAT, "remote tier: layers %d to %d are not authentic", from, to - 1);
    SP_TRY(sp_form_reader_init(&f, &g->t->form, &g->record, to - from, data, n));
    sp_err err = deliver(g, &f, from, to);
    sp_form_reader_fini(&f);
    return err;
}

/* take_part -- what was cancelled is received to its end: its time is that of the store (tier.h I5). */
static sp_err take_part(void *user, int part, const uint8_t *data, size_t n)
{
    getting *g = user;
    if (g->skips) return SP_OK;
    if (!data) g->is_gone = true;
    atomic_store(&g->t->taking, true);
    sp_err err = part == SP_PART_HEAD ? take_head(g, data, n) : take_group(g, part, data, n);
    atomic_store(&g->t->taking, false);
    g->skips = err == SP_E_CANCELED;
    return g->skips ? SP_OK : err;
}

static bool is_wanted(void *user)
{
    return !sp_tier_op_is_withdrawn(((const getting *)user)->op);
}

static void end_get(void *user, sp_err err)
{
    getting *g = user;
    sp_remote_tier *t = g->t;
    const bool whole = err == SP_OK;
    if (whole && g->skips) err = sp_fail(SP_E_CANCELED, "a load was cancelled");
    const bool gone = err == SP_E_NOTFOUND || err == SP_E_FORMAT, foreign = err == SP_E_UNSUPPORTED;
    pthread_mutex_lock(&t->lock);
    t->stats.n_got += err == SP_OK;
    t->stats.n_damaged += err == SP_E_FORMAT;
    t->stats.n_failed += err != SP_OK && err != SP_E_CANCELED && !gone;
    if (whole) t->stats.bytes_read += (int64_t)sp_remote_stride(&g->record) * g->op->job.n_layers;
    if (gone || foreign) sp_remote_doubt(t, &g->op->job.key); /* a deletion is to find what may be there */
    pthread_mutex_unlock(&t->lock);
    if (err == SP_E_FORMAT) sp_log(SP_LOG_WARN, "%s", sp_error_detail());
    sp_tier_op_finish(g->op, err);
    sp_free(g->head);
}

/* strike_out -- a copy that the store has dropped leaves its index, so that no other process asks for it. */
static void strike_out(sp_remote_tier *t, const getting *g)
{
    if (t->kind->strike_out(t->in.link, g->name) != SP_OK) {
        sp_log(SP_LOG_DEBUG, "a deleted copy is still in the index: %s", sp_error_detail());
        return;
    }
    pthread_mutex_lock(&t->lock);
    sp_remote_forget(t, &g->key);
    pthread_mutex_unlock(&t->lock);
}

/* run_gets -- a batch. */
static void run_gets(sp_remote_tier *t, getting *v, int n)
{
    sp_remote_ask asks[BATCH];
    int n_asked = 0;
    const sp_err line_err = sp_remote_connect(t, &t->in);
    for (int i = 0; i < n; i++) {
        v[i].ask = (sp_remote_ask){.take = take_part, .is_wanted = is_wanted, .end = end_get, .user = &v[i]};
        sp_err err = line_err == SP_OK ? prepare(&v[i]) : sp_fail(SP_E_IO, "the remote tier does not answer");
        if (err == SP_OK)
            asks[n_asked++] = v[i].ask;
        else
            end_get(&v[i], err);
    }
    if (n_asked) t->kind->get(t->in.link, asks, n_asked);
    for (int i = 0; i < n_asked && !t->in.link->broken; i++) {
        const getting *g = asks[i].user;
        if (g->is_gone) strike_out(t, g);
    }
    if (line_err == SP_OK && t->in.link->broken) sp_remote_fail_line(t, &t->in);
}

void *sp_remote_read(void *tier)
{
    sp_remote_tier *t = tier;
    getting batch[BATCH];
    for (sp_tier_op *op; (op = sp_op_queue_pop(&t->gets, true));) {
        int n = 0;
        for (; op; op = n < BATCH ? sp_op_queue_pop(&t->gets, false) : NULL)
            batch[n++] = (getting){.t = t, .op = op, .key = op->job.key};
        run_gets(t, batch, n);
    }
    return NULL;
}
