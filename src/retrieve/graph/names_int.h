/* names_int.h -- how names are compared: folded keys, words with their positions, similarities. */
#ifndef SP_RETRIEVE_GRAPH_NAMES_INT_H
#define SP_RETRIEVE_GRAPH_NAMES_INT_H

#include "base/mem.h"

/* A word of a text: its bytes in the text, and its folded letters in the key. */
typedef struct sp_name_word {
    uint32_t from, to;         /* in the text */
    uint32_t key_from, key_to; /* in the key */
} sp_name_word;

typedef SP_VEC(sp_name_word) sp_name_words;

/* sp_name_key -- appends the key of a text: its words in lower case, joined by one blank. A word
 * is a run of letters, digits and marks; an ideograph or kana is a word of its own. Case is folded
 * as Unicode says (utf8proc), so "Straße" and "STRASSE" have the same key, as do "İstanbul" and "Istanbul", and "é"
 * and "e" with an accent after it (NFC and NFD).
 * A text without a word (only punctuation) has its trimmed bytes as the key.
 * words (may be NULL): the words, appended. Not NUL-terminated. Cost: O(n). */
sp_err sp_name_key(const char *s, size_t n, sp_bytes *key, sp_name_words *words) SP_MUST_CHECK;

/* sp_name_likeness -- Dice coefficient of the letter trigrams of two words, 0 .. 1; a mark before
 * the first letter makes common beginnings count. Words under three bytes score 1 if equal, else 0. */
double sp_name_likeness(const char *a, size_t n_a, const char *b, size_t n_b);

/* sp_name_distance -- edit distance with transpositions (optimal string alignment) in bytes, or
 * `most` + 1 when it is larger than `most`. Names longer than SP_NAME_DISTANCE_BYTES count as
 * `most` + 1 unless they are equal. */
#define SP_NAME_DISTANCE_BYTES 256
int sp_name_distance(const char *a, size_t n_a, const char *b, size_t n_b, int most);

/* sp_name_is_common -- whether a folded word is an English function word ("the", "which"). */
bool sp_name_is_common(const char *s, size_t n);

/* sp_name_readable -- appends the readable form of a relation: the last component of a path or IRI,
 * '_' and '-' as blanks, "bornIn" as "born in". */
sp_err sp_name_readable(const char *s, size_t n, sp_bytes *out) SP_MUST_CHECK;

/* sp_name_unescape -- appends a part of an IRI, with percent-encoded bytes as themselves: "K%C3%B6ln" becomes "Köln".
 * What would not be UTF-8 then, be blank or have control characters, stays as it is. */
sp_err sp_name_unescape(const char *s, size_t n, sp_bytes *out) SP_MUST_CHECK;

/* sp_name_of_iri -- appends what an IRI without a label is called: what follows the last slash or number sign,
 * decoded, or all when that is nothing. */
sp_err sp_name_of_iri(const char *s, size_t n, sp_bytes *out) SP_MUST_CHECK;

/* sp_name_capitals -- appends a name; one without capital letters gets them at the start of each word, and blanks for
 * '_': "charles_i_of_spain" becomes "Charles I Of Spain". */
sp_err sp_name_capitals(const char *s, size_t n, sp_bytes *out) SP_MUST_CHECK;

/* sp_name_relation_key -- appends the key and the words of the readable form of a relation, without function words.
 * A word of a question whose likeness to one of them is at least SP_NAME_LIKE_LEAST means the relation. */
#define SP_NAME_LIKE_LEAST 0.35
sp_err sp_name_relation_key(const char *relation, sp_bytes *key,
                            sp_name_words *words) SP_MUST_CHECK;

#endif
