/* embed_llama.cc -- llama.cpp's side of bench/embed.py --peer: vectors of the lines of a file, mean pooling, in batches
 * of whole texts. Not built by the Makefile; with the headers and libraries of a llama.cpp of your own:
 *
 *     c++ -O2 -std=c++17 -Iinclude -Iggml/include embed_llama.cc -lllama -lggml ... -o embed_llama
 *     bench/embed.py ... --peer "./embed_llama minilm-f32.gguf 512"
 *
 *     embed_llama MODEL BATCH FILE THREADS      prints {"tokens": N, "seconds": S}: tokens, pooling, normalization */
#include <llama.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace {

enum { MOST_TEXTS = 64, LONGEST = 256 /* tokens of a text, as the model's own files say */ };

double now()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

llama_context *create(llama_model *model, int batch, int threads)
{
    llama_context_params p = llama_context_default_params();
    p.n_ctx = p.n_batch = p.n_ubatch = (uint32_t)batch;
    p.n_seq_max = MOST_TEXTS;
    p.kv_unified = true;
    p.n_threads = p.n_threads_batch = threads;
    p.embeddings = true;
    p.pooling_type = LLAMA_POOLING_TYPE_MEAN;
    p.attention_type = LLAMA_ATTENTION_TYPE_NON_CAUSAL;
    return llama_init_from_model(model, p);
}

std::vector<llama_token> tokens_of(const llama_vocab *vocab, const std::string &text)
{
    std::vector<llama_token> t(text.size() + 8);
    const int n = llama_tokenize(vocab, text.data(), (int)text.size(), t.data(), (int)t.size(), true, true);
    if (n < 0) exit(1);
    if (n > LONGEST) t[LONGEST - 1] = t[(size_t)n - 1]; /* the end stays */
    t.resize((size_t)(n < LONGEST ? n : LONGEST));
    return t;
}

void add(llama_batch *b, const std::vector<llama_token> &t, int text)
{
    for (size_t k = 0; k < t.size(); k++, b->n_tokens++) {
        b->token[b->n_tokens] = t[k];
        b->pos[b->n_tokens] = (llama_pos)k;
        b->n_seq_id[b->n_tokens] = 1;
        b->seq_id[b->n_tokens][0] = text;
        b->logits[b->n_tokens] = 1;
    }
}

/* compute -- the vectors of a batch, of length 1; empties it. */
void compute(llama_context *x, llama_batch *b, int n_texts, int n_dims, std::vector<float> *out)
{
    if (b->n_tokens && llama_encode(x, *b) != 0) exit(1);
    for (int i = 0; i < n_texts; i++) {
        const float *e = llama_get_embeddings_seq(x, i);
        double square = 0;
        for (int k = 0; k < n_dims; k++) square += (double)e[k] * e[k];
        for (int k = 0; k < n_dims; k++) out->push_back(e[k] / (float)std::sqrt(square));
    }
    b->n_tokens = 0;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 5) return fprintf(stderr, "usage: embed_llama MODEL BATCH FILE THREADS\n"), 2;
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_backend_init();
    llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    const int batch = atoi(argv[2]);
    llama_context *x = model ? create(model, batch, atoi(argv[4])) : nullptr;
    if (!x) return 1;
    std::vector<std::string> texts;
    std::ifstream file(argv[3]);
    for (std::string line; std::getline(file, line);) texts.push_back(line);
    const double from = now();
    llama_batch b = llama_batch_init(batch, 0, 1);
    std::vector<float> out;
    long total = 0;
    int n = 0;
    for (const std::string &text : texts) {
        const std::vector<llama_token> t = tokens_of(llama_model_get_vocab(model), text);
        if (b.n_tokens + (int)t.size() > batch || n == MOST_TEXTS) {
            compute(x, &b, n, llama_model_n_embd(model), &out);
            n = 0;
        }
        add(&b, t, n++);
        total += (long)t.size();
    }
    compute(x, &b, n, llama_model_n_embd(model), &out);
    printf("{\"tokens\": %ld, \"seconds\": %.4f}\n", total, now() - from);
    return 0;
}
