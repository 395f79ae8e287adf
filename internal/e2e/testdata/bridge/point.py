# point.c in Python.
import numpy as np
import rlb

solver = rlb.Solver(rlb.Box(-np.inf, np.inf, (2,)), rlb.Box(-1, 1, (1,)), name="point", info=["success"], max_steps=40)
while True:
    seed = solver.seed
    x, v = seed % 1001 / 500 - 1, seed // 1001 % 1001 / 500 - 1
    solver.send_init([x, v])
    while (push := solver.recv_action()) is not None:
        v += 0.2 * min(max(float(push[0]), -1), 1)
        x += 0.2 * v
        reward = -x * x - 0.1 * v * v
        if x * x > 9:
            solver.send_last([x, v], reward - 10, terminated=True, success=0)
        else:
            solver.send_state([x, v], reward, success=x * x < 0.01)
