/* slots.h -- hash slots of a Redis or Valkey cluster.
 * Source: the Redis cluster specification: CRC16 (polynomial 0x1021, begins with 0) modulo 16384. */
#ifndef SP_STORE_REMOTE_REDIS_SLOTS_H
#define SP_STORE_REMOTE_REDIS_SLOTS_H

#include <stddef.h>
#include <stdint.h>

enum { SP_SLOTS = 16384, SP_SLOT_PARTS = 256 };

/* sp_slot_of -- the slot of a key: of the part between its first { and the next }, unless that is empty. */
int sp_slot_of(const char *key, size_t n);

/* sp_slot_tags -- numbers whose slots are spread evenly: "{out[p]}" is in slots [64 p, 64 p + 64). Cost: some
 * thousand look-ups. */
void sp_slot_tags(uint16_t out[SP_SLOT_PARTS]);

#endif
