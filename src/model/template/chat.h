/* chat.h -- writes the turns of a conversation in the format of the model's chat template.
 *
 * A template is recognised by the marks in its text, never executed. A turn is `before` + content +
 * `after`, so a prompt can be split into segments inside a turn (documents in a user turn) before
 * it is tokenized.
 */
#ifndef SP_MODEL_CHAT_H
#define SP_MODEL_CHAT_H

#include "base/mem.h"
#include "spolia.h"

typedef enum sp_chat_family {
    SP_CHAT_NONE, /* no template: contents are joined by blank lines */
    SP_CHAT_CHATML,
    SP_CHAT_LLAMA2,
    SP_CHAT_LLAMA3,
    SP_CHAT_MISTRAL,
} sp_chat_family;

/* sp_chat_detect -- the family whose marks the template contains; jinja may be NULL. */
sp_chat_family sp_chat_detect(const char *jinja);
const char *sp_chat_name(sp_chat_family f);

/* sp_chat_before / sp_chat_after -- the text around a turn's content. `first`: it is the first
 * turn; `after_system`: the previous turn is a system turn (families that put the system text
 * inside the first user turn need both). The texts contain special tokens: tokenize with
 * SP_TOK_SPECIAL. */
const char *sp_chat_before(sp_chat_family f, sp_role role, bool first, bool after_system);
const char *sp_chat_after(sp_chat_family f, sp_role role);
/* sp_chat_open -- the text after the last turn that starts the answer; may be empty. */
const char *sp_chat_open(sp_chat_family f);

#endif
