/* stored.h -- what a store on disk holds, read from its indices, and damage to it. */
#ifndef SP_TESTS_STORED_H
#define SP_TESTS_STORED_H

#include "support/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "store/disk/journal_int.h"

enum { STORED_MAX = 128 };

typedef struct stored {
    int n;
    sp_journal_line lines[STORED_MAX]; /* copies that are there */
    char folder[STORED_MAX][300];
    char now[300]; /* folder of the index being read */
} stored;

static inline sp_err stored_line(void *user, const sp_journal_line *l)
{
    stored *s = user;
    int i = 0;
    while (i < s->n && (strcmp(s->folder[i], s->now) != 0 || s->lines[i].key.kind != l->key.kind ||
                        s->lines[i].key.head != l->key.head ||
                        !sp_digest_eq(&s->lines[i].key.id, &l->key.id)))
        i++;
    if (l->event == SP_EVENT_PUT) {
        assert_in_range(i, 0, STORED_MAX - 1);
        s->lines[i] = *l;
        memcpy(s->folder[i], s->now, sizeof s->now);
        s->n = SP_MAX(s->n, i + 1);
    } else if (i < s->n && (l->event == SP_EVENT_DROP ||
                            sp_disk_place_eq(&s->lines[i].place, &l->place))) {
        s->n--;
        s->lines[i] = s->lines[s->n];
        memcpy(s->folder[i], s->folder[s->n], sizeof s->now);
    }
    return SP_OK;
}

static inline void stored_read(const char *dir, stored *s)
{
    DIR *all = opendir(dir);
    s->n = 0;
    for (struct dirent *e; all && (e = readdir(all));) {
        char index[320];
        sp_digest space;
        sp_journal j;
        if (strlen(e->d_name) != 32) continue;
        snprintf(s->now, sizeof s->now, "%.200s/%.32s", dir, e->d_name);
        snprintf(index, sizeof index, "%s/index", s->now);
        if (sp_journal_space(index, &space) != SP_OK) continue;
        assert_ok(sp_journal_open(&j, index, &space, false, stored_line, s));
        sp_journal_close(&j);
    }
    if (all) closedir(all);
}

/* stored_copies -- of this kind (sp_copy_kind). */
static inline int stored_copies(const char *dir, uint32_t kind)
{
    static stored s;
    int n = 0;
    stored_read(dir, &s);
    for (int i = 0; i < s.n; i++) n += s.lines[i].key.kind == kind;
    return n;
}

/* stored_flip -- flips a bit of all copies of this kind: in a byte of their headers, or (-1) of the first layer, after
 * blocks of so many bytes. */
static inline void stored_flip(const char *dir, uint32_t kind, int in_header, size_t block_bytes)
{
    static stored s;
    stored_read(dir, &s);
    for (int i = 0; i < s.n; i++) {
        const sp_disk_place *p = &s.lines[i].place;
        char path[340], byte;
        if (s.lines[i].key.kind != kind) continue;
        snprintf(path, sizeof path, "%s/%08x.kv", s.folder[i], p->segment);
        const off_t in_layer = (off_t)p->head_pages * 4096 + 9 + (off_t)((size_t)((p->n + 15) / 16) * block_bytes);
        const off_t at = (off_t)p->page * 4096 + (in_header < 0 ? in_layer : in_header);
        int fd = open(path, O_RDWR);
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        close(fd);
    }
}

/* stored_damage_after -- in their first layer, after blocks of so many bytes: in its notes. */
static inline void stored_damage_after(const char *dir, uint32_t kind, size_t block_bytes)
{
    stored_flip(dir, kind, -1, block_bytes);
}

/* stored_damage -- in the blocks of their first layer. */
static inline void stored_damage(const char *dir, uint32_t kind)
{
    stored_damage_after(dir, kind, 0);
}

#endif
