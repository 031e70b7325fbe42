/* index.h -- folders of documents as chunks in one SQLite file, searched with BM25 (FTS5).
 * The functions (sp_index_build, sp_index_open, sp_index_search ...) and their types are public:
 * include/spolia.h declares them with their contracts. In addition, for the floors that use them:
 *
 * sp_index_build   If the chunk size differs from the index's, every file is read again.
 *                  A file with the size and time recorded in the index is taken as unchanged
 *                  without reading it, unless its time is so recent that a later write could
 *                  share it.
 * sp_index_search  The title counts more than the text. At most 256 different words of a question
 *                  count.
 * sp_hits.strings  is an sp_arena *.
 */
#ifndef SP_RETRIEVE_INDEX_INDEX_H
#define SP_RETRIEVE_INDEX_INDEX_H

#include "retrieve/text/chunker.h"

#endif
