/* triples_csv.c -- tables with quotes: triples, and the two exports of Neo4j.
 *
 * The first record decides: when its cells name columns, it is a header; else columns are subject,
 * relation, object and an optional source, and a table of another width, or whose header names two
 * columns but not all that are needed, is an error. A caller who names columns has a header. The
 * separator is the one of , ; and tab that the first line has most of, outside of quotes.
 *
 *   triples      subject, relation, object; or Gephi's Source, Target, Type, Label: of its own types, which tell
 *                directions, the label is the relation
 *   neo4j-admin  nodes:  personId:ID(Person), name, :LABEL     edges:  :START_ID(Person), :END_ID, :TYPE
 *   APOC         _id, _labels, name, ..., _start, _end, _type: a record with _start is an edge
 *
 * Ids of a group (Person) are unique in it only, so the group goes before the id.
 */
#include <string.h>

#include "base/log.h"
#include "retrieve/graph/triples.h"

#define MAX_RECORD  (1 << 16)
#define MAX_COLUMNS 256

typedef struct cell {
    uint32_t from, n; /* in csv.text */
} cell;

enum { SUBJECT, RELATION, OBJECT, SOURCE, IDENT, NAME, N_ROLES };

typedef struct csv {
    const sp_triples_input *in;
    const sp_triple_sink *sink;
    size_t at;
    int64_t line; /* lines before `at` */
    char separator;
    sp_bytes text; /* of the record: its cells without quotes */
    cell cells[MAX_COLUMNS];
    int n_cells;
    int column[N_ROLES];     /* -1: none */
    const char *relation;    /* of all triples; NULL: there is a column */
    bool gephi;              /* Type may tell the direction of an edge */
    char group[N_ROLES][32]; /* of ids */
    sp_bytes id[2];          /* group and id, for subject and object */
} csv;

/* -- records -------------------------------------------------------------------------------- */

static sp_err add_cell(csv *c, size_t from)
{
    if (c->n_cells < MAX_COLUMNS)
        c->cells[c->n_cells] = (cell){(uint32_t)from, (uint32_t)(c->text.n - from)};
    c->n_cells++;
    return SP_OK;
}

/* read_record -- the record at c->at into cells; *why is set when it is malformed. The record ends
 * at a line end outside quotes, or after MAX_RECORD bytes at the next line end. */
static sp_err read_record(csv *c, const char **why)
{
    const char *s = c->in->data;
    size_t begin = c->at, i = begin, from = 0, to = SP_MIN(c->in->n, begin + MAX_RECORD);
    bool quoted = false;
    c->text.n = 0;
    c->n_cells = 0;
    *why = NULL;
    SP_TRY(sp_vec_reserve(&c->text, 1));
    for (; i < to && (quoted || s[i] != '\n'); i++) {
        if (s[i] == '\n') c->line++;
        if (s[i] == '"' && quoted && i + 1 < to && s[i + 1] == '"')
            i++; /* a quote in quotes: kept once */
        else if (s[i] == '"' && (quoted || c->text.n == from)) {
            quoted = !quoted;
            continue;
        } else if (s[i] == c->separator && !quoted) {
            SP_TRY(add_cell(c, from));
            from = c->text.n;
            continue;
        }
        SP_TRY(sp_bytes_add(&c->text, &s[i], 1));
    }
    if (!quoted && c->text.n > from && c->text.v[c->text.n - 1] == '\r') c->text.n--;
    SP_TRY(add_cell(c, from));
    if (quoted)
        *why = "a quote is not closed";
    else if (i == begin + MAX_RECORD && i < c->in->n && s[i] != '\n')
        *why = "the record has more than 64 KiB";
    else if (c->n_cells > MAX_COLUMNS)
        *why = "more than 256 columns";
    while (i < c->in->n && s[i] != '\n') i++;
    c->line++;
    c->at = SP_MIN(i + 1, c->in->n);
    return SP_OK;
}

static sp_text cell_text(const csv *c, int i)
{
    if (i < 0 || i >= c->n_cells) return (sp_text){"", 0};
    return (sp_text){c->text.v + c->cells[i].from, c->cells[i].n};
}

static bool is_blank(const csv *c)
{
    return c->n_cells == 1 && cell_text(c, 0).n == 0;
}

/* -- header --------------------------------------------------------------------------------- */

static const struct {
    int role;
    const char *name;
} names[] = {
    {SUBJECT, "subject"},   {SUBJECT, "head"},   {SUBJECT, "src"},       {SUBJECT, "from"},
    {SUBJECT, ":START_ID"}, {SUBJECT, "_start"}, {RELATION, "relation"}, {RELATION, "predicate"},
    {RELATION, "rel"},      {RELATION, ":TYPE"}, {RELATION, "_type"},    {RELATION, "type"},
    {OBJECT, "object"},     {OBJECT, "tail"},    {OBJECT, "target"},     {OBJECT, "to"},
    {OBJECT, ":END_ID"},    {OBJECT, "_end"},    {SOURCE, "source"},     {SOURCE, "chunk"},
    {SOURCE, "source_id"},  {IDENT, ":ID"},      {IDENT, "_id"},         {NAME, "name"},
    {NAME, "title"},        {NAME, "label"},
};

/* set_column -- what a cell of the header names: "personId:ID(Person)" is role IDENT of group
 * Person; the type after a property's name ("name:string") says nothing. */
static void set_column(csv *c, int i)
{
    sp_text t = cell_text(c, i);
    const char *open = t.n ? memchr(t.s, '(', t.n) : NULL;
    sp_text group = {"", 0};
    if (open && t.s[t.n - 1] == ')') {
        group = (sp_text){open + 1, (size_t)(t.s + t.n - 1 - (open + 1))};
        t.n = (size_t)(open - t.s);
    }
    const char *colon = t.n ? memchr(t.s, ':', t.n) : NULL;
    sp_text kind = colon ? (sp_text){colon, (size_t)(t.s + t.n - colon)} : t;
    sp_text name = colon ? (sp_text){t.s, (size_t)(colon - t.s)} : t;
    for (size_t j = 0; j < SP_COUNT(names); j++) {
        int role = names[j].role;
        if (!sp_text_is(names[j].name[0] == ':' ? kind : name, names[j].name)) continue;
        if (c->column[role] >= 0) return;
        c->column[role] = i;
        size_t n = SP_MIN(group.n, sizeof c->group[role] - 1);
        memcpy(c->group[role], group.s, n);
        c->group[role][n] = '\0';
        return;
    }
}

/* -- columns that the caller names ------------------------------------------------------------ */

static bool names_columns(const csv *c)
{
    const sp_graph_columns *k = &c->in->columns;
    return k->subject || k->relation || k->object || k->source;
}

/* add_columns -- the cells of the header, for an error. */
static sp_err add_columns(const csv *c, sp_bytes *out)
{
    for (int i = 0; i < SP_MIN(c->n_cells, 20); i++) {
        sp_text t = cell_text(c, i);
        SP_TRY(sp_bytes_addf(out, "%s\"%.*s\"", i ? ", " : "", (int)SP_MIN(t.n, 60), t.s));
    }
    return sp_bytes_add(out, "", 1);
}

static sp_err wrong_header(const csv *c, const char *what, const char *name)
{
    sp_bytes there = {0};
    sp_err err = add_columns(c, &there);
    if (err == SP_OK)
        err = sp_fail(SP_E_FORMAT,
                      "%s:1: %s%s; the columns are %s. Name those of subject, relation and object",
                      c->in->path, what, name, there.v);
    sp_vec_fini(&there);
    return err;
}

static const char *missing_role(const csv *c)
{
    if (c->column[SUBJECT] < 0) return "subject";
    if (c->column[OBJECT] < 0) return "object";
    return c->column[RELATION] < 0 && !c->relation ? "relation" : NULL;
}

/* choose -- the column of this name; "=text" is no column but the relation itself. */
static sp_err choose(csv *c, int role, const char *name)
{
    if (!name) return SP_OK;
    if (role == RELATION && *name == '=') {
        c->relation = name + 1;
        return SP_OK;
    }
    for (int i = 0; i < c->n_cells && c->column[role] < 0; i++)
        if (sp_text_is(cell_text(c, i), name)) c->column[role] = i;
    return c->column[role] >= 0 ? SP_OK : wrong_header(c, "there is no column ", name);
}

/* choose_columns -- as the caller names them; those that are not named as their header does. */
static sp_err choose_columns(csv *c)
{
    const sp_graph_columns *k = &c->in->columns;
    SP_TRY(choose(c, SUBJECT, k->subject));
    SP_TRY(choose(c, RELATION, k->relation));
    SP_TRY(choose(c, OBJECT, k->object));
    SP_TRY(choose(c, SOURCE, k->source));
    for (int i = 0; i < c->n_cells; i++) {
        bool used = false;
        for (int r = 0; r < N_ROLES; r++) used |= c->column[r] == i;
        if (!used) set_column(c, i);
    }
    c->column[IDENT] = -1;
    const char *missing = missing_role(c);
    return missing ? wrong_header(c, "no column is the ", missing) : SP_OK;
}

/* warn_of_no_header -- a header that is not known would be a wrong triple. */
static sp_err warn_of_no_header(const csv *c)
{
    sp_bytes there = {0};
    sp_err err = add_columns(c, &there);
    if (err == SP_OK)
        sp_log(SP_LOG_WARN, "%s:1: unknown header: subject, relation, object are %s",
               c->in->path, there.v);
    sp_vec_fini(&there);
    return err;
}

/* assume_no_header -- the first record is a triple, if it may be one. */
static sp_err assume_no_header(csv *c, size_t begin)
{
    int n_named = 0;
    for (int r = 0; r < N_ROLES; r++) n_named += c->column[r] >= 0;
    if (n_named >= 2) return wrong_header(c, "the header names no ", missing_role(c));
    if (c->n_cells != 3 && c->n_cells != 4 && !is_blank(c))
        return wrong_header(c, "neither a header that is known nor a triple", "");
    if (c->in->at == 0 && !is_blank(c)) SP_TRY(warn_of_no_header(c));
    for (int r = 0; r < N_ROLES; r++) c->column[r] = r <= SOURCE ? r : -1;
    c->at = begin;
    c->line = 0;
    return SP_OK;
}

/* read_header -- sets the columns, and c->at after the header if there is one. */
static sp_err read_header(csv *c)
{
    const char *why;
    size_t n = c->in->n, begin = n >= 3 && memcmp(c->in->data, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    int count[3] = {0};
    bool quoted = false;
    for (size_t i = begin; i < n && (quoted || c->in->data[i] != '\n'); i++) {
        quoted ^= c->in->data[i] == '"';
        for (int k = 0; !quoted && k < 3; k++) count[k] += c->in->data[i] == ",;\t"[k];
    }
    c->separator = count[2] > SP_MAX(count[0], count[1]) ? '\t' : count[1] > count[0] ? ';' : ',';
    for (int r = 0; r < N_ROLES; r++) c->column[r] = -1;
    c->at = begin;
    SP_TRY(read_record(c, &why));
    if (names_columns(c) && why) return sp_fail(SP_E_FORMAT, "%s:1: %s", c->in->path, why);
    if (names_columns(c)) return choose_columns(c);
    for (int i = 0; !why && i < c->n_cells; i++) set_column(c, i);
    int *col = c->column;
    if (col[SUBJECT] < 0 && col[SOURCE] >= 0 && col[OBJECT] >= 0) { /* Gephi */
        col[SUBJECT] = col[SOURCE];
        col[SOURCE] = -1;
        c->gephi = true;
    }
    if (col[SUBJECT] >= 0 && col[OBJECT] >= 0 && col[RELATION] < 0) {
        col[RELATION] = col[NAME];
        col[NAME] = -1;
    }
    if (col[IDENT] >= 0 || (col[SUBJECT] >= 0 && col[RELATION] >= 0 && col[OBJECT] >= 0))
        return SP_OK;
    return assume_no_header(c, begin);
}

/* -- rows ----------------------------------------------------------------------------------- */

/* with_group -- "Person:17", in `room`; the id alone where there is no group. */
static sp_err with_group(csv *c, int role, sp_bytes *room, sp_text *out)
{
    sp_text id = cell_text(c, c->column[role]);
    *out = id;
    if (!*c->group[role] || !id.n) return SP_OK;
    room->n = 0;
    SP_TRY(sp_bytes_addf(room, "%s:", c->group[role]));
    SP_TRY(sp_bytes_add(room, id.s, id.n));
    *out = (sp_text){room->v, room->n};
    return SP_OK;
}

/* relation_of -- of a row; "related to" for an edge of Gephi that has no label. */
static sp_text relation_of(const csv *c)
{
    static const char *const directions[] = {"Directed", "Undirected", "Mutual"};
    if (c->relation) return sp_text_of(c->relation);
    const sp_text type = cell_text(c, c->column[RELATION]), label = cell_text(c, c->column[NAME]);
    for (size_t i = 0; c->gephi && i < SP_COUNT(directions); i++)
        if (sp_text_is(type, directions[i])) return label.n ? label : sp_text_of("related to");
    return type;
}

static sp_err read_row(csv *c, int64_t line)
{
    sp_text subject, object, ident;
    SP_TRY(with_group(c, SUBJECT, &c->id[0], &subject));
    bool is_node = c->column[IDENT] >= 0 && subject.n == 0;
    if (is_node) {
        SP_TRY(with_group(c, IDENT, &c->id[0], &ident));
        sp_text name = cell_text(c, c->column[NAME]);
        return sp_triples_give_name(ident, name.n ? name : ident, SP_NAME_MAIN, line, c->sink);
    }
    SP_TRY(with_group(c, OBJECT, &c->id[1], &object));
    sp_triple t = {subject, relation_of(c), object, cell_text(c, c->column[SOURCE])};
    return sp_triples_give(&t, line, c->sink);
}

static sp_err read_rows(csv *c)
{
    while (c->at < c->in->n) {
        const char *why;
        int64_t line = c->line + 1;
        SP_TRY(read_record(c, &why));
        if (why)
            SP_TRY(c->sink->bad(line, why, c->sink->user));
        else if (!is_blank(c))
            SP_TRY(read_row(c, line));
        SP_TRY(c->sink->mark(c->at, c->line, c->sink->user));
    }
    return SP_OK;
}

sp_err sp_triples_read_csv(const sp_triples_input *in, const sp_triple_sink *sink)
{
    csv c = {.in = in, .sink = sink};
    sp_err err = read_header(&c);
    if (in->at > c.at) {
        c.at = in->at;
        c.line = in->line;
    }
    if (err == SP_OK) err = read_rows(&c);
    sp_vec_fini(&c.text);
    sp_vec_fini(&c.id[0]);
    sp_vec_fini(&c.id[1]);
    return err;
}
