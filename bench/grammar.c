/* grammar.c -- the cost of a grammar for each token of an answer.
 *
 *     build/bench/grammar VOCABULARY.tiktoken [rounds [case]]
 *
 * Each case is a grammar and a text that it accepts; `case` is a part of the names of those to run. The text
 * is cut into the longest tokens of the vocabulary, and for each of them the mask is found and the token accepted.
 * `mean` and `worst` are of the masks of a text, `start` is what a request pays before its first token; medians
 * over the rounds of CPU time on one thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/grammar/grammar.h"
#include "support/tiktoken.h"

enum { MAX_ROUNDS = 1000 };

typedef struct grammar_case {
    const char *name;
    sp_grammar_opts o;
    const char *text;
} grammar_case;

#define PERSON                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":"       \
    "\"integer\"},\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}},\"required\":"    \
    "[\"name\",\"age\",\"tags\"]}"
#define SHORT                                                                                      \
    "{\"type\":\"object\",\"properties\":{\"title\":{\"type\":\"string\",\"maxLength\":80},"       \
    "\"summary\":{\"type\":\"string\",\"minLength\":10,\"maxLength\":500}},\"required\":"          \
    "[\"title\",\"summary\"]}"
#define NOTE                                                                                       \
    "{\"type\":\"object\",\"properties\":{\"day\":{\"type\":\"string\",\"format\":\"date\"},"      \
    "\"note\":"                                                                                    \
    "{\"type\":\"string\",\"pattern\":\"^[A-Z][^\\n]{3,300}[.!?]$\"}},\"required\":[\"day\","      \
    "\"note\"]}"
#define PROSE                                                                                      \
    "Retrieved chunks hardly ever form a prefix, so servers today compute most of them again; "    \
    "reuse at any position saves that time at a small cost in quality."

static const grammar_case cases[] = {
    {"any JSON object",
     {0},
     "{\"question\": \"Who wrote it?\", \"answers\": [{\"text\": \"Anna \\\"A.\\\" Smith\", "
     "\"score\": "
     "0.75}, {\"text\": \"nobody\", \"score\": -1e-3}], \"found\": true}"},
    {"schema",
     {.schema = PERSON},
     "{\"name\": \"Anna Smith\", \"age\": 42, \"tags\": [\"some words\", \"and more\", \"\"]}"},
    {"schema, maxLength",
     {.schema = SHORT},
     "{\"title\": \"Reuse of copies\", \"summary\": \"" PROSE "\"}"},
    {"schema, pattern", {.schema = NOTE}, "{\"day\": \"2026-11-22\", \"note\": \"" PROSE "\"}"},
    {"regex, any text", {.regex = "(.|\\n)*"}, PROSE},
    {"regex, counted", {.regex = "[^\\n]{10,400}"}, PROSE},
    {"gbnf, words",
     {.gbnf = "root ::= word (sep word)*\nword ::= [A-Za-z]+\nsep ::= [,;]? \" \" | [.;] \" \"\n"},
     "Retrieved chunks hardly ever form a prefix, so servers today compute most of them again"},
    {"gbnf, alternatives",
     {.gbnf = "root ::= (key \": \" value \"\\n\")+\nkey ::= [a-z_]+\n"
              "value ::= [0-9]+ | \"'\" [^'\\n]* \"'\" | list\nlist ::= \"[\" value (\", \" "
              "value)* \"]\"\n"},
     "name: 'Anna Smith'\nages: [42, [7, 'many years'], 'and so on']\nnext_one: 3\n"},
};

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void must(sp_err err)
{
    if (err == SP_OK) return;
    fprintf(stderr, "grammar: %s\n", sp_error_detail());
    exit(1);
}

/* -- one case ------------------------------------------------------------------------------------ */

typedef struct times {
    double start, mean, worst, accept; /* ms; of a mask, of a token */
    int n_tokens;
} times;

static times run(const sp_grammar *g, const tiktoken *v, const char *text)
{
    times r = {0};
    sp_grammar_state *s;
    double begin = cpu_ms();
    must(sp_grammar_start(g, v->set, &s));
    r.start = cpu_ms() - begin;
    for (size_t at = 0, n = strlen(text); at < n; r.n_tokens++) {
        int32_t id = tiktoken_longest(v, text + at, n - at);
        begin = cpu_ms();
        bool allowed = sp_grammar_mask(s)[id >> 6] >> (id & 63) & 1;
        double masked = cpu_ms();
        if (!allowed || !sp_grammar_accept(s, id)) {
            fprintf(stderr, "grammar: \"%s\" is refused at byte %zu\n", text, at);
            exit(1);
        }
        r.accept += cpu_ms() - masked;
        r.mean += masked - begin;
        r.worst = SP_MAX(r.worst, masked - begin);
        at += v->pieces[id].n;
    }
    sp_grammar_stop(s);
    r.mean /= r.n_tokens;
    r.accept /= r.n_tokens;
    return r;
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_size);
    return v[n / 2];
}

static void measure(const grammar_case *c, const tiktoken *v, int rounds)
{
    static double start[MAX_ROUNDS], mean[MAX_ROUNDS], worst[MAX_ROUNDS], accept[MAX_ROUNDS];
    sp_grammar *g;
    times r = {0};
    must(sp_grammar_compile(&c->o, &g));
    for (int i = 0; i < rounds; i++) {
        r = run(g, v, c->text);
        start[i] = r.start;
        mean[i] = r.mean;
        worst[i] = r.worst;
        accept[i] = r.accept;
    }
    printf("%-20s %7d %9.3f %9.3f %9.3f %9.4f\n", c->name, r.n_tokens, median(start, rounds),
           median(mean, rounds), median(worst, rounds), median(accept, rounds));
    sp_grammar_destroy(g);
}

int main(int argc, char **argv)
{
    tiktoken v;
    int rounds = argc > 2 ? atoi(argv[2]) : 9;
    if (argc < 2 || rounds < 1 || rounds > MAX_ROUNDS || !tiktoken_open(argv[1], &v)) {
        fprintf(stderr, "usage: grammar VOCABULARY.tiktoken [rounds [case]]\n");
        return 2;
    }
    double begin = cpu_ms();
    must(sp_token_set_create(v.pieces, v.n, &v.set));
    printf("%zu tokens, sorted in %.0f ms\n", v.n, cpu_ms() - begin);
    printf("%-20s %7s %9s %9s %9s %9s  (ms)\n", "grammar", "tokens", "start", "mean", "worst",
           "accept");
    for (size_t i = 0; i < SP_COUNT(cases); i++)
        if (argc < 4 || strstr(cases[i].name, argv[3])) measure(&cases[i], &v, rounds);
    tiktoken_close(&v);
    return 0;
}
