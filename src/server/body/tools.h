/* tools.h -- the functions that a model may call, and its calls.
 *
 * A call is text of the answer, in the form of the model's template:
 *
 *   Hermes, Qwen       <tool_call>\n{"name": "f", "arguments": {...}}\n</tool_call>
 *   Nemotron, Apriel   <TOOLCALL>[{"name": "f", "arguments": {...}}]</TOOLCALL>, <tool_calls>[...]</tool_calls>
 *   Granite, Phi-4     <|tool_call|>[{"name": "f", "arguments": {...}}]<|/tool_call|>, functools[...]
 *   Mistral            [TOOL_CALLS][{"name": "f", "arguments": {...}}], [TOOL_CALLS]f[ARGS]{...}
 *   Llama 3            {"name": "f", "parameters": {...}}, or <function=f>{...}</function>
 *   Command R          <|START_ACTION|>[{"tool_name": "f", "parameters": {...}}]<|END_ACTION|>
 *   GLM-4, Functionary f\n{...}, further ones after >>>
 *   GLM-4.5            <tool_call>f\n<arg_key>k</arg_key>\n<arg_value>v</arg_value>\n</tool_call>
 *   Qwen3-Coder        <tool_call>\n<function=f>\n<parameter=k>\nv\n</parameter>\n</function>\n</tool_call>
 *   MiniCPM5           <function name="f"><param name="k">v</param></function>; a v in <![CDATA[...]]> may have marks
 *   Seed-OSS           <seed:tool_call>\n<function=f>\n<parameter=k>v</parameter>\n</function>\n</seed:tool_call>
 *   DeepSeek           <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{...}\n```
 *                      <｜tool▁call▁end｜><｜tool▁calls▁end｜>; V3.1: f<｜tool▁sep｜>{...}
 *
 *   Kimi K2            <|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{...}
 *                      <|tool_call_end|><|tool_calls_section_end|>
 *   gpt-oss            <|channel|>commentary to=functions.f <|constrain|>json<|message|>{...}<|call|>
 *   Llama 4, LFM2      [f(k="v"), g()], perhaps within <|python_start|> or <|tool_call_start|>
 *   OLMo 3             <function_calls>\nf(k="v")\ng()\n</function_calls>
 *
 * Marks that are control tokens of a model ([TOOL_CALLS], <|python_tag|>) do not show in the text, so
 * all forms are read without them, too. Where the client requires a call, a grammar makes the answer
 * one. */
#ifndef SP_SERVER_BODY_TOOLS_H
#define SP_SERVER_BODY_TOOLS_H

#include "server/body/fields.h"
#include "spolia.h"

#define SRV_MAX_TOOLS 128

typedef enum srv_tool_form {
    SRV_TOOLS_HERMES,
    SRV_TOOLS_MISTRAL,
    SRV_TOOLS_LLAMA3,
    SRV_TOOLS_GRANITE,
    SRV_TOOLS_COMMAND_R,
    SRV_TOOLS_HARMONY, /* gpt-oss */
    SRV_TOOLS_KIMI,
    SRV_TOOLS_DEEPSEEK,    /* V3, R1 */
    SRV_TOOLS_DEEPSEEK_31,
    SRV_TOOLS_GLM_45,
    SRV_TOOLS_GLM_4,
    SRV_TOOLS_QWEN_CODER,
} srv_tool_form;

typedef struct srv_tools {
    json_t *list;  /* may be called; borrowed from the body: [{"type": "function", "function": {...}}]; NULL: none */
    json_t *shown; /* are in the prompt: all of them */
    bool must;     /* the answer is a call */
    const char *only; /* of this function; NULL: of any */
    bool several;     /* more than one call in an answer */
} srv_tools;

/* srv_tools_read -- the fields tools, tool_choice and parallel_tool_calls; errors are in *f. */
void srv_tools_read(srv_tools *t, srv_fields *f);
/* srv_tools_form -- of the calls that a template (Jinja, or NULL) teaches; *shows: it lists tools
 * itself. */
srv_tool_form srv_tools_form(const char *jinja, bool *shows);
/* srv_tools_grammar -- of calls, of which an answer has at least one. Pre: t->list. NULL: an error in *f. Owns:
 * sp_grammar_destroy. */
sp_grammar *srv_tools_grammar(const srv_tools *t, srv_tool_form form, srv_fields *f);

/* The text and the calls of an answer. */
typedef struct srv_calls {
    size_t n_text; /* bytes at its beginning that are text, not a call */
    json_t *v;     /* [{"name", "arguments"}], arguments as text; complete calls only. Owned */
    json_t *open;  /* the call after them that has begun: {"name", "arguments"}, the beginning of its
                      arguments; NULL: none, or not known yet. Owned */
} srv_calls;

typedef enum srv_end {
    SRV_GROWS, /* the answer grows: a possible call is neither text nor a call yet */
    SRV_WHOLE, /* it is complete: an incomplete call is text */
    SRV_CUT,   /* cut by its length limit: a call that has begun is `open`, and if a call is required, its
                  beginning is not text */
} srv_end;

/* srv_end_of -- of an answer that is done. */
srv_end srv_end_of(const sp_result *r);
/* srv_calls_read -- of an answer, or of its text so far. */
void srv_calls_read(const srv_tools *t, const char *text, size_t n, srv_end end, srv_calls *out);

#endif
