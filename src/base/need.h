/* need.h -- arguments of public functions that must not be NULL. */
#ifndef SP_BASE_NEED_H
#define SP_BASE_NEED_H

#include "base/err.h"

/* SP_NEED -- returns SP_E_ARG, naming the function and the argument, when it is NULL. */
#define SP_NEED(argument)                                                                          \
    do {                                                                                           \
        if (SP_UNLIKELY(!(argument)))                                                              \
            return sp_fail(SP_E_ARG, "%s: %s is NULL", __func__, #argument);                       \
    } while (0)

#endif
