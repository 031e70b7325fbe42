/* test_by_path_order.c -- the order of a prompt's chunks in which the longest path is known. */
#include "support/small_kv.h"

#include "cache/by_path.h"

enum { N_IDS = 26, SIZE = 5, MAX = 12 };

typedef struct bench {
    sp_kv_pool *pool;
    sp_ledger *ledger;
    int32_t tokens[N_IDS][40];
} bench;

static void bench_begin(bench *b, int64_t n_blocks)
{
    *b = (bench){.pool = small_pool(n_blocks)};
    assert_ok(
        sp_ledger_create(&(sp_ledger_opts){.pool = b->pool, .max_blocks = n_blocks}, &b->ledger));
    for (int i = 0; i < N_IDS; i++)
        for (int t = 0; t < 40; t++) b->tokens[i][t] = 100 * i + t;
}

static void bench_end(bench *b)
{
    sp_ledger_destroy(b->ledger);
    small_pool_end(b->pool);
}

/* seg -- capital letters are heads, q and later questions, other small ones chunks; d to f are
 * longer. */
static sp_segment seg(const bench *b, char c)
{
    bool head = c >= 'A' && c <= 'Z';
    sp_segment s =
        small_segment(b->tokens[head ? c - 'A' : c - 'a'], head                   ? 7
                                                           : c >= 'd' && c <= 'f' ? 40
                                                                                  : SIZE);
    s.kind = head ? SP_SEG_SYSTEM : c >= 'q' ? SP_SEG_QUESTION : SP_SEG_CHUNK;
    return s;
}

static int segs_of(const bench *b, const char *names, sp_segment *out)
{
    int n = 0;
    for (; names[n]; n++) out[n] = seg(b, names[n]);
    return n;
}

/* learn -- a prompt as after its prefill. */
static void learn(bench *b, const char *names)
{
    sp_segment s[MAX];
    const sp_copy *path[MAX + 1] = {NULL};
    int n = segs_of(b, names, s);
    for (int i = sp_by_path_find(b->ledger, s, n, 1, path).n; i < n; i++) {
        uint32_t blocks[3];
        sp_copy_spec spec = {.seg = &s[i],
                             .facts.kind = SP_COPY_PATH,
                             .facts.exact = true,
                             .parent = i ? path[i - 1] : NULL,
                             .blocks = blocks};
        assert_ok(sp_kv_acquire(b->pool, small_blocks(s[i].n), blocks));
        sp_kv_seal(b->pool, blocks, small_blocks(s[i].n));
        assert_ok(sp_ledger_add(b->ledger, &spec, 1, &path[i]));
        assert_non_null(path[i]);
        sp_ledger_pin(b->ledger, path[i]);
        sp_kv_release(b->pool, blocks, small_blocks(s[i].n));
    }
    for (int i = 0; i < n; i++) sp_ledger_unpin(b->ledger, path[i]);
}

static int n_head_of(const char *names)
{
    int n = 0;
    while (names[n] >= 'A' && names[n] <= 'Z') n++;
    return n;
}

static void assert_order(const bench *b, const char *prompt, const char *want)
{
    sp_segment s[MAX];
    int32_t order[MAX];
    char got[MAX + 1] = {0};
    bool seen[MAX] = {false};
    int n = segs_of(b, prompt, s);
    assert_ok(sp_by_path_order(b->ledger, s, n, n_head_of(prompt), order));
    for (int i = 0; i < n; i++) {
        assert_in_range(order[i], 0, n - 1);
        assert_false(seen[order[i]]);
        seen[order[i]] = true;
        got[i] = prompt[order[i]];
    }
    assert_string_equal(got, want);
}

/* -- tests ---------------------------------------------------------------------------------- */

static void the_longest_path_in_any_order(void **state)
{
    bench b;
    bench_begin(&b, 60);
    assert_order(&b, "Sabcq", "Sabcq"); /* nothing is known */
    learn(&b, "Sbcaq");
    assert_order(&b, "Sabcq", "Sbcaq");
    assert_order(&b, "Sbcaq", "Sbcaq");
    assert_order(&b, "Sgabcq", "Sbcagq"); /* one of them is new */
    assert_order(&b, "Sacq", "Sacq");     /* no path begins with either */
    assert_order(&b, "Scbgq", "Sbcgq");
    assert_order(&b, "Tabcq", "Tabcq"); /* another head */
    assert_order(&b, "STabcq", "STabcq");
    assert_order(&b, "abcq", "abcq"); /* no head */
    learn(&b, "caz");
    assert_order(&b, "abcq", "cabq");
    bench_end(&b);
}

/* Tokens count, not segments; of equals, what comes first in the prompt. */
static void of_two_the_one_with_more_tokens(void **state)
{
    bench b;
    bench_begin(&b, 60);
    learn(&b, "Sabc");
    learn(&b, "Sd");
    assert_order(&b, "Sabcdq", "Sdabcq");
    assert_order(&b, "Sabcq", "Sabcq");
    learn(&b, "Sba");
    learn(&b, "Sge");
    assert_order(&b, "Sbagdq", "Sdbagq");
    assert_order(&b, "Sbagdeq", "Sgebadq"); /* 45 against 40 */
    assert_order(&b, "Sbaq", "Sbaq");
    assert_order(&b, "Sabq", "Sabq");
    bench_end(&b);
}

static void the_same_chunk_may_come_twice(void **state)
{
    bench b;
    bench_begin(&b, 60);
    learn(&b, "Saba");
    learn(&b, "Scc");
    assert_order(&b, "Sbaaq", "Sabaq");
    assert_order(&b, "Sabq", "Sabq");
    assert_order(&b, "Scbq", "Scbq"); /* the path c c takes two of them */
    assert_order(&b, "Scbcq", "Sccbq");
    bench_end(&b);
}

/* Only chunks move: questions and texts keep their places among the rest. */
static void others_are_not_on_the_path(void **state)
{
    bench b;
    bench_begin(&b, 60);
    learn(&b, "Sbqa");
    assert_order(&b, "Saqbr", "Sbaqr");
    bench_end(&b);
}

/* learn_permutations -- all orders of up to `most` of the chunks after `path`; returns how many
 * copies they are. */
static int learn_permutations(bench *b, char *path, int depth, const char *chunks, int most)
{
    int n = 0, n_chunks = (int)strlen(chunks);
    if (depth == most) return 0;
    for (int i = 0; i < n_chunks; i++) {
        size_t len = strlen(path);
        if (strchr(path, chunks[i])) continue;
        path[len] = chunks[i];
        learn(b, path);
        n += 1 + learn_permutations(b, path, depth + 1, chunks, most);
        path[len] = '\0';
    }
    return n;
}

/* Thousands of orders are known: what is found before 4,096 copies were seen is taken. */
static void a_search_has_an_end(void **state)
{
    for (int depth = 5; depth <= 6; depth++) { /* 3,619 and 8,659 copies below a */
        bench b;
        char path[MAX] = "Sa";
        bench_begin(&b, 12000);
        learn(&b, path);
        int n = learn_permutations(&b, path, 0, "bcghijk", depth);
        assert_int_equal(n < 4096, depth == 5);
        learn(&b, "Skbcghija"); /* the longest, but last in the order of search */
        assert_order(&b, "Sabcghijkq", depth == 5 ? "Skbcghijaq" : "Sabcghijkq");
        assert_order(&b, "Skbcghijaq", "Skbcghijaq");
        bench_end(&b);
    }
}

static void a_search_without_memory_leaves_nothing(void **state)
{
    bench b;
    sp_segment s[MAX];
    int32_t order[MAX] = {-1};
    bench_begin(&b, 60);
    learn(&b, "Sbca");
    int n = segs_of(&b, "Sabcq", s);
    assert_survives_faults(sp_by_path_order(b.ledger, s, n, 1, order), order[0] == -1);
    assert_int_equal(order[1], 2);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_path_in_any_order),
        cmocka_unit_test(of_two_the_one_with_more_tokens),
        cmocka_unit_test(the_same_chunk_may_come_twice),
        cmocka_unit_test(others_are_not_on_the_path),
        cmocka_unit_test(a_search_has_an_end),
        cmocka_unit_test(a_search_without_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
