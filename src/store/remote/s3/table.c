#include "store/remote/s3/table.h"

#include <string.h>

#include "store/bytes.h"

enum { HEADER = 8, ENTRY = 4 };

static const char magic[4] = {'S', 'P', 'T', '1'};

size_t sp_s3_table_bytes(const sp_remote_shape *s)
{
    return s->varies ? HEADER + (size_t)s->n_groups * ENTRY : 0;
}

uint64_t sp_s3_most_bytes(const sp_remote_shape *s, int group)
{
    return group == s->n_groups - 1 ? s->last : s->group;
}

void sp_s3_write_table(const sp_remote_shape *s, const uint32_t *sizes, uint8_t *to)
{
    memcpy(to, magic, sizeof magic);
    put32(to + 4, (uint32_t)s->n_groups);
    for (int i = 0; i < s->n_groups; i++) put32(to + HEADER + i * ENTRY, sizes[i]);
}

sp_err sp_s3_read_table(const sp_remote_shape *s, const uint8_t *from, uint32_t *out)
{
    if (memcmp(from, magic, sizeof magic) != 0 || get32(from + 4) != (uint32_t)s->n_groups)
        return sp_fail(SP_E_FORMAT, "remote tier: the sizes of a copy's layers are damaged");
    for (int i = 0; i < s->n_groups; i++) {
        out[i] = get32(from + HEADER + i * ENTRY);
        if (!out[i] || out[i] > sp_s3_most_bytes(s, i))
            return sp_fail(SP_E_FORMAT, "remote tier: the size of layers of a copy is damaged");
    }
    return SP_OK;
}
