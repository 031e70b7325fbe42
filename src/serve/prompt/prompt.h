/* prompt.h -- from texts to segments: what the public sp_prompt_* functions build.
 *
 *   BOS? + opening of the system turn + its text + closing + opening of the user's turn   SP_SEG_SYSTEM
 *   "[title]\ntext\n\n"                                                                   SP_SEG_CHUNK
 *   what the user wrote + closing + opening of the assistant's turn                       SP_SEG_QUESTION
 *   an earlier answer                                                                     SP_SEG_TEXT
 *   a node of a dependency tree                                                           SP_SEG_NODE
 *
 * A segment is cut on text and tokenized on its own, so a chunk has the same tokens, and the same
 * content id, at any position. Template text joins the words before it, or else the words after
 * it, but never a chunk or an answer, which were cached without it. Template text is tokenized
 * with special tokens, user text without.
 *
 * Threads: a prompt belongs to one thread at a time; different threads may build prompts of one
 * context at the same time (shared state is constant, or locked: sp_known).
 */
#ifndef SP_SERVE_PROMPT_H
#define SP_SERVE_PROMPT_H

#include "base/mem.h"
#include "kv/segment.h"
#include "model/template/chat.h"
#include "model/tokenizer/tokenizer.h"
#include "serve/prompt/cut.h"
#include "serve/prompt/repeats.h"
#include "spolia.h"

/* Is told of each chunk that sp_prompt_chunk adds to a prompt, on the prompt's thread. */
typedef struct sp_chunk_watch {
    sp_err (*added)(void *user, const sp_prompt *p, const char *title, const char *text); /* NULL: nobody watches */
    void *user;
} sp_chunk_watch;

/* What a prompt is made for; fixed for a context. */
typedef struct sp_prompt_space {
    const sp_tokenizer *tokenizer;
    sp_chat_family chat;
    const char *chat_template; /* Jinja; or NULL */
    sp_digest space;           /* namespace of content ids: model, KV type, layout */
    const char *salt;          /* tenant, or NULL */
    int n_vocab;
    sp_known *known;     /* texts of chunks so far; owned by the context */
    sp_repeats *repeats; /* texts of messages so far; owned by the context */
    sp_chunk_watch watch; /* of registered documents; set while no prompt is made */
} sp_prompt_space;

/* sp_context_prompts -- the context's; valid as long as the context. */
const sp_prompt_space *sp_context_prompts(const sp_context *c);

/* What may be appended to the last segment. */
typedef enum sp_tail {
    SP_TAIL_SEALED,   /* nothing: there is no segment, or it is a chunk, an answer, or plain text */
    SP_TAIL_TEMPLATE, /* words and template text: so far it is only template text */
    SP_TAIL_WORDS,    /* template text */
} sp_tail;

struct sp_prompt {
    const sp_prompt_space *space; /* borrowed from the context */
    const char *salt;             /* its tenant, in `arena`; or NULL */
    uint64_t tenant;              /* sp_known_tenant(salt) */
    SP_VEC(sp_segment) segs;      /* tokens in `arena` */
    sp_arena arena;
    int n_tokens;
    int n_base;  /* segments before the first tree, which its roots look at; 0: no trees */
    int32_t end; /* with trees: the position after the largest of all segments */
    sp_tree_mode trees;
    sp_role role; /* of the last turn; valid if n_turns > 0 */
    int n_turns;
    sp_chunk_find find; /* which chunks to find in texts */
    bool in_turn; /* the last turn has not ended */
    bool thinks;  /* the prompt ends within thoughts */
    bool continues; /* the prompt ends with an answer that has begun */
    bool closed;  /* the assistant's turn has begun: the prompt is complete */
    sp_tail tail;
};

/* sp_chunk_form -- appends a chunk as sp_prompt_chunk writes it. */
sp_err sp_chunk_form(const char *title, const char *text, sp_bytes *out) SP_MUST_CHECK;
/* sp_prompt_piece -- appends a chunk whose text is already formatted. */
sp_err sp_prompt_piece(sp_prompt *p, const char *text, size_t n) SP_MUST_CHECK;

/* Used by prompt_tree.c and prompt_template.c to build segments. */

enum { SP_PROMPT_MAX_SEGMENTS = 65500 }; /* spans of a plan */

/* sp_prompt_check_open -- SP_E_ARG after the question. */
sp_err sp_prompt_check_open(const sp_prompt *p) SP_MUST_CHECK;
/* sp_prompt_start -- adds BOS to an empty prompt, if the model wants one. */
sp_err sp_prompt_start(sp_prompt *p) SP_MUST_CHECK;
/* sp_prompt_push -- appends a segment of n tokens with kind, parent, place and origin of `seg`. */
sp_err sp_prompt_push(sp_prompt *p, sp_segment seg, const int32_t *ids, size_t n) SP_MUST_CHECK;

/* sp_prompt_add_template -- joins the words that precede it, or else the words that follow it. */
sp_err sp_prompt_add_template(sp_prompt *p, const char *text, size_t n) SP_MUST_CHECK;
/* sp_prompt_note_end -- sets `thinks` if the prompt's last text ends with <think> or another opening tag. */
void sp_prompt_note_end(sp_prompt *p, const char *text, size_t n);
/* sp_prompt_note_begun -- the same for an answer that has begun: sets `thinks` if a tag of the turn's text is open. */
void sp_prompt_note_begun(sp_prompt *p, const char *text, size_t n);
/* sp_prompt_add_begun -- appends the text that the answer continues: a segment of its own, as that of an answer that
 * was cut, but after documents a part of the question, which policies look for in the last segment. */
sp_err sp_prompt_add_begun(sp_prompt *p, const char *text, size_t n) SP_MUST_CHECK;
/* sp_prompt_add_words -- appends words of p->role; `joins`: they continue words of the same turn. */
sp_err sp_prompt_add_words(sp_prompt *p, const char *text, size_t n, bool joins) SP_MUST_CHECK;
/* sp_prompt_add_cut -- as sp_prompt_add_words, but finds chunks in the words. */
sp_err sp_prompt_add_cut(sp_prompt *p, const char *text, size_t n) SP_MUST_CHECK;

#endif
