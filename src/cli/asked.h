/* asked.h -- users' questions, and which chunks they find together (--similar together). */
#ifndef SP_CLI_ASKED_H
#define SP_CLI_ASKED_H

#include <stdbool.h>

#include "spolia.h"

/* cli_note_asked -- counts what each question of a file finds, one a line: its text, or a JSON object with
 * "question". path: "-" is standard input. False after an error message. */
bool cli_note_asked(sp_index *ix, const char *path);

/* cli_asked_wrong -- why --similar is no source, or cannot be combined with --asked, or NULL. */
const char *cli_asked_wrong(const char *similar, const char *asked);

#define CLI_SIMILAR_HELP                                                                                      \
    "which chunks are similar: bm25, neighbour (in the document), vectors (of spolia index --embedding), "     \
    "together (found by the same questions of --asked), graph (named by the same triples of the index's graph), "  \
    "random (a baseline) (bm25)"
#define CLI_ASKED_HELP "questions that users asked, for --similar together: one a line, or JSON lines with question"

#endif
