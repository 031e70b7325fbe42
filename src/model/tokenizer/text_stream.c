/* text_stream.c -- turns tokens, which may end inside a character, into whole characters.
 *
 * held[0..n_held) is always the beginning of a valid character: at most three bytes. Invalid bytes
 * become one U+FFFD for each maximal subpart, as in other decoders (Unicode 3.9); so does NUL, which
 * would end a C string.
 */
#include <string.h>

#include "model/tokenizer/tokenizer_int.h"
#include "base/utf8.h"

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

void sp_text_stream_init(sp_text_stream *s, const sp_tokenizer *t)
{
    *s = (sp_text_stream){.tok = t};
}

/* step -- bytes of the character at `bytes`; -k: k bytes are none that a text can have; 0: it is incomplete. */
static int step(const uint8_t *bytes, size_t n)
{
    return *bytes ? sp_utf8_step(bytes, n) : -1;
}

/* Appends the complete characters of bytes[0..n) to `out`; the last *rest bytes are incomplete. */
static sp_err push_bytes(const uint8_t *bytes, size_t n, sp_bytes *out, size_t *rest)
{
    size_t good = 0, i = 0; /* bytes[good..i) are valid and not yet appended */
    int k = 1;
    while (i < n && k != 0) {
        k = step(bytes + i, n - i);
        if (k > 0) i += (size_t)k;
        if (k >= 0) continue;
        SP_TRY(sp_bytes_add(out, bytes + good, i - good));
        SP_TRY(sp_bytes_add(out, REPLACEMENT, sizeof REPLACEMENT - 1));
        i += (size_t)-k;
        good = i;
    }
    *rest = n - i;
    return sp_bytes_add(out, bytes + good, i - good);
}

/* The input bytes are copied to the spare capacity of `out`, after the space that their output can
 * take (three bytes each). So once `out` has its working size, a push allocates nothing. */
sp_err sp_text_stream_push(sp_text_stream *s, int32_t id, sp_bytes *out)
{
    const sp_tokenizer *t = s->tok;
    if (id < 0 || (size_t)id >= t->n_tokens)
        return sp_fail(SP_E_ARG, "token %d is outside the vocabulary of %zu tokens", id,
                       t->n_tokens);
    sp_text_view piece = t->pieces[id];
    if (!sp_token_printed(t, id) || piece.n == 0) return SP_OK;
    if (!s->started && t->words.add_space_prefix && piece.s[0] == ' ') piece.s++, piece.n--;
    s->started = true;

    size_t n = (size_t)s->n_held + piece.n, rest = 0;
    if (n == 0) return SP_OK;
    SP_TRY(sp_vec_reserve(out, 4 * n));
    uint8_t *bytes = (uint8_t *)out->v + out->n + 3 * n;
    memcpy(bytes, s->held, (size_t)s->n_held);
    memcpy(bytes + s->n_held, piece.s, piece.n);
    SP_TRY(push_bytes(bytes, n, out, &rest));
    s->n_held = (int)rest;
    memcpy(s->held, bytes + n - rest, rest);
    return SP_OK;
}

sp_err sp_text_stream_flush(sp_text_stream *s, sp_bytes *out)
{
    if (s->n_held == 0) return SP_OK;
    SP_TRY(sp_bytes_add(out, REPLACEMENT, sizeof REPLACEMENT - 1));
    s->n_held = 0;
    return SP_OK;
}
