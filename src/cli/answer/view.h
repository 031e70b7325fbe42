/* view.h -- a part of a text, which is read from its beginning. */
#ifndef SP_CLI_VIEW_H
#define SP_CLI_VIEW_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cli_view {
    const char *s;
    size_t n;
} cli_view;

void cli_view_skip(cli_view *v, size_t n);
void cli_view_skip_space(cli_view *v);
bool cli_view_take(cli_view *v, const char *text);
/* cli_view_may_begin -- whether v begins with `text`, or may once it has grown. */
bool cli_view_may_begin(const cli_view *v, const char *text);

#endif
