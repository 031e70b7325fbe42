#include "server/body/unsupported.h"

#include <string.h>

/* Values that request nothing, besides null. */
typedef enum nothing {
    EMPTY,    /* false, 0, "", [], {} */
    ONE,      /* 1 and false */
    TRUE,     /* true */
    NEGATIVE, /* 0 and less, false */
    ONLY_TEXT /* ["text"] */
} nothing;

/* docs/server.md has the list, and the fields that are ignored. */
static const struct {
    const char *name;
    nothing nothing;
} fields[] = {
    /* ways to sample */
    {"use_beam_search", EMPTY},
    {"length_penalty", ONE},
    {"mirostat", EMPTY},
    {"dynatemp_range", EMPTY},
    {"xtc_probability", EMPTY},
    {"dry_multiplier", EMPTY},
    {"typical_p", ONE},
    {"tfs_z", ONE},
    {"top_a", EMPTY},
    {"top_n_sigma", NEGATIVE},
    {"epsilon_cutoff", EMPTY},
    {"eta_cutoff", EMPTY},
    {"samplers", EMPTY},
    {"logits_processors", EMPTY},
    {"bad_words", EMPTY},
    {"allowed_token_ids", EMPTY},
    {"thinking_budget", NEGATIVE},
    {"thinking_token_budget", NEGATIVE},
    /* the prompt */
    {"truncate_prompt_tokens", EMPTY},
    {"truncation_side", EMPTY},
    {"chat_template", EMPTY},
    {"prompt_embeds", EMPTY},
    {"image_data", EMPTY},
    {"multi_modal_data", EMPTY},
    {"input_prefix", EMPTY},
    {"input_suffix", EMPTY},
    {"lora", EMPTY},
    {"control_vectors", EMPTY},
    /* the answer */
    {"include_stop_str_in_output", EMPTY},
    {"skip_special_tokens", TRUE},
    {"detokenize", TRUE},
    {"return_tokens", EMPTY},
    {"return_token_ids", EMPTY},
    {"return_tokens_as_token_ids", EMPTY},
    {"response_fields", EMPTY},
    {"n_indent", EMPTY},
    {"t_max_predict_ms", NEGATIVE},
    {"n_probs", EMPTY},
    {"post_sampling_probs", EMPTY},
    {"prompt_logprobs", EMPTY},
    {"grammar_lazy", EMPTY},
    {"grammar_triggers", EMPTY},
    {"preserved_tokens", EMPTY},
    {"guided_whitespace_pattern", EMPTY},
    /* what this server does not do */
    {"audio", EMPTY},
    {"modalities", ONLY_TEXT},
    {"functions", EMPTY},
    {"function_call", EMPTY},
    {"web_search_options", EMPTY},
    {"kv_transfer_params", EMPTY},
};

static bool is_empty(const json_t *v)
{
    return json_is_false(v) || (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_object(v) && json_object_size(v) == 0) ||
           (json_is_number(v) && json_number_value(v) == 0) ||
           (json_is_string(v) && !*json_string_value(v));
}

static bool asks_for_nothing(const json_t *v, nothing kind)
{
    const char *first = json_string_value(json_array_get(v, 0));
    switch (kind) {
    case ONE:
        return json_is_false(v) || (json_is_number(v) && json_number_value(v) == 1);
    case TRUE:
        return json_is_true(v);
    case NEGATIVE:
        return json_is_false(v) || (json_is_number(v) && json_number_value(v) <= 0);
    case ONLY_TEXT:
        return is_empty(v) || (json_array_size(v) == 1 && first && strcmp(first, "text") == 0);
    default:
        return is_empty(v);
    }
}

void srv_fields_refuse_unsupported(srv_fields *f)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const json_t *v = srv_field(f, fields[i].name);
        if (v && !asks_for_nothing(v, fields[i].nothing))
            srv_fields_refuse(f, fields[i].name, "%s is not supported", fields[i].name);
    }
}
