"""Times of pairs of requests, one to a server with a remote tier and one without: which are slower, beyond noise.

A single pair says little: on a machine with other work two servers that are alike differ by more than 10 % in a fifth
of all pairs. So two things are asked, beside a kind of pairs, `noise`, where the two servers are alike:

  share  is a larger share of first pairs beyond LIMIT than in noise? With a bootstrap over runs of RUN successive pairs,
         since a busy moment of the machine makes several slow. It finds costs that many requests have now and then.
  stays  a pair that is beyond LIMIT is played again, with everything that led to it: which are beyond it in each of the
         plays? Noise of share s leaves s ** plays of them. It finds costs that a request has each time.
"""
import math
import random

LIMIT, RUN, SAMPLES, SURE = 1.1, 12, 4000, 0.001
LEAST_RUNS = 8  # fewer do not show what varies between them


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def is_slow(pair):
    return pair[0] > LIMIT * pair[1]


def share(pairs):
    return sum(map(is_slow, pairs)) / len(pairs)


def stays(plays):
    """How many requests are slow in each play; plays: for each request, its pairs."""
    return sum(all(map(is_slow, p)) for p in plays)


def resample(pairs, rng):
    runs = [pairs[i:i + RUN] for i in range(0, len(pairs), RUN)]
    return [p for run in rng.choices(runs, k=len(runs)) for p in run]


def share_beyond(pairs, noise, seed=1):
    """The difference of the shares; its 95 % interval; its lower bound at the level SURE."""
    rng = random.Random(seed)
    found = sorted(share(resample(pairs, rng)) - share(resample(noise, rng)) for _ in range(SAMPLES))
    at = lambda q: found[min(SAMPLES - 1, int(q * SAMPLES))]
    return share(pairs) - share(noise), (at(0.025), at(0.975)), at(SURE)


def chance(k, n, p):
    """That at least k of n happen, each with probability p."""
    return 1 - sum(math.comb(n, i) * p**i * (1 - p)**(n - i) for i in range(k))


def verdict(plays, noise_plays, most_plays):
    """What is slower than noise: a list of words, empty if nothing is; plays: for each request, its pairs, the first
    one first."""
    pairs, noise = [p[0] for p in plays], [p[0] for p in noise_plays]
    found = []
    if min(len(pairs), len(noise)) >= LEAST_RUNS * RUN and share_beyond(pairs, noise)[2] > 0:
        found.append(f"a larger share beyond {LIMIT}x: {share(pairs):.1%}, noise {share(noise):.1%}")
    n = stays(plays)
    by_noise = max(share(noise) ** most_plays, stays(noise_plays) / len(noise_plays))
    if n and chance(n, len(plays), by_noise) < SURE:
        found.append(f"{n} requests beyond {LIMIT}x in each of {most_plays} plays")
    return found
