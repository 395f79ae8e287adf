"""Small simulators for scripts/init-simulators: python3 tasks.py NAME plays one of TASKS. Each has another kind of spaces."""

import random
import sys

import numpy as np
import rlb


class Corridor:
    """Discrete: walk to the end that is open, at 1 or -1."""
    observation_space, action_space, steps = rlb.Box(-1, 1, (2,)), rlb.Discrete(3), 40

    def reset(self, seed=None):
        draw = random.Random(seed)
        self.x, self.open = draw.uniform(-0.2, 0.2), draw.choice((-1, 1))
        return (self.x, self.open), {}

    def step(self, action):
        self.x += (-0.1, 0, 0.1)[int(action)]
        return (self.x, self.open), float(self.x * self.open > 1) - 0.02, abs(self.x) > 1, False, {}


class Dials:
    """Multi-discrete: turn three dials, each down, not at all or up, to the wanted places."""
    observation_space, action_space, steps = rlb.Box(-20, 20, (6,)), rlb.MultiDiscrete([3, 3, 3]), 30

    def reset(self, seed=None):
        draw = random.Random(seed)
        self.at, self.wanted = [np.array([draw.randrange(-5, 6) for _ in range(3)], float) for _ in range(2)]
        return np.concatenate((self.at, self.wanted)), {}

    def step(self, action):
        self.at += np.asarray(action) - 1
        return np.concatenate((self.at, self.wanted)), -float(np.abs(self.at - self.wanted).sum()), False, False, {}


class Boat:
    """Box: stay at 0, against the wind."""
    observation_space, action_space, steps = rlb.Box(-99, 99, (1,)), rlb.Box(-1, 1, (1,)), 32

    def reset(self, seed=None):
        self.x = random.Random(seed).uniform(-1, 1)
        return (self.x,), {}

    def step(self, action):
        self.x += 0.5 * action[0] + 0.1
        return (self.x,), -self.x**2, False, False, {}


class Lander:
    """Dict: a mass under one of three gravities brakes towards the ground. Its members are numbers and a choice."""
    action_space, steps = rlb.Box(0, 1, (1,)), 100
    observation_space = {"height": rlb.Box(0, 200, ()), "speed": rlb.Box(-np.inf, np.inf, (1,)), "planet": rlb.Discrete(3)}

    def reset(self, seed=None):
        draw = random.Random(seed)
        self.height, self.speed, self.planet = draw.uniform(20, 40), 0.0, draw.randrange(3)
        return self.seen(), {}

    def seen(self):
        return {"height": self.height, "speed": (self.speed,), "planet": self.planet}

    def step(self, action):
        self.speed += 0.5 * (12 * float(action[0]) - (2, 4, 6)[self.planet])
        self.height = min(max(self.height + 0.5 * self.speed, 0), 100)
        down = self.height == 0
        return self.seen(), 10 - abs(self.speed) if down else -0.1, down, False, {}


class Catch:
    """Image: a ball falls, and a paddle at the bottom should catch it."""
    observation_space, action_space, steps = rlb.Box(0, 255, (16, 16, 1), np.uint8), rlb.Discrete(3), 16

    def reset(self, seed=None):
        draw = random.Random(seed)
        self.row, self.ball, self.paddle = 0, draw.randrange(8), draw.randrange(8)
        return self.seen(), {}

    def seen(self):
        image = np.zeros((16, 16, 1), np.uint8)
        image[2 * self.row:2 * self.row + 2, 2 * self.ball:2 * self.ball + 2] = 255
        image[14:, 2 * self.paddle:2 * self.paddle + 2] = 128
        return image

    def step(self, action):
        self.row, self.paddle = self.row + 1, min(max(self.paddle + int(action) - 1, 0), 7)
        down = self.row == 7
        return self.seen(), (1.0 if self.ball == self.paddle else -1.0) if down else 0.0, down, False, {}


class Cards:
    """Masks: lay down eight cards, each once, the high ones first."""
    action_space, steps = rlb.Discrete(8), 8
    observation_space = {"hand": rlb.Box(0, 1, (8,)), "action_mask": rlb.Box(0, 1, (8,), np.uint8)}

    def reset(self, seed=None):
        draw = random.Random(seed)
        self.hand, self.held, self.left = [draw.random() for _ in range(8)], np.ones(8, np.uint8), 8
        return self.seen(), {}

    def seen(self):
        return {"hand": np.array(self.hand) * self.held, "action_mask": self.held if self.left else np.ones(8, np.uint8)}

    def step(self, action):
        worth, self.left = self.hand[int(action)] * self.left / 8, self.left - 1
        self.held = self.held.copy()
        self.held[int(action)] = 0
        return self.seen(), worth, self.left == 0, False, {}


class Reach:
    """Goals: bring a point to the goal. As in Gymnasium's robots, a step costs 1 unless the goal is near."""
    action_space, steps = rlb.Box(-1, 1, (2,)), 50
    observation_space = {name: rlb.Box(-np.inf, np.inf, (2,)) for name in ("observation", "achieved_goal", "desired_goal")}

    def reset(self, seed=None):
        draw = random.Random(seed)
        self.at, self.speed, self.goal = np.zeros(2), np.zeros(2), np.array([draw.uniform(-1, 1) for _ in range(2)])
        return self.seen(), {}

    def seen(self):
        return {"observation": self.speed, "achieved_goal": self.at, "desired_goal": self.goal}

    def step(self, action):
        self.speed = 0.5 * self.speed + 0.1 * np.asarray(action)
        self.at = self.at + self.speed
        return self.seen(), -float(np.linalg.norm(self.at - self.goal) > 0.3), False, False, {}


class Kiln:
    """Large numbers and raw units: heat a kiln to a wanted temperature by 0 to 50000 W. Rewards are about -1e5."""
    observation_space, action_space, steps = rlb.Box(0, 1e6, (2,)), rlb.Box(0, 50000, (1,)), 60

    def reset(self, seed=None):
        self.at, self.wanted = 290.0, random.Random(seed).uniform(500, 1200)
        return (self.at, self.wanted), {}

    def step(self, action):
        self.at += 60 * (float(action[0]) - 20 * (self.at - 290)) / 20000
        return (self.at, self.wanted), -(self.at - self.wanted)**2, False, False, {}


class Pole:
    """Arrays: carts that balance a pole, all in one call. An episode ends by itself when its pole falls."""
    observation_space, action_space, steps = rlb.Box(-np.inf, np.inf, (4,)), rlb.Discrete(2), 200

    def __init__(self, n):
        self.state = np.zeros((n, 4))

    def reset(self, mask, seeds, out):
        for i in mask.nonzero()[0]:
            self.state[i] = np.random.default_rng(seeds[i]).uniform(-0.05, 0.05, 4)
        out.obs[:] = self.state

    def step(self, actions, mask, out):
        x, v, angle, spin = self.state.T
        force = np.where(actions.ravel() == 1, 10.0, -10.0)
        push = (force + 0.05 * spin**2 * np.sin(angle)) / 1.1
        turn = (9.8 * np.sin(angle) - np.cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * np.cos(angle)**2 / 1.1))
        change = np.stack((v, push - 0.05 * turn * np.cos(angle) / 1.1, spin, turn), 1)
        self.state[mask] += 0.02 * change[mask]
        out.obs[:], out.reward[:] = self.state, 1
        out.terminated[:] = (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > 0.21)


TASKS = {task.__name__.lower(): task for task in (Corridor, Dials, Boat, Lander, Catch, Cards, Reach, Kiln, Pole)}

if __name__ == "__main__":
    task = TASKS[sys.argv[1]]
    (rlb.serve_batch if task is Pole else rlb.serve)(task, max_steps=task.steps)
