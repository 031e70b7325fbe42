/* evict_lfu.c -- least frequently used first; of equals the least recently used. A request counts
 * once. Uses are forgotten when a copy is gone, unless the policy is "lfu+ghosts". */
#include "cache/evict.h"

static double lfu_priority(const sp_evict *e, const sp_copy *c)
{
    return (double)c->uses.n;
}

const sp_evict_policy sp_evict_lfu = {
    .name = "lfu", .help = "drops the least often used copy", .priority = lfu_priority};
