/* test_path_store.c -- path copies in the store: a restart finds what was computed, bit for bit, and what
 * is damaged, incomplete or another tenant's is a miss. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/by_path.h"
#include "retrieve/index/texts.h"
#include "serve/documents/erase.h"
#include "support/folder.h"
#include "support/requests.h"
#include "support/stored.h"
#include "support/tiers.h"

static const policy prefix = {"prefix", 0}, off = {"off", 0};
static const char question[] = "Which?";

/* open_store -- with the default policy. */
static sp_context *open_store(const char *dir)
{
    return open_with((sp_context_opts){.tiers.store = dir, .queue.order = "fcfs", .n_batch = 40});
}

static void fill_store(const char *dir, const char *order)
{
    sp_context *c = open_store(dir);
    sp_request_destroy(ask(c, order, question, 4));
    close_clean(c);
}

static int n_stored(const char *dir)
{
    return stored_copies(dir, SP_COPY_PATH);
}

static int n_from_disk(const sp_request *r)
{
    const sp_result *res = sp_request_result(r);
    int n = 0;
    for (int i = 0; i < res->n_segments; i++) n += strcmp(res->segments[i].from, "disk") == 0;
    return n;
}

/* assert_asks -- the answer is that of full attention, and so many segments come from the store. */
static void assert_asks(sp_context *c, const char *order, int n_disk)
{
    sp_request *r = ask(c, order, question, 6);
    assert_int_equal(n_from_disk(r), n_disk);
    assert_adds_up(sp_request_result(r));
    assert_text(r, alone(&off, order, question, 6));
    sp_request_destroy(r);
}

/* -- bits ----------------------------------------------------------------------------------- */

static const sp_copy *find_same(const sp_context *c, const sp_copy *of)
{
    const sp_copy *v = NULL;
    while ((v = sp_ledger_next(c->ledger, v)))
        if (v->facts.kind == SP_COPY_PATH && v->state == SP_COPY_READY &&
            sp_digest_eq(&v->facts.id, &of->facts.id) && v->facts.at == of->facts.at)
            return v;
    return NULL;
}

static void bits_are_those_of_a_cold_prompt(void **state)
{
    const char *dir = *state;
    int n = 0;
    fill_store(dir, "012");
    sp_context *cold = open_policy(&prefix), *warm = open_store(dir);
    sp_request *a = ask(cold, "012", "Why?", 6), *b = ask(warm, "012", "Why?", 6);
    assert_int_equal(n_from_disk(b), 4);
    assert_same_text(a, b);
    for (const sp_copy *v = NULL; (v = sp_ledger_next(cold->ledger, v));) {
        const sp_copy *same = find_same(warm, v);
        assert_non_null(same);
        assert_true(same->facts.exact && same->n == v->n);
        assert_true(copy_hash(cold, v) == copy_hash(warm, same));
        n += v->n / SP_BLOCK_TOKENS;
    }
    assert_true(n >= 3); /* blocks that were compared */
    sp_request_destroy(a);
    sp_request_destroy(b);
    close_clean(cold);
    close_clean(warm);
}

/* -- restarts ------------------------------------------------------------------------------- */

static void a_restart_finds_paths(void **state)
{
    const char *dir = *state;
    for (int start = 0; start < 3; start++) {
        sp_context *c = open_store(dir);
        assert_asks(c, "012", start ? 4 : 0);
        close_clean(c);
        assert_int_equal(n_stored(dir), 4); /* the head and chunks, written once; not the question */
    }
    sp_context *c = open_store(dir);
    assert_asks(c, "013", 3); /* a part of the path */
    assert_asks(c, "10", 0);  /* the head is on the device by now, "1" after it is nowhere */
    close_clean(c);
    assert_int_equal(n_stored(dir), 7);
}

/* assert_adopts -- of the store's paths so many, which are those of the head and chunk 1. */
static void assert_adopts(const char *dir, size_t most)
{
    size_t n = 0;
    sp_context *c = open_store(dir), *other = open_policy(&prefix);
    sp_prompt *p = prompt_of(c, "1", NULL);
    sp_ledger *own = c->tiers->ledger;
    c->tiers->ledger = other->ledger;
    assert_ok(sp_tiers_adopt_headers(c->tiers, most));
    c->tiers->ledger = own;
    for (const sp_copy *v = NULL; (v = sp_ledger_next(other->ledger, v)); n++)
        assert_true(sp_digest_eq(&v->facts.id, &p->segs.v[v->parent ? 1 : 0].id));
    assert_int_equal(n, most);
    sp_prompt_destroy(p);
    sp_context_close(other);
    close_clean(c);
}

/* Of more paths than are adopted, those that were used last are: what they continue counts as used with them. */
static void the_paths_used_last_are_adopted(void **state)
{
    static const char *const asked[] = {"0", "1", "01", "1"};
    const char *dir = *state;
    for (size_t i = 0; i < SP_COUNT(asked); i++) {
        fill_store(dir, asked[i]);
        if (i == 0) assert_adopts(dir, 1); /* the head, which chunk 0 continues */
    }
    assert_int_equal(n_stored(dir), 4); /* the head, 0, 1, and 1 after 0 */
    assert_adopts(dir, 2);
    assert_int_equal(n_stored(dir), 4);
}

static void an_order_is_found_after_a_restart(void **state)
{
    const char *dir = *state;
    const sp_context_opts o = {.tiers.store = dir, .reuse.policy = "set", .n_batch = 40};
    sp_context *c = open_with(o);
    sp_request *a = ask(c, "012", question, 6), *b;
    close_clean((sp_request_destroy(a), c));
    c = open_with(o);
    b = ask(c, "210", question, 6);
    assert_int_equal(n_from_disk(b), 4);
    sp_request_destroy(b);
    close_clean(c);
}

/* Turns of a conversation: what a turn continues is stored, its own end is not. */
static void turns_of_a_conversation_are_stored(void **state)
{
    const char *dir = *state;
    int n[4] = {0};
    for (int turns = 1; turns <= 3; turns++) {
        sp_context *c = open_store(dir);
        sp_prompt *p;
        assert_ok(sp_prompt_create(c, &p));
        for (int i = 0; i < turns; i++) {
            assert_ok(sp_prompt_message(p, SP_ROLE_USER, texts[i]));
            if (i + 1 < turns) assert_ok(sp_prompt_message(p, SP_ROLE_ASSISTANT, "It is so, indeed it is."));
        }
        assert_ok(sp_prompt_answer(p));
        sp_request *r = run(c, submit_prompt(c, p, 2));
        assert_int_equal(n_from_disk(r) > 0, turns == 3);
        sp_request_destroy(r);
        close_clean(c);
        n[turns] = n_stored(dir);
    }
    assert_int_equal(n[1], 0);
    assert_true(n[2] > 0 && n[3] > n[2]);
}

static void trees_are_found_after_a_restart(void **state)
{
    static const sp_prompt_node nodes[] = {{"Alice", -1}, {" likes", 0}, {" Titanic", 1}, {" knows", 0}};
    char dir[128], *answers[2];
    for (int mode = 0; mode < 2; mode++) {
        make_folder(dir, sizeof dir);
        for (int start = 0; start < 2; start++) {
            sp_context *c = open_store(dir);
            sp_prompt *p;
            assert_ok(sp_prompt_create(c, &p));
            if (mode) assert_ok(sp_prompt_tree_mode(p, SP_TREE_SHIFTED));
            assert_ok(sp_prompt_system(p, "Be brief."));
            assert_ok(sp_prompt_tree(p, nodes, SP_COUNT(nodes)));
            assert_ok(sp_prompt_question(p, question));
            sp_request *r = run(c, submit_prompt(c, p, 6));
            assert_int_equal(n_from_disk(r), start ? (int)SP_COUNT(nodes) + 1 : 0);
            answers[start] = strdup(sp_request_result(r)->text);
            sp_request_destroy(r);
            close_clean(c);
        }
        assert_string_equal(answers[0], answers[1]);
        for (int start = 0; start < 2; start++) free(answers[start]);
        remove_folder(dir);
    }
}

/* -- tenants -------------------------------------------------------------------------------- */

static int ask_for(sp_context *c, const char *salt)
{
    sp_prompt *p;
    assert_ok(sp_prompt_create_for(c, salt, &p));
    assert_ok(sp_prompt_system(p, "Be brief."));
    assert_ok(sp_prompt_chunk(p, "T", texts[0]));
    assert_ok(sp_prompt_question(p, question));
    sp_request *r = run(c, submit_prompt(c, p, 2));
    int n = n_from_disk(r), reused = sp_request_result(r)->n_reused;
    sp_request_destroy(r);
    assert_int_equal(n > 0, reused > 0);
    return n;
}

static void no_tenant_finds_anothers(void **state)
{
    const char *dir = *state;
    sp_context *c = open_with((sp_context_opts){.tiers.store = dir, .salt = "red"});
    sp_request_destroy(ask(c, "0", question, 2));
    assert_int_equal(ask_for(c, "blue"), 0);
    close_clean(c);
    c = open_with((sp_context_opts){.tiers.store = dir, .salt = "green"});
    sp_request *r = ask(c, "0", question, 2);
    assert_int_equal(sp_request_result(r)->n_reused, 0);
    sp_request_destroy(r);
    assert_int_equal(ask_for(c, "white"), 0);
    assert_int_equal(ask_for(c, "blue"), 2);
    assert_int_equal(ask_for(c, "red"), 2);
    close_clean(c);
}

/* -- what is lost --------------------------------------------------------------------------- */

/* drop_at -- the stored copy that is the n-th of its path. */
static void drop_at(const char *dir, const char *order, int n)
{
    sp_context *c = open_store(dir);
    sp_prompt *p = prompt_of(c, order, NULL);
    sp_digest ids[8];
    for (int i = 0; i < n; i++) ids[i] = p->segs.v[i].id;
    assert_ok(sp_tier_run(sp_tiers_tier(c->tiers),
                          &(sp_tier_job){.verb = SP_TIER_DROP,
                                         .key = {.id = ids[n - 1],
                                                 .head = sp_head_key(ids, n - 1),
                                                 .kind = SP_COPY_PATH}}));
    sp_prompt_destroy(p);
    sp_context_close(c);
}

static void what_follows_a_missing_parent_is_dropped(void **state)
{
    for (int n = 1; n <= 4; n++) {
        char dir[128];
        make_folder(dir, sizeof dir);
        fill_store(dir, "012");
        drop_at(dir, "012", n);
        assert_int_equal(n_stored(dir), 3);
        sp_context *c = open_store(dir);
        sp_context_close(c);
        assert_int_equal(n_stored(dir), n - 1); /* opening has dropped them */
        c = open_store(dir);
        assert_asks(c, "012", n - 1);
        close_clean(c);
        assert_int_equal(n_stored(dir), 4);
        remove_folder(dir);
    }
}

/* A copy that is gone while the store is open: the load misses, what continues it goes, too. */
static void a_parent_that_goes_takes_its_children(void **state)
{
    const char *dir = *state;
    fill_store(dir, "012");
    sp_context *c = open_store(dir);
    sp_prompt *p = prompt_of(c, "012", NULL);
    const sp_tier_key key = {.id = p->segs.v[1].id,
                             .head = sp_head_key(&p->segs.v[0].id, 1),
                             .kind = SP_COPY_PATH};
    sp_prompt_destroy(p);
    assert_ok(sp_tier_run(sp_tiers_tier(c->tiers), &(sp_tier_job){.verb = SP_TIER_DROP, .key = key}));
    sp_request *r = ask_as_alone(c, &off, "012", question, 6);
    assert_adds_up(sp_request_result(r));
    sp_request_destroy(r);
    close_clean(c);
    c = open_store(dir);
    r = ask_as_alone(c, &off, "012", question, 6);
    assert_true(n_from_disk(r) >= 2);
    sp_request_destroy(r);
    close_clean(c);
}

/* The end of a path in the store: the copies of the head and of a chunk after it. */
typedef struct path_end {
    sp_context *c;
    sp_digest ids[2];
    sp_tier_key keys[2];
    const sp_copy *copies[2]; /* on the device */
} path_end;

static void path_end_begin(path_end *e, const char *dir)
{
    e->c = open_store(dir);
    sp_request_destroy(ask(e->c, "0", question, 4));
    tiers_rest(e->c->tiers);
    sp_prompt *p = prompt_of(e->c, "0", NULL);
    for (int i = 0; i < 2; i++) e->ids[i] = p->segs.v[i].id;
    sp_prompt_destroy(p);
    for (int i = 0; i < 2; i++) {
        e->keys[i] = (sp_tier_key){.id = e->ids[i], .head = sp_head_key(e->ids, i), .kind = SP_COPY_PATH};
        e->copies[i] = sp_by_path_at(e->c->ledger, e->ids, i + 1);
        assert_non_null(e->copies[i]);
    }
}

/* stores -- the copy is being written after this call. */
static bool stores(path_end *e, int i, int64_t max_blocks)
{
    assert_ok(sp_tiers_store_path(e->c->tiers, e->copies[i], max_blocks));
    return sp_tiers_is_storing(e->c->tiers, e->copies[i]);
}

static bool path_end_knows(const path_end *e, int i)
{
    assert_ok(sp_tier_run(sp_tiers_tier(e->c->tiers), &(sp_tier_job){.verb = SP_TIER_SYNC}));
    return sp_tier_knows(sp_tiers_tier(e->c->tiers), &e->keys[i]);
}

static void a_copy_is_written_after_the_one_that_it_continues(void **state)
{
    path_end e;
    path_end_begin(&e, *state);
    const int64_t blocks = sp_copy_n_own_blocks(e.copies[0]), all = blocks + sp_copy_n_own_blocks(e.copies[1]);
    for (int i = 2; i-- > 0;)
        assert_ok(sp_tier_run(sp_tiers_tier(e.c->tiers), &(sp_tier_job){.verb = SP_TIER_DROP, .key = e.keys[i]}));
    assert_false(stores(&e, 1, all));
    assert_false(stores(&e, 0, blocks - 1)); /* no more memory than that waits for the disk */
    assert_true(stores(&e, 0, blocks));
    assert_true(stores(&e, 1, all));
    tiers_rest(e.c->tiers);
    assert_true(path_end_knows(&e, 0) && path_end_knows(&e, 1));
    close_clean(e.c);
}

/* After a load that failed for another reason it may be there, and whole. */
static void a_copy_with_its_whole_path_is_not_dropped(void **state)
{
    path_end e;
    path_end_begin(&e, *state);
    sp_tiers_drop_path(e.c->tiers, e.copies[1]);
    assert_true(path_end_knows(&e, 1));
    assert_ok(sp_tier_run(sp_tiers_tier(e.c->tiers), &(sp_tier_job){.verb = SP_TIER_DROP, .key = e.keys[0]}));
    sp_tiers_drop_path(e.c->tiers, e.copies[1]);
    assert_false(path_end_knows(&e, 1));
    close_clean(e.c);
}

static void damaged_copies_are_missed(void **state)
{
    const char *dir = *state;
    fill_store(dir, "012");
    stored_damage(dir, SP_COPY_PATH);
    for (int start = 0; start < 3; start++) {
        sp_context *c = open_store(dir);
        sp_request *r = ask(c, "012", question, 6);
        if (start == 0) assert_int_equal(sp_request_result(r)->n_reused, 0);
        if (start == 2) assert_int_equal(n_from_disk(r), 4); /* they were written once more */
        assert_text(r, alone(&off, "012", question, 6));
        assert_adds_up(sp_request_result(r));
        sp_request_destroy(r);
        close_clean(c);
    }
}

/* assert_whole -- every path copy in the store was adopted after its parent, or there is none of them. */
static void assert_whole(const sp_context *c)
{
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));)
        if (v->facts.kind == SP_COPY_PATH) {
            assert_true(v->places & SP_AT_DISK);
            assert_int_equal(v->facts.at, v->parent ? v->parent->facts.at + v->parent->n : 0);
        }
}

static const char *const orders[] = {"012", "210", "01", "10", "1", "0110", "3", "32", "231", "2013"};

static void a_killed_writer_leaves_whole_copies(void **state)
{
    const char *dir = *state;
    uint64_t seed = 3;
    int n_found = 0;
    const char *n = getenv("SPOLIA_CRASHES");
    const int n_kills = n ? atoi(n) : 12;
    for (int i = 0; i < n_kills || (!n_found && i < 50 * n_kills); i++) {
        pid_t child = fork();
        if (child == 0) {
            sp_context *c = open_store(dir);
            for (size_t k = (size_t)i;; k++)
                sp_request_destroy(ask(c, orders[k % SP_COUNT(orders)], question, 2));
        }
        const int longer = 1 + i / n_kills; /* on a slow machine */
        usleep((useconds_t)(2000 + (int)check_random(&seed, 30000) * longer));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        sp_context *c = open_store(dir);
        assert_whole(c);
        const char *order = orders[check_random(&seed, SP_COUNT(orders))];
        sp_request *r = ask_as_alone(c, &off, order, question, 6);
        n_found += n_from_disk(r);
        sp_request_destroy(r);
        close_clean(c);
    }
    assert_true(n_found > 0);
}

/* -- room ----------------------------------------------------------------------------------- */

static void a_small_budget_is_kept(void **state)
{
    static const char *const policies[] = {NULL, "lfu", "pgdsf", "fr", "hazard", "lacr+ghosts"};
    const char *dir = *state;
    uint64_t seed = 11;
    int n_found = 0;
    for (size_t start = 0; start < SP_COUNT(policies); start++) {
        sp_context *c = open_with((sp_context_opts){.tiers.store = dir,
                                                    .tiers.store_bytes = 512 << 10,
                                                    .tiers.store_evict = policies[start],
                                                    .cache.kv_bytes = 1 << 20,
                                                    .n_batch = 40});
        for (int i = 0; i < 12; i++) {
            const char *order = orders[check_random(&seed, SP_COUNT(orders))];
            sp_request *r = ask_as_alone(c, &off, order, question, 4);
            n_found += n_from_disk(r);
            sp_request_destroy(r);
        }
        assert_true(sp_tier_stats_of(sp_tiers_tier(c->tiers)).bytes_used <= 512 << 10);
        close_clean(c);
        c = open_store(dir);
        assert_whole(c);
        sp_context_close(c);
    }
    assert_true(n_found > 0);
    sp_context *c = NULL;
    assert_fails(
        sp_context_open(
            &(sp_context_opts){.model = MODEL, .tiers.store = dir, .tiers.store_evict = "mru"}, &c),
        SP_E_ARG, "lru, lfu");
}

/* Little memory: paths leave the device for the store, and come back from it. */
static void the_store_is_below_the_device(void **state)
{
    const char *dir = *state;
    for (int host = 0; host < 2; host++) {
        sp_context *c = open_with((sp_context_opts){.tiers.store = dir,
                                                    .cache.kv_bytes = 160 << 10,
                                                    .tiers.host_bytes = host ? 100 << 10 : 0,
                                                    .n_batch = 40});
        int n_found = 0;
        for (int i = 0; i < 30; i++) {
            const char *order = orders[i * 7 % SP_COUNT(orders)];
            sp_request *r = ask_as_alone(c, &off, order, question, 4);
            n_found += n_from_disk(r);
            sp_request_destroy(r);
        }
        assert_true(n_found > 0);
        close_clean(c);
    }
}

/* A second process finds what the first has stored, and writes nothing. */
static void a_reader_finds_what_the_writer_stores(void **state)
{
    const char *dir = *state;
    sp_context *writer = open_store(dir);
    sp_request_destroy(ask(writer, "01", question, 4));
    tiers_rest(writer->tiers);
    sp_context *reader = open_store(dir);
    assert_false(sp_tiers_writes(reader->tiers));
    assert_asks(reader, "01", 3);
    assert_asks(reader, "32", 0);
    assert_int_equal(sp_tiers_n_failed(reader->tiers), 0);
    close_clean(reader);
    close_clean(writer);
    assert_int_equal(n_stored(dir), 3);
}

/* -- erasing -------------------------------------------------------------------------------- */

static void erasing_a_chunk_erases_paths_through_it(void **state)
{
    const char *dir = *state;
    for (int restart = 0; restart < 2; restart++) {
        sp_context *c = open_store(dir);
        sp_request_destroy(ask(c, "012", question, 4));
        sp_request_destroy(ask(c, "02", question, 4));
        tiers_rest(c->tiers);
        if (restart) { /* of a store that was just opened */
            close_clean(c);
            c = open_store(dir);
        }
        assert_int_equal(n_stored(dir), 5);
        sp_prompt *p = prompt_of(c, "1", NULL);
        const sp_digest id = p->segs.v[p->segs.n - 1].id;
        sp_erased e;
        int64_t n_gone;
        assert_ok(sp_context_erase_tiers(c, &id, 1, &n_gone));
        assert_ok(sp_context_erase_device(c, &id, 1, &e));
        sp_prompt_destroy(p);
        assert_int_equal(n_gone, 2);
        assert_int_equal(e.n_pending, 0);
        assert_int_equal(n_stored(dir), 3);
        sp_request_destroy(ask_as_alone(c, &off, "012", question, 6));
        close_clean(c);
    }
}

/* retain_none -- of plain and fused copies; returns how many copies went. */
static int64_t retain_none(sp_context *c)
{
    sp_tiers_sweep *sweep;
    int64_t n = 0;
    assert_ok(sp_tiers_sweep_begin(c->tiers,
                                   &(sp_sweep_opts){.keep = true, .after = 1u << SP_COPY_PATH},
                                   SP_AT_DISK, &sweep));
    sp_tiers_sweep_wait(sweep);
    assert_ok(sp_tiers_sweep_end(sweep, &n));
    return n;
}

/* A chunk that left the index: its own copies go, and paths through it; heads stay. */
static void retaining_drops_what_is_not_wanted(void **state)
{
    const char *dir = *state;
    fill_store(dir, "01");
    sp_context *c =
        open_with((sp_context_opts){.tiers.store = dir, .reuse.policy = "full", .n_batch = 40});
    sp_request_destroy(ask(c, "3", question, 2)); /* a plain copy */
    tiers_rest(c->tiers);
    assert_int_equal(retain_none(c), 1);
    assert_int_equal(n_stored(dir), 3);
    close_clean(c);
    fill_store(dir, "03");
    c = open_with((sp_context_opts){.tiers.store = dir, .reuse.policy = "full", .n_batch = 40});
    sp_request_destroy(ask(c, "3", question, 2));
    tiers_rest(c->tiers);
    assert_int_equal(retain_none(c), 2);
    assert_int_equal(n_stored(dir), 3);
    close_clean(c);
}

/* index_of -- of chunks named by digits. */
static sp_index *index_of(const char *chunks)
{
    sp_index *ix;
    sp_index_text v[8];
    int n = 0;
    for (; *chunks; chunks++) v[n++] = (sp_index_text){"T", texts[*chunks - '0']};
    assert_ok(sp_texts_index(v, n, &ix));
    return ix;
}

static void what_an_index_has_no_more_leaves_with_its_paths(void **state)
{
    const char *dir = *state;
    fill_store(dir, "03");
    sp_context *c =
        open_with((sp_context_opts){.tiers.store = dir, .reuse.policy = "full", .n_batch = 40});
    sp_request_destroy(ask(c, "3", question, 2));
    tiers_rest(c->tiers);
    for (int gone = 0; gone < 2; gone++) {
        int64_t n = -1;
        sp_index *ix = index_of(gone ? "01" : "013");
        assert_ok(sp_store_retain(c, ix, &n));
        sp_index_close(ix);
        assert_int_equal(n, gone ? 2 : 0); /* its copy, and the path through it */
    }
    assert_int_equal(n_stored(dir), 2); /* the head, and a path that goes on */
    close_clean(c);
}

static void equal_chunks_need_one_copy(void **state)
{
    sp_context *c = open_with((sp_context_opts){.tiers.store = *state, .reuse.policy = "full"});
    sp_store_need need[2];
    for (int twice = 0; twice < 2; twice++) {
        sp_index *ix = index_of(twice ? "0131" : "013");
        assert_ok(sp_store_estimate(c, ix, "Be brief.", &need[twice]));
        sp_index_close(ix);
    }
    assert_int_equal(need[0].n_chunks, 3);
    assert_memory_equal(&need[0], &need[1], sizeof *need);
    close_clean(c);
}

static void what_a_store_has_is_not_needed_again(void **state)
{
    sp_context *c = open_with((sp_context_opts){.tiers.store = *state, .reuse.policy = "full", .n_batch = 40});
    sp_store_need none, head, one;
    sp_index *ix = index_of("01");
    assert_ok(sp_store_estimate(c, ix, "Be brief.", &none));
    assert_int_equal(none.new_bytes, none.bytes);
    assert_int_equal(none.new_plain_bytes, none.plain_bytes);
    sp_request_destroy(ask(c, "3", question, 2)); /* the head, and another chunk */
    tiers_rest(c->tiers);
    assert_ok(sp_store_estimate(c, ix, "Be brief.", &head));
    sp_request_destroy(ask(c, "31", question, 2)); /* the plain copy of one chunk */
    tiers_rest(c->tiers);
    assert_ok(sp_store_estimate(c, ix, "Be brief.", &one));
    sp_index_close(ix);
    assert_int_equal(one.bytes, none.bytes);
    assert_true(head.new_plain_bytes < none.new_plain_bytes);
    assert_true(one.new_plain_bytes < head.new_plain_bytes && one.new_plain_bytes > 0);
    assert_int_equal(head.new_bytes - one.new_bytes, head.new_plain_bytes - one.new_plain_bytes);
    close_clean(c);
}

/* -- faults --------------------------------------------------------------------------------- */

static char fault_dir[128];

static sp_err opened(void)
{
    sp_context *c = NULL;
    sp_context_opts o = {.model = MODEL,
                         .machine.n_threads = 1,
                         .cache.kv_bytes = 4 << 20,
                         .tiers.store = fault_dir};
    SP_TRY(sp_context_open(&o, &c));
    sp_context_close(c);
    return SP_OK;
}

static void opening_may_fail_at_every_allocation(void **state)
{
    make_folder(fault_dir, sizeof fault_dir);
    fill_store(fault_dir, "01");
    survive_every_fault(opened);
    assert_int_equal(n_stored(fault_dir), 3);
    remove_folder(fault_dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(a_killed_writer_leaves_whole_copies),
        FOLDER_TEST(bits_are_those_of_a_cold_prompt),
        FOLDER_TEST(a_restart_finds_paths),
        FOLDER_TEST(the_paths_used_last_are_adopted),
        FOLDER_TEST(an_order_is_found_after_a_restart),
        FOLDER_TEST(turns_of_a_conversation_are_stored),
        cmocka_unit_test(trees_are_found_after_a_restart),
        FOLDER_TEST(no_tenant_finds_anothers),
        cmocka_unit_test(what_follows_a_missing_parent_is_dropped),
        FOLDER_TEST(a_parent_that_goes_takes_its_children),
        FOLDER_TEST(a_copy_is_written_after_the_one_that_it_continues),
        FOLDER_TEST(a_copy_with_its_whole_path_is_not_dropped),
        FOLDER_TEST(damaged_copies_are_missed),
        FOLDER_TEST(a_small_budget_is_kept),
        FOLDER_TEST(the_store_is_below_the_device),
        FOLDER_TEST(a_reader_finds_what_the_writer_stores),
        FOLDER_TEST(erasing_a_chunk_erases_paths_through_it),
        FOLDER_TEST(retaining_drops_what_is_not_wanted),
        FOLDER_TEST(what_an_index_has_no_more_leaves_with_its_paths),
        FOLDER_TEST(equal_chunks_need_one_copy),
        FOLDER_TEST(what_a_store_has_is_not_needed_again),
        cmocka_unit_test(opening_may_fail_at_every_allocation),
    };
    if (getenv("SPOLIA_CRASHES")) cmocka_set_test_filter("a_killed_writer_leaves_whole_copies"); /* make crash */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
