/* pre_table.c -- the published pre-tokenizers: their patterns, and the names of them in GGUF files.
 *
 * A pre-tokenizer is a list of steps. The first splits the text, each later one the pieces of the one before. The
 * steps are regular expressions as in tokenizer.json; ByteLevel, Digits and Punctuation are written as equivalent
 * expressions. So a file of either format is recognised by its steps.
 */
#include <string.h>

#include "model/tokenizer/pretokenize.h"

/* -- parts that the families share ----------------------------------------------------------- */

#define S           "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define ENDINGS     "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORD        "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define SYMBOLS     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define MODERN(n)   S "|" WORD "|" n "|" SYMBOLS "|" ENDINGS
#define CLASSIC     "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define DIGIT       "\\p{N}"
#define DIGITS      "\\p{N}+"
#define THREE       "\\p{N}{1,3}"
#define PUNCTUATION "[\\p{P}\\$\\+<=>\\^~\\|`]+"

/* Words that begin with capitals and end in lower case. `a`, `z`: more of the classes; `end`: a suffix. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define LEAD  "[^\\r\\n\\p{L}\\p{N}]?"
#define CASED(end, n)                                                                              \
    LEAD UPPER "*" LOWER "+" end "|" LEAD UPPER "+" LOWER "*" end "|" n                            \
               "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" ENDINGS

/* Kimi: the same without Chinese characters, which are words of their own. */
#define NOT_HAN_UPPER "(?:(?!\\p{Han})" UPPER ")"
#define NOT_HAN_LOWER "(?:(?!\\p{Han})" LOWER ")"

#define CHINESE      "[一-龥ࠀ-一가-퟿]+"
#define CHINESE_KANA "[一-龥぀-ゟ゠-ヿ]+"
#define AFTER_SYMBOL "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
#define DEEPSEEK3                                                                                  \
    AFTER_SYMBOL "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "                                    \
                 "?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
#define NO_STOPS " ?[^(\\s|.,!?…。，、।۔،)]+"

/* DeepSeek LLM: the letters of scripts with two cases, as published. */
#define CASED_SCRIPTS                                                                                      \
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ"                                    \
    "-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-"                  \
    "ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-"     \
    "Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-" \
    "ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-"          \
    "𐑏𐒰"                                                                                             \
    "-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"

/* -- the table ------------------------------------------------------------------------------- */

static const struct pattern {
    const char *name;
    const char *steps[SP_PRE_MAX_STEPS]; /* the rest is NULL */
} patterns[] = {
    [SP_PRE_GPT2] = {"gpt-2", {CLASSIC}},
    [SP_PRE_LLAMA3] = {"llama-3", {MODERN(THREE)}},
    [SP_PRE_QWEN2] = {"qwen2", {MODERN(DIGIT)}},
    [SP_PRE_QWEN35] = {"qwen35",
                       {S "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "
                          "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" ENDINGS}},
    [SP_PRE_SMOLLM] = {"smollm", {DIGIT, CLASSIC}},
    [SP_PRE_FALCON] = {"falcon", {PUNCTUATION, CLASSIC, "[0-9][0-9][0-9]"}},
    [SP_PRE_FALCON_DIGITS] = {"falcon", {PUNCTUATION, CLASSIC, DIGITS, "[0-9][0-9][0-9]"}},
    [SP_PRE_DEEPSEEK_LLM] = {"deepseek-llm",
                             {"[\r\n]", "\\s?[" CASED_SCRIPTS "]+",
                              "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", CHINESE, DIGITS}},
    [SP_PRE_DEEPSEEK_CODER] = {"deepseek-coder",
                               {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CHINESE, DIGIT}},
    [SP_PRE_DEEPSEEK3] = {"deepseek-v3", {THREE, CHINESE_KANA, DEEPSEEK3}},
    [SP_PRE_PORO] = {"poro-chat", {NO_STOPS}},
    [SP_PRE_VIKING] = {"viking", {NO_STOPS, DIGIT}},
    [SP_PRE_TEKKEN] = {"tekken", {CASED("", DIGIT)}},
    [SP_PRE_GPT4O] = {"gpt-4o", {CASED(S "?", THREE)}},
    [SP_PRE_KIMI] = {"kimi-k2",
                     {"[\\p{Han}]+|" LEAD NOT_HAN_UPPER "*" NOT_HAN_LOWER "+" S
                      "?|" LEAD NOT_HAN_UPPER "+" NOT_HAN_LOWER "*" S "?|\\p{N}{1,3}|" SYMBOLS
                      "|" ENDINGS}},
    [SP_PRE_SUPERBPE] = {"superbpe", {DIGITS, SP_PRE_THOUSANDS}},
    [SP_PRE_BAILING] = {"bailingmoe",
                        {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| "
                         "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"
                         "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    [SP_PRE_SEED_CODER] = {"seed-coder",
                           {S "|" WORD
                              "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"}},
    [SP_PRE_EXAONE_MOE] = {"exaone-moe",
                           {S
                            "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| "
                            "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    [SP_PRE_CHAMELEON] = {"chameleon",
                          {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
                           "([\\t\\n]|    |  )", DIGIT, "[\\p{P}!-/:-@\\[-`{-~]", CLASSIC}},
    [SP_PRE_YOUTU] =
        {"youtu",
         {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+"
          "|" CHINESE_KANA,
          CASED(S "?", DIGIT)}},
    [SP_PRE_MINICPM5] = {"minicpm5", {THREE, MODERN(DIGITS)}},
    [SP_PRE_LAGUNA] = {"laguna", {"[^\\n]+|[\\n]+", MODERN(DIGIT)}},
    [SP_PRE_TINY_AYA] = {"tiny_aya", {"\\d{1,3}(?=(?:\\d{3})*\\b)", CASED(S "?", THREE)}},
    [SP_PRE_UFAKZEKA] = {"ufakzeka", {WORD "|" DIGIT "|" SYMBOLS "|" ENDINGS}},
};

/* Names that converters write. */
static const sp_pre_row rows[] = {
    {"gpt-2", SP_PRE_GPT2},
    {"phi-2", SP_PRE_GPT2},
    {"mpt", SP_PRE_GPT2},
    {"olmo", SP_PRE_GPT2},
    {"jais", SP_PRE_GPT2},
    {"exaone4", SP_PRE_GPT2},
    {"trillion", SP_PRE_GPT2},
    {"gigachat", SP_PRE_GPT2},
    {"mellum", SP_PRE_GPT2},
    {"a.x-4.0", SP_PRE_GPT2},
    {"granite-docling", SP_PRE_GPT2},
    {"modern-bert", SP_PRE_GPT2},
    {"jina-es", SP_PRE_GPT2},
    {"jina-de", SP_PRE_GPT2},
    {"jina-v2-es", SP_PRE_GPT2},
    {"jina-v2-de", SP_PRE_GPT2},
    {"llama-bpe", SP_PRE_LLAMA3, true, true},
    {"llama3", SP_PRE_LLAMA3, true, true},
    {"llama-v3", SP_PRE_LLAMA3, true, true},
    {"falcon3", SP_PRE_LLAMA3, true, true},
    {"falcon-h1", SP_PRE_LLAMA3, true, true},
    {"pixtral", SP_PRE_LLAMA3, true, true},
    {"midm-2.0", SP_PRE_LLAMA3, true, true},
    {"lfm2", SP_PRE_LLAMA3, true, true},
    {"dbrx", SP_PRE_LLAMA3},
    {"smaug-bpe", SP_PRE_LLAMA3},
    {"glm4", SP_PRE_LLAMA3},
    {"chatglm-bpe", SP_PRE_LLAMA3},
    {"qwen2", SP_PRE_QWEN2},
    {"deepseek-r1-qwen", SP_PRE_QWEN2},
    {"stablelm2", SP_PRE_QWEN2},
    {"hunyuan", SP_PRE_QWEN2},
    {"megrez", SP_PRE_QWEN2},
    {"kormo", SP_PRE_QWEN2},
    {"f2llmv2", SP_PRE_QWEN2},
    {"grok-2", SP_PRE_QWEN2},
    {"solar-open", SP_PRE_QWEN2},
    {"qwen35", SP_PRE_QWEN35},
    {"smollm", SP_PRE_SMOLLM},
    {"starcoder", SP_PRE_SMOLLM},
    {"refact", SP_PRE_SMOLLM},
    {"command-r", SP_PRE_SMOLLM},
    {"codeshell", SP_PRE_SMOLLM},
    {"exaone", SP_PRE_SMOLLM},
    {"minerva-7b", SP_PRE_SMOLLM},
    {"mellum2", SP_PRE_SMOLLM},
    {"falcon", SP_PRE_FALCON},
    {"deepseek-llm", SP_PRE_DEEPSEEK_LLM},
    {"deepseek-coder", SP_PRE_DEEPSEEK_CODER},
    {"deepseek-v3", SP_PRE_DEEPSEEK3},
    {"hunyuan-dense", SP_PRE_DEEPSEEK3},
    {"joyai-llm", SP_PRE_DEEPSEEK3},
    {"hy_v4", SP_PRE_DEEPSEEK3},
    {"poro-chat", SP_PRE_PORO},
    {"bloom", SP_PRE_PORO},
    {"gpt3-finnish", SP_PRE_PORO},
    {"viking", SP_PRE_VIKING},
    {"tekken", SP_PRE_TEKKEN, true, true},
    {"gpt-4o", SP_PRE_GPT4O},
    {"llama4", SP_PRE_GPT4O},
    {"kanana2", SP_PRE_GPT4O},
    {"talkie", SP_PRE_GPT4O},
    {"minimax-m2", SP_PRE_GPT4O},
    {"kimi-k2", SP_PRE_KIMI},
    {"superbpe", SP_PRE_SUPERBPE},
    {"bailingmoe", SP_PRE_BAILING},
    {"bailingmoe2", SP_PRE_BAILING},
    {"llada-moe", SP_PRE_BAILING},
    {"seed-coder", SP_PRE_SEED_CODER},
    {"exaone-moe", SP_PRE_EXAONE_MOE},
    {"chameleon", SP_PRE_CHAMELEON, false, true},
    {"youtu", SP_PRE_YOUTU, true},
    {"minicpm5", SP_PRE_MINICPM5, true},
    {"laguna", SP_PRE_LAGUNA},
    {"tiny_aya", SP_PRE_TINY_AYA},
    {"cohere2moe", SP_PRE_TINY_AYA},
    {"ufakzeka", SP_PRE_UFAKZEKA},
};

/* -- look-up --------------------------------------------------------------------------------- */

const char *sp_pre_name(sp_pre_tokenizer kind)
{
    return patterns[kind].name;
}

const char *const *sp_pre_steps(sp_pre_tokenizer kind)
{
    return patterns[kind].steps;
}

const sp_pre_row *sp_pre_find(sp_text_view name)
{
    for (size_t i = 0; i < SP_COUNT(rows); i++)
        if (strlen(rows[i].name) == name.n && memcmp(rows[i].name, name.s, name.n) == 0)
            return &rows[i];
    return NULL;
}

const sp_pre_row *sp_pre_row_at(size_t i)
{
    return i < SP_COUNT(rows) ? &rows[i] : NULL;
}

bool sp_pre_from_steps(const char *const *steps, size_t n, sp_pre_tokenizer *out)
{
    for (size_t i = 0; n <= SP_PRE_MAX_STEPS && i < SP_COUNT(patterns); i++) {
        const char *const *mine = patterns[i].steps;
        size_t k = 0;
        while (k < n && mine[k] && strcmp(steps[k], mine[k]) == 0) k++;
        if (k < n || (n < SP_PRE_MAX_STEPS && mine[n])) continue;
        *out = (sp_pre_tokenizer)i;
        return true;
    }
    return false;
}

const char *sp_pre_step_regex(sp_pre_step kind)
{
    static const char *const steps[] = {[SP_STEP_BYTE_LEVEL] = CLASSIC,
                                        [SP_STEP_DIGIT] = DIGIT,
                                        [SP_STEP_DIGITS] = DIGITS,
                                        [SP_STEP_PUNCTUATION] = PUNCTUATION};
    return steps[kind];
}
