/* chunker.c -- cuts a document into chunks.
 *
 *     text ──> blocks ──────────> parts ───────────────────> chunks
 *              heading, prose,    sentences, list items,     runs of parts, at most
 *              list, table, code  table rows, code lines     size_words words
 *
 * A part is the smallest thing that is kept whole: one longer than a chunk is replaced by finer
 * ones (an item by its sentences, a sentence by runs of words). Blocks are then packed one after
 * another:
 *
 *   - a heading starts a new chunk, but a chunk of nothing but headings continues;
 *   - a block that fits into what is left of the chunk is added to it;
 *   - otherwise the chunk is closed and the block starts a new one, unless the chunk is *thin*:
 *     only headings, or under an eighth of the size. Better a cut block than three lone words;
 *   - a block that still does not fit is spread over chunks of about equal length, cut at parts.
 *
 * Invariants:
 *   I1  The parts of a document cover all of its non-blank bytes, in order and without overlap.
 *   I2  No part has more than size_words words.
 *   I3  `held` is a run of consecutive parts, so a chunk is a slice of the document, not a copy.
 *   I4  `held` has at least one part that no chunk had before, whenever it is closed.
 */
#include "retrieve/text/chunker.h"

#include <string.h>

#include "retrieve/text/text.h"

typedef struct part {
    size_t from, to;
    int words;
    bool repeat; /* may be repeated as overlap: a whole sentence, item, row or line */
} part;

typedef SP_VEC(part) parts;

typedef struct chunker {
    const char *text;
    sp_chunk_opts opts;
    sp_chunk_fn *fn;
    void *user;
    parts block;         /* the block being read */
    parts held;          /* the chunk being filled */
    size_t n_repeated;   /* its first parts repeat the end of the chunk before */
    int words;           /* in held */
    bool only_headings;  /* in held */
    const char *heading; /* above held */
    size_t n_heading;
} chunker;

/* -- from blocks to parts ------------------------------------------------------------------- */

static sp_err add_part(chunker *c, part p)
{
    SP_TRY(sp_vec_reserve(&c->block, 1));
    c->block.v[c->block.n++] = p;
    return SP_OK;
}

static sp_err add_words(chunker *c, size_t at, size_t to)
{
    while (at < to) {
        part p = {.from = at};
        for (; at < to && p.words < c->opts.size_words; p.words++) {
            p.to = sp_word_end(c->text, at, to);
            at = sp_skip_blanks(c->text, p.to, to);
        }
        SP_TRY(add_part(c, p));
    }
    return SP_OK;
}

static sp_err add_sentences(chunker *c, size_t at, size_t to)
{
    for (at = sp_skip_blanks(c->text, at, to); at < to; at = sp_skip_blanks(c->text, at, to)) {
        size_t end = sp_sentence_end(c->text, at, to);
        size_t trimmed = sp_trim_end(c->text, at, end);
        int64_t words = sp_count_words(c->text, at, trimmed);
        if (words <= c->opts.size_words)
            SP_TRY(add_part(c, (part){at, trimmed, (int)words, true}));
        else
            SP_TRY(add_words(c, at, trimmed));
        at = end;
    }
    return SP_OK;
}

/* add_whole -- an item or a line as one part; as its sentences when it is too long. */
static sp_err add_whole(chunker *c, size_t at, size_t to)
{
    at = sp_skip_blanks(c->text, at, to);
    to = sp_trim_end(c->text, at, to);
    if (at == to) return SP_OK;
    int64_t words = sp_count_words(c->text, at, to);
    if (words > c->opts.size_words) return add_sentences(c, at, to);
    return add_part(c, (part){at, to, (int)words, true});
}

static size_t next_line(const char *text, size_t at, size_t to)
{
    const char *newline = memchr(text + at, '\n', to - at);
    return newline ? (size_t)(newline - text) + 1 : to;
}

static sp_err add_lines(chunker *c, size_t at, size_t to)
{
    while (at < to) {
        size_t next = next_line(c->text, at, to);
        SP_TRY(add_whole(c, at, next));
        at = next;
    }
    return SP_OK;
}

/* add_prose -- sentences up to the first list item, then items. */
static sp_err add_prose(chunker *c, size_t from, size_t to)
{
    bool item = false;
    for (size_t at = from; at < to;) {
        size_t next = next_line(c->text, at, to);
        if (sp_line_is_item(c->text, at, next) && at > from) {
            SP_TRY(item ? add_whole(c, from, at) : add_sentences(c, from, at));
            from = at;
        }
        item = sp_line_is_item(c->text, from, next);
        at = next;
    }
    return item ? add_whole(c, from, to) : add_sentences(c, from, to);
}

static sp_err add_block(chunker *c, const sp_block *b)
{
    c->block.n = 0;
    if (b->kind == SP_BLOCK_LINES) return add_lines(c, b->from, b->to);
    if (b->kind == SP_BLOCK_TEXT) return add_prose(c, b->from, b->to);
    SP_TRY(add_whole(c, b->from, b->to));
    for (size_t i = 0; i < c->block.n; i++) c->block.v[i].repeat = false;
    return SP_OK;
}

/* -- from parts to chunks ------------------------------------------------------------------- */

/* keep_overlap -- leaves in held the parts at its end that the next chunk repeats: at most
 * overlap_words, and room for `need` words beside them. */
static void keep_overlap(chunker *c, int need)
{
    int limit = SP_MIN(c->opts.overlap_words, c->opts.size_words - need), words = 0;
    size_t first = c->held.n;
    while (first > 1 && c->held.v[first - 1].repeat && words + c->held.v[first - 1].words <= limit)
        words += c->held.v[--first].words;
    c->n_repeated = c->held.n - first;
    memmove(c->held.v, c->held.v + first, c->n_repeated * sizeof(part));
    c->held.n = c->n_repeated;
    c->words = words;
}

static sp_err emit(chunker *c)
{
    if (c->held.n == 0) return SP_OK;
    assert(c->held.n > c->n_repeated); /* I4 */
    assert(c->words <= c->opts.size_words);
    size_t from = c->held.v[0].from, to = c->held.v[c->held.n - 1].to;
    sp_text_chunk chunk = {
        .text = c->text + from,
        .n = to - from,
        .n_words = c->words,
        .heading = c->heading,
        .n_heading = c->n_heading,
    };
    return c->fn(&chunk, c->user);
}

static sp_err close_chunk(chunker *c, int need)
{
    SP_TRY(emit(c));
    if (c->held.n) keep_overlap(c, need);
    return SP_OK;
}

static sp_err hold(chunker *c, part p)
{
    SP_TRY(sp_vec_reserve(&c->held, 1));
    c->held.v[c->held.n++] = p;
    c->words += p.words;
    return SP_OK;
}

/* even_share -- the words of one chunk when `words` are spread over as few chunks as they need. */
static int64_t even_share(int64_t words, int size)
{
    return SP_DIV_UP(words, SP_DIV_UP(words, size));
}

/* spread -- the parts of a block that does not fit into a chunk; cuts where chunks come nearest to the
 * even share. */
static sp_err spread(chunker *c, int64_t words)
{
    int64_t target = even_share(c->words + words, c->opts.size_words);
    for (size_t i = 0; i < c->block.n; i++) {
        part p = c->block.v[i];
        bool enough = 2 * (target - c->words) < p.words;
        bool full = c->words + p.words > c->opts.size_words;
        if (c->held.n > c->n_repeated && (enough || full)) {
            SP_TRY(close_chunk(c, p.words));
            target = even_share(c->words + words, c->opts.size_words);
        }
        SP_TRY(hold(c, p));
        words -= p.words;
    }
    return SP_OK;
}

static bool is_thin(const chunker *c)
{
    return c->only_headings || c->words < c->opts.size_words / 8;
}

static sp_err pack_block(chunker *c, const sp_block *b)
{
    bool heading = b->kind == SP_BLOCK_HEADING;
    int size = c->opts.size_words;
    int64_t words = 0;
    for (size_t i = 0; i < c->block.n; i++) words += c->block.v[i].words;

    if (heading) {
        if (!c->only_headings || words > size - c->words) SP_TRY(close_chunk(c, size));
        c->heading = c->text + b->heading_from;
        c->n_heading = b->heading_to - b->heading_from;
    }
    if (words > size - c->words && !is_thin(c))
        SP_TRY(close_chunk(c, words <= size ? (int)words : c->block.v[0].words));
    if (words > size - c->words)
        SP_TRY(spread(c, words));
    else
        for (size_t i = 0; i < c->block.n; i++) SP_TRY(hold(c, c->block.v[i]));
    c->only_headings = heading; /* before one, others are alone in the chunk */
    return SP_OK;
}

static sp_err pack(chunker *c, const sp_block *b)
{
    SP_TRY(add_block(c, b));
    return pack_block(c, b);
}

/* pack_code -- a definition that is longer than a chunk is packed in pieces, cut at blank lines. */
static sp_err pack_code(chunker *c, const sp_block *b)
{
    if (sp_count_words(c->text, b->from, b->to) <= c->opts.size_words) return pack(c, b);
    sp_block piece = {.to = b->from};
    while (sp_block_next(c->text, b->to, piece.to, SP_SYNTAX_PLAIN, &piece)) {
        piece.kind = SP_BLOCK_LINES;
        SP_TRY(pack(c, &piece));
    }
    return SP_OK;
}

sp_err sp_chunk_text(const char *text, size_t n, sp_syntax syntax, const sp_chunk_opts *o,
                     sp_chunk_fn *fn, void *user)
{
    if (o->size_words < 1) return sp_fail(SP_E_ARG, "size_words: %d is below 1", o->size_words);
    if (o->overlap_words < 0 || o->overlap_words >= o->size_words)
        return sp_fail(SP_E_ARG, "overlap_words: %d is not from 0 to less than %d", o->overlap_words,
                       o->size_words);
    chunker c = {
        .text = text, .opts = *o, .fn = fn, .user = user, .only_headings = true, .heading = ""};
    sp_err err = SP_OK;
    sp_block b = {0};
    while (err == SP_OK && sp_block_next(text, n, b.to, syntax, &b))
        err = syntax == SP_SYNTAX_CODE ? pack_code(&c, &b) : pack(&c, &b);
    if (err == SP_OK) err = emit(&c);
    sp_vec_fini(&c.block);
    sp_vec_fini(&c.held);
    return err;
}
