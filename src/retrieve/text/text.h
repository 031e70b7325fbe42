/* text.h -- characters, words and sentences of UTF-8 text, and its Markdown blocks. */
#ifndef SP_RETRIEVE_TEXT_TEXT_H
#define SP_RETRIEVE_TEXT_TEXT_H

#include "retrieve/text/chunker.h"

/* A word is a run of non-blank characters; an ideograph or kana is a word of its own, and a run
 * longer than this (a URL, base64, a script written without spaces) counts as several. So a text of
 * n words has at most about n * SP_WORD_BYTES bytes in any language. */
#define SP_WORD_BYTES 64

/* sp_is_blank -- the ASCII blanks. Locale-free, unlike isspace. */
static inline bool sp_is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* sp_utf8_length -- bytes of the well-formed character at s, which has n > 0 bytes; 0: none. */
size_t sp_utf8_length(const char *s, size_t n);
/* sp_utf8_valid -- well-formed UTF-8: no overlong forms, surrogates or values over U+10FFFF. */
bool sp_utf8_valid(const char *s, size_t n);

/* All of these look at s[at, to) and return a position in it; `to` when there is nothing more. They
 * never cut a well-formed character, also in text that is broken elsewhere. */
size_t sp_skip_blanks(const char *s, size_t at, size_t to);
/* sp_trim_end -- the end of s[at, to) without the blanks at its end. */
size_t sp_trim_end(const char *s, size_t at, size_t to);
/* sp_word_end -- the end of the word that starts at `at`, which is not a blank. */
size_t sp_word_end(const char *s, size_t at, size_t to);
int64_t sp_count_words(const char *s, size_t at, size_t to);
/* sp_sentence_end -- the end of the sentence that starts at `at`, closing quotes included. */
size_t sp_sentence_end(const char *s, size_t at, size_t to);

typedef enum sp_block_kind {
    SP_BLOCK_HEADING,
    SP_BLOCK_TEXT,  /* a paragraph or a list; cut at items and sentences */
    SP_BLOCK_LINES, /* a table, code or front matter; cut at lines */
} sp_block_kind;

typedef struct sp_block {
    sp_block_kind kind;
    size_t from, to;                 /* of the block in the text, whole lines */
    size_t heading_from, heading_to; /* of a heading's words, without its marks */
} sp_block;

/* sp_block_next -- the block at or after `at`; false when only blanks are left. Plain text has text
 * blocks only, ended by blank lines. Source code: a block is a top-level definition with what is
 * indented below it. Cost: the whole walk is O(n). */
bool sp_block_next(const char *s, size_t n, size_t at, sp_syntax syntax, sp_block *out);

/* A line of a text, and the line readers of syntaxes other than Markdown. */
typedef struct sp_line {
    size_t from, to; /* without surrounding blanks; from == to for a blank line */
    size_t indent;   /* bytes before `from` */
    size_t next;     /* start of the line after */
} sp_line;

sp_line sp_line_at(const char *s, size_t n, size_t at);
/* sp_rst_block, sp_code_block -- the block whose first line is l, which is not blank; out->from is
 * set by the caller. */
void sp_rst_block(const char *s, size_t n, const sp_line *l, sp_block *out);
void sp_code_block(const char *s, size_t n, const sp_line *l, sp_block *out);

/* sp_line_is_item -- whether the line at `at` starts an item: "- ", "* ", "+ ", "1. ", "1) ". */
bool sp_line_is_item(const char *s, size_t at, size_t to);

#endif
