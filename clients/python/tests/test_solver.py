"""Solvers that own their loop."""

import unittest

import numpy as np

import rlb
from gymlike import Walk
from parent import AUTORESET, Parent, RESET, STEP


def solver(address, **arguments):
    """Walk in a loop of its own: of all that is rlb's, five lines."""
    walk = Walk()
    solver = rlb.Solver(walk.observation_space, walk.action_space, info=["t"], address=address, **arguments)
    while True:
        solver.send_init(walk.reset(seed=solver.seed)[0])
        while True:
            action = solver.recv_action()
            if action is None:
                break
            obs, reward, terminated, truncated, info = walk.step(action)
            if terminated or truncated:
                solver.send_last(obs, reward, terminated=terminated, t=info["t"])
            else:
                solver.send_state(obs, reward, t=info["t"])


class Solvers(unittest.TestCase):
    def test_same_numbers(self):
        """As the same walk served: with and without AUTORESET."""
        for autoreset in (True, False):
            with self.subTest(autoreset=autoreset), Parent(solver, 1) as own, \
                    Parent(lambda address: rlb.serve(Walk, info=["t"], address=address), 1) as served:
                self.assertEqual((own.greeting["num_envs"], own.greeting["owns_loop"]), (1, True))
                rng, over, ended = np.random.default_rng(1), True, 0
                for t in range(80):
                    seed, action = [int(rng.integers(1 << 31))], [int(rng.integers(2))]
                    if over:
                        own.reset(seed), served.reset(seed)
                    self.assertEqual(own.step(action, seed, autoreset), served.step(action, seed, autoreset))
                    for name in served.out:
                        if not name.startswith("final") or served.out["terminated"][0]:
                            np.testing.assert_array_equal(own.out[name], served.out[name], name)
                    ended += int(served.out["terminated"][0])
                    over = not autoreset and served.out["terminated"][0]
                self.assertGreater(ended, 3)

    def test_cut_off(self):
        """max_steps, and a RESET in the middle, begin another episode."""
        with Parent(solver, 1, max_steps=2) as parent:
            parent.reset([1])
            self.assertEqual([parent.step([t % 2], [t]) for t in range(4)], [False, True, False, True])
            self.assertEqual(parent.out["truncated"][0], 1)
            parent.step([1])
            np.testing.assert_array_equal(parent.reset([9])["obs.state"][0], np.float32(Walk().reset(seed=9)[0]))

    def test_waits_where_the_mask_is_0(self):
        with Parent(solver, 1) as parent:
            seen = parent.reset([1])["obs.state"].copy()
            parent.step([1], mask=[0])
            np.testing.assert_array_equal(parent.out["obs.state"], seen)

    def test_end(self):
        with Parent(solver, 1) as parent:
            parent.reset([1])
        self.assertIsInstance(parent.end, SystemExit)
        self.assertEqual(parent.end.code, 0)

    def test_misuse(self):
        def silent(address):
            it = rlb.Solver(Walk.observation_space, Walk.action_space, address=address)
            it.send_init(np.zeros(2))
            try:
                it.send_state(np.zeros(2), 0)
            finally:
                it.recv_action()
                it.recv_action()

        with Parent(silent, 1) as parent:
            parent.reset([1])
            parent.seq += 1
            parent.send(STEP, AUTORESET, 1, b"")
            parent.thread.join(60)
            self.assertIsInstance(parent.end, RuntimeError)
            self.assertIn("was not answered", str(parent.end))
            self.assertIn("no action to answer", str(parent.end.__context__))
            parent.seq -= 1


if __name__ == "__main__":
    unittest.main()
