/* digits.h -- hexadecimal digits. */
#ifndef SP_BASE_DIGITS_H
#define SP_BASE_DIGITS_H

/* sp_digit16 -- the value of a digit; -1: it is none. */
static inline int sp_digit16(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

#endif
