"""Simulators that differ in the kinds of what is seen and done: kinds.py discrete | dict | image | multi_discrete | box | masked. A number after the
kind is the size of the state that checkpoints keep.

Each plays a guessing game of eight rounds. What is seen says what is to be done, and a round is worth 1 at most.
"""

import random
import sys

import numpy as np

import rlb

ROUNDS = 8


class Game:
    def reset(self, seed=None):
        self.rng, self.round = random.Random(seed), 0
        return self.draw(), {}

    def step(self, action):
        worth = self.worth(action)
        self.round += 1
        return self.draw(), worth, self.round == ROUNDS, False, {"right": worth}


class Discrete(Game):
    """One of three lamps shines: which?"""

    observation_space, action_space = rlb.Box(0, 1, (3,)), rlb.Discrete(3)

    def draw(self):
        self.right = self.rng.randrange(3)
        return np.eye(3)[self.right]

    def worth(self, action):
        return action == self.right


class Dict(Game):
    """A colour, or the next one where a number is above 0."""

    observation_space = {"colour": rlb.Discrete(3), "state": rlb.Box(-1, 1, (2,))}
    action_space = rlb.Discrete(3)

    def draw(self):
        colour, number = self.rng.randrange(3), self.rng.choice([-1, 1]) * self.rng.uniform(0.2, 1)
        self.right = (colour + (number > 0)) % 3
        return {"colour": colour, "state": [self.rng.uniform(-1, 1), number]}

    def worth(self, action):
        return action == self.right


class Image(Game):
    """One quarter of a picture is bright: which?"""

    observation_space, action_space = rlb.Box(0, 255, (36, 36, 1), np.uint8), rlb.Discrete(4)

    def draw(self):
        self.right = self.rng.randrange(4)
        row, column = divmod(self.right, 2)
        picture = np.zeros((36, 36, 1), np.uint8)
        picture[18 * row:18 * row + 18, 18 * column:18 * column + 18] = 255
        return picture

    def worth(self, action):
        return action == self.right


class MultiDiscrete(Game):
    """Two groups of lamps, and a choice for each."""

    observation_space, action_space = rlb.Box(0, 1, (5,)), rlb.MultiDiscrete([2, 3])

    def draw(self):
        self.right = self.rng.randrange(2), self.rng.randrange(3)
        return np.concatenate([np.eye(2)[self.right[0]], np.eye(3)[self.right[1]]])

    def worth(self, action):
        return np.mean(action == self.right)


class Box(Game):
    """Two numbers, to be said again."""

    observation_space, action_space = rlb.Box(-1, 1, (2,)), rlb.Box(-1, 1, (2,))

    def draw(self):
        self.right = np.array([self.rng.uniform(-1, 1), self.rng.uniform(-1, 1)])
        return self.right

    def worth(self, action):
        return 1 - np.abs(action - self.right).mean()


class Masked(Game):
    """Two of four choices are allowed, and the larger is right. What is not allowed is an error."""

    observation_space = {"state": rlb.Box(0, 1, (4,)), "action_mask": rlb.Box(0, 1, (4,), np.uint8)}
    action_space = rlb.Discrete(4)

    def draw(self):
        self.mask = np.zeros(4, np.uint8)
        self.mask[self.rng.sample(range(4), 2)] = 1
        return {"state": self.mask, "action_mask": self.mask}

    def worth(self, action):
        if not self.mask[action]:
            raise ValueError("%d was chosen, of %s" % (action, self.mask))
        return action == np.flatnonzero(self.mask)[-1]


if __name__ == "__main__":
    games = {"discrete": Discrete, "dict": Dict, "image": Image, "multi_discrete": MultiDiscrete, "box": Box, "masked": Masked}
    rlb.serve(games[sys.argv[1]], info=["right"], state_size=int(sys.argv[2]) if sys.argv[2:] else 0)
