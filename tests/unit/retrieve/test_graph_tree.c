/* Dependency trees of relation paths: fixed examples, and properties over random paths. */
#include "support/check.h"

#include "retrieve/graph/tree.h"

static const bool forward[8] = {false},
                  backward[8] = {true, true, true, true, true, true, true, true};

static sp_graph_path path(int n_hops, const char *const *nodes, const char *const *relations)
{
    return (sp_graph_path){
        .n_hops = n_hops, .nodes = nodes, .relations = relations, .inverse = forward};
}

static void paths_merge_by_prefix(void **state)
{
    const char *const n1[] = {"Alice", "Titanic", "Tragedy"}, *const r1[] = {"like", "type"};
    const char *const n2[] = {"Alice", "Titanic", "Romance"}, *const n3[] = {"Bob", "24"};
    const char *const r3[] = {"age"};
    const sp_graph_path paths[] = {path(2, n1, r1), path(1, n3, r3), path(2, n2, r1)};
    static const sp_graph_node want[] = {
        {"Alice", -1, 0},   {" -like->", 0, 1}, {" Titanic", 1, 2},
        {" -type->", 2, 3}, {" Tragedy", 3, 4}, {" Romance", 3, 4},
        {"Bob", -1, 0},     {" -age->", 6, 1},  {" 24", 7, 2},
    };
    sp_graph_tree t;
    assert_ok(sp_graph_tree_build(paths, 3, SP_GRAPH_ARROWS, &t));
    assert_int_equal(t.n, SP_COUNT(want));
    for (int i = 0; i < t.n; i++) {
        assert_string_equal(t.v[i].text, want[i].text);
        assert_int_equal(t.v[i].parent, want[i].parent);
        assert_int_equal(t.v[i].depth, want[i].depth);
    }
    sp_graph_tree_fini(&t);
}

static void text_is(const sp_graph_path *p, sp_graph_style style, const char *want)
{
    sp_bytes text = {0};
    assert_ok(sp_path_text(p, style, &text));
    assert_ok(sp_bytes_add(&text, "", 1));
    assert_string_equal(text.v, want);
    sp_vec_fini(&text);
}

static void both_styles_name_the_direction(void **state)
{
    const char *const nodes[] = {"Tragedy", "Titanic", "Alice"};
    const char *const relations[] = {"has_type", "likedBy"};
    sp_graph_path p = path(2, nodes, relations);
    text_is(&p, SP_GRAPH_ARROWS, "Tragedy -has_type-> Titanic -likedBy-> Alice");
    text_is(&p, SP_GRAPH_SENTENCES, "Tragedy has type Titanic. Titanic liked by Alice.");
    p.inverse = backward;
    text_is(&p, SP_GRAPH_ARROWS, "Tragedy <-has_type- Titanic <-likedBy- Alice");
    text_is(&p, SP_GRAPH_SENTENCES,
            "Tragedy is has type of Titanic. Titanic is liked by of Alice.");
}

/* Two paths share a triple, and one of them reads one against its direction. */
static void triplets_are_there_once_after_their_subject(void **state)
{
    static const bool against[] = {false, true};
    const char *const n1[] = {"Alice", "Titanic", "Bob"}, *const r1[] = {"like", "likedToo"};
    const char *const n2[] = {"Alice", "Titanic", "Tragedy"}, *const r2[] = {"like", "has_type"};
    sp_graph_path paths[] = {path(2, n1, r1), path(2, n2, r2)};
    paths[0].inverse = against;
    text_is(&paths[0], SP_GRAPH_TRIPLETS, "(Alice, like, Titanic) (Bob, liked too, Titanic)");
    static const sp_graph_node want[] = {
        {"(Alice", -1, 0},      {", like", 0, 1},     {", Titanic)", 1, 2},
        {"(Bob", -1, 0},        {", liked too", 3, 1}, {", Titanic)", 4, 2},
        {"(Titanic", -1, 0},    {", has type", 6, 1},  {", Tragedy)", 7, 2},
    };
    sp_graph_tree t;
    assert_ok(sp_graph_tree_build(paths, 2, SP_GRAPH_TRIPLETS, &t));
    assert_int_equal(t.n, SP_COUNT(want));
    for (int i = 0; i < t.n; i++) {
        assert_string_equal(t.v[i].text, want[i].text);
        assert_int_equal(t.v[i].parent, want[i].parent);
        assert_int_equal(t.v[i].depth, want[i].depth);
    }
    sp_graph_tree_fini(&t);
}

static void no_paths_are_no_nodes(void **state)
{
    sp_graph_tree t;
    assert_ok(sp_graph_tree_build(NULL, 0, SP_GRAPH_ARROWS, &t));
    assert_int_equal(t.n, 0);
    sp_graph_tree_fini(&t);
    assert_fails(sp_graph_tree_build(NULL, 1, SP_GRAPH_ARROWS, &t), SP_E_ARG, "paths");
    const char *const alone[] = {""};
    sp_graph_path p = path(0, alone, NULL);
    assert_ok(sp_graph_tree_build(&p, 1, SP_GRAPH_ARROWS, &t));
    assert_int_equal(t.n, 1);
    assert_string_equal(t.v[0].text, "");
    sp_graph_tree_fini(&t);
}

/* -- properties ----------------------------------------------------------------------------- */

#define N_PATHS 60

typedef struct random_paths {
    const char *nodes[N_PATHS][9], *relations[N_PATHS][8];
    bool inverse[N_PATHS][8];
    sp_graph_path v[N_PATHS];
} random_paths;

static void make_paths(random_paths *r, uint64_t seed)
{
    static const char *const names[] = {"a", "b", "", "a b", "b -x-> c", "ü"};
    static const char *const relations[] = {"x", "y", "x_y"};
    for (int i = 0; i < N_PATHS; i++) {
        int n = check_random(&seed, 5);
        for (int j = 0; j <= n; j++) r->nodes[i][j] = names[check_random(&seed, j ? 6 : 3)];
        for (int j = 0; j < n; j++) {
            r->relations[i][j] = relations[check_random(&seed, 3)];
            r->inverse[i][j] = check_random(&seed, 2);
        }
        r->v[i] = (sp_graph_path){.n_hops = n,
                                  .nodes = r->nodes[i],
                                  .relations = r->relations[i],
                                  .inverse = r->inverse[i]};
    }
}

/* find -- the node of the tree that a path ends with; checks that each segment is there once. */
static int find(const sp_graph_tree *t, const sp_graph_path *p, sp_graph_style style)
{
    int at = -1;
    for (int i = 0; i < sp_path_n_segments(p); i++) {
        sp_bytes text = {0};
        int child = -1;
        assert_ok(sp_path_segment(p, style, i, &text));
        assert_ok(sp_bytes_add(&text, "", 1));
        for (int c = 0; c < t->n; c++) {
            if (t->v[c].parent != at || strcmp(t->v[c].text, text.v) != 0) continue;
            assert_int_equal(child, -1);
            child = c;
        }
        assert_true(child > at);
        assert_int_equal(t->v[child].depth, i);
        sp_vec_fini(&text);
        at = child;
    }
    return at;
}

static void check_tree(const random_paths *r, sp_graph_style style)
{
    sp_graph_tree t;
    bool on_path[N_PATHS * 9] = {false};
    assert_ok(sp_graph_tree_build(r->v, N_PATHS, style, &t));
    assert_in_range(t.n, 1, N_PATHS * 9);
    for (int i = 0; i < N_PATHS; i++)
        for (int at = find(&t, &r->v[i], style); at >= 0; at = t.v[at].parent) on_path[at] = true;
    for (int i = 0; i < t.n; i++) {
        const sp_graph_node *n = &t.v[i];
        assert_true(on_path[i]); /* nothing that no path has */
        assert_in_range(n->parent + 1, 0, i);
        assert_int_equal(n->depth, n->parent < 0 ? 0 : t.v[n->parent].depth + 1);
        /* pre-order: the parent is the node before, or an ancestor of it */
        int up = i - 1;
        while (up >= 0 && up != n->parent) up = t.v[up].parent;
        assert_int_equal(up, n->parent);
    }
    sp_graph_tree_fini(&t);
}

static void every_path_is_a_way_down_and_nothing_else_is(void **state)
{
    static random_paths r;
    for (uint64_t seed = 0; seed < 200; seed++) {
        make_paths(&r, seed);
        check_tree(&r, SP_GRAPH_ARROWS);
        check_tree(&r, SP_GRAPH_SENTENCES);
    }
}

/* A tree of the tree's own branches is the same tree. */
static void building_is_deterministic_and_idempotent(void **state)
{
    static random_paths r;
    make_paths(&r, 7);
    sp_graph_tree a, b;
    assert_ok(sp_graph_tree_build(r.v, N_PATHS, SP_GRAPH_ARROWS, &a));
    sp_graph_path twice[2 * N_PATHS];
    memcpy(twice, r.v, sizeof r.v);
    memcpy(twice + N_PATHS, r.v, sizeof r.v);
    assert_ok(sp_graph_tree_build(twice, 2 * N_PATHS, SP_GRAPH_ARROWS, &b));
    assert_int_equal(a.n, b.n);
    for (int i = 0; i < a.n; i++) {
        assert_string_equal(a.v[i].text, b.v[i].text);
        assert_int_equal(a.v[i].parent, b.v[i].parent);
    }
    sp_graph_tree_fini(&a);
    sp_graph_tree_fini(&b);
}

static void memory_that_runs_out_leaves_nothing(void **state)
{
    static random_paths r;
    sp_graph_tree t = {.n = -7};
    make_paths(&r, 3);
    assert_survives_faults(sp_graph_tree_build(r.v, N_PATHS, SP_GRAPH_SENTENCES, &t), t.n == -7);
    sp_graph_tree_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_merge_by_prefix),
        cmocka_unit_test(both_styles_name_the_direction),
        cmocka_unit_test(triplets_are_there_once_after_their_subject),
        cmocka_unit_test(no_paths_are_no_nodes),
        cmocka_unit_test(every_path_is_a_way_down_and_nothing_else_is),
        cmocka_unit_test(building_is_deterministic_and_idempotent),
        cmocka_unit_test(memory_that_runs_out_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
