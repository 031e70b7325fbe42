/* rag.c -- answers questions from a folder of documents, with the public interface only.
 *
 *     cc rag.c $(pkg-config --cflags --libs spolia) -o rag
 *     ./rag MODEL.gguf FOLDER "First question?" "Second question?"
 *
 * All questions share one context: the KV cache of a chunk that an earlier question retrieved is
 * reused, wherever the chunk is in the next prompt. */
#include <spolia.h>
#include <stdio.h>

static bool print_text(const char *text, size_t n, void *user)
{
    (void)user;
    return fwrite(text, 1, n, stdout) == n && fflush(stdout) == 0;
}

/* ask -- retrieves chunks, makes a prompt of them, streams the answer. */
static sp_err ask(sp_context *c, sp_index *index, const char *question)
{
    sp_hits hits = {0};
    sp_prompt *p = NULL;
    sp_request *r = NULL;
    const sp_request_opts o = {
        .sampling = sp_sampling_default(), .max_tokens = 64, .on_text = print_text};
    sp_err err = sp_index_search(index, question, 8, &hits);
    if (err == SP_OK) err = sp_prompt_create(c, &p);
    if (err == SP_OK) err = sp_prompt_system(p, "Answer the question from the documents.");
    for (int i = 0; err == SP_OK && i < hits.n; i++)
        err = sp_prompt_chunk(p, hits.v[i].title, hits.v[i].text);
    if (err == SP_OK) err = sp_prompt_question(p, question);
    if (err == SP_OK) err = sp_generate(c, p, &o, &r);
    if (err == SP_OK) {
        const sp_result *res = sp_request_result(r);
        printf("\n  [%d of %d tokens reused, first token after %.1f ms]\n", res->n_reused,
               res->n_prompt, (double)res->ttft_us / 1e3);
    }
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    sp_hits_fini(&hits);
    return err;
}

int main(int argc, char **argv)
{
    if (argc < 4) return fprintf(stderr, "usage: rag MODEL FOLDER QUESTION...\n"), 2;
    const sp_context_opts o = {.model = argv[1], .reuse = {.policy = "fusion", .recompute = 0.15f}};
    const char *folder = argv[2];
    sp_index *index = NULL;
    sp_context *c = NULL;
    sp_err err = sp_index_build(&folder, 1, "rag.db", NULL, NULL);
    if (err == SP_OK) err = sp_index_open("rag.db", &index);
    if (err == SP_OK) err = sp_context_open(&o, &c);
    for (int i = 3; err == SP_OK && i < argc; i++) err = ask(c, index, argv[i]);
    if (err != SP_OK) fprintf(stderr, "rag: %s (%s)\n", sp_error_detail(), sp_error_text(err));
    sp_context_close(c);
    sp_index_close(index);
    return err == SP_OK ? 0 : 1;
}
