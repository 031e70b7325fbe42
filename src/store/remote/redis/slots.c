#include "store/remote/redis/slots.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static uint16_t crc16(const char *data, size_t n)
{
    unsigned crc = 0;
    for (size_t i = 0; i < n; i++) {
        crc ^= (unsigned)(unsigned char)data[i] << 8;
        for (int bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1;
    }
    return (uint16_t)crc;
}

int sp_slot_of(const char *key, size_t n)
{
    const char *open = memchr(key, '{', n);
    const char *from = open ? open + 1 : NULL;
    const char *close = from ? memchr(from, '}', n - (size_t)(from - key)) : NULL;
    if (close && close > from) return crc16(from, (size_t)(close - from)) % SP_SLOTS;
    return crc16(key, n) % SP_SLOTS;
}

void sp_slot_tags(uint16_t out[SP_SLOT_PARTS])
{
    bool found[SP_SLOT_PARTS] = {false};
    char text[12];
    for (uint16_t tag = 0, n = 0; n < SP_SLOT_PARTS; tag++) {
        const int length = snprintf(text, sizeof text, "%u", tag);
        const int part = crc16(text, (size_t)length) % SP_SLOTS / (SP_SLOTS / SP_SLOT_PARTS);
        if (found[part]) continue;
        found[part] = true;
        out[part] = tag;
        n++;
    }
}
