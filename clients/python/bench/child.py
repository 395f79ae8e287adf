"""The children of the benchmarks: python3 bench/child.py null | images | single | batch.

    null      16 environments that do nothing, as fast as this client goes
    images    the same with pictures of 64x64x3, filled anew at every step
    single    CartPole, one by one, with the layers that gymnasium.make puts around it
    batch     CartPole, in arrays
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import cartpole
import rlb


class Null:
    observation_space = rlb.Box(-1, 1, (4,))
    action_space = rlb.Box(-1, 1, (1,))

    def __init__(self, n):
        pass

    def reset(self, mask, seeds, out):
        pass

    def step(self, actions, mask, out):
        pass


class Images(Null):
    observation_space = rlb.Box(0, 255, (64, 64, 3), np.uint8)

    def __init__(self, n):
        self.frame = 0

    def step(self, actions, mask, out):
        self.frame = (self.frame + 1) % 256
        out.obs.fill(self.frame)


if __name__ == "__main__":
    kind = sys.argv[1]
    if kind == "single":
        rlb.serve(cartpole.make, state_size=4096)
    else:
        rlb.serve_batch({"null": Null, "images": Images, "batch": cartpole.Batch}[kind])
