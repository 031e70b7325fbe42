/* prompt.h -- from texts to segments: what the public sp_prompt_* functions build.
 *
 *   segment 0   BOS? + system turn + what opens the user's turn        SP_SEG_SYSTEM
 *   segment i   "[title]\ntext\n\n"                                    SP_SEG_CHUNK
 *   last        "Question: ..." + what closes the turn and asks the    SP_SEG_QUESTION
 *               assistant to speak
 *
 * A plain text is cut at separators and around known chunks (serve/cut.h) into SP_SEG_TEXT and
 * SP_SEG_CHUNK.
 *
 * A segment is cut on text and tokenized on its own, so a chunk has the same tokens, and the same
 * content id, wherever it stands. Template text is tokenized with special tokens, what people
 * wrote without. */
#ifndef SP_SERVE_PROMPT_H
#define SP_SERVE_PROMPT_H

#include "base/mem.h"
#include "kv/segment.h"
#include "model/chat.h"
#include "model/tokenizer.h"
#include "serve/cut.h"

/* What a prompt is made for; fixed for a context. */
typedef struct sp_prompt_space {
    const sp_tokenizer *tokenizer;
    sp_chat_family chat;
    sp_digest space;  /* namespace of content ids: model, KV type, layout */
    const char *salt; /* tenant, or NULL */
    int n_vocab;
    sp_known *known; /* texts of chunks so far, or NULL; owned by the context */
} sp_prompt_space;

struct sp_prompt {
    const sp_prompt_space *space; /* borrowed from the context */
    SP_VEC(sp_segment) segs;      /* tokens in `arena` */
    sp_arena arena;
    int n_tokens;
    bool closed; /* a question ends a prompt over documents */
};

#endif
