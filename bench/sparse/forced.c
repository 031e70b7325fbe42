#include "forced.h"

#include "base/mem.h"
#include "lab/bench/bench.h"
#include "lab/numbers.h"

uint32_t forced_block(const sp_plan *p, uint64_t *random)
{
    const uint64_t r = lab_random(random);
    const sp_span *s = &p->spans[r % (uint64_t)(p->n_spans - 1)];
    return s->blocks[(r >> 32) % (uint64_t)sp_blocks_for(s->n)];
}

sp_err forced_open(forced *f, const forced_opts *o, sp_kv_pool *pool, int32_t cap)
{
    const sp_kv_shape *shape = sp_kv_pool_shape(pool);
    const size_t lists = (size_t)shape->n_layers * (size_t)shape->n_heads, n = (size_t)cap;
    *f = (forced){.o = *o, .pool = pool, .n_heads = shape->n_heads, .cap = cap};
    f->blocks[0] = sp_alloc(lists * n, sizeof(uint32_t));
    f->blocks[1] = sp_alloc(lists * n, sizeof(uint32_t));
    f->n_last = SP_NEW_N(int32_t, lists);
    f->n_now = SP_NEW_N(int32_t, lists);
    f->turn = SP_NEW_N(uint8_t, lists);
    f->guess = SP_NEW_N(uint32_t, n);
    if (!f->blocks[0] || !f->blocks[1] || !f->n_last || !f->n_now || !f->turn || !f->guess)
        return sp_fail_nomem("forced choices");
    return SP_OK;
}

void forced_close(forced *f)
{
    sp_free(f->blocks[0]);
    sp_free(f->blocks[1]);
    sp_free(f->n_last);
    sp_free(f->n_now);
    sp_free(f->turn);
    sp_free(f->guess);
}

static bool chance(const forced *f, double share)
{
    return (double)(lab_random(f->o.random) >> 40) * 0x1p-24 < share;
}

/* A choice of this step and that of the step before. */
typedef struct choice {
    uint32_t *now, *last;
    int32_t *n_now, *n_last;
    uint8_t *turn;
} choice;

static choice choice_of(const forced *f, int layer, int kv_head)
{
    const int list = layer * f->n_heads + kv_head;
    const size_t at = (size_t)list * (size_t)f->cap;
    const int turn = f->turn[list];
    return (choice){.now = f->blocks[turn] + at,
                    .last = f->blocks[!turn] + at,
                    .n_now = &f->n_now[list],
                    .n_last = &f->n_last[list],
                    .turn = &f->turn[list]};
}

/* draw -- until the choice has n blocks. */
static void draw(const forced *f, const choice *c, int32_t n)
{
    for (; *c->n_now < n; ++*c->n_now) {
        const int32_t i = *c->n_now;
        const bool keep = i < *c->n_last && chance(f, f->o.hit);
        c->now[i] = keep ? c->last[i] : forced_block(f->o.plan, f->o.random);
    }
}

static void want(void *user, int layer, int kv_head, uint32_t *blocks, int32_t n)
{
    forced *f = user;
    const choice c = choice_of(f, layer, kv_head);
    int32_t m = 0;
    for (int32_t i = 0; i < n && m < f->cap; i++) {
        if (!sp_kv_is_away(f->pool, blocks[i])) continue;
        draw(f, &c, m + 1);
        blocks[i] = c.now[m++];
    }
    *c.turn = !*c.turn;
    *c.n_last = m;
    *c.n_now = 0;
    sp_offload_want(f->o.offload, layer, kv_head, blocks, n);
}

static void ahead(void *user, int layer, int kv_head, const uint32_t *blocks, int32_t n)
{
    forced *f = user;
    const choice c = choice_of(f, layer, kv_head);
    int32_t n_guess = 0;
    SP_UNUSED(blocks);
    draw(f, &c, SP_MIN(n, f->cap));
    for (int32_t i = 0; i < *c.n_now; i++) {
        if (i < *c.n_last && c.now[i] == c.last[i]) continue;
        f->guess[n_guess++] =
            chance(f, f->o.guessed) ? c.now[i] : forced_block(f->o.plan, f->o.random);
    }
    sp_offload_ahead(f->o.offload, layer, kv_head, f->guess, n_guess);
}

static sp_err wait_for(void *user, int layer)
{
    return sp_offload_wait(((forced *)user)->o.offload, layer);
}

sp_block_source forced_source(forced *f)
{
    return (sp_block_source){.want = want, .wait = wait_for, .ahead = ahead, .user = f};
}
