/* test_crash.c -- a process that puts, drops and moves copies is killed at a random moment. Afterwards every
 * acknowledged change is there, a change under way has happened whole or not at all, and nothing is wrong.
 * The next process goes on in the same store. SPOLIA_CRASHES: kills (20). */
#include "support/check.h"

#include <signal.h>
#include <sys/wait.h>

#include "tier.h"

enum { N_COPIES = 24, N_AT_ONCE = 6, DROPPED = 0 };

/* What the child reports through a pipe: one write, so whole or not at all. */
typedef struct report {
    uint32_t number, version; /* DROPPED: a drop */
    uint32_t acknowledged;
} report;

static sp_tier *open_store(const char *dir, uint64_t *seed)
{
    static const char *const kinds[] = {"threads", NULL};
    sp_tier *t = NULL;
    assert_ok(sp_disk_tier_open(&(sp_disk_tier_opts){.dir = dir,
                                                     .space = &noise_space,
                                                     .io = kinds[check_random(seed, 2)],
                                                     .n_readers = 1,
                                                     .segment_bytes = 256 << 10},
                                &t));
    return t;
}

/* -- the process that is killed -------------------------------------------------------------- */

static void tell(int fd, uint32_t number, uint32_t version, bool acknowledged)
{
    report r = {number, version, acknowledged};
    if (write(fd, &r, sizeof r) != sizeof r) _exit(3);
}

typedef struct change {
    noise c;
    int fd;
    uint32_t version;
} change;

static sp_err change_source(void *user, int layer, void *to)
{
    change *ch = user;
    return noise_source(&ch->c, layer, to);
}

static void change_done(void *user, sp_tier_op *op)
{
    change *ch = user;
    if (sp_tier_op_result(op) != SP_OK) _exit(4);
    tell(ch->fd, ch->c.number, ch->version, true);
}

/* write_for_ever -- several changes at once, each of another copy. */
static void write_for_ever(sp_tier *t, int fd, uint32_t version, uint64_t *seed)
{
    static change all[N_AT_ONCE];
    for (;; version++) {
        sp_tier_op *ops[N_AT_ONCE];
        uint32_t first = (uint32_t)check_random(seed, N_COPIES);
        for (uint32_t i = 0; i < N_AT_ONCE; i++) {
            change *ch = &all[i];
            bool drops = check_random(seed, 5) == 0;
            noise_init(&ch->c, (first + i) % N_COPIES, version);
            ch->fd = fd;
            ch->version = drops ? DROPPED : version;
            sp_tier_job job = {.verb = drops ? SP_TIER_DROP : SP_TIER_PUT,
                               .key = sp_tier_key_of(&ch->c.record),
                               .record = &ch->c.record,
                               .source = change_source,
                               .done = change_done,
                               .user = ch};
            tell(fd, ch->c.number, ch->version, false);
            if (sp_tier_submit(t, &job, &ops[i]) != SP_OK) _exit(5);
        }
        for (int i = 0; i < N_AT_ONCE; i++) {
            sp_tier_op_wait(ops[i], -1);
            sp_tier_op_release(ops[i]);
        }
    }
}

/* -- what must be there ---------------------------------------------------------------------- */

typedef struct copy_state {
    uint32_t version;  /* acknowledged last */
    uint32_t under_way; /* not acknowledged when the process died */
    bool is_under_way;
} copy_state;

static void read_reports(int fd, copy_state *copies)
{
    report r;
    while (read(fd, &r, sizeof r) == sizeof r) {
        copy_state *c = &copies[r.number];
        c->is_under_way = !r.acknowledged;
        if (r.acknowledged)
            c->version = r.version;
        else
            c->under_way = r.version;
    }
}

/* check_copy -- and learns which of two possible states it has. */
static void check_copy(sp_tier *t, uint32_t number, copy_state *c)
{
    noise n;
    noise_init(&n, number, 0);
    n.any = true;
    sp_tier_job job = noise_get_job(&n, 0, NOISE_LAYERS);
    sp_err err = sp_tier_run(t, &job);
    if (err != SP_OK && err != SP_E_NOTFOUND)
        fail_msg("copy %u: %s: %s", number, sp_error_text(err), sp_error_detail());
    uint32_t version = err == SP_OK ? n.version : DROPPED;
    if (version != c->version && !(c->is_under_way && version == c->under_way))
        fail_msg("copy %u has version %u, not %u", number, version, c->version);
    *c = (copy_state){.version = version};
}

static void a_killed_writer_leaves_whole_copies(void **state)
{
    const char *n = getenv("SPOLIA_CRASHES");
    const long n_kills = n ? atol(n) : 20;
    copy_state copies[N_COPIES] = {{0}};
    uint64_t seed = 11;
    char dir[128];
    int64_t n_changes = 0;
    make_folder(dir, sizeof dir);
    for (long k = 0; k < n_kills || (!n_changes && k < 50 * n_kills); k++) { /* a slow machine may need more */
        int fds[2], status;
        assert_int_equal(pipe(fds), 0);
        pid_t child = fork();
        if (child == 0) {
            uint64_t own = (uint64_t)k * 977 + 5;
            write_for_ever(open_store(dir, &own), fds[1], (uint32_t)k * 1000 + 1, &own);
        }
        close(fds[1]);
        usleep((useconds_t)check_random(&seed, 60000));
        assert_int_equal(kill(child, SIGKILL), 0);
        read_reports(fds[0], copies);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        close(fds[0]);
        sp_tier *t = open_store(dir, &seed);
        assert_true(sp_tier_is_writer(t));
        for (uint32_t i = 0; i < N_COPIES; i++) {
            n_changes += copies[i].version / 1000 == (uint32_t)k;
            check_copy(t, i, &copies[i]);
        }
        assert_int_equal(sp_tier_stats_of(t).n_damaged, 0);
        sp_tier_close(t);
    }
    assert_true(n_changes > 0);
    remove_folder(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_killed_writer_leaves_whole_copies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
