/* guess_int.h -- the encoding of a text. */
#ifndef SP_RETRIEVE_DOCUMENTS_GUESS_INT_H
#define SP_RETRIEVE_DOCUMENTS_GUESS_INT_H

#include "base/err.h"

/* sp_guess_encoding -- what uchardet takes a text for; "" if it does not know. Errors: SP_E_NOMEM. */
sp_err sp_guess_encoding(const char *s, size_t n, char name[64]) SP_MUST_CHECK;

#endif
