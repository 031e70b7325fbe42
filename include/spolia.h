/* spolia.h -- the public C interface of Spolia, an inference engine for retrieval-augmented generation that keeps
 * the keys and values of documents and reuses them in new prompts. It includes a header for each subject:
 *
 *   spolia_base.h       the version, error codes, log lines
 *   spolia_context.h    a model, its KV memory and what is cached
 *   spolia_prompt.h     prompts: segments, chunks, chats, trees
 *   spolia_request.h    requests and their results
 *   spolia_tokens.h     tokens, templates, logits
 *   spolia_index.h      documents -> an index -> the best chunks
 *   spolia_store.h      copies on disk
 *   spolia_copies.h     what is cached, as a tree
 *   spolia_graph.h      knowledge graphs
 *   spolia_documents.h  documents with a life cycle: registered, computed ahead, replaced, deleted
 *   spolia_quality.h    quality: exact, balanced, fast, as calibrated for a model
 *   spolia_embed.h      vectors of texts
 *   spolia_search.h     search by words and by meaning
 *   spolia_collections.h  named sets of registered documents
 *
 * One rule for NULL: options that are NULL, or zeroed, mean all defaults; a required argument that is
 * NULL is SP_E_ARG, whose detail names the function and the argument. Functions that destroy, close,
 * stop, cancel or free ignore NULL; functions that count or describe return zeros for it. */
#ifndef SPOLIA_H
#define SPOLIA_H

#define SPOLIA_VERSION "0.1.0"

#include "spolia_base.h"
#include "spolia_context.h"
#include "spolia_prompt.h"
#include "spolia_request.h"
#include "spolia_tokens.h"
#include "spolia_index.h"
#include "spolia_store.h"
#include "spolia_copies.h"
#include "spolia_graph.h"
#include "spolia_documents.h"
#include "spolia_quality.h"
#include "spolia_embed.h"
#include "spolia_search.h"
#include "spolia_collections.h"

#endif
