/* utf8.h -- decodes strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef SP_BASE_UTF8_H
#define SP_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* sp_utf8_step -- examines the character at s (n >= 1 bytes):
 *   k > 0   a complete character of k bytes
 *   0       the n bytes are the beginning of a character
 *   -k < 0  invalid: one U+FFFD replaces the first k bytes, the maximal subpart (Unicode 3.9) */
static inline int sp_utf8_step(const uint8_t *s, size_t n)
{
    uint8_t lead = s[0];
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return -1;
    int len = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    for (int i = 1; i < len; i++) {
        if ((size_t)i == n) return 0;
        if (s[i] < low || s[i] > high) return -i;
        low = 0x80;
        high = 0xBF;
    }
    return len;
}

#endif
