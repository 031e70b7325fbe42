/* metrics.h -- how good an answer is, and how far two next-token distributions are apart. */
#ifndef SP_LAB_METRICS_H
#define SP_LAB_METRICS_H

typedef struct answer_score {
    double em;      /* 1: the normalised texts are equal */
    double f1;      /* of the words in common, counted as often as they occur */
    double rouge_l; /* F1 of the longest common subsequence of words */
} answer_score;

/* metric_normalise -- as SQuAD's evaluation: lower case, no ASCII punctuation, no articles, one
 * blank between words. Owns: free. */
char *metric_normalise(const char *text);

/* metric_score -- over normalised words; each measure is the best that a wanted answer gives. */
answer_score metric_score(const char *answer, const char *const *wanted, int n_wanted);

/* metric_kl -- KL(p || q) in nats of the distributions given by two rows of logits. */
double metric_kl(const float *p, const float *q, int n);

/* metric_best -- the index of the largest logit, the first of equals. */
int metric_best(const float *logits, int n);

#endif
