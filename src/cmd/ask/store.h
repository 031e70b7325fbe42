/* store.h -- where `spolia ask` keeps copies on disk when --store names no folder. */
#ifndef SP_CMD_ASK_STORE_H
#define SP_CMD_ASK_STORE_H

#include "cli/options/model_options.h"

typedef struct ask_store {
    char path[4096]; /* "" : none was chosen */
    bool said;       /* the folder was there before */
} ask_store;

/* ask_store_choose -- FILE.kv beside the index if it is there; else, with an exact policy, a small store in the
 * user's cache. Sets m->ctx.store to s->path, unless it is set. Before model_options_open. index NULL: none. */
void ask_store_choose(ask_store *s, model_options *m, const char *index);
/* ask_store_say -- one line when the store in the user's cache is new. After model_options_open. */
void ask_store_say(const ask_store *s, const model_options *m);

#endif
