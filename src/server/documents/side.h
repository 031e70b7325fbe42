/* side.h -- side work: vectors and scores. It ends when its client hangs up. While answers stream, it rests after each
 * layer for ten times as long as the layer took, so that a long list does not slow answers by more than a tenth. All
 * such calls share that tenth. A question that a chat waits for is computed without rests, and so is the rest of the
 * step that it waits for. */
#ifndef SP_SERVER_DOCUMENTS_SIDE_H
#define SP_SERVER_DOCUMENTS_SIDE_H

#include "server/http/call.h"

typedef struct srv_side srv_side;

/* srv_side_begin -- the exchange watches it until srv_side_end; a server that ends waits for it. Pre: the exchange
 * watches nothing else. NULL: out of memory. */
srv_side *srv_side_begin(const srv_call *call);
/* srv_side_end -- the work is done. NULL is allowed. */
void srv_side_end(const srv_call *call, srv_side *side);
/* srv_side_left -- whether the client has hung up. */
bool srv_side_left(srv_side *side);
/* srv_side_opts -- options of the encoder: it ends when the client has hung up, rests after each step and each layer,
 * and takes few texts in a step while answers stream. */
sp_embed_opts srv_side_opts(srv_side *side);

#endif
