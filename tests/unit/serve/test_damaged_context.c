/* test_damaged_context.c -- a record of the file of contexts is damaged: its readers compute it again, and others do
 * not notice. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "support/folder.h"
#include "support/requests.h"

#include "engine/offload/offload_int.h"

static const policy full = {"full", 0}, prefix = {"prefix", 0};

static sp_context *open_file(const char *dir, const policy *with, const char *decode)
{
    return open_with((sp_context_opts){.reuse.policy = with->name,
                                       .decode.how = decode,
                                       .cache.kv_bytes = 2 << 20,
                                       .decode.context_bytes = 1 << 20,
                                       .decode.context_dir = dir,
                                       .n_batch = 40});
}

/* the_file -- of contexts, for writing: it has no name. */
static int the_file(const char *dir)
{
    char link[64], target[512];
    int found = -1;
    DIR *all = opendir("/proc/self/fd");
    assert_non_null(all);
    for (struct dirent *e; found < 0 && (e = readdir(all));) {
        snprintf(link, sizeof link, "/proc/self/fd/%.20s", e->d_name);
        const ssize_t n = readlink(link, target, sizeof target - 1);
        if (n <= 0) continue;
        target[n] = '\0';
        if (strncmp(target, dir, strlen(dir)) == 0 && strstr(target, "deleted")) found = open(link, O_WRONLY);
    }
    closedir(all);
    assert_true(found >= 0);
    return found;
}

/* damage -- the first block of a copy leaves, and its keys and values of the last layer are not what was written. */
static void damage(sp_context *c, const char *dir, const sp_copy *copy)
{
    char junk[512];
    const sp_kv_shape *shape = sp_kv_pool_shape(c->pool);
    const size_t stride = sp_pages_stride(c->offload->pages);
    assert_ok(sp_offload_leave(c->offload, copy->blocks, 1));
    int fd = the_file(dir);
    memset(junk, 0x5a, sizeof junk);
    for (int g = 0; g < shape->n_heads; g++) {
        const int64_t record = sp_offload_record(c->offload, shape->n_layers - 1, copy->blocks[0], g);
        assert_int_equal(pwrite(fd, junk, 64, (off_t)((size_t)record * stride)), 64);
    }
    close(fd);
}

/* copy_of -- READY, of the i-th segment of a request that is done. */
static const sp_copy *copy_of(const sp_context *c, const sp_request *r, int i)
{
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));)
        if (v->state == SP_COPY_READY && sp_digest_eq(&v->facts.id, &r->prompt.ids[i]))
            return v;
    return NULL;
}

/* One request reads the damaged chunk, another decodes and does not: it is not disturbed. */
static void a_damaged_chunk_is_computed_again(void **state)
{
    const char *dir = *state;
    sp_context *c = open_file(dir, &full, NULL);
    sp_request *first = ask(c, "01", "Which?", 6);
    sp_request *other = submit(c, "3", "Why?", 40);
    while (other->answer.tokens.n < 3) step(c);
    const sp_copy *chunk = copy_of(c, first, 2);
    assert_non_null(chunk);
    const int32_t n = chunk->n;
    damage(c, dir, chunk);
    sp_request *reader = submit(c, "10", "Where?", 6);
    assert_text(run(c, reader), alone(&full, "10", "Where?", 6));
    assert_int_equal(reader->n_restarts, 1);
    assert_true(sp_offload_stats_of(c->offload).n_damaged > 0);
    assert_text(run(c, other), alone(&full, "3", "Why?", 40));
    assert_int_equal(other->n_restarts, 0);
    sp_request *again = ask_as_alone(c, &full, "10", "Where?", 6); /* the new copy is as good as the old one was */
    assert_int_equal(again->n_restarts, 0);
    assert_int_equal(sp_request_result(again)->segments[1].n_reused, n);
    sp_request_destroy(first);
    sp_request_destroy(other);
    sp_request_destroy(reader);
    sp_request_destroy(again);
    sp_context_close(c);
}

/* All read the head: those that run continue where they were, those that come find it again. */
static void a_damaged_head_is_computed_again(void **state)
{
    static const policy *const policies[] = {&full, &prefix};
    for (size_t p = 0; p < SP_COUNT(policies); p++) {
        char dir[128];
        make_folder(dir, sizeof dir);
        sp_context *c = open_file(dir, policies[p], NULL);
        sp_request *first = ask(c, "01", "Which?", 6);
        sp_request *runs = submit(c, "3", "Why?", 40);
        while (runs->answer.tokens.n < 3) step(c);
        const sp_copy *head = copy_of(c, first, 0);
        assert_non_null(head);
        damage(c, dir, head);
        sp_request *comes = submit(c, "10", "Where?", 6);
        assert_text(run(c, runs), alone(policies[p], "3", "Why?", 40));
        assert_text(run(c, comes), alone(policies[p], "10", "Where?", 6));
        assert_int_equal(runs->n_restarts, 1);
        sp_request *again = ask_as_alone(c, policies[p], "01", "Which?", 6);
        assert_true(sp_request_result(again)->segments[0].n_reused > 0);
        assert_int_equal(again->n_restarts, 0);
        sp_request_destroy(first);
        sp_request_destroy(runs);
        sp_request_destroy(comes);
        sp_request_destroy(again);
        sp_context_close(c);
        remove_folder(dir);
    }
}

/* A chunk is computed after the head alone once more, as when the request came. */
static void a_reader_fills_in_its_own_chunk_again(void **state)
{
    const char *dir = *state;
    sp_context *c = open_file(dir, &full, NULL);
    sp_request *r = submit(c, "01", "Which?", 40);
    while (r->answer.tokens.n < 3) step(c);
    damage(c, dir, copy_of(c, r, 2));
    run(c, r);
    assert_int_equal(r->n_restarts, 1);
    sp_request *again = ask(c, "01", "Which?", 2);
    assert_int_equal(sp_request_result(again)->segments[2].n_reused, sp_request_result(again)->segments[2].n_tokens);
    assert_int_equal(again->n_restarts, 0);
    sp_request_destroy(r);
    sp_request_destroy(again);
    sp_context_close(c);
}

static void pass_all(void *user, const sp_gate_view *view)
{
    SP_UNUSED(user);
    SP_UNUSED(view);
}

/* The step is repeated, and what a gate or an observer has seen of it would count twice. */
static void who_is_measured_starts_again_too(void **state)
{
    const char *dir = *state;
    for (int gate = 0; gate < 2; gate++) {
        sp_context *c = open_file(dir, &full, NULL);
        sp_request *reader = submit(c, "3", "Why?", 40);
        while (reader->answer.tokens.n < 3) step(c);
        sp_request *other = submit(c, "012", "Which of them?", 4);
        step(c);
        assert_int_equal(other->state, SP_REQ_PREFILL);
        damage(c, dir, copy_of(c, reader, 1)); /* of a chunk that only one reads */
        if (gate) other->plans.now.gate.after_layer = pass_all;
        while (!reader->n_restarts) step(c);
        assert_int_equal(other->n_restarts, gate);
        sp_request_destroy(run(c, reader));
        sp_request_destroy(run(c, other));
        sp_context_close(c);
    }
}

static void who_came_first_starts_first_again(void **state)
{
    const char *dir = *state;
    sp_context *c = open_file(dir, &full, NULL);
    sp_request *r[2] = {submit(c, "3", "Why?", 40), submit(c, "2", "Why?", 40)};
    while (r[0]->answer.tokens.n < 3 || r[1]->answer.tokens.n < 3) step(c);
    damage(c, dir, copy_of(c, r[0], 0)); /* both read it */
    while (!r[0]->n_restarts) step(c);
    assert_int_equal(r[1]->n_restarts, 1);
    assert_ptr_equal(c->waiting.first, r[0]);
    assert_ptr_equal(r[0]->next, r[1]);
    for (int i = 0; i < 2; i++) sp_request_destroy(run(c, r[i]));
    sp_context_close(c);
}

/* After the answer so far, sparse decoding starts again. */
static void a_sparse_reader_continues(void **state)
{
    const char *dir = *state;
    sp_context *c = open_file(dir, &full, "sparse:50%,depth=0");
    sp_request *reader = submit(c, "0123", "Which?", 40);
    while (reader->answer.tokens.n < 5) step(c);
    int32_t before[5];
    memcpy(before, reader->answer.tokens.v, sizeof before);
    damage(c, dir, copy_of(c, reader, 0)); /* the first tokens are always read */
    assert_int_equal(sp_request_result(run(c, reader))->err, SP_OK);
    assert_int_equal(reader->n_restarts, 1);
    assert_int_equal(sp_request_result(reader)->n_generated, 40);
    assert_memory_equal(before, reader->answer.tokens.v, sizeof before);
    sp_request_destroy(reader);
    sp_context_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(a_damaged_chunk_is_computed_again),
        cmocka_unit_test(a_damaged_head_is_computed_again),
        FOLDER_TEST(a_reader_fills_in_its_own_chunk_again),
        FOLDER_TEST(who_is_measured_starts_again_too),
        FOLDER_TEST(who_came_first_starts_first_again),
        FOLDER_TEST(a_sparse_reader_continues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
