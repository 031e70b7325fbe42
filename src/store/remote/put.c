#include <stdio.h>
#include <time.h>

#include "store/bytes.h"
#include "store/remote/remote_int.h"

/* A put under way. */
typedef struct putting {
    sp_remote_tier *t;
    const sp_tier_op *op;
    const sp_record *r;
    sp_remote_notice notice;
    char name[SP_REMOTE_NAME];
    sp_layer_sum *sums;
    sp_form_writer form; /* of groups; a seal follows each */
} putting;

/* send_part -- n bytes, where there is room for a MAC. */
static sp_err send_part(putting *p, int part, uint8_t *data, size_t n)
{
    char field[SP_REMOTE_FIELD];
    size_t size = n;
    sp_remote_field(part, field);
    SP_TRY(sp_seal_put(&p->t->seal, p->name, field, data, &size));
    return p->t->kind->add(p->t->out.link, part, data, size);
}

/* take_group_in -- layers [first, first + n) from the source. */
static sp_err take_group_in(putting *p, int first, int n)
{
    const sp_tier_job *job = &p->op->job;
    for (int i = 0; i < n; i++) {
        if (sp_tier_op_is_cancelled(p->op)) return sp_fail(SP_E_CANCELED, "a put was cancelled");
        SP_TRY(job->source(job->user, first + i, sp_form_slot(&p->form, i)));
        sp_form_add(&p->form, i, first + i, p->sums);
    }
    return SP_OK;
}

static sp_err send_layers(putting *p)
{
    const int per = sp_remote_per_group(sp_remote_stride(p->r));
    for (int first = 0; first < p->r->n_layers; first += per) {
        const int n = SP_MIN(per, p->r->n_layers - first);
        size_t bytes;
        SP_TRY(take_group_in(p, first, n));
        uint8_t *group = sp_form_end(&p->form, n, &bytes);
        SP_TRY(send_part(p, first / per, group, bytes));
    }
    return SP_OK;
}

/* head_bytes -- of the header's value: padded to pages, then the time when the copy expires if it does. */
static size_t head_bytes(const sp_remote_tier *t, const sp_record *r)
{
    return sp_record_layout_of(r).head_pages * (size_t)SP_PAGE + (t->site.ttl_s ? SP_REMOTE_EXPIRY_BYTES : 0);
}

static sp_err send_head(putting *p)
{
    const size_t n = head_bytes(p->t, p->r);
    uint8_t *head = sp_alloc(1, n + SP_SEAL_BYTES);
    if (!head) return sp_fail_nomem("the header of a copy");
    sp_err err = sp_record_write(p->r, p->sums, head);
    if (p->t->site.ttl_s) put64(head + n - SP_REMOTE_EXPIRY_BYTES, (uint64_t)p->notice.expires_s);
    if (err == SP_OK) err = send_part(p, SP_PART_HEAD, head, n);
    sp_free(head);
    return err;
}

/* announce -- makes a complete copy visible, and tells the others its name. After an error the store may name it, and
 * nobody has heard of it: the index has it already, so that a sweep drops it. */
static sp_err announce(putting *p)
{
    bool taken;
    sp_remote_tier *t = p->t;
    pthread_mutex_lock(&t->lock);
    sp_err err = sp_remote_learn(t, &p->notice, false);
    pthread_mutex_unlock(&t->lock);
    if (err == SP_OK) err = t->kind->finish(t->out.link, &taken);
    if (err != SP_OK) return err;
    if (taken) return SP_OK;
    pthread_mutex_lock(&t->lock);
    t->stats.n_put++;
    t->stats.bytes_written += sp_remote_bytes(&p->notice);
    pthread_mutex_unlock(&t->lock);
    return SP_OK;
}

static sp_err write_copy(putting *p)
{
    bool taken;
    char why[256], says[SP_REMOTE_NOTICE];
    sp_remote_tier *t = p->t;
    const sp_remote_shape shape = sp_remote_shape_of(t, p->notice.head_bytes, p->notice.stride, p->notice.n_layers,
                                           p->notice.facts & SP_REMOTE_VARIES);
    sp_remote_write_notice(&p->notice, says);
    SP_TRY(t->kind->begin(t->out.link, p->name, says, &shape, &taken));
    if (taken) return SP_OK;
    sp_err err = send_layers(p);
    if (err == SP_OK) err = send_head(p);
    if (err == SP_OK) err = announce(p);
    if (err == SP_OK) return SP_OK;
    snprintf(why, sizeof why, "%s", sp_error_detail());
    t->kind->abandon(t->out.link);
    return sp_fail(err, "%s", why);
}

/* has_all -- the copies that a put continues. */
static sp_err has_all(sp_remote_tier *t, const sp_tier_key *keys, int n)
{
    bool all = true;
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < n && all; i++) all = sp_table_find(&t->table, &keys[i]) != SP_NO_ENTRY;
    pthread_mutex_unlock(&t->lock);
    return all ? SP_OK : sp_fail(SP_E_NOTFOUND, "the remote tier lacks the copy that this one continues");
}

/* put_record -- of what is stored: with the facts of it. */
static sp_err put_record(sp_remote_tier *t, const sp_tier_op *op, const sp_record *r)
{
    const size_t seal = t->seal.n_key ? SP_SEAL_BYTES : 0;
    putting p = {.t = t,
                 .op = op,
                 .r = r,
                 .notice = {.key = sp_tier_key_of(r),
                            .n = r->n,
                            .n_layers = r->n_layers,
                            .stride = sp_remote_stride(r),
                            .facts = sp_tier_facts_of(r),
                            .cost_us = r->facts.cost_us,
                            .head_bytes = head_bytes(t, r) + seal,
                            .expires_s = t->site.ttl_s ? (int64_t)time(NULL) + t->site.ttl_s : 0}};
    SP_TRY(sp_form_writer_init(&p.form, &t->form, r, sp_remote_per_group(sp_remote_stride(r)), SP_SEAL_BYTES));
    if (p.form.packed || t->form.level) p.notice.facts |= SP_REMOTE_VARIES;
    sp_remote_name(&op->job.key, p.name);
    p.sums = sp_alloc((size_t)sp_record_n_sums(r), sizeof *p.sums);
    sp_err err = p.sums ? write_copy(&p) : sp_fail_nomem("a copy for the remote tier");
    sp_free(p.sums);
    sp_form_writer_fini(&p.form);
    return err;
}

sp_err sp_remote_put(sp_remote_tier *t, const sp_tier_op *op)
{
    sp_record r = *op->job.record;
    SP_TRY(has_all(t, op->job.after, op->job.n_after));
    SP_TRY(sp_remote_connect(t, &t->out));
    if (sp_form_packs(&t->form, &r)) r.facts.exact = false;
    return put_record(t, op, &r);
}
