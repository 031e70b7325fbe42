#include "kv/notes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"

/* Where the bytes of a held block are, in a pool that lets blocks leave. */
enum { IN_MEMORY, AWAY, EMPTY /* nobody has written any */ };

struct sp_kv_pool {
    sp_device *device;
    sp_kv_shape shape;
    int64_t n_blocks;
    size_t layer_block_bytes; /* one block in one layer */
    int n_planes;             /* of a layer: 1, or one for each head */
    size_t plane_bytes;       /* one block in one plane */
    size_t page;              /* bytes that memory leaves by: 4 KiB, 16 (macOS) or 64 (some ARM servers) */
    sp_mem memory;            /* [L][n_planes][n_blocks][plane_bytes] */
    _Atomic uint32_t *refs;   /* [n_blocks] */
    uint8_t *sealed;          /* [n_blocks] written by the only holder, before others can hold it */
    uint32_t *births;         /* [n_blocks] written by the holder to be */
    _Atomic uint8_t *away;    /* [n_blocks] IN_MEMORY, AWAY or EMPTY; NULL: no block may leave */
    pthread_mutex_t leaving;  /* held while a block is copied, or marked as away */
    _Atomic int64_t n_of[3];  /* held blocks of each */
    sp_kv_elsewhere elsewhere;
    const sp_kv_notes *notes;

    _Atomic int64_t n_free; /* changed with the lock held, read without */
    pthread_mutex_t lock;   /* guards the following */
    uint64_t *free_map;     /* bitmap [ceil(n_blocks / 64)]: 1 = free */
    int64_t lowest;         /* no block below it is free; without memory: where to search first */
};

sp_err sp_kv_shape_check(const sp_kv_shape *s)
{
    if (s->n_layers < 1 || s->n_heads < 1 || s->head < 2)
        return sp_fail(SP_E_ARG, "KV pool: %d layers, %d heads of %d", s->n_layers, s->n_heads,
                       s->head);
    if (s->type != SP_F32 && s->type != SP_F16 && s->type != SP_BF16 && s->type != SP_Q16 &&
        s->type != SP_Q8_0)
        return sp_fail(SP_E_ARG, "KV type %s: a cache can be f32, f16, bf16, q16 or q8_0",
                       sp_dtype_of(s->type)->name);
    if (s->head % sp_dtype_of(s->type)->n_group != 0)
        return sp_fail(SP_E_ARG, "KV type %s needs a head size in multiples of %d, this one is %d",
                       sp_dtype_of(s->type)->name, sp_dtype_of(s->type)->n_group, s->head);
    return SP_OK;
}

static size_t layer_block_bytes(const sp_kv_shape *s)
{
    return SP_ROUND_UP(2 * (size_t)s->n_heads * sp_kv_head_bytes(s->type, s->head),
                       (size_t)SP_CACHE_LINE);
}

size_t sp_kv_block_bytes(const sp_kv_shape *shape)
{
    return (size_t)shape->n_layers * layer_block_bytes(shape);
}

static sp_err take_memory(sp_kv_pool *p)
{
    size_t n_bytes, n = (size_t)p->n_blocks;
    p->refs = SP_NEW_N(_Atomic uint32_t, n);
    p->sealed = SP_NEW_N(uint8_t, n);
    p->births = SP_NEW_N(uint32_t, n);
    p->free_map = SP_NEW_N(uint64_t, SP_DIV_UP(n, 64));
    if (!p->refs || !p->sealed || !p->births || !p->free_map)
        return sp_fail_nomem("the KV pool");
    if (__builtin_mul_overflow(sp_kv_block_bytes(&p->shape), n, &n_bytes))
        return sp_fail_nomem("the KV pool");
    if (!p->device) return SP_OK;
    return sp_mem_alloc(p->device, n_bytes, "the KV pool", &p->memory);
}

sp_err sp_kv_pool_create(sp_device *device, const sp_kv_shape *shape, int64_t n_blocks,
                         sp_kv_pool **out)
{
    SP_TRY(sp_kv_shape_check(shape));
    if (n_blocks < 1 || n_blocks > UINT32_MAX)
        return sp_fail(SP_E_ARG, "KV pool: %lld blocks; 1 to %u are possible", (long long)n_blocks, UINT32_MAX);
    sp_kv_pool *p = SP_NEW(sp_kv_pool);
    if (!p) return sp_fail_nomem("the KV pool");
    p->device = device;
    p->shape = *shape;
    p->n_blocks = n_blocks;
    p->layer_block_bytes = p->plane_bytes = layer_block_bytes(shape);
    p->n_planes = 1;
    p->page = (size_t)sysconf(_SC_PAGESIZE);
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_init(&p->leaving, NULL);
    sp_err err = take_memory(p);
    if (err != SP_OK) {
        sp_kv_pool_destroy(p);
        return err;
    }
    for (int64_t i = 0; i < n_blocks; i++) p->free_map[i / 64] |= UINT64_C(1) << (i % 64);
    p->n_free = n_blocks;
    *out = p;
    return SP_OK;
}

void sp_kv_pool_destroy(sp_kv_pool *p)
{
    if (!p) return;
    sp_mem_free(&p->memory);
    sp_free(p->refs);
    sp_free(p->sealed);
    sp_free(p->births);
    sp_free(p->away);
    sp_free(p->free_map);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->leaving);
    sp_free(p);
}

const sp_kv_shape *sp_kv_pool_shape(const sp_kv_pool *p)
{
    return &p->shape;
}

sp_device *sp_kv_pool_device(const sp_kv_pool *p)
{
    return p->device;
}

int64_t sp_kv_pool_n_blocks(const sp_kv_pool *p)
{
    return p->n_blocks;
}

int64_t sp_kv_pool_n_free(const sp_kv_pool *p)
{
    return atomic_load(&p->n_free);
}

void sp_kv_pool_set_notes(sp_kv_pool *p, const sp_kv_notes *notes)
{
    p->notes = notes;
}

const sp_kv_notes *sp_kv_pool_notes(const sp_kv_pool *p)
{
    return p->notes;
}

/* -- memory --------------------------------------------------------------------------------- */

static uint8_t *at(const sp_kv_pool *p, int layer, int plane, uint32_t block)
{
    assert(layer >= 0 && layer < p->shape.n_layers && plane >= 0 && plane < p->n_planes);
    size_t i = ((size_t)layer * (size_t)p->n_planes + (size_t)plane) * (size_t)p->n_blocks + block;
    return (uint8_t *)p->memory.p + i * p->plane_bytes;
}

sp_kv_view sp_kv_pool_layer(const sp_kv_pool *p, int layer)
{
    return (sp_kv_view){
        .type = p->shape.type,
        .n_heads = p->shape.n_heads,
        .head = p->shape.head,
        .base = at(p, layer, 0, 0),
        .block_bytes = p->plane_bytes,
        .head_bytes = p->n_planes > 1 ? (size_t)p->n_blocks * p->plane_bytes : 0,
    };
}

sp_kv_view sp_kv_pool_outside(const sp_kv_pool *p, uint8_t *base)
{
    return (sp_kv_view){.type = p->shape.type,
                        .n_heads = p->shape.n_heads,
                        .head = p->shape.head,
                        .base = base,
                        .block_bytes = p->layer_block_bytes};
}

size_t sp_kv_pool_layer_block_bytes(const sp_kv_pool *p)
{
    return p->layer_block_bytes;
}

int sp_kv_pool_n_planes(const sp_kv_pool *p)
{
    return p->n_planes;
}

static uint8_t *run_at(const sp_kv_pool *p, sp_kv_run run)
{
    assert(run.n >= 0 && run.first + (int64_t)run.n <= p->n_blocks);
    return at(p, run.layer, 0, run.first);
}

/* copy_block -- one block of a layer in memory to the host's form. */
static void copy_block(const sp_kv_pool *p, int layer, uint32_t block, uint8_t *to)
{
    for (int i = 0; i < p->n_planes; i++)
        memcpy(to + (size_t)i * p->plane_bytes, at(p, layer, i, block), p->plane_bytes);
}

/* copy_if_near -- a block that leaves is marked as away before its memory is given back: not while it is copied. */
static bool copy_if_near(sp_kv_pool *p, int layer, uint32_t block, uint8_t *to)
{
    pthread_mutex_lock(&p->leaving);
    const bool near = !sp_kv_is_away(p, block);
    if (near) copy_block(p, layer, block, to);
    pthread_mutex_unlock(&p->leaving);
    return near;
}

static sp_err read_near_or_away(sp_kv_pool *p, sp_kv_run run, uint8_t *to)
{
    const size_t n = p->layer_block_bytes;
    for (int32_t i = 0; i < run.n; i++, to += n) {
        const sp_kv_run one = {.layer = run.layer, .first = run.first + (uint32_t)i, .n = 1};
        if (!copy_if_near(p, run.layer, one.first, to)) SP_TRY(p->elsewhere.read(p->elsewhere.user, one, to));
    }
    return SP_OK;
}

sp_err sp_kv_pool_read(sp_kv_pool *p, sp_kv_run run, void *staging, const uint8_t **out)
{
    const uint8_t *from = run_at(p, run);
    size_t n = (size_t)run.n * p->layer_block_bytes;
    if (p->away) {
        *out = staging;
        return read_near_or_away(p, run, staging);
    }
    if (!p->device->unified) {
        SP_TRY(sp_device_wait(p->device, sp_device_copy_out(p->device, staging, from, n)));
        from = staging;
    }
    *out = from;
    return SP_OK;
}

uint8_t *sp_kv_pool_target(sp_kv_pool *p, sp_kv_run run, void *staging)
{
    return p->device->unified && !p->away ? run_at(p, run) : staging;
}

sp_err sp_kv_pool_write(sp_kv_pool *p, sp_kv_run run, const void *from)
{
    size_t n = (size_t)run.n * p->layer_block_bytes;
    for (int32_t i = 0; p->away && i < run.n; i++)
        if (sp_kv_is_away(p, run.first + (uint32_t)i))
            return p->elsewhere.write(p->elsewhere.user, run, from);
    for (int32_t i = 0; i < run.n; i++) sp_kv_touch(p, run.first + (uint32_t)i);
    if (p->n_planes == 1) return sp_device_wait(p->device, sp_device_copy_in(p->device, run_at(p, run), from, n));
    const uint8_t *in = from;
    for (int32_t i = 0; i < run.n; i++) /* the memory is the host's: its blocks can leave */
        for (int k = 0; k < p->n_planes; k++, in += p->plane_bytes)
            memcpy(at(p, run.layer, k, run.first + (uint32_t)i), in, p->plane_bytes);
    return SP_OK;
}

/* -- blocks whose bytes are elsewhere --------------------------------------------------------- */

sp_err sp_kv_pool_let_leave(sp_kv_pool *p, const sp_kv_elsewhere *where)
{
    if (!p->device || !p->device->unified)
        return sp_fail(SP_E_UNSUPPORTED, "KV blocks cannot leave the memory of device %s",
                       p->device ? p->device->name : "(none)");
    assert(sp_kv_pool_n_free(p) == p->n_blocks && !p->away);
    p->away = SP_NEW_N(_Atomic uint8_t, (size_t)p->n_blocks);
    if (!p->away) return sp_fail_nomem("the KV pool");
    p->elsewhere = *where;
    if (where->by_head) {
        p->n_planes = p->shape.n_heads;
        p->plane_bytes = p->layer_block_bytes / (size_t)p->n_planes;
    }
    uintptr_t from = SP_ROUND_UP((uintptr_t)p->memory.p, p->page);
    uintptr_t to = ((uintptr_t)p->memory.p + p->memory.n_bytes) / p->page * p->page;
    if (to > from) madvise((void *)from, to - from, MADV_NOHUGEPAGE); /* a hint */
    return SP_OK;
}

bool sp_kv_is_away(const sp_kv_pool *p, uint32_t block)
{
    return p->away && atomic_load(&p->away[block]) == AWAY;
}

/* put -- a held block's bytes are somewhere else now. */
static void put(sp_kv_pool *p, uint32_t block, uint8_t place)
{
    const uint8_t was = atomic_exchange(&p->away[block], place);
    atomic_fetch_sub(&p->n_of[was], 1);
    atomic_fetch_add(&p->n_of[place], 1);
}

void sp_kv_set_away(sp_kv_pool *p, const uint32_t *blocks, int64_t n, bool away)
{
    pthread_mutex_lock(&p->leaving);
    for (int64_t i = 0; i < n; i++) {
        assert(p->sealed[blocks[i]] && atomic_load(&p->refs[blocks[i]]) > 0); /* I4 */
        put(p, blocks[i], away ? AWAY : IN_MEMORY);
    }
    pthread_mutex_unlock(&p->leaving);
}

void sp_kv_touch(sp_kv_pool *p, uint32_t block)
{
    uint8_t was = EMPTY;
    if (!p->away || !atomic_compare_exchange_strong(&p->away[block], &was, IN_MEMORY)) return;
    atomic_fetch_sub(&p->n_of[EMPTY], 1);
    atomic_fetch_add(&p->n_of[IN_MEMORY], 1);
}

bool sp_kv_is_empty(const sp_kv_pool *p, uint32_t block)
{
    return p->away && atomic_load(&p->away[block]) == EMPTY;
}

/* drop_pages -- whole pages of [from, to). */
static void drop_pages(size_t page, const uint8_t *from, const uint8_t *to)
{
    const uintptr_t first = SP_ROUND_UP((uintptr_t)from, page), end = (uintptr_t)to / page * page;
    if (end > first) madvise((void *)first, end - first, MADV_DONTNEED);
}

/* reach -- neighbours of a block that may share a page with it. */
static int reach(const sp_kv_pool *p)
{
    return (int)(p->page / p->plane_bytes) + 1;
}

/* drop_blocks -- of a plane: blocks first .. end - 1. */
static void drop_blocks(sp_kv_pool *p, int layer, int plane, int64_t first, int64_t end)
{
    const uint8_t *from = at(p, layer, plane, (uint32_t)first);
    drop_pages(p->page, from, from + (size_t)(end - first) * p->plane_bytes);
}

/* Neighbours that are away add their part of a page. Takes the lock: after the last holder releases a block, another
 * thread needs the lock to acquire and write it. */
void sp_kv_drop_plane(sp_kv_pool *p, sp_kv_run run, int plane)
{
    const int64_t stop = run.first + (int64_t)run.n;
    pthread_mutex_lock(&p->lock);
    for (int64_t i = run.first, end; i < stop; i = end) {
        for (end = i; end < stop && sp_kv_is_away(p, (uint32_t)end); end++) continue;
        if (end == i) {
            end++;
            continue;
        }
        int64_t from = i, to = end;
        for (int k = 0; k < reach(p) && from > 0 && sp_kv_is_away(p, (uint32_t)from - 1); k++) from--;
        for (int k = 0; k < reach(p) && to < p->n_blocks && sp_kv_is_away(p, (uint32_t)to); k++) to++;
        drop_blocks(p, run.layer, plane, from, to);
    }
    pthread_mutex_unlock(&p->lock);
}

void sp_kv_drop_contents(sp_kv_pool *p, sp_kv_run run)
{
    for (int i = 0; i < p->n_planes; i++) drop_blocks(p, run.layer, i, run.first, run.first + (int64_t)run.n);
}

int64_t sp_kv_pool_n_near(const sp_kv_pool *p)
{
    return p->away ? atomic_load(&p->n_of[IN_MEMORY]) : p->n_blocks - sp_kv_pool_n_free(p);
}

int64_t sp_kv_pool_n_away(const sp_kv_pool *p)
{
    return atomic_load(&p->n_of[AWAY]);
}

uint8_t *sp_kv_pool_bytes_at(sp_kv_pool *p, int layer, int plane, uint32_t block)
{
    assert(p->away);
    return at(p, layer, plane, block);
}

/* -- the free map: all with the lock held --------------------------------------------------- */

static bool is_free(const sp_kv_pool *p, int64_t i)
{
    return p->free_map[i / 64] >> (i % 64) & 1;
}

/* next_free -- the first free block at or after i, or n_blocks. */
static int64_t next_free(const sp_kv_pool *p, int64_t i)
{
    while (i < p->n_blocks) {
        uint64_t word = p->free_map[i / 64] >> (i % 64);
        if (word) return SP_MIN(i + __builtin_ctzll(word), p->n_blocks);
        i = (i / 64 + 1) * 64;
    }
    return p->n_blocks;
}

/* find_run -- the first block of n free neighbours in [from, to), or -1. */
static int64_t find_run(const sp_kv_pool *p, int64_t from, int64_t to, int64_t n)
{
    for (int64_t i = next_free(p, from); i + n <= to;) {
        int64_t len = 1;
        while (len < n && is_free(p, i + len)) len++;
        if (len == n) return i;
        i = next_free(p, i + len);
    }
    return -1;
}

static void take(sp_kv_pool *p, int64_t i)
{
    assert(is_free(p, i) && atomic_load(&p->refs[i]) == 0); /* I3 */
    p->free_map[i / 64] &= ~(UINT64_C(1) << (i % 64));
    p->sealed[i] = 0;
    p->births[i]++;
    if (p->away) {
        atomic_store(&p->away[i], EMPTY);
        atomic_fetch_add(&p->n_of[EMPTY], 1);
    }
    atomic_store(&p->refs[i], 1);
    p->n_free--;
}

/* -- holders -------------------------------------------------------------------------------- */

sp_err sp_kv_acquire(sp_kv_pool *p, int64_t n, uint32_t *blocks)
{
    if (n <= 0) return SP_OK;
    pthread_mutex_lock(&p->lock);
    if (n > p->n_free) {
        int64_t have = p->n_free;
        pthread_mutex_unlock(&p->lock);
        return sp_fail(SP_E_NOKV, "KV pool: %lld blocks wanted, %lld of %lld free", (long long)n,
                       (long long)have, (long long)p->n_blocks);
    }
    int64_t run = p->device ? find_run(p, p->lowest, p->n_blocks, n) : -1;
    int64_t at = run >= 0 ? run : p->lowest;
    for (int64_t i = 0; i < n; i++) {
        at = next_free(p, at);
        if (at == p->n_blocks) at = next_free(p, 0);
        take(p, at);
        blocks[i] = (uint32_t)at;
    }
    p->lowest = p->device ? next_free(p, p->lowest) : at;
    pthread_mutex_unlock(&p->lock);
    return SP_OK;
}

void sp_kv_retain(sp_kv_pool *p, const uint32_t *blocks, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t before = atomic_fetch_add(&p->refs[blocks[i]], 1);
        assert(before > 0);
        SP_UNUSED(before);
    }
}

/* come_back -- gives back the memory of n free neighbours, with the lock held. Others beside them that are free add
 * their part of a page. */
static void come_back(sp_kv_pool *p, int64_t first, int64_t n)
{
    int64_t end = first + n;
    for (int64_t i = first; i < end; i++) atomic_fetch_sub(&p->n_of[atomic_exchange(&p->away[i], IN_MEMORY)], 1);
    for (int i = 0; i < reach(p) && first > 0 && is_free(p, first - 1); i++) first--;
    for (int i = 0; i < reach(p) && end < p->n_blocks && is_free(p, end); i++) end++;
    for (int l = 0; l < p->shape.n_layers; l++)
        for (int k = 0; k < p->n_planes; k++) drop_blocks(p, l, k, first, end);
}

/* free_run -- n neighbours whose last holder has released them. */
static void free_run(sp_kv_pool *p, uint32_t first, int64_t n)
{
    if (n == 0) return;
    pthread_mutex_lock(&p->lock);
    if (p->away) come_back(p, first, n);
    for (int64_t i = first; i < first + n; i++) p->free_map[i / 64] |= UINT64_C(1) << (i % 64);
    p->n_free += n;
    if (p->device) p->lowest = SP_MIN(p->lowest, (int64_t)first);
    pthread_mutex_unlock(&p->lock);
}

void sp_kv_release(sp_kv_pool *p, const uint32_t *blocks, int64_t n)
{
    uint32_t first = 0;
    int64_t n_run = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t b = blocks[i], before = atomic_fetch_sub(&p->refs[b], 1);
        assert(before > 0);
        if (n_run && before == 1 && b == first + n_run) {
            n_run++;
            continue;
        }
        free_run(p, first, n_run);
        first = b;
        n_run = before == 1;
    }
    free_run(p, first, n_run);
}

void sp_kv_seal(sp_kv_pool *p, const uint32_t *blocks, int64_t n)
{
    for (int64_t i = 0; i < n; i++) p->sealed[blocks[i]] = 1;
}

bool sp_kv_is_sealed(const sp_kv_pool *p, uint32_t block)
{
    return p->sealed[block] != 0;
}

uint32_t sp_kv_refs(const sp_kv_pool *p, uint32_t block)
{
    return atomic_load(&p->refs[block]);
}

uint32_t sp_kv_birth(const sp_kv_pool *p, uint32_t block)
{
    return p->births[block];
}
