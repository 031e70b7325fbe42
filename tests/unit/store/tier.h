/* tier.h -- copies of noise that any tier can keep, for tests of the tiers and of crashes. What a copy is
 * follows from its number and version alone, so any process can tell whether it came back right. */
#ifndef SP_TESTS_TIER_H
#define SP_TESTS_TIER_H

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kv/segment.h"
#include "store/disk/tier.h"
#include "store/files.h"
#include "support/folder.h"

enum { NOISE_LAYERS = 5, NOISE_TOKENS = 40, NOISE_BEFORE = 3, NOISE_BYTES = 9000 };

static const sp_digest noise_space = {{0x5a, 1}}, other_noise_space = {{0x5b, 1}};

/* A copy whose content is its number and version. */
typedef struct noise {
    uint32_t number, version;
    sp_digest before[NOISE_BEFORE];
    int32_t tokens[NOISE_TOKENS], order[NOISE_TOKENS], heavy[NOISE_TOKENS];
    float inter[NOISE_BEFORE];
    sp_record record;
    int n_layers;    /* that a get has checked */
    bool has_head;   /* a get has checked it */
    bool any;        /* a get takes any version: the one that it finds */
    sp_err source_fails_at; /* layer + 1 */
} noise;

static inline uint64_t noise_next(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    return *x ^= *x << 17;
}

static inline void noise_layer(const noise *c, int layer, uint8_t *out)
{
    uint64_t x = 0x9e3779b97f4a7c15u ^ c->number * 2654435761u ^ (uint64_t)c->version << 40 ^
                 (uint64_t)(layer + 1) << 56;
    for (size_t i = 0; i < c->record.layer_bytes; i++) out[i] = (uint8_t)(noise_next(&x) >> 24);
}

static inline void noise_init(noise *c, uint32_t number, uint32_t version)
{
    *c = (noise){.number = number, .version = version};
    for (int i = 0; i < NOISE_TOKENS; i++) {
        c->tokens[i] = (int32_t)(number * 100 + (uint32_t)i);
        c->order[i] = NOISE_TOKENS - 1 - i;
        c->heavy[i] = (i * 7) % NOISE_TOKENS;
    }
    for (int i = 0; i < NOISE_BEFORE; i++) {
        memset(c->before[i].b, i + 1, 32);
        c->inter[i] = (float)i / 4;
    }
    c->record = (sp_record){.facts.kind = number % 2,
                            .facts.exact = number % 3 == 0,
                            .space = noise_space,
                            .facts.before = c->before,
                            .facts.n_before = NOISE_BEFORE,
                            .facts.n_head = 1,
                            .facts.below = c->before + 1,
                            .facts.n_below = number % 4 == 1 ? 2 : 0,
                            .tokens = c->tokens,
                            .n = NOISE_TOKENS,
                            .facts.at = (int32_t)version,
                            .facts.cost_us = 12.5f,
                            .facts.stats.inter = number % 4 ? c->inter : NULL,
                            .facts.stats.order = number % 4 ? c->order : NULL,
                            .facts.stats.cci = 0.75f,
                            .facts.heavy = number % 5 ? c->heavy : NULL,
                            .n_layers = NOISE_LAYERS,
                            .layer_bytes = NOISE_BYTES + number % 3 * 4096};
    memcpy(c->record.facts.id.b, &number, sizeof number);
    c->record.facts.id.b[31] = 9;
}

static inline sp_err noise_source(void *user, int layer, void *to)
{
    noise *c = user;
    if (c->source_fails_at == layer + 1) return sp_fail(SP_E_NOKV, "the device is lost");
    noise_layer(c, layer, to);
    return SP_OK;
}

static inline sp_err noise_head(void *user, const sp_record *r)
{
    noise *c = user;
    if (c->any) c->version = (uint32_t)r->facts.at;
    const sp_record *is = &c->record;
    bool same =
        r->facts.kind == is->facts.kind && r->facts.exact == is->facts.exact &&
        sp_digest_eq(&r->facts.id, &is->facts.id) && r->n == is->n &&
        (uint32_t)r->facts.at == c->version && r->facts.n_before == is->facts.n_before &&
        r->facts.n_head == is->facts.n_head && r->facts.cost_us == is->facts.cost_us &&
        r->facts.stats.cci == is->facts.stats.cci && r->layer_bytes == is->layer_bytes &&
        r->n_layers == is->n_layers && memcmp(r->tokens, is->tokens, sizeof c->tokens) == 0 &&
        memcmp(r->facts.before, is->facts.before, sizeof c->before) == 0 && r->facts.n_below == is->facts.n_below &&
        memcmp(r->facts.below, is->facts.below, sizeof *c->before * (size_t)is->facts.n_below) == 0 &&
        !r->facts.stats.inter == !is->facts.stats.inter && !r->facts.heavy == !is->facts.heavy;
    if (same && is->facts.stats.inter)
        same = memcmp(r->facts.stats.inter, is->facts.stats.inter, sizeof c->inter) == 0 &&
               memcmp(r->facts.stats.order, is->facts.stats.order, sizeof c->order) == 0;
    if (same && is->facts.heavy)
        same = memcmp(r->facts.heavy, is->facts.heavy, sizeof c->heavy) == 0;
    if (!same) return sp_fail(SP_E_LIMIT, "copy %u has a wrong header", c->number);
    c->has_head = true;
    c->n_layers = 0;
    return SP_OK;
}

static inline sp_err noise_sink(void *user, int layer, const void *from)
{
    noise *c = user;
    uint8_t *wanted = malloc(c->record.layer_bytes);
    noise_layer(c, layer, wanted);
    bool same = memcmp(wanted, from, c->record.layer_bytes) == 0;
    free(wanted);
    if (!same || !c->has_head)
        return sp_fail(SP_E_LIMIT, "copy %u has a wrong layer %d", c->number, layer);
    c->n_layers++;
    return SP_OK;
}

static inline sp_tier_job noise_put_job(noise *c)
{
    return (sp_tier_job){
        .verb = SP_TIER_PUT, .record = &c->record, .source = noise_source, .user = c};
}

static inline sp_tier_job noise_get_job(noise *c, int first, int n_layers)
{
    return (sp_tier_job){.verb = SP_TIER_GET,
                         .key = sp_tier_key_of(&c->record),
                         .first = first,
                         .n_layers = n_layers,
                         .head = noise_head,
                         .sink = noise_sink,
                         .user = c};
}

static inline sp_tier_key noise_key(uint32_t number)
{
    noise c;
    noise_init(&c, number, 1);
    return sp_tier_key_of(&c.record);
}

/* noise_known -- waits for the news that a copy is there, or gone; however slow the machine is. */
static inline bool noise_known(sp_tier *t, uint32_t number, bool wanted)
{
    const sp_tier_key key = noise_key(number);
    for (int i = 0; i < 15000 && sp_tier_knows(t, &key) != wanted; i++) usleep(20000);
    return sp_tier_knows(t, &key) == wanted;
}

static inline sp_err noise_put(sp_tier *t, uint32_t number, uint32_t version)
{
    noise c;
    noise_init(&c, number, version);
    sp_tier_job job = noise_put_job(&c);
    return sp_tier_run(t, &job);
}

/* noise_get -- SP_E_LIMIT: what came back is wrong. */
static inline sp_err noise_get(sp_tier *t, uint32_t number, uint32_t version)
{
    noise c;
    noise_init(&c, number, version);
    sp_tier_job job = noise_get_job(&c, 0, NOISE_LAYERS);
    sp_err err = sp_tier_run(t, &job);
    if (err == SP_OK && c.n_layers != NOISE_LAYERS)
        return sp_fail(SP_E_LIMIT, "copy %u came with %d layers", number, c.n_layers);
    return err;
}

static inline sp_err noise_drop(sp_tier *t, uint32_t number)
{
    noise c;
    noise_init(&c, number, 0);
    sp_tier_job job = {.verb = SP_TIER_DROP, .key = sp_tier_key_of(&c.record)};
    return sp_tier_run(t, &job);
}

/* -- folders -------------------------------------------------------------------------------- */

/* file_in -- the path of a file of the namespace that every test uses. */
static inline const char *file_in(const char *dir, const char *name, char path[600])
{
    snprintf(path, 600, "%s/5a010000000000000000000000000000/%s", dir, name);
    return path;
}

#endif
