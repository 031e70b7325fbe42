/* triples_csv.c -- tables with quotes: triples, and the two exports of Neo4j.
 *
 * The first record decides: when its cells name columns, it is a header; else columns are subject,
 * relation, object and an optional source. The separator is the one of , ; and tab that the first
 * line has most of.
 *
 *   triples      subject, relation, object; or Gephi's Source, Target, Label
 *   neo4j-admin  nodes:  personId:ID(Person), name, :LABEL     edges:  :START_ID(Person), :END_ID, :TYPE
 *   APOC         _id, _labels, name, ..., _start, _end, _type: a record with _start is an edge
 *
 * Ids of a group (Person) are unique in it only, so the group goes before the id.
 */
#include <string.h>

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

/* read_header -- sets the columns, and c->at after the header if there is one. */
static sp_err read_header(csv *c)
{
    const char *why;
    size_t n = c->in->n, begin = n >= 3 && memcmp(c->in->data, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    int count[3] = {0};
    for (size_t i = begin; i < n && c->in->data[i] != '\n'; i++)
        for (int k = 0; k < 3; k++) count[k] += c->in->data[i] == ",;\t"[k];
    c->separator = count[2] > count[0] ? '\t' : count[1] > count[0] ? ';' : ',';
    for (int r = 0; r < N_ROLES; r++) c->column[r] = -1;
    c->at = begin;
    SP_TRY(read_record(c, &why));
    for (int i = 0; !why && i < c->n_cells; i++) set_column(c, i);
    int *col = c->column;
    if (col[SUBJECT] < 0 && col[SOURCE] >= 0 && col[OBJECT] >= 0) { /* Gephi */
        col[SUBJECT] = col[SOURCE];
        col[SOURCE] = -1;
    }
    if (col[SUBJECT] >= 0 && col[OBJECT] >= 0 && col[RELATION] < 0) {
        col[RELATION] = col[NAME];
        col[NAME] = -1;
    }
    if (col[IDENT] >= 0 || (col[SUBJECT] >= 0 && col[RELATION] >= 0 && col[OBJECT] >= 0))
        return SP_OK;
    for (int r = 0; r < N_ROLES; r++) col[r] = r <= SOURCE ? r : -1;
    c->at = begin;
    c->line = 0;
    return SP_OK;
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

static sp_err read_row(csv *c, int64_t line)
{
    sp_text subject, object, ident;
    SP_TRY(with_group(c, SUBJECT, &c->id[0], &subject));
    bool is_node = c->column[IDENT] >= 0 && subject.n == 0;
    if (is_node) {
        SP_TRY(with_group(c, IDENT, &c->id[0], &ident));
        sp_text name = cell_text(c, c->column[NAME]);
        return sp_triples_give_name(ident, name.n ? name : ident, false, line, c->sink);
    }
    SP_TRY(with_group(c, OBJECT, &c->id[1], &object));
    sp_triple t = {subject, cell_text(c, c->column[RELATION]), object,
                   cell_text(c, c->column[SOURCE])};
    return sp_triples_give(&t, line, c->sink);
}

static sp_err read_rows(csv *c)
{
    while (c->at < c->in->n) {
        const char *why;
        int64_t line = c->line + 1;
        SP_TRY(read_record(c, &why));
        bool blank = c->n_cells == 1 && cell_text(c, 0).n == 0;
        if (why)
            SP_TRY(c->sink->bad(line, why, c->sink->user));
        else if (!blank)
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
