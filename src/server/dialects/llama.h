/* llama.h -- llama.cpp's own paths: /completion and /infill. */
#ifndef SP_SERVER_DIALECTS_LLAMA_H
#define SP_SERVER_DIALECTS_LLAMA_H

#include "server/api/dialect.h"

srv_sent srv_llama_completion_call(srv_call *call);
srv_sent srv_llama_infill_call(srv_call *call);

#endif
