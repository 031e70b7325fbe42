#include "store/disk/others.h"

#include <dirent.h>
#include <string.h>

#include "store/disk/journal_int.h"

typedef struct sp_other {
    sp_digest space;
    sp_table table;
    uint32_t first; /* of the list of all its entries */
} sp_other;

struct sp_others {
    SP_VEC(sp_other) list;
};

enum { MOST_SPACES = 64, SPACE_HEX = 32 /* digits of a namespace, in its folder's name */ };

/* -- namespaces that have copies ------------------------------------------------------------ */

/* All copies are in one list: their order of use is not needed. */
static sp_err apply_line(void *user, const sp_journal_line *line)
{
    sp_other *other = user;
    uint32_t i = sp_table_find(&other->table, &line->key);
    if (line->event == SP_EVENT_PUT && i == SP_NO_ENTRY) {
        SP_TRY(sp_table_reserve(&other->table, 1));
        sp_table_add(&other->table, &line->key, &line->place, &other->first);
    } else if (line->event == SP_EVENT_PUT) {
        other->table.entries.v[i].place = line->place;
    } else if (i != SP_NO_ENTRY &&
               (line->event == SP_EVENT_DROP ||
                sp_disk_place_eq(&other->table.entries.v[i].place, &line->place))) {
        sp_table_remove(&other->table, i, &other->first);
    }
    return SP_OK;
}

/* read_index -- of the namespace in this folder. */
static sp_err read_index(sp_others *o, const char *dir, const char *folder)
{
    sp_bytes path = {0};
    sp_other other = {0};
    sp_journal journal;
    sp_table_init(&other.table);
    other.first = SP_NO_ENTRY;
    sp_err err = sp_bytes_addf(&path, "%s/%s/index", dir, folder);
    if (err == SP_OK) err = sp_bytes_add(&path, "", 1);
    if (err == SP_OK) err = sp_vec_reserve(&o->list, 1);
    if (err == SP_OK) err = sp_journal_space(path.v, &other.space);
    if (err == SP_OK) {
        err = sp_journal_open(&journal, path.v, &other.space, false, apply_line, &other);
        if (err == SP_OK) sp_journal_close(&journal);
    }
    sp_vec_fini(&path);
    if (err == SP_OK && other.table.n)
        o->list.v[o->list.n++] = other;
    else
        sp_table_fini(&other.table);
    return err == SP_E_NOMEM ? err : SP_OK;
}

sp_err sp_others_open(const char *dir, const sp_digest *own, sp_others **out)
{
    char hex[SPACE_HEX + 1];
    sp_others *o = SP_NEW(sp_others);
    if (!o) return sp_fail_nomem("the folder of a store");
    sp_digest_hex(own, SPACE_HEX / 2, hex);
    DIR *all = opendir(dir);
    sp_err err = SP_OK;
    for (struct dirent *e; err == SP_OK && all && (e = readdir(all));)
        if (strlen(e->d_name) == SPACE_HEX && strcmp(e->d_name, hex) != 0 &&
            o->list.n < MOST_SPACES)
            err = read_index(o, dir, e->d_name);
    if (all) closedir(all);
    if (err == SP_OK)
        *out = o;
    else
        sp_others_close(o);
    return err;
}

void sp_others_close(sp_others *o)
{
    if (!o) return;
    for (size_t i = 0; i < o->list.n; i++) sp_table_fini(&o->list.v[i].table);
    sp_vec_fini(&o->list);
    sp_free(o);
}

/* -- a chunk there -------------------------------------------------------------------------- */

/* has -- a copy under the ids of that namespace. ids: room for the head's. */
static bool has(const sp_other *other, const sp_others_query *q, sp_digest *ids)
{
    const sp_digest *space = &other->space;
    sp_tier_key key = {0};
    for (int i = 0; i < q->n_head; i++)
        if (sp_segment_id(space, q->salt, q->head[i].tokens, q->head[i].n, &ids[i]) != SP_OK)
            return false;
    if (sp_segment_id(space, q->salt, q->seg->tokens, q->seg->n, &key.id) != SP_OK) return false;
    key.head = sp_head_key(ids, q->n_head);
    for (; key.kind < q->n_kinds; key.kind++)
        if (sp_table_find(&other->table, &key) != SP_NO_ENTRY) return true;
    return false;
}

bool sp_others_have(const sp_others *o, const sp_others_query *q)
{
    if (o->list.n == 0) return false;
    sp_digest *ids = sp_alloc((size_t)q->n_head + 1, sizeof *ids);
    bool found = false;
    for (size_t i = 0; ids && i < o->list.n && !found; i++) found = has(&o->list.v[i], q, ids);
    sp_free(ids);
    return found;
}
