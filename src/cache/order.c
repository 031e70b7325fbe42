#include "cache/order.h"

sp_err sp_order_init(sp_order *o, const sp_evict_opts *evict)
{
    return sp_evict_init(&o->evict, evict);
}

void sp_order_fini(sp_order *o)
{
    sp_evict_fini(&o->evict);
    sp_vec_fini(&o->aside);
}

sp_err sp_order_reserve(sp_order *o)
{
    const size_t n = (size_t)o->evict.n + 1;
    SP_TRY(sp_vec_reserve(&o->aside, n));
    return sp_evict_reserve(&o->evict, n);
}

/* back -- makes the copy a possible victim again. */
static void back(sp_order *o, sp_copy *c)
{
    if (sp_copy_evictable(c)) sp_evict_back(&o->evict, c);
}

/* -- paths and pins ------------------------------------------------------------------------- */

static void leave_parent(sp_order *o, sp_copy *c)
{
    sp_copy *parent = c->parent;
    if (!parent) return;
    if (c->sibling.previous)
        c->sibling.previous->sibling.next = c->sibling.next;
    else
        parent->children.first = c->sibling.next;
    if (c->sibling.next) c->sibling.next->sibling.previous = c->sibling.previous;
    c->sibling.next = c->sibling.previous = NULL;
    c->parent = NULL;
    parent->children.n--;
    back(o, parent);
}

void sp_order_follow(sp_order *o, sp_copy *c, sp_copy *parent)
{
    if (!c || !parent || c == parent) return;
    leave_parent(o, c);
    c->parent = parent;
    c->sibling.next = parent->children.first;
    if (c->sibling.next) c->sibling.next->sibling.previous = c;
    parent->children.first = c;
    parent->children.n++;
}

void sp_order_pin(sp_copy *c)
{
    c->n_pins++;
}

void sp_order_unpin(sp_order *o, sp_copy *c)
{
    c->n_pins--;
    back(o, c);
}

/* -- the order of use ----------------------------------------------------------------------- */

void sp_order_add(sp_order *o, sp_copy *c, int64_t now)
{
    assert(c->state == SP_COPY_READY);
    sp_evict_add(&o->evict, c, SP_EVICT_NOT_COMPUTED, now);
}

void sp_order_use(sp_order *o, sp_copy *c, int64_t now)
{
    sp_evict_use(&o->evict, c, now);
}

void sp_order_touch(sp_order *o, sp_copy *c)
{
    const sp_evict_policy *p = o->evict.policy;
    if (p->priority || p->use) return;
    sp_evict_unlink(&o->evict, c);
    sp_evict_link(&o->evict, c);
}

void sp_order_drop(sp_order *o, sp_copy *c)
{
    while (c->children.first) leave_parent(o, c->children.first);
    leave_parent(o, c);
    sp_evict_drop(&o->evict, c);
}

sp_copy *sp_order_victim(sp_order *o, bool (*may_go)(const sp_copy *c))
{
    sp_copy *c;
    o->aside.n = 0;
    while ((c = sp_evict_victim(&o->evict)) && may_go && !may_go(c)) {
        sp_order_pin(c);
        o->aside.v[o->aside.n++] = c;
    }
    for (size_t i = 0; i < o->aside.n; i++) sp_order_unpin(o, o->aside.v[i]);
    return c;
}
