"""Stand-ins for Gymnasium, which need not be installed: its API for spaces, environments and vector environments, and no more."""

import enum

import numpy as np


class Box:
    def __init__(self, low, high, shape=None, dtype=np.float32):
        self.dtype = np.dtype(dtype)
        self.shape = np.shape(low) if shape is None else tuple(shape)
        self.low = np.full(self.shape, low, self.dtype)
        self.high = np.full(self.shape, high, self.dtype)

    def contains(self, x):
        return bool(np.can_cast(x.dtype, self.dtype) and x.shape == self.shape and np.all(x >= self.low) and np.all(x <= self.high))


class Discrete:
    shape, dtype = (), np.dtype(np.int64)

    def __init__(self, n, start=0):
        self.n, self.start = np.int64(n), np.int64(start)

    def contains(self, x):
        return isinstance(x, (int, np.integer)) and bool(self.start <= x < self.start + self.n)


class MultiDiscrete:
    def __init__(self, nvec, dtype=np.int64, start=0):
        self.nvec, self.dtype = np.asarray(nvec, dtype), np.dtype(dtype)
        self.shape, self.start = self.nvec.shape, np.full_like(self.nvec, start)

    def contains(self, x):
        return x.shape == self.shape and x.dtype != object and bool(np.all(self.start <= x) and np.all(x - self.start < self.nvec))


class MultiBinary:
    dtype = np.dtype(np.int8)

    def __init__(self, n):
        self.n, self.shape = n, (n,)

    def contains(self, x):
        return x.shape == self.shape and bool(np.all((x == 0) | (x == 1)))


class Dict:
    def __init__(self, spaces):
        self.spaces = dict(spaces)


class AutoresetMode(enum.Enum):
    NEXT_STEP = "NextStep"
    SAME_STEP = "SameStep"
    DISABLED = "Disabled"


class Walk:
    """A random walk on a line: an episode terminates beyond ±3, and its observations are drawn from a generator with the episode's seed."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float64)
    action_space = Discrete(2)

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.x, self.t = self.rng.uniform(-1, 1), 0
        return np.array([self.x, 0.0]), {}

    def step(self, action):
        self.t += 1
        self.x += (1 if action == 1 else -1) + self.rng.uniform(-0.5, 0.5)
        terminated = abs(self.x) > 3
        return np.array([self.x, self.t]), self.x, terminated, self.t == 50, {"is_success": self.x > 3, "t": self.t}


class SyncVectorEnv:
    """Environments in turn, with the three modes of Gymnasium 1.1: its reset by mask, final_obs and final_info."""

    def __init__(self, env_fns, autoreset_mode=AutoresetMode.NEXT_STEP):
        self.envs = [make() for make in env_fns]
        self.num_envs = len(self.envs)
        self.single_observation_space = self.envs[0].observation_space
        self.single_action_space = self.envs[0].action_space
        self.mode = autoreset_mode
        self.metadata = {"autoreset_mode": autoreset_mode}
        self.done = np.zeros(self.num_envs, bool)
        self.observations = [env.reset()[0] for env in self.envs]  # for those that are not in the first mask

    def reset(self, *, seed=None, options=None):
        seed = seed if isinstance(seed, list) else [None if seed is None else seed + i for i in range(self.num_envs)]
        mask = np.ones(self.num_envs, bool)
        if options is not None and "reset_mask" in options:
            mask = options.pop("reset_mask")
            assert isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.shape == (self.num_envs,) and mask.any()
        infos = {}
        for i in np.flatnonzero(mask):
            self.observations[i], info = self.envs[i].reset(seed=seed[i])
            self.add(infos, info, i)
        self.done[mask] = False
        return self.batch(self.observations), infos

    def step(self, actions):
        reward, terminated, truncated, infos = np.zeros(self.num_envs), np.zeros(self.num_envs, bool), np.zeros(self.num_envs, bool), {}
        for i, env in enumerate(self.envs):
            if self.mode is AutoresetMode.NEXT_STEP and self.done[i]:
                self.observations[i], info = env.reset()
            else:
                assert not self.done[i], "step of an environment that was not reset"
                self.observations[i], reward[i], terminated[i], truncated[i], info = env.step(actions[i])
                if self.mode is AutoresetMode.SAME_STEP and (terminated[i] or truncated[i]):
                    self.add(infos, {"final_obs": self.observations[i], "final_info": info}, i)
                    self.observations[i], info = env.reset()
            self.add(infos, info, i)
        if self.mode is not AutoresetMode.SAME_STEP:
            self.done = terminated | truncated
        return self.batch(self.observations), reward, terminated, truncated, infos

    def batch(self, values):
        if isinstance(values[0], dict):
            return {key: self.batch([value[key] for value in values]) for key in values[0]}
        return np.stack(values)

    def add(self, infos, info, i):
        for key, value in info.items():
            if isinstance(value, dict):
                self.add(infos.setdefault(key, {}), value, i)
            else:
                value = np.asarray(value)
                infos.setdefault(key, np.zeros((self.num_envs,) + value.shape, value.dtype))[i] = value
                infos.setdefault("_" + key, np.zeros(self.num_envs, bool))[i] = True
