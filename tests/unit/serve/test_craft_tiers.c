/* test_craft_tiers.c -- Cache-Craft below the device: placed copies and patches come back from host and disk, the one
 * with the least CFO serves wherever it is, and a chunk has so many at most. */
#include "support/folder.h"
#include "support/requests.h"
#include "support/stored.h"

/* -- contexts -------------------------------------------------------------------------------- */

static const char how[] = "craft:focus=0";

static sp_context *open_at(const char *dir, int max_variants)
{
    return open_with((sp_context_opts){.reuse = {.policy = how, .recompute = 0.3f},
                                       .cache = {.kv_type = "f32", .max_variants = max_variants},
                                       .tiers.store = dir,
                                       .queue.order = "fcfs",
                                       .n_batch = 40});
}

static void let_go(sp_context *c, sp_request *r)
{
    sp_request_destroy(r);
    close_clean(c);
}

static int n_chunks_from(const sp_request *r, const char *from)
{
    const sp_result *result = sp_request_result(r);
    int n = 0;
    for (int i = 0; i < result->n_segments; i++) {
        const bool is_chunk = strcmp(result->segments[i].kind, "chunk") == 0;
        n += is_chunk && strcmp(result->segments[i].from, from) == 0;
    }
    return n;
}

/* n_placed -- placed copies that the ledger knows, in any tier. */
static int n_placed(const sp_context *c)
{
    int n = 0;
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));) n += v->facts.kind == SP_COPY_PLACED;
    return n;
}

static int n_patches(const sp_context *c)
{
    int n = 0;
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));) n += v->base != NULL;
    return n;
}

/* -- a restart ------------------------------------------------------------------------------- */

static const char *const orders[] = {"012", "210", "120", "0213"};

/* The answer to the same prompt in the same process, where everything is known, is that of the next process. */
static void a_restart_finds_placed_copies_and_patches(void **state)
{
    char dir[128], *known[SP_COUNT(orders)];
    int n_recomputed[SP_COUNT(orders)], n_all;
    make_folder(dir, sizeof dir);
    sp_context *c = open_at(dir, 99);
    for (size_t i = 0; i < SP_COUNT(orders); i++) sp_request_destroy(ask(c, orders[i], "Where?", 8));
    for (size_t i = 0; i < SP_COUNT(orders); i++) {
        sp_request *r = ask(c, orders[i], "Where?", 8);
        known[i] = strdup(sp_request_result(r)->text);
        n_recomputed[i] = sp_request_result(r)->n_recomputed;
        sp_request_destroy(r);
    }
    assert_true(n_patches(c) > 3);
    n_all = n_placed(c);
    close_clean(c);
    assert_int_equal(stored_copies(dir, SP_COPY_PLACED), n_all);
    c = open_at(dir, 99);
    assert_int_equal(n_placed(c), n_all);
    for (size_t i = 0; i < SP_COUNT(orders); i++) {
        sp_request *r = ask(c, orders[i], "Where?", 8);
        assert_string_equal(sp_request_result(r)->text, known[i]);
        assert_int_equal(sp_request_result(r)->n_recomputed, n_recomputed[i]);
        assert_int_equal(n_chunks_from(r, "disk") + n_chunks_from(r, "memory"), (int)strlen(orders[i]));
        if (i == 0) assert_int_equal(n_chunks_from(r, "disk"), 3);
        assert_adds_up(sp_request_result(r));
        sp_request_destroy(r);
        free(known[i]);
    }
    close_clean(c);
    remove_folder(dir);
}

static int n_patched(const sp_request *r)
{
    int n = 0;
    for (int i = 0; i < sp_request_result(r)->n_segments; i++) n += sp_request_result(r)->segments[i].n_patched;
    return n;
}

/* A patch and its base are one copy below: its bytes are those of both, in every type of KV. */
static void a_patch_leaves_with_its_base(void **state)
{
    static const char *const types[] = {"f32", "f16", "bf16", "q8_0", "q16"};
    for (size_t k = 0; k < SP_COUNT(types); k++) {
        sp_context *c = open_with((sp_context_opts){.reuse = {.policy = how, .recompute = 0.3f},
                                                    .cache.kv_type = types[k],
                                                    .tiers.host_bytes = 64 << 20,
                                                    .n_batch = 40});
        sp_request_destroy(ask(c, "012", "Where?", 2));
        sp_request_destroy(ask(c, "210", "Where?", 2));
        sp_request *patched = ask(c, "210", "Where?", 6);
        char *text = strdup(sp_request_result(patched)->text);
        assert_true(n_patches(c) > 0 && n_patched(patched) > 0);
        uint64_t origin[3];
        for (int s = 0; s < 3; s++) origin[s] = sp_request_result(patched)->segments[1 + s].origin;
        sp_request_destroy(patched);
        sp_ledger_free_up(c->ledger, sp_kv_pool_n_blocks(c->pool)); /* everything leaves */
        sp_request *whole = ask(c, "210", "Where?", 6);
        assert_int_equal(n_chunks_from(whole, "host"), 3);
        assert_int_equal(sp_request_result(whole)->n_recomputed, 0);
        assert_int_equal(n_patches(c) + n_patched(whole), 0);
        for (int s = 0; s < 3; s++) assert_int_equal(sp_request_result(whole)->segments[1 + s].origin, origin[s]);
        assert_string_equal(sp_request_result(whole)->text, text);
        free(text);
        let_go(c, whole);
    }
}

/* -- which one ------------------------------------------------------------------------------- */

/* The copy on the device would be recomputed in part; the one on disk fits. */
static void the_least_cfo_serves_wherever_it_is(void **state)
{
    const char *dir = *state;
    sp_context *c = open_at(dir, 99);
    sp_request_destroy(ask(c, "012", "Where?", 2));
    sp_request_destroy(ask(c, "210", "Where?", 2));
    close_clean(c);
    c = open_at(dir, 99);
    sp_request_destroy(ask(c, "012", "Where?", 2)); /* these are on the device now */
    sp_request *r = ask(c, "210", "Where?", 2);
    assert_int_equal(n_chunks_from(r, "disk"), 3);
    assert_int_equal(sp_request_result(r)->n_recomputed, 0);
    sp_request_destroy(r);
    r = ask(c, "012", "Where?", 2); /* of equal ones that on the device */
    assert_int_equal(n_chunks_from(r, "memory"), 3);
    let_go(c, r);
}

/* -- little memory --------------------------------------------------------------------------- */

static int n_missed(const policy *how_, const char *dir)
{
    static const char *const many[] = {"01", "23", "12", "30", "012", "321", "203", "13", "0123", "3210", "1", "20"};
    sp_context *c = open_with((sp_context_opts){.reuse = {.policy = how_->name, .recompute = how_->recompute},
                                                .cache = {.kv_type = "f32", .max_variants = 3},
                                                .tiers.store = dir,
                                                .queue.order = "fcfs",
                                                .n_batch = 40});
    const size_t block = sp_context_describe(c).kv_block_bytes;
    close_clean(c);
    c = open_with((sp_context_opts){.reuse = {.policy = how_->name, .recompute = how_->recompute},
                                    .cache = {.kv_type = "f32", .max_variants = 3, .kv_bytes = 24 * block},
                                    .tiers.store = dir,
                                    .queue.order = "fcfs",
                                    .n_batch = 40});
    bool seen[10] = {false};
    int n = 0;
    for (size_t i = 0; i < SP_COUNT(many); i++) {
        sp_request *r = ask(c, many[i], "Where?", 2);
        for (size_t k = 0; k < strlen(many[i]); k++) {
            const int chunk = many[i][k] - '0';
            n += seen[chunk] && sp_request_result(r)->segments[k + 1].from[0] == 0;
            seen[chunk] = true;
        }
        sp_request_destroy(r);
    }
    close_clean(c);
    return n;
}

/* With KV memory for a prompt or two, the store has what leaves it. */
static void nothing_known_is_missed_with_little_memory(void **state)
{
    static const policy craft = {how, 0.3f}, full = {"full", 0};
    char dir[128];
    make_folder(dir, sizeof dir);
    assert_int_equal(n_missed(&full, dir), 0);
    remove_folder(dir);
    make_folder(dir, sizeof dir);
    assert_int_equal(n_missed(&craft, dir), 0);
    remove_folder(dir);
}

/* -- how many -------------------------------------------------------------------------------- */

static int most_of_a_chunk(const sp_context *c)
{
    int most = 0;
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));) {
        int n = 0;
        for (const sp_copy *o = NULL; (o = sp_ledger_next(c->ledger, o));)
            n += o->facts.kind == SP_COPY_PLACED && sp_digest_eq(&o->facts.id, &v->facts.id);
        most = SP_MAX(most, n);
    }
    return most;
}

static void a_chunk_has_so_many_copies_in_all_tiers(void **state)
{
    static const char *const many[] = {"012", "210", "120", "021", "102", "201", "3012", "3210"};
    for (int limit = 1; limit <= 3; limit++) {
        char dir[128];
        make_folder(dir, sizeof dir);
        sp_context *c = open_at(dir, limit);
        for (size_t i = 0; i < SP_COUNT(many); i++) {
            sp_request_destroy(ask(c, many[i], "Where?", 2));
            sp_tiers_drain(c->tiers); /* what is being written stays */
            if (i % 2) sp_ledger_free_up(c->ledger, sp_kv_pool_n_blocks(c->pool)); /* on disk alone */
            assert_in_range(most_of_a_chunk(c), 1, limit);
        }
        assert_int_equal(most_of_a_chunk(c), limit);
        const int n = n_placed(c);
        close_clean(c);
        assert_int_equal(stored_copies(dir, SP_COPY_PLACED), n); /* what is dropped has left the store, too */
        remove_folder(dir);
    }
}

/* What has been used often is kept over what is new, after a restart, too: uses of earlier processes count for f_r. */
static void a_restart_keeps_the_copies_that_were_used(void **state)
{
    static const char *const new[] = {"210", "120", "021", "201", "102"};
    for (int restart = 0; restart < 2; restart++) {
        char dir[128];
        make_folder(dir, sizeof dir);
        sp_context *c = open_at(dir, 2);
        for (int i = 0; i < 5; i++) sp_request_destroy(ask(c, "012", "Where?", 2));
        if (restart) {
            close_clean(c);
            c = open_at(dir, 2);
        }
        for (size_t i = 0; i < SP_COUNT(new); i++) sp_request_destroy(ask(c, new[i], "Where?", 2));
        sp_request *r = ask(c, "012", "Where?", 2);
        assert_int_equal(sp_request_result(r)->n_recomputed, 0);
        sp_request_destroy(r);
        close_clean(c);
        remove_folder(dir);
    }
}

/* -- damage ---------------------------------------------------------------------------------- */

static void a_damaged_placed_copy_is_missed(void **state)
{
    const char *dir = *state;
    sp_context *c = open_at(dir, 99);
    sp_request *r = ask(c, "012", "Where?", 6);
    char *text = strdup(sp_request_result(r)->text);
    let_go(c, r);
    assert_int_equal(stored_copies(dir, SP_COPY_PLACED), 2);
    stored_damage(dir, SP_COPY_PLACED);
    c = open_at(dir, 99);
    r = ask(c, "012", "Where?", 6);
    assert_string_equal(sp_request_result(r)->segments[1].from, "disk"); /* the first is a plain copy */
    for (int s = 2; s < 4; s++) assert_string_equal(sp_request_result(r)->segments[s].missed, "damaged");
    assert_string_equal(sp_request_result(r)->text, text); /* computed after the same chunks */
    let_go(c, r);
    assert_int_equal(stored_copies(dir, SP_COPY_PLACED), 2);
    c = open_at(dir, 99);
    r = ask(c, "012", "Where?", 6);
    assert_int_equal(n_chunks_from(r, "disk"), 3);
    let_go(c, r);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restart_finds_placed_copies_and_patches),
        cmocka_unit_test(a_patch_leaves_with_its_base),
        FOLDER_TEST(the_least_cfo_serves_wherever_it_is),
        cmocka_unit_test(nothing_known_is_missed_with_little_memory),
        cmocka_unit_test(a_chunk_has_so_many_copies_in_all_tiers),
        cmocka_unit_test(a_restart_keeps_the_copies_that_were_used),
        FOLDER_TEST(a_damaged_placed_copy_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
