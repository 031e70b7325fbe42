/* line.h -- lines typed at a terminal, with editing and a history that outlives the program. */
#ifndef SP_CLI_LINE_H
#define SP_CLI_LINE_H

typedef struct line_reader line_reader;

/* line_open -- reads standard input, shows the prompt on standard error. The history is
 * $XDG_STATE_HOME/spolia/history, or ~/.local/state/spolia/history. NULL: no terminal to edit on. */
line_reader *line_open(const char *prompt);
/* line_read -- the next line without its end, borrowed until the next call; NULL at the end of the
 * input (Ctrl-D). Ctrl-C clears the line. */
const char *line_read(line_reader *l);
/* line_close -- saves the history. */
void line_close(line_reader *l);

#endif
