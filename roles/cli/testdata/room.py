"""An environment with spaces of all kinds. Without arguments it is a simulator of rlinf. With arguments, an exported policy plays it without rlinf:

    room.py POLICY.so POLICY.bin SEED...        prints the mean return of an episode for each seed
"""

import ctypes
import sys

import numpy as np

import rlb
from rlb.play import seed_of
from gymlike import Box, Dict, Discrete


class Room:
    observation_space = Dict({"eye": Box(0, 255, (3, 10, 12), np.uint8), "mode": Discrete(3, start=1), "place": Box(-50, 50, (2,), np.float64)})
    action_space = Box(-2, 3, (2,), np.int32)

    def reset(self, *, seed=None, options=None):
        self.rng, self.t = np.random.default_rng(seed), 0
        return self.look(), {}

    def look(self):
        self.place = self.rng.uniform(-9, 9, 2)
        return {"eye": self.rng.integers(0, 256, (3, 10, 12), np.uint8), "mode": int(self.rng.integers(1, 4)), "place": self.place}

    def step(self, action):
        assert action.dtype == np.int32 and np.all(action >= -2) and np.all(action <= 3), action
        self.t += 1
        reward = -float(np.abs(action - self.place / 4).sum())
        return self.look(), reward, False, self.t == 6, {}


def play(library, weights, seeds):
    policy, state = ctypes.c_void_p(), ctypes.create_string_buffer(1 << 20)  # zeros: an episode begins
    if library.policy_open(ctypes.byref(policy), weights.encode()):
        raise SystemExit("policy_open failed")
    env, action, returns = Room(), np.zeros(2, np.float32), []
    point = lambda x: ctypes.c_void_p(x.ctypes.data)
    for seed in seeds:
        observation, total, ended = env.reset(seed=seed)[0], 0, False
        library.policy_begin(state)
        while not ended:
            x = rlb.encode(env.observation_space, observation)
            code = library.policy_act(policy, state, *(point(x[name]) for name in ("eye", "mode", "place")), point(action))
            if code:
                raise SystemExit("policy_act: %d" % code)
            observation, reward, _, ended, _ = env.step(rlb.decode(env.action_space, action[None])[0])
            total += reward
        returns.append(total)
    print(sum(returns) / len(returns))


if len(sys.argv) > 1:
    play(ctypes.CDLL(sys.argv[1]), sys.argv[2], [seed_of(int(seed)) for seed in sys.argv[3:]])
else:
    rlb.serve(Room)
