# point.c in Python.
import sys

import numpy as np
import rlb

OBSERVATION, ACTION, MAX_STEPS = rlb.Box(-np.inf, np.inf, (2,)), rlb.Box(-1, 1, (1,)), 40


class Point:
    observation_space, action_space = OBSERVATION, ACTION

    def reset(self, seed):
        seed &= 0xfffff
        self.x, self.v = seed % 1001 / 500 - 1, seed // 1001 % 1001 / 500 - 1
        return [self.x, self.v], {}

    def step(self, push):
        self.v += 0.2 * min(max(float(push[0]), -1), 1)
        self.x += 0.2 * self.v
        far = self.x * self.x
        reward = -far - 0.1 * self.v * self.v
        return [self.x, self.v], reward - 10 * (far > 9), far > 9, False, {"success": far < 0.01}


if sys.argv[1:] == ["served"]:
    rlb.serve(Point, name="point", info=["success"], max_steps=MAX_STEPS)
    sys.exit()

solver, point = rlb.Solver(OBSERVATION, ACTION, name="point", info=["success"], max_steps=MAX_STEPS), Point()
while True:
    solver.send_init(point.reset(solver.seed)[0])
    while (push := solver.recv_action()) is not None:
        seen, reward, terminated, _, info = point.step(push)
        if terminated:
            solver.send_last(seen, reward, terminated=True, **info)
        else:
            solver.send_state(seen, reward, **info)
