/* profile_decode.c -- `spolia profile --decode`: the heads of a model on its user's questions, for sparse
 * decoding, and how far sparse answers are from full attention.
 *
 *   each question   answered with full attention, `predict` tokens; its heads are studied
 *                   then once for each setting of --decode, with the tokens of that answer: each
 *                   distribution is compared with the one of full attention
 *
 * Settings with "reuse" read what was measured of the heads. Then one half of the questions is studied and the other
 * half compared, with the heads of this run: their prompts have chunks of their own half only.
 *
 * With --reference the answers are not the model's: each begins with LEAD, whose first token comes from the prompt and
 * is exact, and continues with the reference answer, whose likelihood is compared.
 *
 * With --context-memory the settings are not studied: a study reads all, which drives out what sparse
 * steps keep. Instead: what they found in memory, and what they read from the file.
 *
 *   MODEL.heads.json   importance and similarity of heads, which `--decode sparse:10%,reuse` reads
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/options/model_options.h"
#include "engine/sparse/sparse.h"
#include "lab/eval/dataset.h"
#include "lab/eval/interval.h"
#include "cli/logprob.h"
#include "lab/metrics.h"
#include "lab/profile_decode.h"
#include "lab/study.h"
#include "serve/check/measure.h"

#define SYSTEM "Answer from the documents."
#define LEAD   "The answer is"

enum { N_HARDEST = 4 };

typedef struct setting {
    const char *decode;
    sp_study *study;
    double kl, read, reused, found, file_bytes;
    int64_t n_tokens, n_agreed, n_answers;
    double *more; /* [most] nats a token of each reference answer, more than with full attention */
} setting;

typedef struct profile {
    model_options m;
    const char *questions, *index, *output;
    opt_list decode;
    int n_chunks, depth, predict, most;
    sp_context *ctx;
    sp_context_info info;
    sp_study *heads; /* of full attention */
    bool held_out;   /* some setting reads heads */
    bool studies, compares; /* the questions that are asked now */
    setting *settings;
    float *full;     /* [predict, V] logits of full attention */
    int32_t *tokens; /* [predict] */
    int n_tokens, n_questions, n_prompt;
    struct {
        bool on;                /* answers are those of the questions, after LEAD */
        int n_lead, n_compared; /* tokens of LEAD; questions whose reference answers were compared */
        double nll, sum_nll;    /* of the answer that runs, nats; a token with full attention, over all */
    } reference;
    setting *at; /* the one that runs, or NULL: full attention */
    int n_seen;  /* logits of this answer so far */
} profile;

/* -- one answer ----------------------------------------------------------------------------- */

/* The first token of an answer comes from the prompt, which is never decoded sparsely. */
static sp_err see(int position, const float *logits, int n_vocab, void *user)
{
    profile *p = user;
    const size_t row = (size_t)n_vocab;
    const int i = p->n_seen++;
    if (i >= p->predict) return SP_OK;
    if (p->reference.on && i >= p->reference.n_lead && i < p->n_tokens)
        p->reference.nll += log_sum_exp(logits, n_vocab) - (double)logits[p->tokens[i]];
    float *full = p->full + (size_t)i * row;
    if (!p->at) {
        memcpy(full, logits, row * sizeof *full);
    } else if (i > 0) {
        p->at->kl += metric_kl(full, logits, n_vocab);
        p->at->n_agreed += metric_best(full, n_vocab) == metric_best(logits, n_vocab);
        p->at->n_tokens++;
    }
    return SP_OK;
}

static sp_err answer(profile *p, const sp_prompt *prompt, setting *s)
{
    sp_request *r = NULL;
    bool busy = true;
    const bool along = s || p->reference.on;
    p->at = s;
    p->n_seen = 0;
    p->reference.nll = 0;
    sp_study *study = !s ? (p->studies ? p->heads : NULL) : p->m.ctx.decode.context_bytes ? NULL : s->study;
    if (study) sp_study_next(study);
    const sp_measure measure = {.forced = along ? p->tokens : NULL,
                                .n_forced = along ? p->n_tokens : 0,
                                .on_logits = see,
                                .user = p,
                                .observer = sp_study_observer(study)};
    sp_err err = sp_measure_submit(p->ctx, prompt,
                                   &(sp_request_opts){.sampling = sp_sampling_default(),
                                                      .max_tokens = p->reference.on ? p->n_tokens : p->predict,
                                                      .decode = s ? s->decode : "exact",
                                                      .ignore_end = true},
                                   &measure, &r);
    if (err != SP_OK) return err;
    const sp_result *res = sp_request_result(r);
    while (err == SP_OK && res->finish == SP_FINISH_NONE) err = sp_context_step(p->ctx, &busy);
    if (err == SP_OK && res->finish == SP_FINISH_ERROR) err = sp_fail(res->err, "%s", res->detail);
    if (!along && err == SP_OK) {
        p->n_tokens = res->n_generated;
        memcpy(p->tokens, res->tokens, (size_t)res->n_generated * sizeof *p->tokens);
    } else if (s && err == SP_OK && res->decode.n_sparse) {
        s->read += res->decode.keys_read;
        s->reused += res->decode.lists_reused;
        s->found += res->decode.found;
        s->file_bytes += (double)res->decode.file_bytes / res->decode.n_sparse;
        s->n_answers++;
    }
    sp_request_destroy(r);
    return err;
}

/* Where the chunks of prompts come from. */
typedef struct source {
    eval_questions all;
    eval_docs docs;
    int first, end; /* the questions that are asked now, and those whose chunks are around theirs */
} source;

/* add_chunks -- those of question i; of chunks that `known` has, none. */
static bool add_chunks(profile *p, const source *from, int i, eval_context *known,
                       sp_prompt *prompt)
{
    eval_context c = {0};
    bool good = eval_context_find(&from->docs, &from->all, &from->all.v[i], &c);
    for (size_t k = 0; k < c.n && good; k++) {
        bool is_new = p->depth == 0 || sp_prompt_n_tokens(prompt) < p->depth;
        for (size_t j = 0; j < known->n; j++) is_new &= known->v[j].id != c.v[k].id;
        if (!is_new) continue;
        sp_err err = sp_prompt_chunk(prompt, c.v[k].title, c.v[k].text);
        if (err == SP_OK) err = sp_vec_reserve(known, 1);
        if (err == SP_OK) known->v[known->n++] = (eval_chunk){.id = c.v[k].id};
        good = err == SP_OK || (cli_fail(err), false);
    }
    eval_context_drop(&c);
    return good;
}

/* make_prompt -- the chunks of question i among those of the questions after it, up to `depth`
 * tokens. NULL after an error message. */
static sp_prompt *make_prompt(profile *p, const source *from, int i)
{
    eval_context known = {0};
    sp_prompt *prompt = NULL;
    sp_err err = sp_prompt_create(p->ctx, &prompt);
    if (err == SP_OK) err = sp_prompt_system(prompt, SYSTEM);
    bool good = err == SP_OK || (cli_fail(err), false);
    const int n = from->end - from->first, last = p->depth ? n : 1;
    for (int k = 0; k < last && good; k++) {
        const int other = from->first + (i - from->first + k + n / 2 * (k < last / 2)) % n;
        good = add_chunks(p, from, other, &known, prompt);
        if (k == last / 2 && good) good = add_chunks(p, from, i, &known, prompt);
    }
    if (good && (err = sp_prompt_question(prompt, from->all.v[i].text)) != SP_OK)
        good = (cli_fail(err), false);
    sp_vec_fini(&known);
    if (good) return prompt;
    sp_prompt_destroy(prompt);
    return NULL;
}

/* encode -- the tokens of a text; how many, or -1 after an error message. */
static int encode(const profile *p, const char *text, int32_t **out)
{
    size_t n;
    sp_err err = sp_vocab_encode(sp_context_vocab(p->ctx), text, strlen(text), false, out, &n);
    return err == SP_OK ? (int)n : (cli_fail(err), -1);
}

/* take_reference -- LEAD and the reference answer become the tokens of the answer, p->predict at most. */
static bool take_reference(profile *p, const char *reference)
{
    int32_t *lead = NULL, *all = NULL;
    char *text = malloc(sizeof LEAD + 1 + strlen(reference));
    if (!text) return cli_fail_with("out of memory"), false;
    sprintf(text, LEAD " %s", reference);
    const int n_lead = encode(p, LEAD, &lead), n = n_lead < 0 ? -1 : encode(p, text, &all);
    int n_same = 0;
    while (n_same < SP_MIN(n_lead, n) && lead[n_same] == all[n_same]) n_same++;
    p->reference.n_lead = n_same;
    p->n_tokens = SP_MIN(n, p->predict);
    if (n >= 0) memcpy(p->tokens, all, (size_t)p->n_tokens * sizeof *all);
    sp_buffer_free(lead);
    sp_buffer_free(all);
    free(text);
    return n >= 0;
}

/* note_reference -- what the answer that ended says of its reference; s NULL: with full attention. */
static void note_reference(profile *p, setting *s, double *full)
{
    const int n = p->n_tokens - p->reference.n_lead;
    if (!p->reference.on || n <= 0) return;
    if (!s) *full = p->reference.nll / n;
    if (s) s->more[p->reference.n_compared] = p->reference.nll / n - *full;
}

static bool ask(profile *p, const source *from, int i)
{
    double full = 0;
    sp_prompt *prompt = make_prompt(p, from, i);
    if (!prompt) return false;
    if (p->reference.on && !take_reference(p, from->all.v[i].answers[0])) return sp_prompt_destroy(prompt), false;
    p->n_prompt += sp_prompt_n_tokens(prompt);
    sp_err err = answer(p, prompt, NULL);
    note_reference(p, NULL, &full);
    for (int k = 0; p->compares && k < p->decode.n && err == SP_OK; k++) {
        err = answer(p, prompt, &p->settings[k]);
        note_reference(p, &p->settings[k], &full);
    }
    if (p->compares && p->reference.on && p->n_tokens > p->reference.n_lead) {
        p->reference.sum_nll += full;
        p->reference.n_compared++;
    }
    p->n_questions += err == SP_OK;
    sp_prompt_destroy(prompt);
    return err == SP_OK || (cli_fail(err), false);
}

/* -- results -------------------------------------------------------------------------------- */

static void print_overlap(const profile *p)
{
    const sp_study_result r = sp_study_result_of(p->heads);
    printf("\n%-16s %10s %10s\n", "cosine", "pairs", "overlap");
    for (int i = 0; i < SP_STUDY_BINS; i++)
        if (r.n_pairs[i])
            printf("%+.1f to %+.1f     %10lld %8.1f %%\n", -1 + 2.0 * i / SP_STUDY_BINS,
                   -1 + 2.0 * (i + 1) / SP_STUDY_BINS, (long long)r.n_pairs[i], 100 * r.overlap[i]);
}

/* print_more -- what reference answers lose, with its interval where questions are enough for one. */
static void print_more(const profile *p, const setting *s)
{
    const eval_interval range = eval_mean_interval(s->more, (size_t)p->reference.n_compared);
    double sum = 0;
    for (int i = 0; i < p->reference.n_compared; i++) sum += s->more[i];
    printf("  %+8.3f", sum / SP_MAX(p->reference.n_compared, 1));
    if (!isnan(range.low)) printf(" (%+.3f to %+.3f)", range.low, range.high);
}

static void print_setting(const profile *p, const setting *s)
{
    const sp_study_result r = sp_study_result_of(s->study);
    const double n = s->n_tokens ? (double)s->n_tokens : 1;
    const double answers = s->n_answers ? (double)s->n_answers : 1;
    printf("%-32s %8.4f %6.1f %% %7.1f %% %6.1f %% ", s->decode, s->kl / n,
           100 * (double)s->n_agreed / n, 100 * s->read / answers, 100 * s->reused / answers);
    if (p->m.ctx.decode.context_bytes)
        printf("%6.1f %% %10.1f", 100 * s->found / answers, s->file_bytes / answers / 1e3);
    else
        printf("%6.1f %% %6.1f %% %6.1f %%", 100 * r.read,
               r.exact > 0 ? 100 * r.read / r.exact : 0, r.best > 0 ? 100 * r.read / r.best : 0);
    if (p->reference.on) print_more(p, s);
    putchar('\n');
}

static void print_settings(const profile *p)
{
    if (p->decode.n == 0) return;
    printf("\n%-32s %8s %8s %9s %8s ", "decode", "KL", "agree", "keys", "reused");
    if (p->m.ctx.decode.context_bytes)
        printf("%8s %10s", "found", "KB read");
    else
        printf("%8s %8s %8s", "mass", "of exact", "of best");
    puts(p->reference.on ? "  more nats a token of the reference (95 %)" : "");
    for (int i = 0; i < p->decode.n; i++) print_setting(p, &p->settings[i]);
}

typedef struct hard_head {
    int layer, kv_head;
    float difficulty, tau;
} hard_head;

static int by_difficulty(const void *a, const void *b)
{
    const float x = ((const hard_head *)a)->difficulty, y = ((const hard_head *)b)->difficulty;
    return (x < y) - (x > y);
}

/* print_hardest -- the KV heads whose choices are reused least: what a device with memory to spare
 * keeps whole (LiteCache section 4.4). */
static void print_hardest(const sp_heads *h)
{
    const int n = h->n_layers * h->n_kv_heads;
    hard_head *v = malloc((size_t)n * sizeof *v);
    float *difficulty = malloc((size_t)n * sizeof *difficulty);
    if (difficulty) sp_heads_rank(h, 0, 0, difficulty);
    for (int i = 0; v && difficulty && i < n; i++) {
        hard_head *one = &v[i];
        *one = (hard_head){.layer = i / h->n_kv_heads, .kv_head = i % h->n_kv_heads};
        one->tau = sp_heads_tau(h, one->layer, one->kv_head, SP_SPARSE_ETA, SP_SPARSE_POWER);
        one->difficulty = difficulty[i];
    }
    if (v && difficulty) qsort(v, (size_t)n, sizeof *v, by_difficulty);
    printf("\nhardest to reuse:");
    for (int i = 0; v && difficulty && i < n && i < N_HARDEST; i++)
        printf("%s layer %d head %d (D %+.2f, threshold %.2f)", i ? "," : "", v[i].layer,
               v[i].kv_head, (double)v[i].difficulty, (double)v[i].tau);
    putchar('\n');
    free(difficulty);
    free(v);
}

static sp_err write_heads(const profile *p)
{
    sp_heads *h = NULL;
    char *path = p->output ? NULL : sp_heads_path(p->m.ctx.model);
    sp_err err = sp_heads_create(p->info.n_layers, p->info.n_heads, p->info.n_kv_heads, &h);
    if (err == SP_OK) {
        sp_study_heads(p->heads, h);
        print_hardest(h);
        err = sp_heads_write(p->output ? p->output : path, h);
    }
    if (err == SP_OK)
        printf("\n%s: %d layers, %d heads\n", p->output ? p->output : path, h->n_layers,
               h->n_heads);
    sp_heads_destroy(h);
    sp_free(path);
    return err;
}

/* -- the command ---------------------------------------------------------------------------- */

static bool take_room(profile *p)
{
    const sp_context_info *info = &p->info;
    p->full = malloc((size_t)p->predict * (size_t)info->n_vocab * sizeof *p->full);
    p->tokens = malloc((size_t)p->predict * sizeof *p->tokens);
    p->settings = calloc((size_t)p->decode.n + 1, sizeof *p->settings);
    if (!p->full || !p->tokens || !p->settings) return cli_fail_with("out of memory"), false;
    sp_err err = sp_study_create(info->n_layers, info->n_heads, info->n_kv_heads, &p->heads);
    for (int i = 0; i < p->decode.n && err == SP_OK; i++) {
        p->settings[i].decode = p->decode.v[i];
        p->held_out |= strstr(p->decode.v[i], ",reuse") != NULL;
        p->settings[i].more = calloc((size_t)p->most, sizeof(double));
        if (!p->settings[i].more) return cli_fail_with("out of memory"), false;
        err =
            sp_study_create(info->n_layers, info->n_heads, info->n_kv_heads, &p->settings[i].study);
    }
    return err == SP_OK || (cli_fail(err), false);
}

static void close_all(profile *p)
{
    for (int i = 0; p->settings && i < p->decode.n; i++) {
        sp_study_destroy(p->settings[i].study);
        free(p->settings[i].more);
    }
    sp_study_destroy(p->heads);
    free(p->settings);
    free(p->full);
    free(p->tokens);
    sp_context_close(p->ctx);
}

/* ask_all -- questions first .. end - 1, p->most at most. */
static bool ask_all(profile *p, source *from, int first, int end, int most)
{
    bool good = true;
    from->first = first;
    from->end = end;
    for (int i = first; i < end && i < first + most && good; i++) good = ask(p, from, i);
    return good;
}

/* ask_halves -- the heads of the first half are those of the settings, which the second half compares. */
static bool ask_halves(profile *p, source *from)
{
    const int n = from->all.n, half = n / 2, most = p->most / 2;
    sp_heads *h = NULL;
    if (half < 1 || most < 1)
        return cli_fail_with("profile --decode: --compare with reuse needs two questions: heads are measured with one "
                             "half of them, and compared with the other"),
               false;
    p->studies = true;
    if (!ask_all(p, from, 0, half, most)) return false;
    sp_err err = sp_heads_create(p->info.n_layers, p->info.n_heads, p->info.n_kv_heads, &h);
    if (err == SP_OK) {
        sp_study_heads(p->heads, h);
        err = sp_measure_heads(p->ctx, h);
    }
    sp_heads_destroy(h);
    if (err != SP_OK) return cli_fail(err), false;
    printf("heads measured with %d questions, settings compared with others\n", p->n_questions);
    p->studies = false;
    p->compares = true;
    return ask_all(p, from, half, n, most);
}

static bool run(profile *p)
{
    source from = {0};
    const eval_docs_opts o = {
        .index = p->index, .context = "retrieved", .order = "given", .n_chunks = p->n_chunks};
    if (!eval_questions_read(p->questions, "kind", &from.all)) return false;
    bool good = eval_docs_open(&o, &from.docs);
    if (good) {
        p->studies = p->compares = true;
        if (p->held_out) p->compares = false;
        good = p->held_out ? ask_halves(p, &from) : ask_all(p, &from, 0, from.all.n, p->most);
        eval_docs_close(&from.docs);
    }
    eval_questions_drop(&from.all);
    if (!good) return false;
    printf("%d questions over %d tokens, answers of %d\n", p->n_questions,
           p->n_prompt / p->n_questions, p->predict);
    if (p->reference.n_compared)
        printf("reference answers of %d questions: %.3f nats a token with full attention\n", p->reference.n_compared,
               p->reference.sum_nll / p->reference.n_compared);
    print_overlap(p);
    print_settings(p);
    sp_err err = write_heads(p);
    return err == SP_OK || (cli_fail(err), false);
}

int lab_profile_decode(int argc, char **argv)
{
    profile p = {.n_chunks = 8, .predict = 16, .most = 32};
    model_options_init(&p.m);
    p.m.ctx.guard.share = 0;
    const opt own[] = {
        {OPT_STRING, "index", 'i', "FILE", &p.index, "index written by spolia index",
         .common = true, .required = true},
        {OPT_STRING, "questions", 0, "FILE", &p.questions, "JSON lines with question and answers",
         .common = true, .required = true},
        {OPT_INT, "chunks", 'k', "N", &p.n_chunks, "most chunks of a prompt (8)", .common = true,
         .limits = {1, INT32_MAX}},
        {OPT_INT, "depth", 0, "N", &p.depth,
         "fill the prompt to N tokens with chunks of other questions (only its own chunks)", .limits = {0, INT32_MAX}},
        {OPT_INT, "predict", 'n', "N", &p.predict, "tokens of each answer (16)", .limits = {2, 4096}},
        {OPT_INT, "most", 0, "N", &p.most, "questions (32)", .limits = {1, INT32_MAX}},
        {OPT_LIST, "compare", 0, "HOW", &p.decode,
         "compare this --decode with full attention; may be repeated", .common = true},
        {OPT_FLAG, "reference", 0, NULL, &p.reference.on,
         "follow the reference answers, and print the loss of their likelihood"},
        {OPT_STRING, "output", 'o', "FILE", &p.output, "the heads (MODEL.heads.json)"},
        {0},
    };
    const opt *const tables[] = {own, p.m.table, NULL};
    int at =
        opt_parse(argc, argv,
                  &(opt_usage){"profile --decode -m MODEL -i FILE --questions FILE [options]",
                               "Measures importance and similarity of heads for sparse "
                               "decoding, and how far sparse\nanswers are from full attention."},
                  tables);
    if (at < 0) return -1 - at;
    if (at != argc)
        return cli_fail_with("profile --decode: unexpected argument \"%s\"", argv[at]), 2;
    const int wrong = model_options_check(&p.m);
    if (wrong) return wrong;
    p.ctx = model_options_open(&p.m);
    if (!p.ctx) return 1;
    p.info = sp_context_describe(p.ctx);
    bool good = take_room(&p) && run(&p);
    close_all(&p);
    return good ? 0 : 1;
}
