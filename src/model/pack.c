/* pack.c -- the weights of a model as the products of a CPU variant read them.
 *
 * Packed matrices lie in one region of pages, in the order in which a step meets them. The mapped
 * pages that they were made from are let go, so that weights are in memory once. The file stays
 * readable: the embedding takes its rows from there, one a token. */
#include "base/log.h"
#include "model/model_int.h"

typedef struct packer {
    const sp_ops *ops;
    sp_team *team;
    sp_model *model;
    uint8_t *next; /* where the next matrix goes; NULL while sizes are added up */
    size_t n_bytes;
} packer;

typedef struct job {
    const sp_ops *ops;
    sp_pack_args args;
} job;

static void pack_piece(void *arg, int piece, int n_pieces)
{
    const job *j = arg;
    j->ops->pack(&j->args, piece, n_pieces);
}

/* The pages of a matrix, in whichever file they are. */
static void let_go(const struct sp_model_files *files, const sp_mat *w)
{
    const size_t bytes = (size_t)w->n_rows * sp_row_bytes(w->type, w->n_cols);
    sp_file_map_let_go(&files->gguf.map, w->data, bytes);
    for (size_t i = 0; i < files->folder.files.n; i++)
        sp_file_map_let_go(&files->folder.files.v[i].map, w->data, bytes);
}

static void pack_matrix(packer *p, sp_mat *w)
{
    size_t bytes = SP_ROUND_UP(p->ops->pack_bytes(w), (size_t)SP_CACHE_LINE);
    if (bytes == 0) return;
    p->n_bytes += bytes;
    if (!p->next) return;
    job j = {p->ops, {.w = w, .out = p->next}};
    sp_team_share(p->team, pack_piece, &j, 8 * sp_team_size(p->team));
    w->packed = p->next;
    p->next += bytes;
    p->model->in_integers |= sp_in_integers(w);
    let_go(p->model->files, w);
}

static void pack_all(packer *p)
{
    sp_model *m = p->model;
    for (int l = 0; l < m->hp.n_layers; l++) {
        sp_layer *w = &m->layers[l];
        sp_mat *mats[] = {&w->wk, &w->wv, &w->wq, &w->wo, &w->w_gate, &w->w_up, &w->w_down};
        for (size_t i = 0; i < SP_COUNT(mats); i++) pack_matrix(p, mats[i]);
    }
    pack_matrix(p, &m->output);
}

sp_err sp_model_pack(sp_model *m, const sp_ops *ops, sp_team *team)
{
    assert(!m->packed_for);
    if (!ops->pack_bytes) return SP_OK;
    packer p = {.ops = ops, .team = team, .model = m};
    pack_all(&p);
    if (p.n_bytes == 0) return SP_OK;
    m->files->packed = sp_pages_alloc(p.n_bytes);
    if (!m->files->packed) return sp_fail_nomem(p.n_bytes, "packed weights");
    m->files->packed_bytes = p.n_bytes;
    m->packed_for = ops;
    p.next = m->files->packed;
    pack_all(&p);
    sp_log(SP_LOG_DEBUG, "%s: %zu MiB of weights packed for %s", m->path, p.n_bytes >> 20,
           ops->name);
    return SP_OK;
}
