/* The header of a stored copy and a line of a store's index: as they are, and once more with their checksum
 * made right, so that what follows it is reached. What is read must be the bytes given, and a header that ends early
 * is refused whatever follows it. */
#include <stdlib.h>
#include <string.h>

#include "exact.h"
#include "store/disk/journal_int.h"
#include "store/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FIXED_BYTES = 128, MAX_BYTES = 1 << 20 };

static volatile uint64_t used; /* so that no read is left out */

/* check_tokens -- what a list names is among the copy's tokens. */
static void check_tokens(const int32_t *list, int n)
{
    for (int i = 0; list && i < n; i++)
        if (list[i] < 0 || list[i] >= n) abort();
}

/* check_lists -- every list is inside the header; reading it all shows that to the sanitizer. */
static void check_lists(const sp_record *r, const uint8_t *data, size_t size)
{
    const uint8_t *end = data + size;
    uint64_t sum = 0;
    if ((const uint8_t *)(r->tokens + r->n) > end) abort();
    for (int i = 0; i < r->n_layers; i++) sum += r->sums[i].low;
    for (int i = 0; i < r->facts.n_before; i++) sum += r->facts.before[i].b[31];
    for (int i = 0; i < r->facts.n_below; i++) sum += r->facts.below[i].b[31];
    for (int i = 0; i < r->n; i++) sum += (uint64_t)r->tokens[i];
    check_tokens(r->facts.heavy, r->n);
    check_tokens(r->facts.stats.order, r->n);
    for (int i = 0; r->facts.stats.inter && i < r->facts.n_before; i++)
        sum += r->facts.stats.inter[i] > 0;
    used = sum;
}

static void read_record(const uint8_t *data, size_t size)
{
    sp_record r;
    uint32_t head_pages;
    if (sp_record_read(data, size, &r) != SP_OK) return;
    check_lists(&r, data, size);
    sp_record_layout l = sp_record_layout_of(&r);
    if (l.head_bytes > size || sp_record_size(data, &head_pages) != SP_OK ||
        head_pages != l.head_pages)
        abort();
    uint8_t *out = malloc((size_t)l.head_pages * SP_PAGE);
    if (!out || sp_record_write(&r, r.sums, out) != SP_OK) abort();
    if (memcmp(out, data, l.head_bytes) != 0) abort(); /* written as it was read */
    free(out);
}

/* sign -- makes the SHA-256 after the first n bytes right. */
static void sign(uint8_t *data, size_t n)
{
    sp_sha256 *hash;
    sp_digest digest;
    if (sp_sha256_create(&hash) != SP_OK) abort();
    sp_sha256_update(hash, data, n);
    sp_sha256_final(hash, &digest);
    memcpy(data + n, digest.b, sizeof digest.b);
}

/* read_short -- a header of n bytes, of which fewer are given. The others are there, so no checksum is wrong. */
static void read_short(const uint8_t *data, size_t n)
{
    static const size_t missing[] = {1, 8, 16, 32, 40, 64};
    sp_record r;
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        if (sp_record_read(data, n - missing[i], &r) == SP_OK) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sp_journal_line line;
    uint64_t head_bytes;
    if (size >= SP_JOURNAL_LINE_BYTES && sp_journal_parse(data, 0, &line) &&
        line.event == SP_EVENT_PUT && line.place.n_layers == 0)
        abort();
    if (size < FIXED_BYTES || size > MAX_BYTES) return 0;
    const size_t room = SP_ROUND_UP(size, (size_t)16); /* a reader needs its alignment */
    uint8_t *copy = exact_new(room);
    memcpy(copy, data, size);
    read_record(copy, size);
    memcpy(&head_bytes, copy + 16, sizeof head_bytes);
    if (head_bytes >= FIXED_BYTES + sizeof(sp_digest) && head_bytes <= size) {
        sign(copy, (size_t)head_bytes - sizeof(sp_digest));
        read_record(copy, size);
        read_short(copy, (size_t)head_bytes);
    }
    exact_free(copy, room);
    return 0;
}
