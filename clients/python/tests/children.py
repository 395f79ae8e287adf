"""Children of each kind, to be checked against the protocol: children.py KIND."""

import sys

import numpy as np

import rlb
from gymlike import Box, AutoresetMode, Dict, MultiDiscrete, SyncVectorEnv, Walk
from test_solver import solver


class Rich(Walk):
    """A Walk that is seen as a picture too, allows some choices, and can be drawn."""

    observation_space = Dict({"position": Box(-10, 10, (2,)), "image": Box(0, 255, (4, 6, 3), np.uint8), "action_mask": Box(0, 1, (5,), np.uint8)})
    action_space = MultiDiscrete([2, 3])
    render_mode = "rgb_array"

    def reset(self, *, seed=None, options=None):
        return self.see(super().reset(seed=seed)[0]), {}

    def step(self, action):
        assert action[1] != self.t % 3
        seen, reward, terminated, truncated, info = super().step(action[0])
        return self.see(seen), reward, terminated, truncated, info

    def see(self, seen):
        allowed = np.ones(5, np.uint8)
        allowed[2 + self.t % 3] = 0
        return {"position": np.float32(seen), "image": np.full((4, 6, 3), self.t, np.uint8), "action_mask": allowed}

    def render(self):
        return np.full((8, 8, 3), self.t, np.uint8)


class Batch:
    """Walks in arrays: from a seed's own beginning, by the action."""

    observation_space, action_space, state_size = rlb.Box(-np.inf, np.inf, (1,)), rlb.Box(-1, 1, (1,)), 8

    def __init__(self, n):
        self.x = np.zeros(n)

    def reset(self, mask, seeds, out):
        self.x[mask] = (seeds[mask] % 1000) / 1000
        out.obs[mask, 0] = self.x[mask]

    def step(self, actions, mask, out):
        self.x[mask] += actions[mask, 0]
        out.obs[mask, 0] = out.reward[mask] = self.x[mask]
        out.terminated[mask] = abs(self.x[mask]) > 2
        out.truncated[mask] = False

    def expert(self, actions):
        actions[:, 0] = -self.x

    def save(self, out):
        out[:] = self.x.view(np.uint8).reshape(-1, 8)

    def load(self, states):
        self.x[:] = np.ascontiguousarray(states).view(np.float64)[:, 0]


def vector(mode):
    rlb.serve_vector(lambda n: SyncVectorEnv([Walk] * n, mode), info=["t"], expert=lambda seen: seen[:, 0] < 0)


def allowed(seen, walk):
    """The expert of Rich: to the middle, and a choice that is allowed."""
    return [int(seen["position"][0] < 0), (walk.t + 1) % 3]


{
    "single": lambda: rlb.serve(Walk, info=["success", "t"], state_size=2000, expert=lambda seen: int(seen[0] < 0)),
    "rich": lambda: rlb.serve(Rich, num_envs=2, expert=allowed),
    "batch": lambda: rlb.serve_batch(Batch),
    "solver": lambda: solver(None, expert=lambda seen: int(seen[0] < 0)),
    "same step": lambda: vector(AutoresetMode.SAME_STEP),
    "next step": lambda: vector(AutoresetMode.NEXT_STEP),
    "disabled": lambda: vector(AutoresetMode.DISABLED),
}[sys.argv[1]]()
