/* test_model_options.c -- the options that commands share: where each goes, and what they mean together. */
#include "cli/options/model_options.h"

#include <ctype.h>
#include <math.h>

#include "support/caught.h"

#define MODEL "tests/golden/tiny.gguf"

enum { MOST = 100 };

/* parse -- of "test" and the words, up to NULL. They stay valid until the next call. */
static int parse(const char *const *words, const opt *table)
{
    static char copies[MOST][64];
    char *argv[MOST + 1] = {copies[0]};
    int argc = 1;
    strcpy(copies[0], "test");
    for (; words[argc - 1]; argc++) {
        assert_true(argc < MOST);
        snprintf(copies[argc], sizeof copies[argc], "%s", words[argc - 1]);
        argv[argc] = copies[argc];
    }
    const opt *const tables[] = {table, NULL};
    const int at = opt_parse(argc, argv, &(opt_usage){"test [options]", "A test."}, tables);
    return at < 0 ? at : argc - at;
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void every_option_has_a_place(void **state)
{
    model_options m;
    model_options_init(&m);
    assert_int_equal(
        parse(WORDS("-m", MODEL, "-c", "1001", "-t", "3", "-b", "1003", "--kv-memory", "4", "--context-memory", "5M",
                    "--resident-heads", "6M", "--context-dir", "seven", "-ctk", "eight", "-ctv", "nine", "--cpu",
                    "ten", "--exact-products", "--no-pack-cache", "--pack-cache-max", "11", "-v", "--quality",
                    "twelve", "--reuse", "thirteen", "--recompute", "0.14", "--decode", "fifteen", "--store",
                    "sixteen", "--unfused", "--alpha", "0.17", "--focus", "18", "--guard", "0.19", "--guard-bound",
                    "0.2"),
              m.table),
        0);
    const sp_context_opts *c = &m.ctx;
    assert_string_equal(c->model, MODEL);
    assert_int_equal(c->n_ctx, 1001);
    assert_int_equal(c->machine.n_threads, 3);
    assert_int_equal(c->n_batch, 1003);
    assert_int_equal(c->cache.kv_bytes, 4 << 20);
    assert_int_equal(c->decode.context_bytes, 5 << 20);
    assert_string_equal(m.resident, "6M");
    assert_string_equal(c->decode.context_dir, "seven");
    assert_string_equal(m.type_k, "eight");
    assert_string_equal(m.type_v, "nine");
    assert_string_equal(c->machine.cpu, "ten");
    assert_true(c->machine.exact_products && !c->machine.amx_f16 && !c->machine.amx_attend);
    assert_true(m.no_pack_cache && m.verbose);
    assert_int_equal(c->machine.packs_max_bytes, 11 << 20);
    assert_string_equal(m.quality, "twelve");
    assert_string_equal(m.reuse, "thirteen");
    assert_true(c->reuse.recompute == 0.14f && c->reuse.unfused);
    assert_string_equal(c->decode.how, "fifteen");
    assert_string_equal(c->tiers.store, "sixteen");
    assert_true(m.alpha == 0.17f && m.focus == 18);
    assert_true(c->guard.share == 0.19f && c->guard.bound == 0.2f);
}

static void every_option_of_the_cache_has_a_place(void **state)
{
    model_options m;
    model_options_init(&m);
    assert_int_equal(
        parse(WORDS("-m", MODEL, "--amx-f16", "--amx-attend", "--evict", "one", "--keep-chunks", "2",
                    "--max-variants", "3", "--profile", "four", "--host-memory", "5M", "--host-kv", "six",
                    "--host-evict", "seven", "--store-max", "8M", "--store-evict", "nine", "--remote", "ten",
                    "--remote-key-file", "eleven", "--remote-ca", "twelve", "--remote-ttl", "13", "--remote-kv",
                    "fourteen", "--remote-compress", "15", "--preload", "sixteen", "--load-timeout", "17", "--admit",
                    "eighteen", "--queue-order", "nineteen", "--queue-window", "20", "--queue-wait", "21"),
              m.table),
        0);
    const sp_context_opts *c = &m.ctx;
    assert_true(c->machine.amx_f16 && c->machine.amx_attend && !c->machine.exact_products && !c->reuse.unfused);
    assert_string_equal(c->cache.evict, "one");
    assert_int_equal(c->cache.keep_chunks, 2);
    assert_int_equal(c->cache.max_variants, 3);
    assert_string_equal(c->cache.profile, "four");
    assert_int_equal(c->tiers.host_bytes, 5 << 20);
    assert_string_equal(c->tiers.host_kv, "six");
    assert_string_equal(c->tiers.host_evict, "seven");
    assert_int_equal(c->tiers.store_bytes, 8 << 20);
    assert_string_equal(c->tiers.store_evict, "nine");
    assert_string_equal(c->tiers.remote, "ten");
    assert_string_equal(c->tiers.remote_key_file, "eleven");
    assert_string_equal(c->tiers.remote_ca_file, "twelve");
    assert_int_equal(c->tiers.remote_ttl_s, 13);
    assert_string_equal(c->tiers.remote_kv, "fourteen");
    assert_int_equal(c->tiers.remote_compress, 15);
    assert_string_equal(m.preload, "sixteen");
    assert_int_equal(c->tiers.load_timeout_ms, 17);
    assert_string_equal(m.admit, "eighteen");
    assert_string_equal(c->queue.order, "nineteen");
    assert_int_equal(c->queue.window, 20);
    assert_int_equal(c->queue.wait_ms, 21);
}

/* refused -- what is said of a line that opens no context. */
static const char *refused(const char *const *words)
{
    model_options m;
    model_options_init(&m);
    assert_int_equal(parse(words, m.table), 0);
    caught c = catch_begin(stderr);
    sp_context *opened = model_options_open(&m);
    const char *said = catch_end(&c);
    assert_null(opened);
    return said;
}

static void what_cannot_be_together_is_refused(void **state)
{
    assert_string_equal(refused(WORDS("-m", MODEL, "--quality", "exact", "--alpha", "0.1")),
                        "spolia: --quality excludes --reuse, --recompute and --alpha\n");
    assert_string_equal(refused(WORDS("-m", MODEL, "--quality", "exact", "--recompute", "0")),
                        "spolia: --quality excludes --reuse, --recompute and --alpha\n");
    assert_string_equal(refused(WORDS("-m", MODEL, "--quality", "exact", "--reuse", "full")),
                        "spolia: --quality excludes --reuse, --recompute and --alpha\n");
    assert_non_null(strstr(refused(WORDS("-m", MODEL, "--quality", "perfect")), "perfect"));
    assert_int_equal(strncmp(refused(WORDS("-m", MODEL, "--reuse", "fulll")), "spolia: --reuse fulll: ", 23), 0);
    assert_string_equal(refused(WORDS("-m", MODEL, "--preload", "x")),
                        "spolia: --preload: \"x\" is unknown: layers, request, none, first\n");
    assert_string_equal(refused(WORDS("-m", MODEL, "--admit", "x")),
                        "spolia: --admit: \"x\" is unknown: all, cheaper\n");
    assert_string_equal(refused(WORDS("-m", MODEL, "--resident-heads", "auto")),
                        "spolia: --resident-heads needs --context-memory\n");
    assert_string_equal(refused(WORDS("-m", MODEL, "-ctk", "f16", "-ctv", "f32")),
                        "spolia: -ctk f16 and -ctv f32: keys and values have one type\n");
    assert_int_equal(strncmp(refused(WORDS("-m", "tests/unit")), "spolia: tests/unit", 18), 0);
}

/* opened -- what the line means once a context is opened with it. */
static model_options opened(const char *const *words)
{
    static model_options m;
    model_options_init(&m);
    assert_int_equal(parse(words, m.table), 0);
    sp_context *c = model_options_open(&m);
    assert_non_null(c);
    sp_context_close(c);
    return m;
}

static void the_model_says_what_is_not_given(void **state)
{
    model_options m = opened(WORDS("-m", MODEL, "--no-pack-cache"));
    assert_true(m.ctx.reuse.recompute == 0 && m.ctx.reuse.exact_first);
    assert_null(m.ctx.reuse.policy);
    assert_null(m.ctx.cache.kv_type);
    assert_null(m.ctx.machine.packs);
    assert_true(m.ctx.tiers.preload == SP_PRELOAD_LAYERS && !m.ctx.tiers.admit_cheaper);
    m = opened(WORDS("-m", MODEL, "--no-pack-cache", "--reuse", "full", "-ctv", "f32", "--preload", "none", "--admit",
                     "cheaper"));
    assert_string_equal(m.policy, "full");
    assert_string_equal(m.ctx.cache.kv_type, "f32");
    assert_true(m.ctx.tiers.preload == SP_PRELOAD_NONE && m.ctx.tiers.admit_cheaper);
    m = opened(WORDS("-m", MODEL, "--no-pack-cache", "--reuse", "fusion", "--recompute", "0.5", "-ctk", "f16"));
    assert_true(m.ctx.reuse.recompute == 0.5f);
    assert_string_equal(m.ctx.cache.kv_type, "f16");
    m = opened(WORDS("-m", MODEL, "--no-pack-cache", "--reuse", "craft", "--alpha", "0.5", "--focus", "-3"));
    assert_string_equal(m.policy, "craft:alpha=0.5,focus=0");
    m = opened(WORDS("-m", MODEL, "--no-pack-cache", "--reuse", "craft", "--recompute", "0.25", "--focus", "2"));
    assert_string_equal(m.policy, "craft:focus=2");
    m = opened(WORDS("-m", MODEL, "--no-pack-cache", "--context-memory", "64M", "--resident-heads", "auto"));
    assert_int_equal(m.ctx.decode.resident_bytes, 16 << 20);
    m = opened(WORDS("-m", MODEL, "--no-pack-cache", "--context-memory", "64M", "--resident-heads", "4M"));
    assert_int_equal(m.ctx.decode.resident_bytes, 4 << 20);
}

/* A policy that recomputes has the share that was calibrated for the model, or a default. */
static void a_share_is_found_for_the_policy(void **state)
{
    model_options m = opened(WORDS("-m", MODEL, "--no-pack-cache", "--reuse", "fusion"));
    assert_true(m.ctx.reuse.recompute > 0 && m.ctx.reuse.recompute <= 1);
    m = opened(WORDS("-m", MODEL, "--no-pack-cache", "--quality", "exact"));
    assert_non_null(m.ctx.reuse.policy);
    assert_true(m.ctx.reuse.recompute == 0);
}

static const opt *row(const opt *table, const char *name)
{
    for (; table->kind != OPT_END; table++)
        if (strcmp(table->name, name) == 0) return table;
    return NULL;
}

/* A letter or a name means one option. */
static void rows_can_be_told_apart(void **state)
{
    model_options m;
    sampling_options s;
    char letters[64] = "";
    model_options_init(&m);
    sampling_options_init(&s, 1);
    const opt *const tables[] = {m.table, s.table};
    for (int i = 0; i < 2; i++)
        for (const opt *o = tables[i]; o->kind != OPT_END; o++) {
            if (o->kind == OPT_GROUP) continue;
            assert_ptr_equal(row(tables[i], o->name), o);
            assert_non_null(o->dest);
            if (!o->letter) continue;
            assert_true(isalpha(o->letter) && !strchr(letters, o->letter));
            letters[strlen(letters)] = (char)o->letter;
        }
    assert_string_equal(letters, "mctbvns");
}

static void comparisons_hide_what_they_vary(void **state)
{
    model_options m, all;
    model_options_init(&all);
    model_options_init(&m);
    model_options_compares(&m);
    static const char *const hidden[] = {"reuse", "recompute", "store"};
    for (size_t i = 0; i < SP_COUNT(hidden); i++)
        assert_true(row(all.table, hidden[i])->common && !row(m.table, hidden[i])->common);
    assert_true(row(m.table, "threads")->common && row(m.table, "kv-memory")->common);
    assert_non_null(row(all.table, "quality"));
    assert_null(row(m.table, "quality"));
    const opt *last = row(m.table, "queue-wait");
    assert_non_null(last);
    assert_int_equal(last[1].kind, OPT_END);
}

static void numbers_have_limits(void **state)
{
    static const struct {
        const char *word, *name, *said; /* NULL: it is allowed */
    } cases[] = {
        {"0", "--predict", NULL},
        {"-1", "--predict", "a whole number from 0 to 10000000"},
        {"10000000", "--top-k", NULL},
        {"10000001", "--top-k", "a whole number from 0 to 10000000"},
        {"0", "--temp", NULL},
        {"100.5", "--temp", "a number from 0 to 100"},
        {"hot", "--temp", "a number from 0 to 100"},
        {"0", "--top-p", "a number above 0 and up to 1"},
        {"1", "--top-p", NULL},
        {"0", "--min-p", NULL},
        {"1.5", "--min-p", "a number from 0 to 1"},
        {"0", "--repeat-penalty", "a number above 0 and up to 100"},
        {"-1", "--repeat-last-n", "a whole number from 0 to 10000000"},
        {"1024", "--threads", NULL},
        {"1025", "--threads", "a whole number from 0 to 1024"},
        {"-1", "--threads", "a whole number from 0 to 1024"},
        {"many", "--threads", "a whole number from 0 to 1024"},
        {"1e3", "--threads", "a whole number from 0 to 1024"},
        {"-1", "--ctx-size", "a whole number from 0 to 2147483647"},
        {"-1", "--batch-size", "a whole number from 0 to 2147483647"},
        {"2G", "--kv-memory", "a whole number of MiB, 0 or more"},
        {"0", "--kv-memory", NULL},
        {"1.01", "--recompute", "a number from 0 to 1"},
        {"1", "--recompute", NULL},
        {"0", "--guard-bound", "a number above 0 and up to 1000"},
        {"20", "--remote-compress", "a whole number from 0 to 19"},
        {"0", "--host-memory", "a size of at least 1 byte, such as 500M or 20G"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        model_options m;
        sampling_options s;
        char want[160];
        model_options_init(&m);
        sampling_options_init(&s, 77);
        assert_int_equal(s.max_tokens, 77);
        assert_string_equal(s.predict_help, "most tokens to generate (77)");
        caught c = catch_begin(stderr);
        const int at = row(s.table, cases[i].name + 2)
                           ? parse(WORDS(cases[i].name, cases[i].word), s.table)
                           : parse(WORDS("-m", MODEL, cases[i].name, cases[i].word), m.table);
        snprintf(want, sizeof want, "spolia: %s: \"%s\" is not %s\n", cases[i].name, cases[i].word,
                 cases[i].said ? cases[i].said : "");
        assert_string_equal(catch_end(&c), cases[i].said ? want : "");
        assert_int_equal(at, cases[i].said ? -3 : 0);
    }
}

static void sampling_has_lists(void **state)
{
    sampling_options s;
    sampling_options_init(&s, 1);
    assert_int_equal(parse(WORDS("-s", "5", "--stop", "a", "--stop", "b"), s.table), 0);
    assert_true(s.s.seed == 5 && s.stop.n == 2);
}

/* A name that nothing has is wrong usage, in every command; a file that cannot be read is not. */
static void a_wrong_name_is_wrong_usage(void **state)
{
    static const char *const wrong[][2] = {
        {"--reuse", "magic"}, {"--reuse", "craft:alpha=-1"}, {"--quality", "magic"}, {"--decode", "magic"},
        {"-ctk", "magic"}, {"-ctv", "magic"}, {"--host-kv", "magic"}, {"--cpu", "magic"}, {"--evict", "magic"},
        {"--host-evict", "magic"}, {"--store-evict", "magic"}, {"--queue-order", "magic"}, {"--preload", "magic"},
        {"--admit", "magic"}, {"--remote", "magic"}, {"--resident-heads", "1M"}};
    for (size_t i = 0; i <= SP_COUNT(wrong); i++) {
        model_options m;
        model_options_init(&m);
        const bool good = i == SP_COUNT(wrong);
        assert_int_equal(parse(good ? WORDS("-m", MODEL, "--profile", "/nowhere.json")
                                    : WORDS("-m", MODEL, wrong[i][0], wrong[i][1]), m.table), 0);
        const model_options before = m;
        caught c = catch_begin(stderr);
        const int code = model_options_check(&m);
        const char *said = catch_end(&c);
        assert_int_equal(code, good ? 0 : 2);
        assert_int_equal(*said == '\0', good);
        assert_memory_equal(&m, &before, sizeof m); /* advice.h reads what was given */
    }
}

static void a_schema_is_a_file(void **state)
{
    char path[] = "/tmp/spolia-test-XXXXXX";
    sp_grammar *g = (void *)path;
    assert_true(schema_open(NULL, &g));
    assert_null(g);
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "{\"type\": \"null\"}", 16), 16);
    assert_true(schema_open(path, &g));
    assert_non_null(g);
    sp_grammar_destroy(g);
    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
    caught c = catch_begin(stderr);
    const bool good = schema_open(path, &g);
    assert_int_equal(strncmp(catch_end(&c), "spolia: --json-schema /tmp/spolia-test-", 39), 0);
    assert_true(!good && !g);
    c = catch_begin(stderr);
    const bool found = schema_open("/nowhere.json", &g);
    assert_non_null(strstr(catch_end(&c), "/nowhere.json"));
    assert_true(!found && !g);
    unlink(path);
}

int main(void)
{
    setenv("SPOLIA_CONFIG", "", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_has_a_place),
        cmocka_unit_test(every_option_of_the_cache_has_a_place),
        cmocka_unit_test(what_cannot_be_together_is_refused),
        cmocka_unit_test(the_model_says_what_is_not_given),
        cmocka_unit_test(a_share_is_found_for_the_policy),
        cmocka_unit_test(rows_can_be_told_apart),
        cmocka_unit_test(comparisons_hide_what_they_vary),
        cmocka_unit_test(numbers_have_limits),
        cmocka_unit_test(sampling_has_lists),
        cmocka_unit_test(a_wrong_name_is_wrong_usage),
        cmocka_unit_test(a_schema_is_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
