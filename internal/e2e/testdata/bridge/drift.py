"""A number that drifts, and that actions push, in episodes of four steps: drift.py [bare | pair]. Only the number is seen; the step and how the drift goes on are
hidden. Bare, it neither saves its state nor draws itself; a pair plays two environments, no more and no less."""

import sys

import numpy as np

import rlb


class Bare:
    observation_space, action_space = rlb.Box(-np.inf, np.inf, (1,)), rlb.Box(-1, 1, (1,))

    def reset(self, seed=None):
        self.rng, self.t = np.random.default_rng(seed), 0
        self.x = self.born = self.rng.uniform(-1, 1)
        return [self.x], {}

    def step(self, action):
        self.t += 1
        self.x += 0.5 * float(action[0]) + 0.5 * self.rng.uniform(-1, 1)
        return [self.x], -self.x**2, self.t == 4, False, {"step": self.t, "last": self.t == 4, "born": self.born}


class Drift(Bare):
    render_mode = "rgb_array"

    def render(self):
        """Draw a red above that grows with the steps, and a blue below that is the brighter the larger the number is."""
        picture = np.zeros((16, 16, 3), np.uint8)
        picture[:8, :, 0] = 60 * self.t
        picture[8:, :, 2] = min(max(128 + 40 * self.x, 0), 255)
        return picture


how = {"bare": {"make_env": Bare}, "pair": {"make_env": Drift, "num_envs": 2, "state_size": 2000}, "": {"make_env": Drift, "state_size": 2000}}
rlb.serve(info=["step", "last", "born"], name="drift", **how["".join(sys.argv[1:])])
