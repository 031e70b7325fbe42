/* wordpiece.c -- WordPiece, the tokenizer of BERT.
 *
 *   text --clean--> UTF-8 --decompose, lower--> words --longest piece first--> ids
 *
 * The steps are those of Hugging Face's BertNormalizer and BertPreTokenizer: control characters are removed,
 * white space becomes a space; Chinese characters are words; accents (non-spacing marks of the decomposed
 * text) are removed; letters become lower case; words end at white space, and punctuation is a word. A word
 * is split into the longest piece that begins it, then the longest that continues it, and so on; a word that
 * cannot be split is unknown as a whole.
 *
 * Characters are classified by utf8proc. The library knows the marks, punctuation and format characters of
 * Unicode 8, and models were trained with it: later ones count as letters (`newer`), so that all
 * characters yield the library's ids.
 */
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "model/tokenizer/tokenizer_int.h"

#define MARK "\xE2\x96\x81" /* U+2581, before a first piece in GGUF files */

/* -- loading --------------------------------------------------------------------------------- */

/* What a token is: bytes that begin a word, or continue one. */
static sp_text_view piece_of(const sp_wordpiece *w, sp_text_view text, bool *begins)
{
    const char *sign = w->marked ? MARK : "##";
    const size_t n = strlen(sign);
    const bool has = text.n > n && memcmp(text.s, sign, n) == 0;
    *begins = w->marked == has;
    return has ? (sp_text_view){text.s + n, text.n - n} : text;
}

sp_err sp_wordpiece_load(sp_tokenizer *t, const sp_vocab_spec *spec)
{
    size_t total = 0;
    if (t->marks.unk < 0) return sp_fail(SP_E_FORMAT, "%s: there is no unknown token", spec->path);
    for (size_t i = 0; i < t->n_tokens; i++) total += t->texts[i].n + 1;
    char *blob = sp_arena_take(&t->arena, total, 1);
    if (!blob) return sp_fail_nomem("token pieces");
    SP_TRY(sp_dict_init(&t->by.piece, t->n_tokens));
    SP_TRY(sp_dict_init(&t->by.tail, t->n_tokens / 4));
    for (size_t i = 0; i < t->n_tokens; i++) {
        bool begins;
        const sp_text_view p = piece_of(&t->wordpiece, t->texts[i], &begins);
        t->pieces[i] = t->texts[i];
        if (!sp_token_mergeable(t, (uint32_t)i) || p.n == 0) continue;
        sp_dict *d = begins ? &t->by.piece : &t->by.tail;
        if (sp_dict_get(d, p.s, p.n) == SP_DICT_NONE) SP_TRY(sp_dict_put(d, p.s, p.n, (uint32_t)i));
        if (p.n > t->longest) t->longest = p.n;
        t->pieces[i] = (sp_text_view){blob, p.n + begins};
        if (begins) *blob++ = ' ';
        memcpy(blob, p.s, p.n);
        blob += p.n;
    }
    t->words.add_space_prefix = true; /* decoding: the first word has no space */
    memcpy(t->kind, "wordpiece", sizeof "wordpiece");
    return SP_OK;
}

/* -- characters ------------------------------------------------------------------------------ */

/* White_Space of Unicode. */
static bool is_space(int32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
           c == 0x3000;
}

/* Marks, punctuation and format characters that are newer than Unicode 8, in order. */
static const int32_t newer[][2] = {
    {0x61D, 0x61D}, {0x7FD, 0x7FD}, {0x890, 0x891}, {0x898, 0x89F}, {0x8CA, 0x8E2}, {0x9FD, 0x9FE}, {0xA76, 0xA76},
    {0xAFA, 0xAFF}, {0xB55, 0xB55}, {0xC04, 0xC04}, {0xC3C, 0xC3C}, {0xC77, 0xC77}, {0xC84, 0xC84}, {0xD00, 0xD00},
    {0xD3B, 0xD3C}, {0xD81, 0xD81}, {0xEBA, 0xEBA}, {0xECE, 0xECE}, {0x180F, 0x180F},
    {0x1885, 0x1886}, {0x1ABF, 0x1ACE}, {0x1B7D, 0x1B7E}, {0x1DF6, 0x1DFB}, {0x2E43, 0x2E4F}, {0x2E52, 0x2E5D},
    {0xA82C, 0xA82C}, {0xA8C5, 0xA8C5}, {0xA8FF, 0xA8FF}, {0xA9BD, 0xA9BD}, {0x10D24, 0x10D27}, {0x10EAB, 0x10EAD},
    {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F55, 0x10F59}, {0x10F82, 0x10F89}, {0x11070, 0x11070},
    {0x11073, 0x11074}, {0x110C2, 0x110C2}, {0x110CD, 0x110CD}, {0x111CF, 0x111CF},
    {0x1123E, 0x1123E}, {0x11241, 0x11241}, {0x1133B, 0x1133B}, {0x11438, 0x1143F}, {0x11442, 0x11444},
    {0x11446, 0x11446}, {0x1144B, 0x1144F}, {0x1145A, 0x1145B}, {0x1145D, 0x1145E}, {0x11660, 0x1166C},
    {0x116B9, 0x116B9}, {0x1182F, 0x11837}, {0x11839, 0x1183B}, {0x1193B, 0x1193C}, {0x1193E, 0x1193E},
    {0x11943, 0x11946}, {0x119D4, 0x119D7}, {0x119DA, 0x119DB}, {0x119E0, 0x119E0}, {0x119E2, 0x119E2},
    {0x11A01, 0x11A0A}, {0x11A33, 0x11A38}, {0x11A3B, 0x11A47}, {0x11A51, 0x11A56}, {0x11A59, 0x11A5B},
    {0x11A8A, 0x11A96}, {0x11A98, 0x11A9C}, {0x11A9E, 0x11AA2}, {0x11B00, 0x11B09}, {0x11C30, 0x11C36},
    {0x11C38, 0x11C3D}, {0x11C3F, 0x11C3F}, {0x11C41, 0x11C45}, {0x11C70, 0x11C71}, {0x11C92, 0x11CA7},
    {0x11CAA, 0x11CB0}, {0x11CB2, 0x11CB3}, {0x11CB5, 0x11CB6}, {0x11D31, 0x11D36}, {0x11D3A, 0x11D3A},
    {0x11D3C, 0x11D3D}, {0x11D3F, 0x11D45}, {0x11D47, 0x11D47}, {0x11D90, 0x11D91}, {0x11D95, 0x11D95},
    {0x11D97, 0x11D97}, {0x11EF3, 0x11EF4}, {0x11EF7, 0x11EF8}, {0x11F00, 0x11F01}, {0x11F36, 0x11F3A},
    {0x11F40, 0x11F40}, {0x11F42, 0x11F4F}, {0x11FFF, 0x11FFF}, {0x12FF1, 0x12FF2}, {0x13430, 0x13440},
    {0x13447, 0x13455}, {0x16E97, 0x16E9A}, {0x16F4F, 0x16F4F}, {0x16FE2, 0x16FE2}, {0x16FE4, 0x16FE4},
    {0x1CF00, 0x1CF2D}, {0x1CF30, 0x1CF46}, {0x1E000, 0x1E006}, {0x1E008, 0x1E018}, {0x1E01B, 0x1E021},
    {0x1E023, 0x1E024}, {0x1E026, 0x1E02A}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1E944, 0x1E94A}, {0x1E95E, 0x1E95F}};

/* The category that the library knows. */
static utf8proc_category_t category(int32_t c)
{
    size_t from = 0, to = SP_COUNT(newer);
    if (c == 0x166D || c == 0x111C9) return UTF8PROC_CATEGORY_PO; /* until Unicode 12 and 11 */
    if (c == 0x1734) return UTF8PROC_CATEGORY_MN; /* until Unicode 14 */
    while (from < to && c >= newer[0][0]) {
        const size_t mid = (from + to) / 2;
        if (c > newer[mid][1])
            from = mid + 1;
        else if (c < newer[mid][0])
            to = mid;
        else
            return UTF8PROC_CATEGORY_LO;
    }
    return utf8proc_category(c);
}

static bool is_control(int32_t c)
{
    if (c == '\t' || c == '\n' || c == '\r') return false;
    const utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CO;
}

static bool is_punctuation(int32_t c)
{
    if (c < 0x80)
        return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
    const utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

/* The blocks that BERT calls Chinese; one begins at U+2B920, as in the library. */
static bool is_chinese(int32_t c)
{
    static const int32_t blocks[][2] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                        {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                        {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
    for (size_t i = 0; i < SP_COUNT(blocks) && c >= 0x3400; i++)
        if (c >= blocks[i][0] && c <= blocks[i][1]) return true;
    return false;
}

/* -- normalising ----------------------------------------------------------------------------- */

static int32_t char_at(const char *s, int n)
{
    int32_t c;
    return utf8proc_iterate((const utf8proc_uint8_t *)s, n, &c) > 0 ? c : 0xFFFD;
}

/* The text without control characters, and with spaces around Chinese characters. */
static sp_err clean(const sp_wordpiece *o, const char *text, size_t n, sp_bytes *out)
{
    out->n = 0;
    for (size_t i = 0; i < n;) {
        const int step = sp_utf8_step((const uint8_t *)text + i, n - i);
        const size_t len = step > 0 ? (size_t)step : step < 0 ? (size_t)-step : n - i;
        const int32_t c = step > 0 ? char_at(text + i, step) : 0xFFFD;
        const char *s = text + i;
        i += len;
        if (step <= 0 || (o->clean && (c == 0 || c == 0xFFFD || is_control(c)))) continue;
        if (o->clean && is_space(c)) {
            SP_TRY(sp_bytes_add(out, " ", 1));
            continue;
        }
        const bool alone = o->split_cjk && is_chinese(c);
        if (alone) SP_TRY(sp_bytes_add(out, " ", 1));
        SP_TRY(sp_bytes_add(out, s, len));
        if (alone) SP_TRY(sp_bytes_add(out, " ", 1));
    }
    return SP_OK;
}

/* The characters of a cleaned text, decomposed if accents are removed. */
static sp_err decompose(const sp_wordpiece *o, sp_encode_work *w)
{
    const utf8proc_option_t how = o->strip_accents ? UTF8PROC_STABLE | UTF8PROC_DECOMPOSE : UTF8PROC_STABLE;
    const utf8proc_uint8_t *s = (const utf8proc_uint8_t *)w->escaped.v;
    w->chars.n = 0;
    if (w->escaped.n == 0) return SP_OK;
    SP_TRY(sp_vec_reserve(&w->chars, w->escaped.n));
    utf8proc_ssize_t n =
        utf8proc_decompose(s, (utf8proc_ssize_t)w->escaped.n, w->chars.v, (utf8proc_ssize_t)w->chars.cap, how);
    if (n > (utf8proc_ssize_t)w->chars.cap) {
        SP_TRY(sp_vec_reserve(&w->chars, (size_t)n));
        n = utf8proc_decompose(s, (utf8proc_ssize_t)w->escaped.n, w->chars.v, n, how);
    }
    if (n < 0) return sp_fail(SP_E_FORMAT, "a text cannot be decomposed: %s", utf8proc_errmsg(n));
    w->chars.n = (size_t)n;
    return SP_OK;
}

static sp_err put_char(sp_bytes *out, int32_t c)
{
    utf8proc_uint8_t s[4];
    return sp_bytes_add(out, s, (size_t)utf8proc_encode_char(c, s));
}

/* Into w->escaped. Only U+0130 has a lower case of two characters. */
static sp_err normalise(const sp_wordpiece *o, const char *text, size_t n, sp_encode_work *w)
{
    SP_TRY(clean(o, text, n, &w->escaped));
    if (!o->strip_accents && !o->lower) return SP_OK;
    SP_TRY(decompose(o, w));
    w->escaped.n = 0;
    for (size_t i = 0; i < w->chars.n; i++) {
        int32_t c = w->chars.v[i];
        if (o->strip_accents && c >= 0x300 && category(c) == UTF8PROC_CATEGORY_MN) continue;
        if (o->lower && c == 0x130) {
            SP_TRY(sp_bytes_add(&w->escaped, "i\xCC\x87", 3));
            continue;
        }
        SP_TRY(put_char(&w->escaped, o->lower ? utf8proc_tolower(c) : c));
    }
    return SP_OK;
}

/* -- pieces ---------------------------------------------------------------------------------- */

static sp_err put_id(sp_tokens *out, int32_t id)
{
    SP_TRY(sp_vec_reserve(out, 1));
    out->v[out->n++] = id;
    return SP_OK;
}

static sp_err cut_word(const sp_tokenizer *t, const char *word, size_t n, size_t n_chars, sp_tokens *out)
{
    const size_t before = out->n;
    if (n_chars > (size_t)t->wordpiece.max_chars) return put_id(out, t->marks.unk);
    for (size_t at = 0; at < n;) {
        const sp_dict *d = at == 0 ? &t->by.piece : &t->by.tail;
        size_t len = SP_MIN(n - at, t->longest);
        uint32_t id = SP_DICT_NONE;
        for (; len > 0; len--) {
            if (at + len < n && ((uint8_t)word[at + len] & 0xC0) == 0x80) continue; /* within a character */
            id = sp_dict_get(d, word + at, len);
            if (id != SP_DICT_NONE) break;
        }
        if (id == SP_DICT_NONE) {
            out->n = before;
            return put_id(out, t->marks.unk);
        }
        SP_TRY(put_id(out, (int32_t)id));
        at += len;
    }
    return SP_OK;
}

sp_err sp_wordpiece_encode(const sp_tokenizer *t, sp_encode_work *w, const char *text, size_t n,
                           sp_tokens *out)
{
    SP_TRY(normalise(&t->wordpiece, text, n, w));
    const char *s = w->escaped.v;
    const size_t end = w->escaped.n;
    size_t from = 0, n_chars = 0; /* the word so far */
    for (size_t i = 0; i < end;) {
        const int len = sp_utf8_step((const uint8_t *)s + i, end - i);
        const int32_t c = char_at(s + i, len);
        const bool space = is_space(c), sign = !space && is_punctuation(c);
        if (space || sign) {
            if (n_chars) SP_TRY(cut_word(t, s + from, i - from, n_chars, out));
            if (sign) SP_TRY(cut_word(t, s + i, (size_t)len, 1, out));
            n_chars = 0;
            from = i + (size_t)len;
        } else {
            n_chars++;
        }
        i += (size_t)len;
    }
    return n_chars ? cut_word(t, s + from, end - from, n_chars, out) : SP_OK;
}
