#include "store/names_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static const char *const suffixes[] = {[SP_DISK_PLAIN] = ".plain", [SP_DISK_FUSED] = ".fused"};

/* -- names as paths ------------------------------------------------------------------------- */

sp_disk_name sp_disk_name_of(const sp_disk_key *key)
{
    return (sp_disk_name){.id = key->seg->id,
                          .head = sp_head_key(key->head, key->n_head),
                          .kind = (uint8_t)key->kind};
}

void sp_disk_name_path(const sp_disk_name *name, char out[SP_DISK_NAME_BYTES])
{
    char hex[2 * sizeof name->id.b + 1];
    sp_digest_hex(&name->id, sizeof name->id.b, hex);
    snprintf(out, SP_DISK_NAME_BYTES, "%.2s/%s-%016" PRIx64 "%s", hex, hex + SP_DISK_FOLDER_CHARS,
             name->head, suffixes[name->kind]);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* read_hex -- n bytes of hex at s; false when they are none. */
static bool read_hex(const char *s, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++) {
        int high = hex_digit(s[2 * i]), low = high < 0 ? -1 : hex_digit(s[2 * i + 1]);
        if (low < 0) return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

bool sp_disk_name_parse(const char *folder, const char *file, sp_disk_name *out)
{
    sp_disk_name name = {0};
    uint8_t head[8];
    size_t n_rest = sizeof name.id.b - 1, dash = 2 * n_rest, suffix = dash + 1 + 2 * sizeof head;
    if (strlen(folder) != SP_DISK_FOLDER_CHARS || strlen(file) < suffix) return false;
    if (!read_hex(folder, 1, name.id.b) || !read_hex(file, n_rest, name.id.b + 1)) return false;
    if (file[dash] != '-' || !read_hex(file + dash + 1, sizeof head, head)) return false;
    for (size_t i = 0; i < sizeof head; i++) name.head = name.head << 8 | head[i];
    for (size_t k = 0; k < SP_COUNT(suffixes); k++)
        if (strcmp(file + suffix, suffixes[k]) == 0) {
            name.kind = (uint8_t)k;
            *out = name;
            return true;
        }
    return false;
}

/* -- the set -------------------------------------------------------------------------------- */

/* Ids are SHA-256: eight bytes of one are a hash already. */
static size_t home_of(const sp_disk_names *s, const sp_disk_name *name)
{
    uint64_t h;
    memcpy(&h, name->id.b, sizeof h);
    return (size_t)(h ^ name->head ^ name->kind) & (s->cap - 1);
}

static bool same(const sp_disk_name *a, const sp_disk_name *b)
{
    return a->kind == b->kind && a->head == b->head && sp_digest_eq(&a->id, &b->id);
}

/* slot_of -- where the name is, or the free slot where it belongs. Pre: cap > 0. */
static size_t slot_of(const sp_disk_names *s, const sp_disk_name *name)
{
    size_t i = home_of(s, name);
    while (s->slots[i].used && !same(&s->slots[i], name)) i = (i + 1) & (s->cap - 1);
    return i;
}

sp_err sp_disk_names_reserve(sp_disk_names *s)
{
    if (4 * (s->n + 1) <= 3 * s->cap) return SP_OK;
    sp_disk_names larger = {.cap = s->cap ? 2 * s->cap : 64};
    larger.slots = SP_NEW_N(sp_disk_name, larger.cap);
    if (!larger.slots) return sp_fail_nomem(larger.cap * sizeof *larger.slots, "names of copies");
    for (size_t i = 0; i < s->cap; i++)
        if (s->slots[i].used) sp_disk_names_add(&larger, &s->slots[i]);
    sp_disk_names_fini(s);
    *s = larger;
    return SP_OK;
}

void sp_disk_names_add(sp_disk_names *s, const sp_disk_name *name)
{
    size_t i = slot_of(s, name);
    s->n += !s->slots[i].used;
    s->slots[i] = *name;
    s->slots[i].used = true;
}

bool sp_disk_names_has(const sp_disk_names *s, const sp_disk_name *name)
{
    return s->cap && s->slots[slot_of(s, name)].used;
}

/* Those that follow move up into the gap, unless that would put them before their home. */
void sp_disk_names_drop(sp_disk_names *s, const sp_disk_name *name)
{
    if (!sp_disk_names_has(s, name)) return;
    size_t mask = s->cap - 1, gap = slot_of(s, name);
    for (size_t i = (gap + 1) & mask; s->slots[i].used; i = (i + 1) & mask) {
        size_t from_home = (i - home_of(s, &s->slots[i])) & mask;
        if (from_home < ((i - gap) & mask)) continue;
        s->slots[gap] = s->slots[i];
        gap = i;
    }
    s->slots[gap].used = false;
    s->n--;
}

void sp_disk_names_fini(sp_disk_names *s)
{
    sp_free(s->slots);
    *s = (sp_disk_names){0};
}
