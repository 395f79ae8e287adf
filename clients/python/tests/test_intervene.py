"""A person who acts in place of the policy, in every way of playing."""

import unittest

import numpy as np

import rlb
from gymlike import AutoresetMode, SyncVectorEnv
from parent import Parent

INTERVENE = 2  # flag of CONFIG


class Arm:
    """An arm of two joints whose position is the sum of the actions. A person acts in every second step, the second number beyond its bounds."""

    observation_space, action_space = rlb.Box(-9, 9, (2,)), rlb.Box(-1, 1, (2,))
    spec, render_mode = None, None

    def reset(self, seed=None, options=None):
        self.t, self.x = 0, np.zeros(2)
        return self.x.copy(), {}

    def step(self, action):
        self.t += 1
        info = {}
        if self.t % 2 == 0:
            action = info["intervene_action"] = np.array([-0.5, self.t])
        self.x += action
        return self.x.copy(), 0.0, self.t == 4, False, info


class Arms:
    """Arms for serve_batch."""

    observation_space, action_space, intervene = Arm.observation_space, Arm.action_space, True

    def __init__(self, n):
        self.arms = [Arm() for _ in range(n)]

    def reset(self, mask, seeds, out):
        for i in np.flatnonzero(mask):
            out.obs[i] = self.arms[i].reset()[0]

    def step(self, actions, mask, out):
        for i in np.flatnonzero(mask):
            out.obs[i], out.reward[i], out.terminated[i], _, info = self.arms[i].step(actions[i])
            if info:
                out.intervened[i], out.taken[i] = True, info["intervene_action"]


def solver(address):
    talk, arm = rlb.Solver(Arm.observation_space, Arm.action_space, intervene=True, address=address), Arm()
    while True:
        talk.send_init(arm.reset()[0])
        while (action := talk.recv_action()) is not None:
            seen, reward, ended, _, info = arm.step(action)
            (talk.send_last if ended else talk.send_state)(seen, reward, **info)


WAYS = {
    "single": lambda address: rlb.serve(Arm, intervene=True, address=address),
    "batch": lambda address: rlb.serve_batch(Arms, address=address),
    "solver": solver,
    "same step": lambda address: rlb.serve_vector(lambda n: SyncVectorEnv([Arm] * n, AutoresetMode.SAME_STEP), intervene=True, address=address),
    "disabled": lambda address: rlb.serve_vector(lambda n: SyncVectorEnv([Arm] * n, AutoresetMode.DISABLED), intervene=True, address=address),
}


class TestIntervene(unittest.TestCase):
    def test_taken(self):
        """The parent learns what the person did, as the person did it, also in the last step of an episode; and elsewhere that nobody acted."""
        for way, child in WAYS.items():
            for shared in (True, False):
                n = 1 if way == "solver" else 3
                with self.subTest(way, shared=shared), Parent(child, n, shared=shared, flags=INTERVENE) as parent:
                    self.assertTrue(parent.greeting["intervene"])
                    parent.action[:] = 0.25
                    parent.reset(np.zeros(n, np.uint64))
                    for t in range(1, 9):
                        t = (t - 1) % 4 + 1
                        parent.step(np.full((n, 2), 0.25), np.zeros(n, np.uint64))
                        self.assertEqual(parent.out["intervened"].tolist(), [t % 2 == 0] * n)
                        if t % 2 == 0:
                            self.assertEqual(parent.out["taken"].tolist(), [[-0.5, t]] * n)

    def test_old_parent(self):
        """A parent that does not take interventions gets an error."""
        for way, child in WAYS.items():
            with self.subTest(way), Parent(child, 1) as parent:
                self.assertIn("too old", parent.error)


if __name__ == "__main__":
    unittest.main()
