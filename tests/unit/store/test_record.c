/* test_record.c -- the header of a stored copy: it comes back as it was written, and one that does not fit itself is
 * refused, even with the right checksum. */
#include "support/check.h"

#include "tier.h"

enum { PAGES = 2 };

/* Where the fields are: record.c. */
enum { VERSION_AT = 8, LENGTH_AT = 16, N_AT = 24, AT_AT = 28, N_HEAD_AT = 36, LAYERS_AT = 40, FLAGS_AT = 44 };

typedef struct header {
    noise c;
    _Alignas(16) uint8_t data[PAGES * SP_PAGE];
    size_t n; /* with its digest */
} header;

static void write_header(header *h, uint32_t number)
{
    sp_layer_sum sums[2 * NOISE_LAYERS] = {{0}};
    noise_init(&h->c, number, 3);
    for (int i = 0; i < NOISE_LAYERS; i++) sums[i] = (sp_layer_sum){(uint64_t)i, number};
    h->n = sp_record_layout_of(&h->c.record).head_bytes;
    assert_in_range(h->n, 1, sizeof h->data);
    assert_ok(sp_record_write(&h->c.record, sums, h->data));
}

/* sign -- as a program would that wrote these fields. */
static void sign(header *h)
{
    sp_sha256 *hash;
    sp_digest digest;
    assert_ok(sp_sha256_create(&hash));
    sp_sha256_update(hash, h->data, h->n - sizeof digest);
    sp_sha256_final(hash, &digest);
    memcpy(h->data + h->n - sizeof digest, digest.b, sizeof digest);
}

static void a_header_comes_back(void **state)
{
    (void)state;
    for (uint32_t number = 0; number < 20; number++) {
        header h;
        sp_record r;
        uint32_t pages;
        write_header(&h, number);
        assert_ok(sp_record_read(h.data, h.n, &r));
        h.c.n_layers = NOISE_LAYERS;
        assert_ok(noise_head(&h.c, &r));
        for (int i = 0; i < NOISE_LAYERS; i++)
            assert_true(sp_layer_sum_eq(r.sums[i], (sp_layer_sum){(uint64_t)i, number}));
        assert_ok(sp_record_size(h.data, &pages));
        assert_int_equal(pages, SP_DIV_UP(h.n, SP_PAGE));
        assert_fails(sp_record_read(h.data, h.n - 1, &r), SP_E_FORMAT, "ends early");
        h.data[h.n / 2] ^= 1;
        assert_int_equal(sp_record_read(h.data, h.n, &r), SP_E_FORMAT);
    }
}

static void fields_that_no_copy_has_are_refused(void **state)
{
    static const struct {
        size_t at;
        uint32_t value;
        sp_err code;
        const char *said;
    } cases[] = {
        {VERSION_AT, 1, SP_E_UNSUPPORTED, "version 1"},
        {VERSION_AT, 5, SP_E_UNSUPPORTED, "version 5"},
        {VERSION_AT, 3, SP_E_FORMAT, "do not fit"}, /* of notes, without any */
        {N_AT, 0, SP_E_FORMAT, "0 tokens"},
        {AT_AT, UINT32_MAX, SP_E_FORMAT, "position -1"},
        {N_HEAD_AT, NOISE_BEFORE + 1, SP_E_FORMAT, "a head of 4"},
        {LAYERS_AT, 0, SP_E_FORMAT, "0 layers"},
        {LAYERS_AT, NOISE_LAYERS - 1, SP_E_FORMAT, "its sizes give"},
        {FLAGS_AT, 64, SP_E_FORMAT, "do not fit"},
        {LENGTH_AT, 4096, SP_E_FORMAT, "its sizes give"},
    };
    (void)state;
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        header h;
        sp_record r = {.n = -7};
        uint32_t pages;
        write_header(&h, 2);
        memcpy(h.data + cases[i].at, &cases[i].value, sizeof cases[i].value);
        sign(&h);
        assert_fails(sp_record_read(h.data, h.n, &r), cases[i].code, cases[i].said);
        assert_int_equal(r.n, -7);
        assert_int_equal(sp_record_size(h.data, &pages), cases[i].code);
    }
}

/* Policies index a chunk's tokens with these numbers. */
static void statistics_name_tokens_of_the_copy(void **state)
{
    static const int32_t bad[] = {-1, NOISE_TOKENS};
    (void)state;
    for (int heavy = 0; heavy < 2; heavy++)
        for (size_t i = 0; i < SP_COUNT(bad); i++) {
            header h;
            sp_record r;
            write_header(&h, 1);
            assert_ok(sp_record_read(h.data, h.n, &r));
            const int32_t *list = heavy ? r.facts.heavy : r.facts.stats.order;
            const size_t at = (size_t)((const uint8_t *)(list + NOISE_TOKENS - 1) - h.data);
            memcpy(h.data + at, &bad[i], sizeof bad[i]);
            sign(&h);
            assert_fails(sp_record_read(h.data, h.n, &r), SP_E_FORMAT, "tokens that it does not have");
        }
}

static void notes_have_checksums_of_their_own(void **state)
{
    enum { LAYER = 100, NOTES = 28 };
    uint8_t data[LAYER + NOTES];
    sp_layer_sum sums[4] = {{0}};
    const sp_record r = {.n_layers = 2, .layer_bytes = LAYER, .facts.note_bytes = NOTES, .sums = sums};
    (void)state;
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 7);
    sums[3] = sp_layer_sum_of(data + LAYER, NOTES);
    assert_true(sp_record_notes_ok(&r, 1, data));
    assert_false(sp_record_notes_ok(&r, 0, data));
    data[LAYER - 1] ^= 1; /* not of the notes */
    assert_true(sp_record_notes_ok(&r, 1, data));
    data[LAYER] ^= 1;
    assert_false(sp_record_notes_ok(&r, 1, data));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_comes_back),
        cmocka_unit_test(fields_that_no_copy_has_are_refused),
        cmocka_unit_test(statistics_name_tokens_of_the_copy),
        cmocka_unit_test(notes_have_checksums_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
