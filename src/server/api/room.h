/* room.h -- texts that cannot fit the context are refused by their bytes, before they are tokenized. */
#ifndef SP_SERVER_API_ROOM_H
#define SP_SERVER_API_ROOM_H

#include "server/body/fields.h"
#include "server/http/call.h"

/* srv_room_most -- texts with more bytes than this cannot fit the context: the bytes of the longest tokens, and a
 * margin, since tokenizers may join characters and drop spaces. */
size_t srv_room_most(const sp_vocab *v, const sp_context_info *i);
/* srv_room_lacks -- whether the texts of a body are longer; the error is in *f. */
bool srv_room_lacks(const srv_call *call, srv_fields *f);

#endif
