/* Readers of graph files: each format as its programs write it, and what is bad in a file. */
#include "support/check.h"

#include <stdio.h>

#include "retrieve/graph/triples.h"

/* raptor2 leaks the terms of a line of N-Triples that it refuses. For LeakSanitizer. */
SP_API const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libraptor2";
}

/* What a reader gave, as text: "s|r|o|source;", "ident=name;", "ident~alias;", "ident?fallback;", "!line why;". */
typedef struct seen {
    char text[8192];
    size_t n;
} seen;

static void add(seen *s, const char *fmt, ...) SP_PRINTF(2, 3);
static void add(seen *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    s->n += (size_t)vsnprintf(s->text + s->n, sizeof s->text - s->n, fmt, ap);
    va_end(ap);
    assert_true(s->n < sizeof s->text);
}

static sp_err on_triple(const sp_triple *t, void *user)
{
    add(user, "%.*s|%.*s|%.*s", (int)t->subject.n, t->subject.s, (int)t->relation.n, t->relation.s,
        (int)t->object.n, t->object.s);
    add(user, "%s%.*s;", t->source.n ? "|" : "", (int)t->source.n, t->source.s);
    return SP_OK;
}

static sp_err on_name(sp_text ident, sp_text name, sp_name_kind kind, void *user)
{
    add(user, "%.*s%c%.*s;", (int)ident.n, ident.s, "=~?"[kind], (int)name.n, name.s);
    return SP_OK;
}

static sp_err on_bad(int64_t line, const char *why, void *user)
{
    add(user, "!%d %s;", (int)line, why);
    return SP_OK;
}

static sp_err on_mark(size_t at, int64_t line, void *user)
{
    return SP_OK;
}

static sp_err read_text(sp_graph_format format, const char *text, size_t n, seen *s)
{
    const sp_triple_sink sink = {on_triple, on_name, on_bad, on_mark, s};
    *s = (seen){0};
    return sp_triples_read(&(sp_triples_input){.format = format, .path = "f", .data = text, .n = n},
                           &sink);
}

/* gives -- a file of this format and content gives what is wanted. */
static void gives(sp_graph_format format, const char *text, const char *want)
{
    static seen s;
    assert_ok(read_text(format, text, strlen(text), &s));
    assert_string_equal(s.text, want);
}

static void tsv(void **state)
{
    gives(SP_GRAPH_TSV,
          "\xEF\xBB\xBF"
          "a\tr\tb\r\n\n c d \tr\te\tdoc 1",
          "a|r|b;c d|r|e|doc 1;");
    gives(SP_GRAPH_TSV, "a\tr\n\ta\tr\tb\tc\td\n",
          "!1 2 columns; a triple has 3, or 4 with its source;"
          "!2 6 columns; a triple has 3, or 4 with its source;");
    gives(SP_GRAPH_TSV, " \tr\tb\na\t\tb\na\tr\t\n",
          "!1 the subject is empty;!2 the relation is empty;"
          "!3 the object is empty;");
    gives(SP_GRAPH_TSV, "a\xff\tr\tb\na\tr\x01\tb\n",
          "!1 the subject is not UTF-8;!2 the relation has a control character;");
    gives(SP_GRAPH_TSV, "a\tr\tb\tdoc\x01\n", "!1 the source has a control character;");
    gives(SP_GRAPH_TSV, "", "");
}

static void names_have_a_longest_length(void **state)
{
    static char text[20000];
    static seen s;
    size_t n = 0;
    memset(text, 'x', 10240);
    n = 10240;
    n += (size_t)sprintf(text + n, "\tr\tb\nc\tr\td\n");
    assert_ok(read_text(SP_GRAPH_TSV, text, n, &s));
    assert_string_equal(s.text, "!1 the subject has 10240 bytes; at most 4096 are allowed;c|r|d;");
}

static void csv(void **state)
{
    gives(SP_GRAPH_CSV, "a,r,b\n\"c, d\",\"say \"\"hi\"\"\",\"two\nlines\"\ne,r,f,doc\n",
          "a|r|b;c, d|say \"hi\"|two lines;e|r|f|doc;");
    gives(SP_GRAPH_CSV, "relation;tail;head;chunk\nr;b;a;7\n", "a|r|b|7;");
    gives(SP_GRAPH_CSV, "Source,Target,Type,Id,Label,Weight\na,b,Directed,0,likes,1.0\nb,c,Undirected,1,,1.0\n",
          "a|likes|b;b|related to|c;"); /* Gephi's */
    gives(SP_GRAPH_CSV, "source,target,type,label\na,b,owns,x\n", "a|owns|b;");
    gives(SP_GRAPH_CSV, "a,r,b\n\"open,r,b\nc,r,d\n", "a|r|b;!2 a quote is not closed;");
    gives(SP_GRAPH_CSV, "a,r,\"two\x01\nlines\"\nc,,d\n",
          "!1 the object has a control character;!3 the relation is empty;");
    gives(SP_GRAPH_CSV, "a,r,b\r\n\r\nc,r,d,\r\n", "a|r|b;c|r|d;");
    gives(SP_GRAPH_CSV, "\xEF\xBB\xBFobject,relation,subject\nb,r,a\n", "a|r|b;");
    gives(SP_GRAPH_CSV, "subject,relation,object,x\ty\tz\na,r,b,c\n", "a|r|b;");
    gives(SP_GRAPH_CSV, "subject;relation;object;x\ty\tz\na;r;b;c\n", "a|r|b;");
    gives(SP_GRAPH_CSV, "subject,relation,object,x;y;z;\na,r,b,c\n", "a|r|b;"); /* as many of both */
    gives(SP_GRAPH_CSV, "\"a;b;c;d\",r,\"e;f\"\n", "a;b;c;d|r|e;f;"); /* outside of quotes */
    gives(SP_GRAPH_CSV, "\"a\n,,,,\";r;\"e,,,\"\n", "a ,,,,|r|e,,,;");
    gives(SP_GRAPH_CSV, "subject,relation,type,object\na,r,t,b\n", "a|r|b;");  /* the first that is named so */
}

/* Line breaks and tabs are blanks, and one for several; other blanks stay. */
static void names_are_on_one_line(void **state)
{
    gives(SP_GRAPH_JSONL,
          "{\"head\": \"\\n a \\r\\n b\", \"rel\": \"x  y\", \"tail\": \"c\\td\", \"source\": \"e\\n\\nf\"}\n"
          "{\"entity\": \"a\\nb\", \"name\": \"A\\nB\", \"aliases\": [\"\\n\"]}\n",
          "a b|x  y|c d|e f;a b=A B;!2 the alias is empty;");
}

static void csv_records_have_a_longest_length(void **state)
{
    static char text[1 << 17];
    static const char head[] = "subject,relation,object,x\n", want[] = "a|r|b;c|r|d;";
    for (int more = 0; more < 2; more++) {
        size_t n = (size_t)sprintf(text, "%sa,r,b,", head), record = (1 << 16) + (size_t)more;
        memset(text + n, 'x', record);
        strcpy(text + sizeof head - 1 + record, "\nc,r,d,y\n");
        gives(SP_GRAPH_CSV, text, more ? "!2 the record has more than 64 KiB;c|r|d;" : want);
    }
}

/* refuses -- the whole file, with these words. */
static void refuses(sp_triples_input in, const char *text, const char *words)
{
    static seen s;
    const sp_triple_sink sink = {on_triple, on_name, on_bad, on_mark, &s};
    s = (seen){0};
    in.path = "f";
    in.data = text;
    in.n = strlen(text);
    assert_int_equal(sp_triples_read(&in, &sink), SP_E_FORMAT);
    assert_string_equal(s.text, "");
    if (!strstr(sp_error_detail(), words)) fail_msg("%s", sp_error_detail());
}

static void a_csv_header_that_is_not_known_is_an_error(void **state)
{
    const sp_triples_input in = {.format = SP_GRAPH_CSV};
    refuses(in, "person,friend\na,b\n",
            "f:1: neither a header that is known nor a triple; the "
            "columns are \"person\", \"friend\". Name those");
    refuses(in, "a,b,c,d,e\n1,2,3,4,5\n", "the columns are \"a\", \"b\", \"c\", \"d\", \"e\"");
    refuses(in, "subject,verb,object\na,b,c\n", "the header names no relation");
    refuses(in, "relation,object,when\na,b,c\n", "the header names no subject");
}

static void csv_columns_can_be_named(void **state)
{
    static seen s;
    const sp_triple_sink sink = {on_triple, on_name, on_bad, on_mark, &s};
    const char text[] = "when,person,object,verb,where\n1,a,b,likes,x\n2,c,d,hates,y\n";
    sp_triples_input in = {.format = SP_GRAPH_CSV, .path = "f", .data = text, .n = sizeof text - 1};
    in.columns = (sp_graph_columns){.subject = "Person", .relation = "verb", .source = "where"};
    s = (seen){0};
    assert_ok(sp_triples_read(&in, &sink));
    assert_string_equal(s.text, "a|likes|b|x;c|hates|d|y;");
    in.columns = (sp_graph_columns){.subject = "person", .relation = "=met", .object = "object"};
    s = (seen){0};
    assert_ok(sp_triples_read(&in, &sink));
    assert_string_equal(s.text, "a|met|b;c|met|d;");
    in.columns.object = "friend";
    refuses(in, text, "there is no column friend; the columns are \"when\", \"person\"");
    in.columns = (sp_graph_columns){.subject = "person"};
    refuses(in, text, "no column is the relation");
}

/* Of more columns than a table may have, none is looked for. */
static void a_csv_header_with_too_many_columns_is_an_error(void **state)
{
    static char text[1 << 14];
    sp_triples_input in = {.format = SP_GRAPH_CSV};
    size_t n = (size_t)sprintf(text, "subject,relation,object");
    for (int i = 3; i < 256; i++) n += (size_t)sprintf(text + n, ",column %d", i);
    strcpy(text + n, "\na,r,b\n");
    gives(SP_GRAPH_CSV, text, "a|r|b;");
    memset(text, ',', 300);
    memcpy(text + sprintf(text, "subject,relation,object\na,r,b"), ",", 1);
    strcpy(text + strlen("subject,relation,object\na,r,b") + 254, "\nc,r,d\n");
    gives(SP_GRAPH_CSV, text, "!2 more than 256 columns;c|r|d;");
    n = (size_t)sprintf(text, "subject,relation,object");
    for (int i = 3; i < 256; i++) n += (size_t)sprintf(text + n, ",column %d", i);
    for (int i = 256; i < 1000; i++) n += (size_t)sprintf(text + n, ",column %d", i);
    strcpy(text + n, "\na,r,b\n");
    refuses(in, text, "neither a header that is known nor a triple");
    in.columns = (sp_graph_columns){.subject = "subject"};
    refuses(in, text, "f:1: more than 256 columns");
}

/* -- RDF --------------------------------------------------------------------------------------- */

static void ntriples(void **state)
{
    gives(SP_GRAPH_NTRIPLES,
          "# a comment\n<http://x/Heat> <http://x/p#directedBy> <http://x/Mann/> .\r\n\n"
          "<http://x/Heat> <http://x/year> \"1995\"^^<http://www.w3.org/2001/XMLSchema#int> .\n",
          "http://x/Heat|directedBy|http://x/Mann/;http://x/Heat?Heat;http://x/Mann/?Mann;"
          "http://x/Heat|year|1995;http://x/Heat?Heat;");
    gives(SP_GRAPH_NTRIPLES,
          "<http://x/a> <http://www.w3.org/2000/01/rdf-schema#label> \"K\\u00f6ln\"@de .\n"
          "<http://x/a> <http://www.w3.org/2000/01/rdf-schema#label> \"Cologne\"@en-GB .\n"
          "<http://x/a> <http://www.w3.org/2004/02/skos/core#altLabel> \"Colonia\" .\n",
          "http://x/a~K\xC3\xB6ln;http://x/a=Cologne;http://x/a~Colonia;");
    gives(SP_GRAPH_NTRIPLES, "_:n <http://x/p> _:m .\n", "_:f#n|p|_:f#m;");
    /* coded parts of IRIs, but not what is no text then */
    gives(SP_GRAPH_NTRIPLES, "<http://x/K%C3%B6ln> <http://x/is%20in> <http://x/C%2b%2B> .\n",
          "http://x/K%C3%B6ln|is in|http://x/C%2b%2B;http://x/K%C3%B6ln?K\xC3\xB6ln;http://x/C%2b%2B?C++;");
    gives(SP_GRAPH_NTRIPLES, "<http://x/%FF> <http://x/100%> <http://x/a%0A> .\n",
          "http://x/%FF|100%|http://x/a%0A;http://x/%FF?%FF;http://x/a%0A?a%0A;");
    gives(SP_GRAPH_NTRIPLES, "<http://x/50%o> <http://x/%20> <http://x/%20%20> .\n",
          "http://x/50%o|%20|http://x/%20%20;http://x/50%o?50%o;http://x/%20%20?%20%20;");
}

static void a_bad_line_of_ntriples_spoils_no_other(void **state)
{
    static seen s;
    const char text[] = "<http://x/a> <http://x/p> <http://x/b>\nnonsense\n"
                        "<http://x/a> <http://x/p> \"c\" .\n";
    assert_ok(read_text(SP_GRAPH_NTRIPLES, text, sizeof text - 1, &s));
    assert_non_null(strstr(s.text, "!2 "));
    assert_non_null(strstr(s.text, "http://x/a|p|c;"));
}

static void turtle(void **state)
{
    gives(
        SP_GRAPH_TURTLE,
        "@prefix x: <http://x/> .\n@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        "x:Heat a x:Film ; x:stars x:Pacino, [ x:name \"N\" ] ; rdfs:label \"Heat\" .\n",
        "_:f#genid1|name|N;http://x/Heat|type|http://x/Film;http://x/Heat?Heat;http://x/Film?Film;"
        "http://x/Heat|stars|http://x/Pacino;http://x/Heat?Heat;http://x/Pacino?Pacino;"
        "http://x/Heat|stars|_:f#genid1;http://x/Heat?Heat;http://x/Heat=Heat;");
    static seen s;
    const char bad[] = "@prefix x: <http://x/> .\nx:a x:p x:b .\nx:a x:p ] .\n";
    assert_int_equal(read_text(SP_GRAPH_TURTLE, bad, sizeof bad - 1, &s), SP_E_FORMAT);
    if (!strstr(sp_error_detail(), "f:3: ")) fail_msg("%s", sp_error_detail());
}

static void neo4j(void **state)
{
    gives(SP_GRAPH_CSV, "personId:ID(Person),name:string,:LABEL\n1,Keanu Reeves,Actor\n2,,Actor\n",
          "Person:1=Keanu Reeves;Person:2=Person:2;");
    gives(SP_GRAPH_CSV, ":START_ID(Person),role,:END_ID(Movie),:TYPE\n1,\"Neo\",9,ACTED_IN\n",
          "Person:1|ACTED_IN|Movie:9;");
    gives(SP_GRAPH_CSV,
          "\"_id\",\"_labels\",\"name\",\"_start\",\"_end\",\"_type\"\n"
          "\"1\",\":Person\",\"Keanu\",,,\n\"9\",\":Movie\",\"Matrix\",,,\n,,,\"1\",\"9\",\"ACTED_"
          "IN\"\n",
          "1=Keanu;9=Matrix;1|ACTED_IN|9;");
}

static void jsonl(void **state)
{
    gives(SP_GRAPH_JSONL,
          "{\"head\": \"a\", \"predicate\": \"r\", \"tail\": \"b\", \"chunk\": 12}\n[\"c\", \"r\", "
          "\"d\"]\n",
          "a|r|b|12;c|r|d;");
    gives(SP_GRAPH_JSONL,
          "{\"subject\": \"a\", \"relation\": \"r\", \"object\": \"b\", \"source\": \"c1\"}\n"
          "{\"src\": \"a\", \"rel\": \"r\", \"target\": \"b\", \"source_id\": \"c2\"}\n"
          "{\"from\": \"a\", \"type\": \"r\", \"to\": \"b\"}\n",
          "a|r|b|c1;a|r|b|c2;a|r|b;");
    gives(SP_GRAPH_JSONL, "{\"entity\": \"NYC\", \"aliases\": [\"New York\", 5]}\n",
          "NYC~New York;NYC~5;");
    gives(SP_GRAPH_JSONL, "3\n{\"subject\": []}\n{\n",
          "!1 '[' or '{' expected near '3';!2 the subject is empty;"
          "!3 string or '}' expected near end of file;");
}

static void graphml(void **state)
{
    static const char head[] = "<graphml xmlns='http://graphml.graphdrawing.org/xmlns'>"
                               "<key id='d0' for='node' attr.name='label'/><key id='d1' for='edge' "
                               "attr.name='description'/>"
                               "<key id='d2' for='edge' attr.name='keywords'/><key id='d3' "
                               "for='edge' attr.name='source_id'/>"
                               "<graph>";
    char text[2048];
    snprintf(
        text, sizeof text,
        "%s<node id='n0'><data key='d0'>Al &amp; Co</data></node><node id='n1'/>"
        "<edge source='n0' target='n1'><data key='d1'>a long story</data><data key='d2'>owns</data>"
        "<data key='d3'>c1&lt;SEP&gt;c2</data></edge><edge source='n1' "
        "target='n0'/></graph></graphml>",
        head);
    gives(SP_GRAPH_GRAPHML, text, "n0=Al & Co;n1=n1;n0|owns|n1|c1;n1|related to|n0;");
    static seen s;
    assert_fails(read_text(SP_GRAPH_GRAPHML, "<graphml><graph>", 16, &s), SP_E_FORMAT, "f:1:");
    gives(SP_GRAPH_GRAPHML, "<graphml><edge target='x'/></graphml>", "!1 the subject is empty;");
    /* keys for all elements, with ids of any length and names in any case; an empty datum is none */
    gives(SP_GRAPH_GRAPHML,
          "<graphml><key id='a-key-whose-id-is-longer-than-anybody-would-think' for='node' attr.name='Label'/>"
          "<key id='k' for='all' attr.name='relation'/><key id='w' attr.name='KEYWORDS'/><graph>"
          "<node id='n0'><data key='a-key-whose-id-is-longer-than-anybody-would-think'>Al</data></node>"
          "<edge source='n0' target='n1'><data key='w'>owns&lt;SEP&gt;has</data><data key='k'></data></edge>"
          "<edge source='n0' target='n1'><data key='k'>likes</data><data key='w'>owns</data></edge></graph></graphml>",
          "n0=Al;n0|owns|n1;n0|likes|n1;");
    gives(SP_GRAPH_GRAPHML, /* the best of several names, wherever it is */
          "<graphml><key id='t' for='node' attr.name='title'/><key id='l' for='node' attr.name='label'/><graph>"
          "<node id='n0'><data key='l'>Al</data><data key='t'>Mayor</data></node>"
          "<node id='n1'><data key='t'>Clerk</data><data key='l'>Bo</data></node></graph></graphml>",
          "n0=Al;n1=Bo;");
}

static void lightrag(void **state)
{
    gives(SP_GRAPH_LIGHTRAG,
          "{\"entities\": [{\"entity_name\": \"A\"}], \"relationships\": [{\"src_id\": \"A\","
          " \"tgt_id\": \"B\", \"keywords\": \"knows\", \"source_id\": \"c1<SEP>c2\"}]}",
          "A=A;A|knows|B|c1;");
    gives(SP_GRAPH_LIGHTRAG,
          "{\"nodes\": [{\"id\": \"1\", \"properties\": {\"entity_id\": \"A\"}}], \"edges\":"
          " [{\"source\": \"1\", \"target\": \"2\", \"properties\": {\"description\": \"near\","
          " \"source_id\": \"c3\"}}]}",
          "1=A;1|near|2|c3;");
    static seen s;
    assert_fails(read_text(SP_GRAPH_LIGHTRAG, "{}", 2, &s), SP_E_FORMAT, "no array");
    assert_fails(read_text(SP_GRAPH_LIGHTRAG, "{", 1, &s), SP_E_FORMAT, "f:1:");
}

static void formats_follow_from_names(void **state)
{
    sp_graph_format f;
    assert_ok(sp_graph_format_find(NULL, "a/b.TSV", &f));
    assert_int_equal(f, SP_GRAPH_TSV);
    assert_ok(sp_graph_format_find("graphml", "a/b.xml", &f));
    assert_int_equal(f, SP_GRAPH_GRAPHML);
    assert_fails(sp_graph_format_find("xls", "a.tsv", &f), SP_E_ARG, "\"xls\" is unknown");
    assert_fails(sp_graph_format_find(NULL, "a.pdf", &f), SP_E_ARG, "a.pdf: the suffix");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tsv),
        cmocka_unit_test(names_have_a_longest_length),
        cmocka_unit_test(a_csv_header_that_is_not_known_is_an_error),
        cmocka_unit_test(csv_columns_can_be_named),
        cmocka_unit_test(a_csv_header_with_too_many_columns_is_an_error),
        cmocka_unit_test(ntriples),
        cmocka_unit_test(a_bad_line_of_ntriples_spoils_no_other),
        cmocka_unit_test(turtle),
        cmocka_unit_test(csv),
        cmocka_unit_test(names_are_on_one_line),
        cmocka_unit_test(csv_records_have_a_longest_length),
        cmocka_unit_test(neo4j),
        cmocka_unit_test(jsonl),
        cmocka_unit_test(graphml),
        cmocka_unit_test(lightrag),
        cmocka_unit_test(formats_follow_from_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
