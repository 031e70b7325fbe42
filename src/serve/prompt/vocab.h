/* vocab.h -- sp_vocab: the tokenizer of a model, and its chat template. */
#ifndef SP_SERVE_VOCAB_H
#define SP_SERVE_VOCAB_H

#include "model/model.h"
#include "spolia.h"

struct sp_vocab {
    const sp_tokenizer *tokenizer;
    sp_model *model;           /* owned if opened by sp_vocab_open; NULL inside a context */
    struct sp_encoder *encoder; /* in place of the model */
    const char *chat_template; /* of the model; or NULL */
};

#endif
