/* spolia_prompt.h -- prompts: segments, each tokenized on its own. spolia.h includes it. */
#ifndef SPOLIA_PROMPT_H
#define SPOLIA_PROMPT_H

#include "spolia_context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sp_prompt sp_prompt;

/* Thread: a prompt belongs to one thread at a time; any number of threads may build prompts of one
 * context at the same time. */
SP_API sp_err sp_prompt_create(sp_context *c, sp_prompt **out);
/* sp_prompt_create_for -- for a context that serves several tenants: uses the tenant's salt instead of the context's.
 * A prompt of one salt never finds copies of another, nor learns that they exist. */
SP_API sp_err sp_prompt_create_for(sp_context *c, const char *salt, sp_prompt **out);
SP_API void sp_prompt_destroy(sp_prompt *p);

/* A question over documents, in the turns of the model's own chat template:
 *     sp_prompt_system, then sp_prompt_chunk for each chunk, then sp_prompt_question.
 * title may be NULL. Document text is data: texts of special tokens in it stay plain text.
 * Errors: SP_E_NOMEM; SP_E_ARG when the order is wrong. */
SP_API sp_err sp_prompt_system(sp_prompt *p, const char *text);
SP_API sp_err sp_prompt_chunk(sp_prompt *p, const char *title, const char *text);
SP_API sp_err sp_prompt_question(sp_prompt *p, const char *text);

/* A node of a dependency tree. In a prompt it sees what precedes the first tree (the system text), its ancestors and
 * itself, but no other branch and no other tree. */
typedef struct sp_prompt_node {
    const char *text; /* tokenized alone; ancestors and node together are read as one text */
    int parent;       /* index of an earlier node of the same call; -1: a root */
} sp_prompt_node;

/* Positions of the nodes of trees.
 *   SP_TREE_EXACT    count depth: each tree begins right after the system text, siblings share positions,
 *                    and what follows the trees is positioned after the longest path. The KV of a node depends
 *                    only on its path: once computed it is reused, exactly, in every prompt that has
 *                    the path.
 *   SP_TREE_SHIFTED  are consecutive, as in a linear prompt. A copy of a node serves its path at any
 *                    position, rotated. That is approximate: its distances to the system text, and to
 *                    ancestors that had other descendants, stay as they were when it was computed. */
typedef enum sp_tree_mode {
    SP_TREE_EXACT,
    SP_TREE_SHIFTED,
} sp_tree_mode;

/* sp_prompt_tree_mode -- to be called before the first tree; the default is SP_TREE_EXACT. Errors: SP_E_ARG.
 * Source: DepCache section 4.1 (D4). */
SP_API sp_err sp_prompt_tree_mode(sp_prompt *p, sp_tree_mode mode);

/* sp_prompt_tree -- n nodes of trees, after sp_prompt_system:
 *     sp_prompt_system, then sp_prompt_tree any number of times, then sp_prompt_question.
 * What follows the trees sees all of them. Prompts with trees need an exact policy: any other is replaced by "prefix".
 * A node without text adds no segment. After an error the prompt can only be destroyed.
 * Errors: SP_E_ARG (a parent that is not earlier, no system text), SP_E_LIMIT (65,500 segments, 256
 * levels), SP_E_NOMEM. Source: DepCache sections 3 and 4.1. */
SP_API sp_err sp_prompt_tree(sp_prompt *p, const sp_prompt_node *nodes, int n);
/* sp_prompt_list -- n items that do not see each other, such as search results or examples. Each gets a line end. The
 * copy of an item serves every list, in any order. Errors: as sp_prompt_tree. */
SP_API sp_err sp_prompt_list(sp_prompt *p, const char *const *items, int n);
/* sp_prompt_table -- n rows that see the header but not each other. Each gets a line end. */
SP_API sp_err sp_prompt_table(sp_prompt *p, const char *header, const char *const *rows, int n);

/* A conversation:
 *     sp_prompt_message for each turn so far, then sp_prompt_answer.
 * sp_prompt_message is sp_prompt_begin, the text, sp_prompt_end; between begin and end, texts and chunks may come in
 * any order. In the turns of users and tools, chunks that this context has seen are found (sp_prompt_cut). An earlier
 * answer is a segment of its own, so the copy made while it was generated is found. A system turn must come first. */
typedef enum sp_role { SP_ROLE_SYSTEM, SP_ROLE_USER, SP_ROLE_ASSISTANT, SP_ROLE_TOOL } sp_role;

SP_API sp_err sp_prompt_message(sp_prompt *p, sp_role role, const char *text);
SP_API sp_err sp_prompt_begin(sp_prompt *p, sp_role role);
SP_API sp_err sp_prompt_end(sp_prompt *p);
/* sp_prompt_answer -- ends an open turn and begins the assistant's; the prompt is then complete. */
SP_API sp_err sp_prompt_answer(sp_prompt *p);
/* sp_prompt_continue -- the same, and the assistant's turn has this text already, which the answer continues. */
SP_API sp_err sp_prompt_continue(sp_prompt *p, const char *text);

/* A document of sp_prompt_chat. */
typedef struct sp_chat_chunk {
    const char *title, *text; /* as in sp_prompt_chunk */
    int segment;              /* out: its index in the prompt */
} sp_chat_chunk;

typedef struct sp_chat_opts {
    const char *request;   /* JSON, as in sp_template_apply */
    const char *jinja;     /* a template instead of the model's; NULL: the model's */
    int64_t now;           /* seconds since 1970 */
    sp_chat_chunk *chunks; /* [n_chunks] before the text of messages[chunks_at] */
    int n_chunks, chunks_at;
} sp_chat_opts;

/* sp_prompt_chat -- a whole conversation by the model's own chat template, instead of
 * sp_prompt_message and sp_prompt_answer: the same segments, with what only the template knows (tools,
 * default texts, arguments). After an error the prompt is incomplete: the caller destroys it.
 * Errors: those of sp_template_apply; SP_E_ARG when the template does not show messages[chunks_at]. */
SP_API sp_err sp_prompt_chat(sp_prompt *p, const sp_chat_opts *o);
/* sp_prompt_thinks -- whether the prompt ends with <think> or a similar tag, or continues an answer within thoughts:
 * thoughts begin the answer. */
SP_API bool sp_prompt_thinks(const sp_prompt *p);

/* sp_prompt_text -- appends plain text as a segment; `special`: texts of special tokens are recognised. The first
 * segment begins with BOS if the model wants one. Empty text adds no segment, except for BOS. */
SP_API sp_err sp_prompt_text(sp_prompt *p, const char *text, bool special);
/* sp_prompt_fill -- asks for the text that is missing between two plain texts, from models that have tokens for it
 * ("<|fim_prefix|>" and so on). Errors: SP_E_UNSUPPORTED (the model has none). */
SP_API sp_err sp_prompt_fill(sp_prompt *p, const char *before, const char *after);
/* sp_prompt_cut -- appends plain text and finds chunks in it: each piece between two separators (a separator belongs
 * to the piece before it; the piece before the first one is the head, the piece after the last one the question), and
 * elsewhere texts that were chunks of this context before, exactly as sp_prompt_chunk writes them
 * ("[title]\ntext\n\n", at least 64 bytes). The text does not change, only its segments. separator NULL or "": none.
 * special: as in sp_prompt_text, for text outside chunks. */
SP_API sp_err sp_prompt_cut(sp_prompt *p, const char *text, const char *separator, bool special);
/* sp_prompt_find_chunks -- which chunks are found in later texts, besides those cut by a separator: known ones (the
 * default); known ones and repeats, which are passages of 256 bytes or more that occurred in an earlier, different
 * text and are learned at their second occurrence; or none. */
typedef enum sp_chunk_find { SP_FIND_KNOWN, SP_FIND_REPEATS, SP_FIND_NONE } sp_chunk_find;
SP_API sp_err sp_prompt_find_chunks(sp_prompt *p, sp_chunk_find find);
/* sp_prompt_tokens -- appends token ids as a segment. Errors: SP_E_ARG names an id outside the vocabulary. */
SP_API sp_err sp_prompt_tokens(sp_prompt *p, const int32_t *ids, size_t n);
SP_API int sp_prompt_n_tokens(const sp_prompt *p);
SP_API int sp_prompt_n_segments(const sp_prompt *p);

#ifdef __cplusplus
}
#endif

#endif
