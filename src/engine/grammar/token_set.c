/* token_set.c -- sorts a vocabulary and makes tries of it. */
#include "engine/grammar/token_set.h"

#include <stdlib.h>
#include <string.h>

#include "engine/grammar/grammar_int.h"

/* plain_chars -- the characters of a piece that any string may hold; 0: it is not of that kind. */
static uint16_t plain_chars(const sp_text_view *t)
{
    uint16_t n = 0;
    int position = SP_CHAR_WHOLE;
    for (size_t i = 0; i < t->n; i++) {
        position = sp_json_char(position, (uint8_t)t->s[i]);
        if (position < 0 || position == SP_CHAR_ESCAPE) return 0;
        n += position == SP_CHAR_WHOLE;
    }
    return position == SP_CHAR_WHOLE ? n : 0;
}

/* -- tries --------------------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b, void *user)
{
    const sp_text_view *pieces = user, *x = &pieces[*(const int32_t *)a],
                       *y = &pieces[*(const int32_t *)b];
    int d = memcmp(x->s, y->s, SP_MIN(x->n, y->n));
    return d ? d : (x->n > y->n) - (x->n < y->n);
}

/* shared -- the number of bytes that token i of a sorted list has in common with the one before. */
static size_t shared(const sp_token_set *v, const int32_t *ids, int32_t i)
{
    if (i == 0) return 0;
    const sp_text_view *a = &v->pieces[ids[i - 1]], *b = &v->pieces[ids[i]];
    size_t k = 0;
    while (k < a->n && k < b->n && a->s[k] == b->s[k]) k++;
    return k;
}

/* grow -- the nodes of sorted tokens: each adds the bytes that it does not share with the one before. */
static void grow(const sp_token_set *v, sp_token_trie *t)
{
    int32_t open[SP_TRIE_MAX_DEPTH + 1]; /* the nodes on the way to the last token */
    size_t depth = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < t->n_ids; i++) {
        const sp_text_view *p = &v->pieces[t->ids[i]];
        for (size_t k = shared(v, t->ids, i); depth > k; depth--) t->nodes[open[depth]].after = n;
        while (depth < p->n) {
            uint8_t byte = (uint8_t)p->s[depth++];
            open[depth] = n;
            t->nodes[n++] = (sp_token_trie_node){.tokens = i, .byte = byte, .depth = (uint8_t)depth};
        }
    }
    for (; depth > 0; depth--) t->nodes[open[depth]].after = n;
    t->nodes[n] = (sp_token_trie_node){.tokens = t->n_ids};
    t->n_nodes = n;
}

static sp_err make_trie(sp_token_set *v, bool special, sp_token_trie *t)
{
    t->ids = sp_arena_take(&v->arena, v->n + 1, sizeof *t->ids);
    if (!t->ids) return sp_fail_nomem("a sorted vocabulary");
    for (size_t i = 0; i < v->n; i++)
        if (v->pieces[i].n && v->pieces[i].n <= SP_TRIE_MAX_DEPTH && !v->end[i] &&
            !(special && v->n_chars[i]))
            t->ids[t->n_ids++] = (int32_t)i;
    qsort_r(t->ids, (size_t)t->n_ids, sizeof *t->ids, by_bytes, v->pieces);
    size_t n_nodes = 1;
    for (int32_t i = 0; i < t->n_ids; i++) n_nodes += v->pieces[t->ids[i]].n - shared(v, t->ids, i);
    t->nodes = sp_arena_take(&v->arena, n_nodes, sizeof *t->nodes);
    if (!t->nodes) return sp_fail_nomem("a sorted vocabulary");
    grow(v, t);
    return SP_OK;
}

/* -- creation -------------------------------------------------------------------------------------- */

static sp_err fill(sp_token_set *v, const sp_token_piece *pieces)
{
    v->pieces = sp_arena_take(&v->arena, v->n, sizeof *v->pieces);
    v->end = sp_arena_take(&v->arena, v->n, sizeof *v->end);
    v->plain = sp_arena_take(&v->arena, SP_DIV_UP(v->n, 64), sizeof *v->plain);
    v->n_chars = sp_arena_take(&v->arena, v->n, sizeof *v->n_chars);
    if (!v->pieces || !v->end || !v->plain || !v->n_chars)
        return sp_fail_nomem("a sorted vocabulary");
    for (size_t i = 0; i < v->n; i++) {
        char *copy = sp_arena_take(&v->arena, pieces[i].n + 1, 1);
        if (!copy) return sp_fail_nomem("a sorted vocabulary");
        if (pieces[i].n) memcpy(copy, pieces[i].s, pieces[i].n);
        v->pieces[i] = (sp_text_view){.s = copy, .n = pieces[i].n};
        v->end[i] = pieces[i].end;
        if (v->end[i] || pieces[i].n > SP_TRIE_MAX_DEPTH) continue;
        v->n_chars[i] = plain_chars(&v->pieces[i]);
        if (v->n_chars[i]) sp_token_bit_set(v->plain, (int32_t)i);
    }
    SP_TRY(make_trie(v, false, &v->all));
    return make_trie(v, true, &v->special);
}

sp_err sp_token_set_create(const sp_token_piece *pieces, size_t n, sp_token_set **out)
{
    sp_token_set *v = SP_NEW(sp_token_set);
    if (!v) return sp_fail_nomem("a sorted vocabulary");
    sp_arena_init(&v->arena);
    v->n = n;
    sp_err err = fill(v, pieces);
    if (err != SP_OK) {
        sp_token_set_destroy(v);
        return err;
    }
    *out = v;
    return SP_OK;
}

sp_err sp_token_set_of(const sp_tokenizer *t, sp_token_set **out)
{
    int n = sp_tokenizer_size(t);
    sp_bytes text = {0};
    size_t *at = SP_NEW_N(size_t, (size_t)n + 1);
    sp_token_piece *pieces = SP_NEW_N(sp_token_piece, (size_t)n + 1);
    sp_err err = at && pieces ? SP_OK : sp_fail_nomem("a sorted vocabulary");
    for (int i = 0; i < n && err == SP_OK; i++) {
        err = sp_tokenizer_piece(t, i, false, &text);
        at[i + 1] = text.n;
    }
    for (int i = 0; i < n && err == SP_OK; i++)
        pieces[i] = (sp_token_piece){
            .s = text.v + at[i], .n = at[i + 1] - at[i], .end = sp_tokenizer_is_end(t, i)};
    if (err == SP_OK) err = sp_token_set_create(pieces, (size_t)n, out);
    sp_vec_fini(&text);
    sp_free(at);
    sp_free(pieces);
    return err;
}

void sp_token_set_destroy(sp_token_set *v)
{
    if (!v) return;
    sp_arena_fini(&v->arena);
    sp_free(v);
}
