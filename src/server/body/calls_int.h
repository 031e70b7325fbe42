/* calls_int.h -- parsers of calls: forms with an object of name and arguments (calls.c) and forms that name the
 * function in another way (calls_named.c, calls_python.c). A function that takes a form moves *v past it and appends
 * to `calls`, or returns false and changes neither. */
#ifndef SP_SERVER_BODY_CALLS_INT_H
#define SP_SERVER_BODY_CALLS_INT_H

#include "cli/answer/view.h"
#include "server/body/tools.h"

/* srv_calls_tool -- the function of this name, or NULL. */
const json_t *srv_calls_tool(const srv_tools *t, const char *name);
bool srv_calls_add(json_t *calls, const char *name, const json_t *arguments);
/* srv_calls_scan -- skips a JSON value without checking it; false: it is incomplete. */
bool srv_calls_scan(cli_view *v);
/* srv_calls_begun -- a call whose arguments have begun. Owned by the caller. */
json_t *srv_calls_begun(const char *name, const cli_view *arguments);
/* srv_calls_take_json -- a JSON value, or NULL. Owned by the caller. */
json_t *srv_calls_take_json(cli_view *v);

/* -- calls_named.c ---------------------------------------------------------------------------- */

/* name {...}, with the marks of Mistral, DeepSeek, GLM-4 and Functionary around it. */
bool srv_calls_take_named(const srv_tools *t, cli_view *v, json_t *calls);
/* srv_calls_open_named -- the same for a call whose arguments are incomplete; NULL: none has begun. */
json_t *srv_calls_open_named(const srv_tools *t, cli_view v);
/* srv_calls_may_be_named -- whether v is one, or may become one. */
bool srv_calls_may_be_named(const srv_tools *t, cli_view v);
/* <function=name>{...}</function>, or with <parameter=key>value</parameter> in place of the object. */
bool srv_calls_take_function(const srv_tools *t, cli_view *v, json_t *calls);
json_t *srv_calls_open_function(const srv_tools *t, cli_view v);
/* name <arg_key>key</arg_key> <arg_value>value</arg_value> ... </tool_call>, after its <tool_call>. */
bool srv_calls_take_pairs(const srv_tools *t, cli_view *v, json_t *calls);

/* -- calls_python.c --------------------------------------------------------------------------- */

/* [f(key=value, ...), ...], with the marks of Llama 4, LFM2 and OLMo 3 around it. */
bool srv_calls_take_python(const srv_tools *t, cli_view *v, json_t *calls);

#endif
