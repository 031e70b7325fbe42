/* chars.h -- counts the characters of a text that comes in pieces, such as tokens, which may end inside a character.
 *
 * What is not UTF-8 counts as the text has it: one U+FFFD for each maximal subpart (Unicode 3.9). A character counts
 * when it begins. */
#ifndef SP_SERVER_API_CHARS_H
#define SP_SERVER_API_CHARS_H

#include <stddef.h>

typedef struct srv_chars {
    size_t n;                /* characters that have begun */
    unsigned char left;      /* bytes that the last one lacks */
    unsigned char low, high; /* limits of the next of these */
} srv_chars;

static inline void srv_chars_byte(srv_chars *c, unsigned char b)
{
    const int inside = c->left && b >= c->low && b <= c->high;
    if (inside) {
        c->left--;
    } else {
        c->n++;
        c->left = b < 0xC2 || b > 0xF4 ? 0 : b < 0xE0 ? 1 : b < 0xF0 ? 2 : 3;
    }
    c->low = inside ? 0x80 : b == 0xE0 ? 0xA0 : b == 0xF0 ? 0x90 : 0x80;
    c->high = inside ? 0xBF : b == 0xED ? 0x9F : b == 0xF4 ? 0x8F : 0xBF;
}

static inline void srv_chars_add(srv_chars *c, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) srv_chars_byte(c, (unsigned char)s[i]);
}

/* srv_chars_mend -- NUL, and each maximal subpart of what is not UTF-8, become a byte FF, in place. Returns the new
 * length. */
static inline size_t srv_chars_mend(char *text, size_t n)
{
    srv_chars c = {0};
    size_t out = 0, begun = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned char b = (unsigned char)text[i];
        const srv_chars before = c;
        srv_chars_byte(&c, b);
        const int begins = c.n != before.n;
        if (begins && before.left) out = begun, text[out++] = '\xff';
        if (begins) begun = out;
        text[out++] = b == 0 || (begins && b >= 0x80 && !c.left) ? '\xff' : (char)b;
    }
    if (c.left) out = begun, text[out++] = '\xff';
    return out;
}

#endif
