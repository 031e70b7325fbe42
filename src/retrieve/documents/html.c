/* html.c -- the visible text of an HTML page as Markdown.
 *
 * libxml2 makes a tree of any input; the walk over it needs no recursion, so nesting
 * costs no stack. Between two texts are *breaks*: elements request them when they open and close,
 * the strongest request wins, and it is written only when more text follows; so are the marks of
 * headings and items. Inside a table cell every break is a blank, so that a row stays one line; a
 * table that holds blocks (a layout table) is not a table: its cells are paragraphs. Navigation, in
 * <nav> or so named by its role, is left out, and so is what an element's own style does not show.
 */
#include "retrieve/documents/readers_int.h"

#include <libxml/HTMLparser.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "retrieve/documents/libxml.h"
#include "retrieve/text/text.h"

#define MAX_COMPARED ((int64_t)1 << 30) /* about 2 s */

typedef enum role {
    ROLE_INLINE, /* no break */
    ROLE_BLOCK,  /* a paragraph of its own */
    ROLE_LINE,   /* a line of its own */
    ROLE_BREAK,
    ROLE_HEADING,
    ROLE_LIST,
    ROLE_ITEM,
    ROLE_PRE,
    ROLE_TABLE,
    ROLE_ROW,
    ROLE_CELL,
    ROLE_TITLE,
    ROLE_HIDDEN,
} role;

static const struct {
    const char *name;
    role role;
} elements[] = {
    {"address", ROLE_BLOCK},    {"article", ROLE_BLOCK},   {"aside", ROLE_BLOCK},
    {"blockquote", ROLE_BLOCK}, {"body", ROLE_BLOCK},      {"br", ROLE_BREAK},
    {"canvas", ROLE_HIDDEN},    {"caption", ROLE_BLOCK},   {"dd", ROLE_LINE},
    {"details", ROLE_BLOCK},    {"div", ROLE_BLOCK},       {"dl", ROLE_BLOCK},
    {"dt", ROLE_LINE},          {"fieldset", ROLE_BLOCK},  {"figcaption", ROLE_BLOCK},
    {"figure", ROLE_BLOCK},     {"footer", ROLE_BLOCK},    {"form", ROLE_BLOCK},
    {"h1", ROLE_HEADING},       {"h2", ROLE_HEADING},      {"h3", ROLE_HEADING},
    {"h4", ROLE_HEADING},       {"h5", ROLE_HEADING},      {"h6", ROLE_HEADING},
    {"header", ROLE_BLOCK},     {"hr", ROLE_BLOCK},        {"iframe", ROLE_HIDDEN},
    {"li", ROLE_ITEM},          {"main", ROLE_BLOCK},      {"nav", ROLE_HIDDEN},
    {"noscript", ROLE_HIDDEN},  {"object", ROLE_HIDDEN},   {"ol", ROLE_LIST},
    {"option", ROLE_LINE},      {"p", ROLE_BLOCK},         {"pre", ROLE_PRE},
    {"rp", ROLE_HIDDEN},        {"rt", ROLE_HIDDEN},       {"rtc", ROLE_HIDDEN},
    {"script", ROLE_HIDDEN},    {"section", ROLE_BLOCK},   {"style", ROLE_HIDDEN},
    {"summary", ROLE_BLOCK},    {"svg", ROLE_HIDDEN},      {"table", ROLE_TABLE},
    {"td", ROLE_CELL},          {"template", ROLE_HIDDEN}, {"textarea", ROLE_HIDDEN},
    {"th", ROLE_CELL},          {"title", ROLE_TITLE},     {"tr", ROLE_ROW},
    {"ul", ROLE_LIST},
};

typedef enum gap { GAP_NONE, GAP_BLANK, GAP_LINE, GAP_PARAGRAPH } gap;

typedef struct writer {
    sp_bytes *out, *title;
    sp_marks *marks; /* or NULL */
    int64_t line;    /* where the last element began */
    gap gap;         /* asked for since the last text */
    char mark[48];   /* "##", "-" or "1.": waits for the text of its heading or item */
    int list_depth, pre_depth;
    const xmlNode *table; /* the data table that is being written, or NULL */
} writer;

/* is_navigation -- role="navigation" and the like: links that every page of a site repeats. */
static bool is_navigation(const xmlAttr *a)
{
    static const char *const values[] = {"navigation", "menu", "menubar", "search"};
    if (strcmp((const char *)a->name, "role") != 0 || !a->children || !a->children->content)
        return false;
    for (size_t i = 0; i < SP_COUNT(values); i++)
        if (strcmp((const char *)a->children->content, values[i]) == 0) return true;
    return false;
}

/* is_not_shown -- style="display: none" and the like. */
static bool is_not_shown(const xmlAttr *a)
{
    if (strcmp((const char *)a->name, "style") != 0 || !a->children || !a->children->content) return false;
    return sp_style_hides((const char *)a->children->content);
}

/* is_page -- the whole of it is never left out: a script may show it. */
static bool is_page(const xmlNode *node)
{
    return strcmp((const char *)node->name, "html") == 0 || strcmp((const char *)node->name, "body") == 0;
}

static role role_of(const xmlNode *node)
{
    size_t low = 0, high = SP_COUNT(elements);
    for (const xmlAttr *a = is_page(node) ? NULL : node->properties; a; a = a->next)
        if (strcmp((const char *)a->name, "hidden") == 0 || is_navigation(a) || is_not_shown(a)) return ROLE_HIDDEN;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp((const char *)node->name, elements[middle].name);
        if (order == 0) return elements[middle].role;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return ROLE_INLINE;
}

static void ask(writer *w, gap g)
{
    if (w->list_depth) g = SP_MIN(g, GAP_LINE);
    if (w->table) g = SP_MIN(g, GAP_BLANK);
    w->gap = SP_MAX(w->gap, g);
}

/* write_raw -- text as it is, after the gap that was asked for and the mark that waits. */
static sp_err write_raw(writer *w, const char *s, size_t n)
{
    static const char *const gaps[] = {"", " ", "\n", "\n\n"};
    if (w->out->n) SP_TRY(sp_bytes_add(w->out, gaps[w->gap], strlen(gaps[w->gap])));
    if (w->marks && w->line && (!w->marks->n || w->marks->v[w->marks->n - 1].number != w->line)) {
        SP_TRY(sp_vec_reserve(w->marks, 1));
        w->marks->v[w->marks->n++] = (sp_mark){w->out->n, w->line};
    }
    if (*w->mark) SP_TRY(sp_bytes_addf(w->out, "%s ", w->mark));
    w->gap = GAP_NONE;
    *w->mark = '\0';
    return sp_bytes_add(w->out, s, n);
}

/* blank_length -- bytes of the blank at `at`: an ASCII blank or a no-break space. */
static size_t blank_length(const char *s, size_t at, size_t n)
{
    if (sp_is_blank(s[at])) return 1;
    return n - at >= 2 && memcmp(s + at, "\xC2\xA0", 2) == 0 ? 2 : 0;
}

/* write_text -- text with each run of blanks as one. */
static sp_err write_text(writer *w, const char *s, size_t n)
{
    for (size_t at = 0; at < n;) {
        size_t blank = blank_length(s, at, n), from = at;
        if (blank) {
            ask(w, GAP_BLANK);
            at += blank;
            continue;
        }
        while (at < n && !blank_length(s, at, n)) at++;
        SP_TRY(write_raw(w, s + from, at - from));
    }
    return SP_OK;
}

/* holds_blocks -- whether a table is there for layout. The scan ends at the first block, so a page
 * of nested tables is scanned about twice in all. */
static bool holds_blocks(const xmlNode *table)
{
    const xmlNode *node = table->children;
    while (node) {
        role r = node->type == XML_ELEMENT_NODE ? role_of(node) : ROLE_INLINE;
        if (r == ROLE_TABLE || r == ROLE_LIST || r == ROLE_HEADING || r == ROLE_PRE) return true;
        if (node->children && r != ROLE_HIDDEN) {
            node = node->children;
            continue;
        }
        while (node != table && !node->next) node = node->parent;
        if (node == table) break;
        node = node->next;
    }
    return false;
}

static const xmlAttr *find_attribute(const xmlNode *node, const char *name)
{
    for (const xmlAttr *a = node->properties; a; a = a->next)
        if (strcmp((const char *)a->name, name) == 0) return a;
    return NULL;
}

/* number_in -- an attribute of up to 6 digits; unchanged when there is none. As in browsers, what follows the digits
 * does not matter. */
static void number_in(const xmlNode *node, const char *name, intptr_t *out)
{
    const xmlAttr *a = find_attribute(node, name);
    if (!a || !a->children || !a->children->content) return;
    const char *s = (const char *)a->children->content;
    while (sp_is_blank(*s)) s++;
    const size_t n = strspn(s + (*s == '-' || *s == '+'), "0123456789");
    if (n >= 1 && n <= 6) *out = strtol(s, NULL, 10);
}

/* step_of -- of the numbers of a list: <ol reversed> counts down. */
static intptr_t step_of(const xmlNode *list)
{
    return find_attribute(list, "reversed") ? -1 : 1;
}

static void open_item(writer *w, const xmlNode *node)
{
    ask(w, GAP_LINE);
    int indent = 2 * (SP_MIN(SP_MAX(w->list_depth, 1), 8) - 1);
    xmlNode *list = node->parent;
    bool numbered = list && strcmp((const char *)list->name, "ol") == 0;
    if (numbered) { /* the list counts its items in the field that libxml2 leaves to us */
        intptr_t number = (intptr_t)list->_private + step_of(list);
        number_in(node, "value", &number);
        list->_private = (void *)number;
        snprintf(w->mark, sizeof w->mark, "%*s%lld.", indent, "", (long long)number);
    } else {
        snprintf(w->mark, sizeof w->mark, "%*s-", indent, "");
    }
}

/* open_list -- "start" is the number of its first item, without it 1; counting down, how many there are. */
static void open_list(writer *w, xmlNode *node)
{
    intptr_t first = 1, step = step_of(node);
    if (step < 0) first = 0;
    for (const xmlNode *item = node->children; step < 0 && item; item = item->next)
        first += item->type == XML_ELEMENT_NODE && role_of(item) == ROLE_ITEM;
    number_in(node, "start", &first);
    node->_private = (void *)(first - step);
    w->list_depth++;
}

static sp_err open_element(writer *w, xmlNode *node, role r)
{
    switch (r) {
    case ROLE_INLINE:
        return SP_OK;
    case ROLE_LINE:
    case ROLE_BREAK:
        ask(w, GAP_LINE);
        return SP_OK;
    case ROLE_ITEM:
        open_item(w, node);
        return SP_OK;
    default:
        ask(w, GAP_PARAGRAPH);
    }
    if (r == ROLE_HEADING) snprintf(w->mark, sizeof w->mark, "%.*s", node->name[1] - '0', "######");
    if (r == ROLE_LIST) open_list(w, node);
    if (r == ROLE_TABLE && !w->table && !holds_blocks(node)) w->table = node;
    if (r == ROLE_ROW && w->table) {
        w->gap = SP_MAX(w->gap, GAP_LINE);
        return write_raw(w, "|", 1);
    }
    if (r == ROLE_PRE && w->pre_depth++ == 0) {
        *w->mark = '\0'; /* a fence begins its line */
        return write_raw(w, "```\n", 4);
    }
    return SP_OK;
}

static sp_err close_element(writer *w, const xmlNode *node, role r)
{
    switch (r) {
    case ROLE_INLINE:
    case ROLE_BREAK:
        return SP_OK;
    case ROLE_HEADING:
        *w->mark = '\0'; /* an empty one leaves nothing */
        break;
    case ROLE_LIST:
        w->list_depth--;
        break;
    case ROLE_PRE:
        if (--w->pre_depth) return SP_OK;
        w->gap = GAP_LINE;
        SP_TRY(write_raw(w, "```", 3));
        break;
    case ROLE_TABLE:
        if (w->table == node) w->table = NULL;
        break;
    case ROLE_CELL:
        ask(w, GAP_PARAGRAPH);
        return w->table ? write_raw(w, "|", 1) : SP_OK;
    case ROLE_ITEM:
        *w->mark = '\0';
        ask(w, GAP_LINE);
        return SP_OK;
    case ROLE_LINE:
        ask(w, GAP_LINE);
        return SP_OK;
    default:
        break;
    }
    ask(w, GAP_PARAGRAPH);
    return SP_OK;
}

static sp_err write_title(writer *w, const xmlNode *node)
{
    if (w->title->n) return SP_OK;
    writer to_title = {.out = w->title, .title = w->title};
    for (const xmlNode *t = node->children; t; t = t->next)
        if (t->type == XML_TEXT_NODE)
            SP_TRY(write_text(&to_title, (const char *)t->content, strlen((char *)t->content)));
    return SP_OK;
}

static sp_err write_node(writer *w, xmlNode *node)
{
    if (node->type != XML_TEXT_NODE || !node->content) return SP_OK;
    const char *s = (const char *)node->content;
    return w->pre_depth ? write_raw(w, s, strlen(s)) : write_text(w, s, strlen(s));
}

static sp_err write_tree(writer *w, xmlNode *root)
{
    for (xmlNode *node = root; node;) {
        if (node->type == XML_ELEMENT_NODE) w->line = SP_MAX(w->line, xmlGetLineNo(node));
        role r = node->type == XML_ELEMENT_NODE ? role_of(node) : ROLE_INLINE;
        if (r == ROLE_TITLE) SP_TRY(write_title(w, node));
        bool inside = node->type == XML_ELEMENT_NODE && r != ROLE_HIDDEN && r != ROLE_TITLE;
        if (inside)
            SP_TRY(open_element(w, node, r));
        else
            SP_TRY(write_node(w, node));
        if (inside && node->children) {
            node = node->children;
            continue;
        }
        if (inside) SP_TRY(close_element(w, node, r));
        while (node != root && !node->next) {
            node = node->parent;
            SP_TRY(close_element(w, node, role_of(node)));
        }
        if (node == root) break;
        node = node->next;
    }
    return SP_OK;
}

static void say_nothing(void *user, const char *format, ...) {}

typedef struct page {
    const char *html;
    size_t n;
    writer w;
    int64_t n_compared; /* names of open elements, at errors */
} page;

#if LIBXML_VERSION >= 21200
typedef const xmlError *xml_error;
#else
typedef xmlError *xml_error;
#endif

/* count_error -- an end tag that closes nothing is compared with all open elements, of which there can be millions. */
static void count_error(void *user, xml_error why)
{
    page *p = user;
    xmlParserCtxt *parser = why->ctxt;
    if (!parser || p->n_compared > MAX_COMPARED) return;
    p->n_compared += parser->nameNr;
    if (p->n_compared > MAX_COMPARED) xmlStopParser(parser);
}

/* parse -- a tree of any UTF-8; NULL for a page without elements. */
static xmlDoc *parse(const char *html, size_t n)
{
    const int options = HTML_PARSE_RECOVER | HTML_PARSE_NONET | HTML_PARSE_COMPACT;
    htmlParserCtxt *parser = htmlNewParserCtxt();
    parser->linenumbers = 1;
    parser->options |= XML_PARSE_HUGE; /* else the page ends at the 256th open element; unclosed ones are common */
    xmlDoc *doc = htmlCtxtReadMemory(parser, html, (int)n, NULL, "UTF-8", options);
    htmlFreeParserCtxt(parser);
    return doc;
}

/* convert -- runs under sp_libxml_run, which ends it when there is no memory for the tree. */
static sp_err convert(void *user)
{
    page *p = user;
    xmlDoc *doc = parse(p->html, p->n);
    xmlNode *root = doc ? xmlDocGetRootElement(doc) : NULL;
    const bool stopped = p->n_compared > MAX_COMPARED;
    sp_err err = root && !stopped ? write_tree(&p->w, root) : SP_OK;
    xmlFreeDoc(doc);
    return stopped ? sp_fail(SP_E_LIMIT, "a page with too many errors in too many open elements") : err;
}

/* run -- nothing of it is printed. */
static sp_err run(page *p)
{
    /* Some errors go past the handler of the others to this thread's general one. */
    xmlGenericErrorFunc handler = xmlGenericError;
    void *handler_context = xmlGenericErrorContext;
    xmlStructuredErrorFunc counter = xmlStructuredError;
    void *counter_context = xmlStructuredErrorContext;
    xmlSetGenericErrorFunc(NULL, say_nothing);
    xmlSetStructuredErrorFunc(p, count_error);
    sp_err err = sp_libxml_run(convert, p);
    xmlSetStructuredErrorFunc(counter_context, counter);
    xmlSetGenericErrorFunc(handler_context, handler);
    return err;
}

sp_err sp_html_to_markdown(const char *html, size_t n, sp_bytes *out, sp_bytes *title,
                           sp_marks *marks)
{
    if (n > INT_MAX) return sp_fail(SP_E_LIMIT, "a page of %zu bytes", n);
    if (n == 0) return SP_OK;
    sp_bytes own = {0};
    page p = {.w = {.out = out, .title = title, .marks = marks}};
    sp_err err = sp_page_decode(html, n, &own, &p.html, &p.n);
    if (err == SP_OK && p.n > INT_MAX) err = sp_fail(SP_E_LIMIT, "a page of %zu bytes", p.n);
    if (err == SP_OK) err = sp_libxml_enter();
    if (err == SP_OK) err = run(&p);
    sp_vec_fini(&own);
    return err;
}
