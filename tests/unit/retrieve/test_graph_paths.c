/* Entities of questions, and the paths around them: which are found, which are chosen, and limits. */
#include "graph_fixture.h"

static const char movies[] = "Heat\tdirected_by\tMichael Mann\n"
                             "Heat\tstarred_actors\tAl Pacino\n"
                             "Heat\tstarred_actors\tRobert De Niro\n"
                             "Heat\trelease_year\t1995\n"
                             "The Insider\tdirected_by\tMichael Mann\n"
                             "The Insider\tstarred_actors\tAl Pacino\n"
                             "The Insider\twritten_by\tEric Roth\n"
                             "The Insider\thas_genre\tDrama\n"
                             "It\tdirected_by\tAndy Muschietti\n"
                             "The Who\tplays\tRock\n";

static void entities_are_longest_names(void **state)
{
    folder *f = *state;
    graph_make(f, "m.tsv", movies);
    graph_make(f, "n.tsv", "Insider\tis\tword\n");
    assert_string_equal(graph_names(f, "who directed the insider with al pacino?"),
                        "the insider=The Insider:The Insider:0 al pacino=Al Pacino:Al Pacino:0");
    assert_string_equal(graph_names(f, "INSIDER"), "INSIDER=Insider:Insider:0");
    assert_string_equal(graph_names(f, "is it so?"), ""); /* function words name nothing ... */
    assert_string_equal(graph_names(f, "who directed It?"),
                        "It=It:It:0"); /* ... in small letters */
    assert_string_equal(graph_names(f, "what does The Who play"), "The Who=The Who:The Who:0");
    assert_string_equal(graph_names(f, ""), "");
    assert_string_equal(graph_names(f, "?!"), "");
}

static void misspelt_names_are_found(void **state)
{
    folder *f = *state;
    graph_make(f, "m.tsv", movies);
    assert_string_equal(graph_names(f, "films by Micheal Mann"),
                        "Micheal Mann=Michael Mann:Michael Mann:2");
    assert_string_equal(graph_names(f, "was Robert de Nirro in Heat"),
                        "Robert de Nirro=Robert De Niro:Robert De Niro:2 Heat=Heat:Heat:0");
    assert_string_equal(graph_names(f, "\"); DROP TABLE graph_keys; -- OR NEAR(\"a\" *"), "");
    assert_string_equal(graph_names(f, "Heat"), "Heat=Heat:Heat:0");
    assert_string_equal(graph_names(f, "who directed Heal"), ""); /* four letters are too few to guess */
    assert_string_equal(graph_names(f, "who directed Drame"), "Drame=Drama:Drama:2");
    graph_make(f, "z.tsv", "\xC5\xBDi\xC5\xBEkov\tin\tPrague\n"); /* letters of two bytes */
    assert_string_equal(graph_names(f, "where is \xC5\xBDi\xC5\xBEkow"),
                        "\xC5\xBDi\xC5\xBEkow=\xC5\xBDi\xC5\xBEkov:\xC5\xBDi\xC5\xBEkov:2");
    /* a capital at the beginning says nothing where there is a name */
    assert_string_equal(graph_names(f, "Drame with Al Pacino"), "Al Pacino=Al Pacino:Al Pacino:0");
    assert_string_equal(graph_names(f, "the Drame with Al Pacino"),
                        "Drame=Drama:Drama:2 Al Pacino=Al Pacino:Al Pacino:0");
    graph_make(f, "n.tsv", "Michael Manu\tmakes\tCups\n"); /* not as near */
    assert_string_equal(graph_names(f, "films by Micheal Mann"), "Micheal Mann=Michael Mann:Michael Mann:2");
}

/* "director" is a film of the graph, and what the question wants of Heat. */
static void words_of_relations_are_no_names(void **state)
{
    folder *f = *state;
    const char *heat = "Heat=Heat:Heat:0", *director = "director=Director:Director:0";
    graph_make(f, "m.tsv", movies);
    graph_make(f, "n.tsv",
               "Director\tdirected_by\tAnn Lee\nStarred Actor\tdirected_by\tAnn Lee\n"
               "Alien\tdirected_by\tAnn Lee\n");
    assert_string_equal(graph_names(f, "who is the director of Heat"), heat);
    assert_string_equal(
        graph_paths(f, "the director of Heat", (sp_graph_paths_opts){.k = 1, .hops = 1}),
        "Heat -directed_by-> Michael Mann\n"); /* and it is a word of the question */
    assert_string_equal(graph_names(f, "was the starred actor of Heat ill"), heat);
    assert_string_equal(graph_names(f, "was Director by the director of Heat"),
                        "Director=Director:Director:0 Heat=Heat:Heat:0");
    assert_string_equal(graph_names(f, "director of heat"), "heat=Heat:Heat:0");
    /* the only name; no relation; */
    assert_string_equal(graph_names(f, "who is in director"), director);
    assert_string_equal(graph_names(f, "who directed Heat and alien"),
                        "Heat=Heat:Heat:0 alien=Alien:Alien:0");
    /* a relation far from Al Pacino */
    graph_make(f, "o.tsv", "Plays\tdirected_by\tAnn Lee\n");
    assert_string_equal(graph_names(f, "plays with Al Pacino"),
                        "plays=Plays:Plays:0 Al Pacino=Al Pacino:Al Pacino:0");
    assert_string_equal(graph_names(f, "plays near Heat"), "plays=Plays:Plays:0 Heat=Heat:Heat:0");
    graph_make(f, "p.tsv", "Michael Mann\tplays\tCello\n"); /* now it is one of the film's director */
    assert_string_equal(graph_names(f, "plays near Heat"), heat);
    graph_make(f, "q.tsv", "Maker\tpainter\tAnn\nPainter\tmaker\tBob\n"); /* each a relation of the other */
    assert_string_equal(graph_names(f, "maker and painter"), "maker=Maker:Maker:0 painter=Painter:Painter:0");
    /* a guess is not a word of a relation */
    graph_make(f, "r.tsv", "Teacher\tin\tSchool\nSokrates\tteacher_of\tPlato\n");
    assert_string_equal(graph_names(f, "teacher of sokrates"), "sokrates=Sokrates:Sokrates:0");
    assert_string_equal(graph_names(f, "teachar of sokratis"),
                        "teachar=Teacher:Teacher:2 sokratis=Sokrates:Sokrates:2");
    sp_graph *g = graph_open(f);
    sp_graph_answer a = {.n_paths = -7};
    assert_survives_faults(sp_graph_find_paths(g, "the director of Heat", NULL, &a),
                           a.n_paths == -7);
    assert_int_equal(a.n_entities, 1);
    sp_graph_answer_fini(&a);
    sp_graph_close(g);
}

static void search_lists_similar_names(void **state)
{
    folder *f = *state;
    sp_graph_answer a;
    graph_make(f, "m.tsv", movies);
    sp_graph *g = graph_open(f);
    assert_ok(sp_graph_search(g, "pacino", 3, &a));
    assert_true(a.n_entities >= 1);
    assert_string_equal(a.entities[0].name, "Al Pacino");
    assert_int_equal(a.entities[0].match, SP_GRAPH_FUZZY);
    sp_graph_answer_fini(&a);
    assert_ok(sp_graph_search(g, "al PACINO", 3, &a));
    assert_int_equal(a.n_entities, 1);
    assert_int_equal(a.entities[0].match, SP_GRAPH_EXACT);
    sp_graph_answer_fini(&a);
    assert_ok(sp_graph_search(g, "", 3, &a));
    assert_int_equal(a.n_entities, 0);
    sp_graph_answer_fini(&a);
    assert_ok(sp_graph_search(g, "\"\"\"", 3, &a)); /* quotes alone */
    assert_int_equal(a.n_entities, 0);
    sp_graph_answer_fini(&a);
    assert_fails(sp_graph_search(g, "x", 0, &a), SP_E_ARG, "k: 0");
    sp_graph_close(g);
}

#define LABEL " <http://www.w3.org/2000/01/rdf-schema#label> "

/* By whichever of its names, however often it is named. */
static void an_entity_is_found_once(void **state)
{
    folder *f = *state;
    sp_graph_answer a;
    graph_make(f, "names.nt",
               "<http://x/p>" LABEL "\"Al Pacino\" .\n<http://x/p>" LABEL "\"Alfredo Pacino\" .\n"
               "<http://x/p> <http://x/in> <http://x/heat> .\n");
    sp_graph *g = graph_open(f);
    assert_ok(sp_graph_search(g, "pacino", 5, &a));
    assert_int_equal(a.n_entities, 1);
    sp_graph_answer_fini(&a);
    assert_ok(sp_graph_find_paths(g, "is Al Pacino the same as Alfredo Pacino or Al Pacino", NULL, &a));
    assert_int_equal(a.n_entities, 1);
    sp_graph_answer_fini(&a);
    sp_graph_close(g);
}

/* Towns with one name: some of them, each once; a misspelt name does not replace one that is written. */
static void entities_of_one_name_are_bounded(void **state)
{
    folder *f = *state;
    char lines[4096];
    int n = 0;
    for (int i = 0; i < 12; i++)
        n += snprintf(lines + n, sizeof lines - (size_t)n,
                      "<http://x/%d>" LABEL "\"Springfield\" .\n<http://x/%d>" LABEL "\"springfield\" .\n"
                      "<http://x/%d> <http://x/in> <http://x/state> .\n", i, i, i);
    graph_make(f, "towns.nt", lines);
    sp_graph *g = graph_open(f);
    sp_graph_answer a;
    assert_ok(sp_graph_find_paths(g, "was it in Springfield Mills", &(sp_graph_paths_opts){.max_entities = 20}, &a));
    assert_int_equal(a.n_entities, 8);
    for (int i = 0; i < a.n_entities; i++)
        for (int k = 0; k < i; k++) assert_string_not_equal(a.entities[i].ident, a.entities[k].ident);
    sp_graph_answer_fini(&a);
    assert_ok(sp_graph_search(g, "Springfield", 20, &a));
    assert_int_equal(a.n_entities, 12);
    sp_graph_answer_fini(&a);
    sp_graph_close(g);
    graph_make(f, "more.nt",
               "<http://x/mill>" LABEL "\"Springfield Milk\" .\n<http://x/mill> <http://x/in> <http://x/0> .\n");
    g = graph_open(f);
    assert_ok(sp_graph_find_paths(g, "was it in Springfield Mills", &(sp_graph_paths_opts){0}, &a));
    for (int i = 0; i < a.n_entities; i++) assert_string_not_equal(a.entities[i].name, "Springfield Milk");
    sp_graph_answer_fini(&a);
    sp_graph_close(g);
}

/* Whole, and by their letters. */
static void names_without_words_are_found(void **state)
{
    folder *f = *state;
    sp_graph_answer a;
    graph_make(f, "bands.tsv", "!!!\tplay\tpunk\n+/-\tplay\trock\n");
    sp_graph *g = graph_open(f);
    static const char *const asked[] = {"!!!", " +/-\t"};
    for (int i = 0; i < 2; i++) {
        assert_ok(sp_graph_search(g, asked[i], 5, &a));
        assert_int_equal(a.n_entities, 1);
        assert_string_equal(a.entities[0].name, i ? "+/-" : "!!!");
        assert_int_equal(a.entities[0].match, SP_GRAPH_EXACT);
        sp_graph_answer_fini(&a);
    }
    assert_ok(sp_graph_search(g, "!!!!", 5, &a));
    assert_int_equal(a.n_entities, 1);
    assert_int_equal(a.entities[0].match, SP_GRAPH_FUZZY);
    sp_graph_answer_fini(&a);
    assert_ok(sp_graph_search(g, "?", 5, &a));
    assert_int_equal(a.n_entities, 0);
    sp_graph_answer_fini(&a);
    sp_graph_close(g);
}

static void the_best_path_has_the_words_of_the_question(void **state)
{
    folder *f = *state;
    graph_make(f, "m.tsv", movies);
    assert_string_equal(
        graph_paths(f, "which director made Heat", (sp_graph_paths_opts){.k = 1, .hops = 1}),
        "Heat -directed_by-> Michael Mann\n");
    assert_string_equal(graph_paths(f, "who directed the films in which Robert De Niro starred",
                                    (sp_graph_paths_opts){.k = 1}),
                        "Robert De Niro <-starred_actors- Heat -directed_by-> Michael Mann\n");
    assert_string_equal(
        graph_paths(f, "writers of films by Michael Mann",
                    (sp_graph_paths_opts){.k = 1, .style = SP_GRAPH_SENTENCES}),
        "Michael Mann is directed by of The Insider. The Insider written by Eric Roth.\n");
    assert_string_equal(graph_paths(f, "Al Pacino and Michael Mann", (sp_graph_paths_opts){.k = 1}),
                        "Al Pacino <-starred_actors- Heat -directed_by-> Michael Mann\n"
                        "Michael Mann <-directed_by- Heat -starred_actors-> Al Pacino\n");
}

/* Of equal scores the path of the relation that came first. */
static void each_word_counts_once_and_names_do_not(void **state)
{
    folder *f = *state;
    const sp_graph_paths_opts one = {.k = 1, .hops = 1}, two = {.k = 1, .hops = 2};
    graph_make(f, "a.tsv", "Cup\tmaker\tAnn\nCup\tauthor\tBob\n");
    assert_string_equal(graph_paths(f, "author author maker of Cup", one), "Cup -maker-> Ann\n");
    assert_string_equal(graph_paths(f, "author of Cup", one), "Cup -author-> Bob\n");
    graph_make(f, "b.tsv", "Author Bay\tauthor\tJoe\nAuthor Bay\tmaker\tKim\n");
    assert_string_equal(graph_paths(f, "maker of Author Bay", one), "Author Bay -maker-> Kim\n");
    /* of all relations of a path */
    graph_make(f, "c.tsv", "Lee\tguest\tMoon\nLee\tactor\tSun\nMoon\tmaker\tNed\nSun\tmaker\tOdo\n");
    assert_string_equal(graph_paths(f, "maker with Lee as actor", two), "Lee -actor-> Sun -maker-> Odo\n");
    /* a word that is a third of a relation's is none of it */
    graph_make(f, "d.tsv", "Kay\tmaker\tAnn\nKay\tbirthplace\tOslo\n");
    assert_string_equal(graph_paths(f, "bird of Kay", one), "Kay -maker-> Ann\n");
}

/* Without a word of the question in any of them. */
static void short_paths_come_first(void **state)
{
    folder *f = *state;
    graph_make(f, "m.tsv", "Lee\tactor\tMoon\nMoon\tmaker\tNed\nLee\tguest\tSun\n");
    assert_string_equal(graph_paths(f, "Lee", (sp_graph_paths_opts){0}),
                        "Lee -guest-> Sun\nLee -actor-> Moon -maker-> Ned\n");
    /* and of several relations some each */
    graph_make(f, "n.tsv", "Joe\tactor\tMoon\nJoe\tactor\tStar\nJoe\tactor\tRain\nJoe\tguest\tSun\n");
    assert_string_equal(graph_paths(f, "Joe", (sp_graph_paths_opts){.k = 2, .hops = 1}),
                        "Joe -actor-> Moon\nJoe -guest-> Sun\n");
}

/* A longer path that takes the place of a chosen one is as good. */
static void a_path_that_is_extended_keeps_its_place(void **state)
{
    folder *f = *state;
    graph_make(f, "m.tsv", "Cup\tauthor\tBob\nBob\tnear\tZed\nCup\tauthors\tEve\n");
    assert_string_equal(graph_paths(f, "author of Cup", (sp_graph_paths_opts){0}),
                        "Cup -author-> Bob -near-> Zed\nCup -authors-> Eve\n");
}

/* A path that goes through another entity of the question is better than one that does not. */
static void paths_through_other_entities_come_first(void **state)
{
    folder *f = *state;
    graph_make(f, "m.tsv", "Lee\tactor\tMoon\nLee\tactor\tSun\nMoon\tmaker\tNed\nSun\tmaker\tOdo\n");
    assert_string_equal(graph_paths(f, "maker with Lee as actor, Sun", (sp_graph_paths_opts){.k = 1}),
                        "Lee -actor-> Sun -maker-> Odo\nSun <-actor- Lee -actor-> Moon\n");
}

static void explanations_name_the_words(void **state)
{
    folder *f = *state;
    sp_graph_answer a;
    graph_make(f, "m.tsv", movies);
    sp_graph *g = graph_open(f);
    sp_graph_paths_opts o = {.k = 1, .hops = 1, .explain = true};
    assert_ok(sp_graph_find_paths(g, "directors of Heat", &o, &a));
    assert_non_null(strstr(a.paths[0].why, "directors~directed_by 0."));
    assert_int_equal(a.n_steps, 4);
    assert_int_equal(a.n_patterns, 3);
    sp_graph_answer_fini(&a);
    /* a word of the question in a node's name */
    assert_ok(sp_graph_find_paths(g, "films of Michael Mann, insider stories", &o, &a));
    assert_string_equal(a.paths[0].text, "Michael Mann <-directed_by- The Insider");
    if (!strstr(a.paths[0].why, "nodes +1.0")) fail_msg("%s", a.paths[0].why);
    sp_graph_answer_fini(&a);
    sp_graph_close(g);
}

/* -- shapes of graphs ------------------------------------------------------------------------- */

/* check -- every path is simple and follows triples' directions; none begins another; scores fall. */
static void check(const sp_graph_answer *a, int hops, int k)
{
    int n_of[8] = {0};
    for (int i = 0; i < a->n_paths; i++) {
        const sp_graph_path *p = &a->paths[i], *last = i ? p - 1 : NULL;
        assert_in_range(p->n_hops, 1, hops);
        assert_string_equal(p->nodes[0], a->entities[p->entity].name);
        assert_true(++n_of[p->entity] <= k);
        for (int j = 0; j <= p->n_hops; j++)
            for (int l = 0; l < j; l++) assert_string_not_equal(p->nodes[j], p->nodes[l]);
        for (int j = 0; j < a->n_paths; j++) {
            size_t n = strlen(p->text);
            bool begins =
                strncmp(a->paths[j].text, p->text, n) == 0 && strchr(" ", a->paths[j].text[n]);
            if (i != j && a->paths[j].entity == p->entity) assert_false(begins);
        }
        if (last && last->entity == p->entity) assert_true(last->score >= p->score);
    }
}

static void cycles_end(void **state)
{
    folder *f = *state;
    graph_make(f, "c.tsv", "A\tr\tB\nB\tr\tC\nC\tr\tA\nA\tself\tA\nA\tq\tB\n");
    sp_graph *g = graph_open(f);
    sp_graph_answer a;
    assert_ok(sp_graph_find_paths(g, "A", &(sp_graph_paths_opts){.hops = 8}, &a));
    check(&a, 8, 30);
    assert_string_equal(graph_paths(f, "A", (sp_graph_paths_opts){.hops = 8}),
                        "A -r-> B -r-> C\nA -q-> B -r-> C\nA <-r- C <-r- B\n");
    sp_graph_answer_fini(&a);
    sp_graph_close(g);
}

static void random_graphs_give_simple_paths(void **state)
{
    folder *f = *state;
    uint64_t seed = 5;
    FILE *out = fopen(folder_path(f, "r.tsv"), "w");
    for (int i = 0; i < 400; i++)
        fprintf(out, "n%d\tr%d\tn%d\n", check_random(&seed, 60), check_random(&seed, 5),
                check_random(&seed, 60));
    fclose(out);
    sp_graph_stats s;
    assert_ok(graph_import(f, "r.tsv", true, &s));
    sp_graph *g = graph_open(f);
    for (int i = 0; i < 60; i++) {
        char question[64];
        sp_graph_answer a;
        snprintf(question, sizeof question, "r%d between n%d and n%d", i % 5, i, (i * 7) % 60);
        int k = 1 + i % 20, hops = 1 + i % 3;
        sp_graph_paths_opts o = {.k = k, .hops = hops};
        assert_ok(sp_graph_find_paths(g, question, &o, &a));
        assert_in_range(a.n_entities, 1, 2);
        check(&a, hops, k);
        sp_graph_answer_fini(&a);
    }
    sp_graph_close(g);
    char first[65536];
    snprintf(first, sizeof first, "%s",
             graph_paths(f, "r1 of n3", (sp_graph_paths_opts){.hops = 3}));
    assert_string_equal(first, graph_paths(f, "r1 of n3", (sp_graph_paths_opts){.hops = 3}));
}

static void hubs_end_paths(void **state)
{
    folder *f = *state;
    FILE *out = fopen(folder_path(f, "h.tsv"), "w");
    for (int i = 0; i < 100000; i++) fprintf(out, "film %d\tgenre\tDrama\n", i);
    fprintf(out, "film 7\tdirector\tAnn\nDrama\tkind\tGenre\n");
    fclose(out);
    sp_graph_stats s;
    assert_ok(graph_import(f, "h.tsv", true, &s));
    assert_string_equal(graph_paths(f, "Ann", (sp_graph_paths_opts){.hops = 3}),
                        "Ann <-director- film 7 -genre-> Drama\n");
    sp_graph *g = graph_open(f);
    sp_graph_answer a;
    sp_graph_paths_opts o = {.hops = 2, .k = 50, .max_degree = 64};
    assert_ok(sp_graph_find_paths(g, "Drama", &o, &a)); /* the entity itself is expanded */
    assert_int_equal(a.n_paths, 50);
    assert_int_equal(a.n_hubs, 1);
    assert_false(a.cut);
    bool kind = false;
    for (int i = 0; i < a.n_paths; i++) kind |= strstr(a.paths[i].text, "-kind-> Genre") != NULL;
    assert_true(kind); /* each relation has its share */
    sp_graph_answer_fini(&a);
    o = (sp_graph_paths_opts){.hops = 3, .max_steps = 10};
    assert_ok(sp_graph_find_paths(g, "Drama", &o, &a));
    assert_true(a.cut);
    assert_in_range(a.n_steps, 1, 10);
    sp_graph_answer_fini(&a);
    sp_graph_close(g);
}

/* As many edges are followed as --steps says, and only what is left out cuts the search. */
static void steps_have_a_limit(void **state)
{
    folder *f = *state;
    sp_graph_answer a;
    graph_make(f, "s.tsv", "Ann\tknows\tBert\nAnn\tknows\tCarl\nAnn\tknows\tDora\nAnn\tknows\tEmil\n");
    sp_graph *g = graph_open(f);
    for (int most = 3; most <= 5; most++) {
        assert_ok(sp_graph_find_paths(g, "Ann", &(sp_graph_paths_opts){.hops = 1, .max_steps = most}, &a));
        assert_int_equal(a.n_paths, most < 4 ? most : 4);
        assert_int_equal(a.n_steps, a.n_paths);
        assert_int_equal(a.cut, most < 4);
        sp_graph_answer_fini(&a);
    }
    sp_graph_close(g);
}

/* A level of more nodes than are asked for at once, whose edges lead back: nothing is taken of them, but not all were
 * looked at. */
static void what_was_not_looked_at_is_told(void **state)
{
    folder *f = *state;
    sp_graph_answer a;
    FILE *out = fopen(folder_path(f, "l.tsv"), "w");
    for (int i = 0; i < 300; i++) fprintf(out, "Root\tr\tleaf%d\nRoot\tq\tleaf%d\n", i, i);
    fclose(out);
    sp_graph_stats s;
    assert_ok(graph_import(f, "l.tsv", true, &s));
    sp_graph *g = graph_open(f);
    for (int cut = 0; cut < 2; cut++) {
        sp_graph_paths_opts o = {.hops = 2, .max_degree = 400, .max_steps = cut ? 700 : 2000};
        assert_ok(sp_graph_find_paths(g, "Root", &o, &a));
        assert_int_equal(a.n_steps, 600);
        assert_int_equal(a.cut, cut);
        sp_graph_answer_fini(&a);
    }
    sp_graph_close(g);
}

/* Of triples between the same nodes, both ways. */
static void each_triple_has_its_source(void **state)
{
    static const char *const texts[] = {"A -r-> B", "A <-r- B", "A -q-> B"};
    static const char *const sources[] = {"one", "two", "three"};
    folder *f = *state;
    sp_graph_answer a;
    int n = 0;
    graph_make(f, "s.tsv", "A\tr\tB\tone\nB\tr\tA\ttwo\nA\tq\tB\tthree\n");
    sp_graph *g = graph_open(f);
    assert_ok(sp_graph_find_paths(g, "A", &(sp_graph_paths_opts){.hops = 1}, &a));
    assert_int_equal(a.n_paths, 3);
    for (int i = 0; i < 3; i++)
        for (size_t k = 0; k < 3; k++)
            if (strcmp(a.paths[i].text, texts[k]) == 0) {
                assert_string_equal(a.paths[i].sources[0], sources[k]);
                n++;
            }
    assert_int_equal(n, 3);
    sp_graph_answer_fini(&a);
    sp_graph_close(g);
}

static void limits_are_checked(void **state)
{
    folder *f = *state;
    sp_graph_answer a = {.n_paths = -7};
    graph_make(f, "m.tsv", movies);
    sp_graph *g = graph_open(f);
    assert_fails(sp_graph_find_paths(g, "x", &(sp_graph_paths_opts){.hops = 9}, &a), SP_E_ARG,
                 "hops: 9");
    assert_fails(sp_graph_find_paths(g, "x", &(sp_graph_paths_opts){.k = -1}, &a), SP_E_ARG,
                 "negative");
    assert_fails(sp_graph_find_paths(g, "x", &(sp_graph_paths_opts){.max_steps = 1 << 30}, &a),
                 SP_E_ARG, "max_steps");
    assert_ok(sp_graph_find_paths(g, "Heat, Drama and Rock", &(sp_graph_paths_opts){.max_entities = 2}, &a));
    assert_int_equal(a.n_entities, 2);
    sp_graph_answer_fini(&a);
    a = (sp_graph_answer){.n_paths = -7};
    sp_graph_paths_opts o = {.k = 5, .explain = true};
    assert_survives_faults(sp_graph_find_paths(g, "who directed Heat with Al Pacinno", &o, &a),
                           a.n_paths == -7);
    assert_int_equal(a.n_entities, 2);
    sp_graph_answer_fini(&a);
    sp_graph_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(entities_are_longest_names),
        FOLDER_TEST(misspelt_names_are_found),
        FOLDER_TEST(words_of_relations_are_no_names),
        FOLDER_TEST(search_lists_similar_names),
        FOLDER_TEST(entities_of_one_name_are_bounded),
        FOLDER_TEST(an_entity_is_found_once),
        FOLDER_TEST(names_without_words_are_found),
        FOLDER_TEST(the_best_path_has_the_words_of_the_question),
        FOLDER_TEST(each_word_counts_once_and_names_do_not),
        FOLDER_TEST(short_paths_come_first),
        FOLDER_TEST(a_path_that_is_extended_keeps_its_place),
        FOLDER_TEST(paths_through_other_entities_come_first),
        FOLDER_TEST(explanations_name_the_words),
        FOLDER_TEST(cycles_end),
        FOLDER_TEST(random_graphs_give_simple_paths),
        FOLDER_TEST(hubs_end_paths),
        FOLDER_TEST(steps_have_a_limit),
        FOLDER_TEST(what_was_not_looked_at_is_told),
        FOLDER_TEST(each_triple_has_its_source),
        FOLDER_TEST(limits_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
