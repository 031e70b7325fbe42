/* tiny_prompt.h -- random prompts for the tiny model, and what the property tests share about
 * them. */
#ifndef SP_TESTS_TINY_PROMPT_H
#define SP_TESTS_TINY_PROMPT_H

#include "kv/segment.h"
#include "support/tiny_model.h"

#define MAX_SEGS 6
#define MAX_LEN  44

typedef struct prompt {
    sp_segment segs[MAX_SEGS];
    int32_t tokens[MAX_SEGS][MAX_LEN];
    int n_segs, n;
} prompt;

/* Kernel variants, and rounds of each type of cache. A type begins with the rotary variant after that of the last
 * type, so one round of all types passes every one. Slow are ref, and the device "far", which dies where the host
 * touches its memory (support/far_device.h). */
static const struct {
    const char *name;
    int rounds;
    const char *device;
} variants[] = {{"ref", 2, "cpu"},    {"avx2", 6, "cpu"}, {"avxvnni", 6, "cpu"},
                {"avx512", 6, "cpu"}, {"vnni", 6, "cpu"}, {"amx", 6, "cpu"},
                {"neon", 6, "cpu"},   {"i8mm", 6, "cpu"}, {"ref", 1, "far"},
                {"avx2", 1, "far"},   {"neon", 1, "far"}};
static const sp_dtype kv_types[] = {SP_F32, SP_F16, SP_BF16, SP_Q16, SP_Q8_0};

static inline void set_ids(prompt *p)
{
    sp_digest space = {{7}};
    p->n = 0;
    for (int i = 0; i < p->n_segs; i++) {
        p->segs[i].tokens = p->tokens[i];
        assert_int_equal(sp_segment_id(&space, NULL, p->tokens[i], p->segs[i].n, &p->segs[i].id),
                         SP_OK);
        p->n += p->segs[i].n;
    }
}

static inline void random_prompt(prompt *p, uint64_t *rng, int n_vocab)
{
    p->n_segs = 1 + tiny_below(rng, MAX_SEGS);
    for (int i = 0; i < p->n_segs; i++) {
        p->segs[i] = (sp_segment){.kind = SP_SEG_CHUNK, .n = 1 + tiny_below(rng, MAX_LEN)};
        for (int t = 0; t < p->segs[i].n; t++) p->tokens[i][t] = tiny_below(rng, n_vocab);
    }
    set_ids(p);
}

/* bound_of -- NMSE of logits that rounding of the cache alone may cause. */
static inline double bound_of(sp_dtype kv)
{
    return kv == SP_F32 ? 1e-8 : kv == SP_F16 ? 1e-5 : 1e-3;
}

#endif
