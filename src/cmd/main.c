/* main.c -- the table of commands. A new command is a file of its own and a line here. */
#include "cmd/commands.h"
#include "doctor/doctor.h"
#include "lab/lab.h"

#define ASK     "Ask your documents"
#define INSIDE  "Look inside"
#define MEASURE "Measure quality and speed"
#define SET_UP  "Set up"

static const cli_command commands[] = {
    {"index", ASK, "cut documents into chunks and index them", cmd_index},
    {"ask", ASK, "answer questions from indexed documents, reusing their KV", cmd_ask},
    {"chat", ASK, "talk with a model, without documents", cmd_chat},
    {"search", ASK, "show the chunks that a question retrieves", cmd_search},
    {"precompute", ASK, "compute copies of all chunks of an index in advance", cmd_precompute},
    {"embed", ASK, "turn texts into vectors", cmd_embed},
    {"graph", ASK, "import knowledge graphs and find relation paths for questions",
     .subcommands = cmd_graphs},
    {"cache", ASK, "inspect, check, move or shrink a store of copies",
     .subcommands = cmd_caches},
    {"documents", ASK, "repair or rebuild a server's file of registered documents", .subcommands = cmd_documents},
    {"serve", ASK, "answer OpenAI-compatible clients over HTTP", cmd_serve},
    {"run", ASK, "generate text from a prompt", cmd_run},
    {"inspect", INSIDE, "print what a model file contains", cmd_inspect},
    {"tokenize", INSIDE, "turn text into token ids", cmd_tokenize},
    {"apply-template", INSIDE, "print a chat as the model's chat template writes it",
     cmd_apply_template},
    {"logits", INSIDE, "print the most likely next tokens after every position", cmd_logits},
    {"eval", MEASURE, "compare reuse policies with full attention on your questions", lab_eval},
    {"calibrate", MEASURE, "find the least recomputation that keeps answer quality", lab_calibrate},
    {"perplexity", MEASURE, "measure how well a model predicts a text", cmd_perplexity},
    {"sim", MEASURE, "simulate replacement policies on a trace, and plan memory", lab_sim},
    {"profile", MEASURE, "measure what computing tokens costs, for replacement and planning",
     lab_profile},
    {"bench", MEASURE, "measure the engine's speed on this machine", .subcommands = lab_benches},
    {"pull", SET_UP, "download a model from a Hugging Face hub", cmd_pull},
    {"doctor", SET_UP, "check this machine and what a model needs", doctor_main},
    {"config", SET_UP, "show what the config file and the environment set", cmd_config},
    {0},
};

int main(int argc, char **argv)
{
    return cli_main(commands, argc, argv);
}
