/* guess.cc -- uchardet is in C++: without memory it throws, or knows no encoding; malloc sets errno then. */
#include <uchardet/uchardet.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <new>

extern "C" {
#include "retrieve/documents/guess_int.h"
}

extern "C" sp_err sp_guess_encoding(const char *s, size_t n, char name[64])
{
    uchardet_t guesser = nullptr;
    sp_err err = SP_OK;
    try {
        guesser = uchardet_new();
        errno = 0;
        uchardet_handle_data(guesser, s, std::min(n, static_cast<size_t>(1) << 20));
        uchardet_data_end(guesser);
        if (errno == ENOMEM) throw std::bad_alloc();
        std::snprintf(name, 64, "%s", uchardet_get_charset(guesser));
    } catch (const std::bad_alloc &) {
        err = sp_fail_nomem("the encoding of a text");
    }
    if (guesser) uchardet_delete(guesser);
    return err;
}
