"""The environments of the benchmarks without the bridge: alone.py single | seeded | batch.

Reads numbers of steps from standard input, plays so many of 16 environments, and says after each how many seconds it took.
"""

import itertools
import sys
import time
import types

import numpy as np

import cartpole

N = 16
ACTIONS = np.random.default_rng(0).integers(0, 2, (4096, N), dtype=np.int32)


def single(seeds=None):
    vector = cartpole.Sync(N, seeds)
    vector.reset(0)
    for actions in itertools.cycle(ACTIONS):
        yield vector.step(actions)


def batch():
    vector, mask, seeds = cartpole.Batch(N), np.ones(N, bool), np.arange(N, dtype=np.uint64)
    out = types.SimpleNamespace(obs=np.zeros((N, 4), np.float32), reward=np.zeros(N, np.float32),
                                terminated=np.zeros(N, bool), truncated=np.zeros(N, bool))
    vector.reset(mask, seeds, out)
    for actions in itertools.cycle(ACTIONS):
        vector.step(actions, mask, out)
        done, final = out.terminated | out.truncated, None
        if done.any():
            final = out.obs.copy()
            seeds += np.uint64(N)
            vector.reset(done, seeds, out)
        yield out, final


if __name__ == "__main__":
    play = {"single": single, "seeded": lambda: single(itertools.count()), "batch": batch}[sys.argv[1]]()
    for line in sys.stdin:
        began = time.perf_counter()
        for _ in range(int(line)):
            next(play)
        print(time.perf_counter() - began, flush=True)
