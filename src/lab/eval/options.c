#include "lab/eval/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/asked.h"
#include "cli/cli.h"
#include "lab/eval/shots.h"

#define LINE_S 30.0 /* between lines where there is no terminal */

void eval_options_init(eval_options *o)
{
    *o = (eval_options){.kind_field = "kind",
                        .system = CLI_SYSTEM_TEXT,
                        .docs.order = "given",
                        .max_tokens = 32,
                        .similar = "bm25",
                        .n_fuse = 10};
    const opt table[] = {
        {OPT_GROUP, "Questions and documents"},
        {OPT_STRING, "questions", 'q', "FILE", &o->questions,
         "JSON lines with question, answers; optional: id, kind, docs, context_doc_ids",
         .required = true},
        {OPT_STRING, "index", 'i', "FILE", &o->docs.index,
         "index written by spolia index; with --docs: for the similar chunks of +fused",
         .common = true},
        {OPT_STRING, "docs", 'd', "PATH", &o->docs.docs,
         "a folder, or a JSONL file with id, title, text", .common = true},
        {OPT_STRING, "context", 0, "HOW", &o->docs.context,
         "chunks are retrieved or given by the question (retrieved; given with a JSONL file)"},
        {OPT_INT, "chunks", 'k', "K", &o->docs.n_chunks,
         "chunks in a prompt (8 retrieved; all given)", .common = true, .limits = {0, INT32_MAX}},
        {OPT_STRING, "order", 0, "HOW", &o->docs.order,
         "order of chunks: given (retrieved ones as in the index, as ask has them), ranked (by relevance), "
         "shuffled (given)"},
        {OPT_U64, "seed", 's', "N", &o->docs.seed, "random seed of shuffling (0)"},
        {OPT_INT, "limit", 0, "N", &o->limit, "ask the first N questions; 0: all (0)",
         .common = true, .limits = {0, INT32_MAX}},
        {OPT_INT, "max-tokens", 'n', "N", &o->max_tokens, "most tokens of an answer (32)", .limits = {1, INT32_MAX}},
        {OPT_LIST, "stop", 0, "TEXT", &o->stop, "end an answer before this text; may be repeated"},
        {OPT_STRING, "system", 0, "TEXT", &o->system, "system text of the prompts"},
        {OPT_INT, "shots", 0, "N", &o->n_shots,
         "solved examples in the system text, the first of --shots-from (0)", .limits = {0, INT32_MAX}},
        {OPT_STRING, "shots-from", 0, "FILE", &o->shots_from, "questions for --shots; none of those asked"},
        {OPT_STRING, "kind-field", 0, "NAME", &o->kind_field,
         "field that groups the questions (kind)"},
        {OPT_INT, "fuse", 0, "N", &o->n_fuse,
         "similar chunks that a fused copy is conditioned on (10)", .limits = {1, INT32_MAX}},
        {OPT_STRING, "similar", 0, "SOURCE", &o->similar, CLI_SIMILAR_HELP},
        {OPT_STRING, "asked", 0, "FILE", &o->asked, CLI_ASKED_HELP},
        {OPT_FLAG, "quiet", 0, NULL, &o->quiet, "show no progress"},
        {OPT_END, NULL, 0, NULL, NULL, NULL},
    };
    memcpy(o->table, table, sizeof table);
}

static bool is_one_of(const char *word, const char *a, const char *b)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

/* wrong_usage -- an error message, or NULL. */
static const char *wrong_usage(const eval_options *o, const model_options *m)
{
    if (!o->docs.index && !o->docs.docs) return "give the documents with --index or --docs";
    if (o->docs.context && !is_one_of(o->docs.context, "given", "retrieved"))
        return "--context must be given or retrieved";
    if (!is_one_of(o->docs.order, "given", "shuffled") && strcmp(o->docs.order, "ranked") != 0)
        return "--order must be given, ranked or shuffled";
    if (cli_asked_wrong(o->similar, o->asked)) return cli_asked_wrong(o->similar, o->asked);
    if (o->n_shots > 0 && !o->shots_from) return "--shots needs --shots-from";
    const sp_reuse_opts *r = &m->ctx.reuse;
    if (m->reuse || !isnan(r->recompute) || !isnan(m->alpha) || r->unfused)
        return "--reuse, --recompute, --alpha and --unfused do not apply here; --policies, "
               "--ratios "
               "and --alphas set what is compared";
    return NULL;
}

int eval_input_open(const char *command, const eval_options *o, const model_options *m,
                    eval_settings *settings, eval_input *out)
{
    eval_input in = {0};
    const char *wrong = wrong_usage(o, m);
    if (wrong) return cli_fail_with("%s: %s", command, wrong), 2;
    const int code = model_options_check(m);
    if (code) return code;
    if (!eval_questions_read(o->questions, o->kind_field, &in.questions)) return 1;
    in.n_questions = in.questions.n;
    if (o->limit && o->limit < in.n_questions) in.n_questions = o->limit;
    in.system = eval_shots_add(o->system, o->shots_from, o->n_shots, &in.questions);
    bool good = in.system && eval_docs_open(&o->docs, &in.docs);
    if (good && o->asked && in.docs.index) good = cli_note_asked(in.docs.index, o->asked);
    for (int i = 0; i < settings->n && good; i++) {
        model_options_policy(m, settings->v[i].spec); /* --focus */
        if (strstr(settings->v[i].name, "+fused") && !in.docs.index &&
            strcmp(o->similar, "neighbour") != 0) {
            cli_fail_with("%s: similar chunks need an index; %s is not one", settings->v[i].name,
                          o->docs.docs);
            good = false;
        }
    }
    if (good)
        *out = in;
    else
        eval_input_close(&in);
    return good ? 0 : 1;
}

void eval_input_close(eval_input *in)
{
    eval_questions_drop(&in->questions);
    eval_docs_close(&in->docs);
    free(in->system);
}

/* -- the run -------------------------------------------------------------------------------- */

eval_run_opts eval_run_of(const eval_options *o, const eval_input *in, const model_options *m,
                          const eval_settings *settings)
{
    return (eval_run_opts){.model = m,
                           .docs = &in->docs,
                           .questions = &in->questions,
                           .n_questions = in->n_questions,
                           .settings = settings,
                           .system = in->system,
                           .cue = o->n_shots ? EVAL_CUE : "",
                           .stop = &o->stop,
                           .max_tokens = o->max_tokens,
                           .similar = o->similar,
                           .n_fuse = o->n_fuse};
}

void eval_progress_text(const eval_progress *p, int done, int total, double now, char *out, size_t n_out)
{
    const int n = done - p->n_skipped;
    const double took = now - p->new_at + 1e-9;
    const int left = n > 0 ? (int)(took / n * (total - done)) : 0;
    if (p->again)
        snprintf(out, n_out, "question %d of %d is recomputed, to fill the caches", p->again, p->n_skipped);
    else if (n == 0)
        snprintf(out, n_out, "question %d of %d", done + 1, total);
    else
        snprintf(out, n_out, "question %d of %d, %.1f a minute, %d:%02d left", done, total, n * 60 / took, left / 60,
                 left % 60);
}

void eval_progress_show(eval_progress *p, int done, int total)
{
    char text[96];
    const double now = progress_seconds(&p->line);
    const bool is_due = p->line.on_terminal ? progress_is_due(&p->line) : now - p->said >= LINE_S;
    if (p->quiet || !is_due) return;
    eval_progress_text(p, done, total, now, text, sizeof text);
    if (!p->line.on_terminal) fprintf(stderr, "%s\n", text);
    progress_draw(&p->line, "%s", text);
    p->said = now;
}
