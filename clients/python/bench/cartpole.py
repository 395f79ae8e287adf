"""The cart and pole of Barto, Sutton and Anderson (1983), as Gymnasium's CartPole-v1 has it: one of them, many in turn, many in arrays."""

import copy
import math

import numpy as np

import rlb

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, TAU = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
TOTAL, POLE_LENGTH = CART + POLE, POLE * HALF_LENGTH
X_LIMIT, ANGLE_LIMIT, STEP_LIMIT = 2.4, 12 * 2 * math.pi / 360, 500
HIGH = np.array([2 * X_LIMIT, np.inf, 2 * ANGLE_LIMIT, np.inf], np.float32)


class CartPole:
    """One cart and pole, in plain Python numbers."""

    observation_space = rlb.Box(-HIGH, HIGH)
    action_space = rlb.Discrete(2)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
        self.state = self.rng.uniform(-0.05, 0.05, 4)
        return np.array(self.state, dtype=np.float32), {}

    def step(self, action):
        x, v, angle, spin = self.state
        cos, sin = math.cos(angle), math.sin(angle)
        push = ((FORCE if action == 1 else -FORCE) + POLE_LENGTH * spin**2 * sin) / TOTAL
        turn = (GRAVITY * sin - cos * push) / (HALF_LENGTH * (4.0 / 3.0 - POLE * cos**2 / TOTAL))
        x, v = x + TAU * v, v + TAU * (push - POLE_LENGTH * turn * cos / TOTAL)
        angle, spin = angle + TAU * spin, spin + TAU * turn
        self.state = (x, v, angle, spin)
        terminated = bool(x < -X_LIMIT or x > X_LIMIT or angle < -ANGLE_LIMIT or angle > ANGLE_LIMIT)
        return np.array(self.state, dtype=np.float32), 1.0, terminated, False, {}


class Wrapper:
    """One of the layers that gymnasium.make puts around an environment."""

    def __init__(self, env):
        self.env = env
        self.observation_space, self.action_space = env.observation_space, env.action_space

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self.env.reset(seed=seed, options=options)


class OrderEnforcing(Wrapper):
    steps = None

    def step(self, action):
        if self.steps is None:
            raise RuntimeError("step before reset")
        return self.env.step(action)


class TimeLimit(Wrapper):
    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.steps += 1
        return observation, reward, terminated, truncated or self.steps >= STEP_LIMIT, info


def make():
    """Make a CartPole as gymnasium.make does."""
    return TimeLimit(OrderEnforcing(CartPole()))


class Sync:
    """Many in turn, in the way of Gymnasium's SyncVectorEnv: SAME_STEP, observations gathered and copied.

    seeds, if any, gives every episode a seed, as rlinf does; Gymnasium gives one to the first.
    """

    def __init__(self, n, seeds=None):
        self.envs, self.seeds = [make() for _ in range(n)], seeds
        self.observations, self.rewards = np.zeros((n, 4), np.float32), np.zeros(n)
        self.terminations, self.truncations = np.zeros(n, bool), np.zeros(n, bool)

    def reset(self, seed):
        np.stack([env.reset(seed=seed + i)[0] for i, env in enumerate(self.envs)], out=self.observations)
        return copy.deepcopy(self.observations), {}

    def step(self, actions):
        observations, infos = [], {}
        for i, (env, action) in enumerate(zip(self.envs, iter(actions))):
            observation, self.rewards[i], self.terminations[i], self.truncations[i], info = env.step(action)
            if self.terminations[i] or self.truncations[i]:
                infos.setdefault("final_obs", [None] * len(self.envs))[i] = observation
                observation, info = env.reset(seed=next(self.seeds) if self.seeds else None)
            observations.append(observation)
        np.stack(observations, out=self.observations)
        return copy.deepcopy(self.observations), self.rewards.copy(), self.terminations.copy(), self.truncations.copy(), infos


class Batch:
    """Many in arrays, for rlb.serve_batch."""

    observation_space = CartPole.observation_space
    action_space = CartPole.action_space

    def __init__(self, n):
        self.state, self.steps = np.zeros((4, n)), np.zeros(n, np.int64)

    def reset(self, mask, seeds, out):
        self.state[:, mask] = uniform(seeds[mask]) * 0.1 - 0.05
        self.steps[mask] = 0
        out.obs[mask] = self.state.T[mask]

    def step(self, actions, mask, out):
        x, v, angle, spin = self.state
        cos, sin = np.cos(angle), np.sin(angle)
        push = (np.where(actions == 1, FORCE, -FORCE) + POLE_LENGTH * spin**2 * sin) / TOTAL
        turn = (GRAVITY * sin - cos * push) / (HALF_LENGTH * (4.0 / 3.0 - POLE * cos**2 / TOTAL))
        self.state += np.stack([v, push - POLE_LENGTH * turn * cos / TOTAL, spin, turn]) * (TAU * mask)
        self.steps += mask
        out.obs[:] = self.state.T
        out.reward[:] = 1
        out.terminated[:] = (abs(self.state[0]) > X_LIMIT) | (abs(self.state[2]) > ANGLE_LIMIT)
        out.truncated[:] = self.steps >= STEP_LIMIT


def uniform(seeds):
    """Draw four numbers of [0, 1) for each seed, [4, n]: the finaliser of SplitMix64 (Steele, Lea and Flood 2014), of the seed and the number's place."""
    z = seeds + np.arange(1, 5, dtype=np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
