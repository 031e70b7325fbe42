#include "store/remote/notice.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    GROUP_BYTES = 1 << 20, /* of layers in one value */
    LEAST_FIELDS = 5,      /* older programs write no more */
};

void sp_remote_name(const sp_tier_key *k, char out[SP_REMOTE_NAME])
{
    char id[2 * sizeof k->id.b + 1];
    sp_digest_hex(&k->id, sizeof k->id.b, id);
    snprintf(out, SP_REMOTE_NAME, "%s-%016" PRIx64 "-%" PRIu32, id, k->head, k->kind);
}

bool sp_remote_read_name(const char *name, sp_tier_key *out)
{
    const size_t n = 2 * sizeof out->id.b;
    unsigned byte;
    int end = 0;
    if (strlen(name) < n + 2 || name[n] != '-') return false;
    for (size_t i = 0; i < sizeof out->id.b; i++) {
        if (sscanf(name + 2 * i, "%2x", &byte) != 1) return false;
        out->id.b[i] = (uint8_t)byte;
    }
    return sscanf(name + n, "-%16" SCNx64 "-%" SCNu32 "%n", &out->head, &out->kind, &end) == 2 &&
           !name[n + (size_t)end];
}

int sp_remote_per_group(uint64_t stride)
{
    return stride >= GROUP_BYTES ? 1 : (int)(GROUP_BYTES / stride);
}

void sp_remote_write_notice(const sp_remote_notice *n, char out[SP_REMOTE_NOTICE])
{
    snprintf(out, SP_REMOTE_NOTICE, "%d %d %" PRIu64 " %u %.0f %" PRIu64 " %" PRId64, n->n, n->n_layers, n->stride,
             n->facts, (double)n->cost_us, n->head_bytes, n->expires_s);
}

bool sp_remote_read_notice(const char *name, const char *says, sp_remote_notice *out)
{
    *out = (sp_remote_notice){0};
    return sp_remote_read_name(name, &out->key) &&
           sscanf(says, "%d %d %" SCNu64 " %u %f %" SCNu64 " %" SCNd64, &out->n, &out->n_layers, &out->stride,
                  &out->facts, &out->cost_us, &out->head_bytes, &out->expires_s) >= LEAST_FIELDS &&
           out->n > 0 && out->n_layers > 0 && out->n_layers < 4096 && out->stride > 0 &&
           out->stride <= UINT32_MAX && out->head_bytes <= UINT32_MAX;
}
