"""Pendulum-v1 with an expert, by the equations of env/classic/pendulum.go."""

import math

import numpy as np

import rlb


class Pendulum:
    """The angle from upright, not wrapped, and the velocity."""

    observation_space = rlb.Box(np.float32([-1, -1, -8]), np.float32([1, 1, 8]), (3,))
    action_space = rlb.Box(-2, 2, (1,))

    def reset(self, *, seed=None, options=None):
        rng = np.random.default_rng(seed)
        self.angle, self.speed = rng.uniform(-math.pi, math.pi), rng.uniform(-1, 1)
        return self.see(), {}

    def step(self, action):
        u, angle = float(action[0]), wrap(self.angle)
        cost = angle**2 + 0.1 * self.speed**2 + 0.001 * u**2
        self.speed = min(max(self.speed + (15 * math.sin(self.angle) + 3 * u) * 0.05, -8), 8)
        self.angle += self.speed * 0.05
        return self.see(), -cost, False, False, {}

    def see(self):
        return np.float32([math.cos(self.angle), math.sin(self.angle), self.speed])


def wrap(x):
    return (x + math.pi) % (2 * math.pi) - math.pi


def swing_up(seen):
    """Raise the energy to 5.2; near the top, act as a linear controller. The result may be beyond the bounds: rlinf clips it."""
    angle, speed = math.atan2(seen[1], seen[0]), float(seen[2])
    if seen[0] > 0.9 and abs(speed) < 3:
        return [-10 * angle - 2.5 * speed]
    return [math.copysign(2, speed * (5.2 - speed**2 / 6 - 5 * seen[0]))]


if __name__ == "__main__":
    rlb.serve(Pendulum, max_steps=200, expert=swing_up)
