#include "store/others_int.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "store/kv_file.h"
#include "store/names_int.h"

#define MOST_SPACES 64

/* -- namespaces that have copies ------------------------------------------------------------ */

/* space_of -- of the file at `path`, which is in the folder `name`. */
static bool space_of(const char *path, const char *name, sp_digest *out)
{
    char hex[2 * SP_SPACE_BYTES + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    sp_err err = sp_kv_file_read_space(fd, path, out);
    close(fd);
    if (err != SP_OK) return false;
    sp_digest_hex(out, SP_SPACE_BYTES, hex);
    return strcmp(hex, name) == 0;
}

/* find_in -- the namespace, as the first copy below dir/name/folder tells that has one. */
static sp_err find_in(sp_others *o, const char *name, const char *folder, bool *found)
{
    sp_bytes path = {0};
    sp_err err = sp_bytes_addf(&path, "%s/%s/%s/", o->dir, name, folder);
    size_t n = path.n;
    if (err == SP_OK) err = sp_bytes_add(&path, "", 1);
    DIR *dir = err == SP_OK ? opendir(path.v) : NULL;
    for (struct dirent *e; err == SP_OK && dir && !*found && (e = readdir(dir));) {
        sp_disk_name copy;
        sp_digest space;
        if (!sp_disk_name_parse(folder, e->d_name, &copy)) continue;
        path.n = n;
        err = sp_bytes_add(&path, e->d_name, strlen(e->d_name) + 1);
        *found = err == SP_OK && space_of(path.v, name, &space);
        if (*found) o->spaces.v[o->spaces.n++] = space;
    }
    if (dir) closedir(dir);
    sp_vec_fini(&path);
    return err;
}

static sp_err learn_space(sp_others *o, const char *name)
{
    sp_bytes path = {0};
    SP_TRY(sp_vec_reserve(&o->spaces, 1));
    SP_TRY(sp_bytes_addf(&path, "%s/%s", o->dir, name));
    sp_err err = sp_bytes_add(&path, "", 1);
    DIR *dir = err == SP_OK ? opendir(path.v) : NULL;
    bool found = false;
    for (struct dirent *e; err == SP_OK && dir && !found && (e = readdir(dir));)
        if (strlen(e->d_name) == SP_DISK_FOLDER_CHARS && e->d_name[0] != '.')
            err = find_in(o, name, e->d_name, &found);
    if (dir) closedir(dir);
    sp_vec_fini(&path);
    return err;
}

sp_err sp_others_init(sp_others *o, const char *dir, const sp_digest *own)
{
    char hex[2 * SP_SPACE_BYTES + 1];
    sp_digest_hex(own, SP_SPACE_BYTES, hex);
    *o = (sp_others){.dir = sp_strdup_n(dir, strlen(dir))};
    if (!o->dir) return sp_fail_nomem(strlen(dir), "the store");
    DIR *all = opendir(dir);
    sp_err err = SP_OK;
    for (struct dirent *e; err == SP_OK && all && (e = readdir(all));)
        if (strlen(e->d_name) == strlen(hex) && strcmp(e->d_name, hex) != 0 &&
            o->spaces.n < MOST_SPACES)
            err = learn_space(o, e->d_name);
    if (all) closedir(all);
    return err;
}

void sp_others_fini(sp_others *o)
{
    sp_vec_fini(&o->spaces);
    sp_free(o->dir);
    *o = (sp_others){0};
}

/* -- a chunk there -------------------------------------------------------------------------- */

static bool is_file(const sp_others *o, const sp_digest *space, const sp_disk_key *key)
{
    char hex[2 * SP_SPACE_BYTES + 1], file[SP_DISK_NAME_BYTES];
    sp_bytes path = {0};
    sp_disk_name name = sp_disk_name_of(key);
    sp_disk_name_path(&name, file);
    sp_digest_hex(space, SP_SPACE_BYTES, hex);
    bool there = sp_bytes_addf(&path, "%s/%s/%s", o->dir, hex, file) == SP_OK &&
                 sp_bytes_add(&path, "", 1) == SP_OK && access(path.v, F_OK) == 0;
    sp_vec_fini(&path);
    return there;
}

/* The chunk that is asked for, in the words of this namespace. */
typedef struct wanted {
    const sp_segment *seg, *head; /* head [n_head] */
    int n_head;
    const char *salt;
    sp_digest *ids; /* [n_head] scratch: the head's ids in another namespace */
} wanted;

/* has -- a copy of either kind, under the names of that namespace. */
static bool has(const sp_others *o, const sp_digest *space, const wanted *w)
{
    sp_segment there = *w->seg;
    for (int i = 0; i < w->n_head; i++)
        if (sp_segment_id(space, w->salt, w->head[i].tokens, w->head[i].n, &w->ids[i]) != SP_OK)
            return false;
    if (sp_segment_id(space, w->salt, there.tokens, there.n, &there.id) != SP_OK) return false;
    sp_disk_key key = {.kind = SP_DISK_PLAIN, .seg = &there, .head = w->ids, .n_head = w->n_head};
    if (is_file(o, space, &key)) return true;
    key.kind = SP_DISK_FUSED;
    return is_file(o, space, &key);
}

bool sp_others_have(const sp_others *o, const sp_segment *seg, const sp_segment *head, int n_head,
                    const char *salt)
{
    if (o->spaces.n == 0) return false;
    wanted w = {.seg = seg, .head = head, .n_head = n_head, .salt = salt};
    w.ids = sp_alloc((size_t)n_head + 1, sizeof *w.ids);
    bool found = false;
    for (size_t i = 0; w.ids && i < o->spaces.n && !found; i++) found = has(o, &o->spaces.v[i], &w);
    sp_free(w.ids);
    return found;
}
