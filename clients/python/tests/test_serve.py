"""Environments behind the protocol against the same environments played by hand: equal numbers, whatever plays them and whatever carries them."""

import contextlib
import functools
import io
import unittest

import numpy as np

import gymlike
import rlb
from gymlike import AutoresetMode, Walk
from parent import EXPERT, LOAD, RENDER, SAVE, Parent

N, STEPS = 5, 60


def drawn(steps=STEPS, n=N):
    """Draw the actions and the seeds of a test, by step."""
    rng = np.random.default_rng(7)
    return rng.integers(0, 2, (steps, n)), rng.integers(0, 1 << 31, (steps + 1, n), dtype=np.uint64)


def by_hand(actions, seeds):
    """Play Walk as a loop would, and return what the reply block must say after every step."""
    envs = [Walk() for _ in range(N)]
    seen = [np.array([env.reset(seed=int(s))[0] for env, s in zip(envs, seeds[0])])]
    replies = []
    for t in range(len(actions)):
        reply = {"obs": [], "final": {}, "reward": [], "terminated": [], "truncated": [], "info": []}
        for i, env in enumerate(envs):
            obs, reward, terminated, truncated, info = env.step(actions[t, i])
            if terminated or truncated:
                reply["final"][i] = obs
                obs, _ = env.reset(seed=int(seeds[t + 1, i]))
            for key, value in zip(("obs", "reward", "terminated", "truncated", "info"),
                                  (obs, reward, terminated, truncated, (info["is_success"], info["t"]))):
                reply[key].append(value)
        replies.append(reply)
    return seen[0], replies


class BatchWalk:
    """Walk for serve_batch: n of them behind arrays."""

    observation_space = rlb.Box(-np.inf, np.inf, (2,))
    action_space = rlb.Discrete(2)

    def __init__(self, n):
        self.envs = [Walk() for _ in range(n)]

    def reset(self, mask, seeds, out):
        for i in np.flatnonzero(mask):
            out.obs[i] = self.envs[i].reset(seed=int(seeds[i]))[0]

    def step(self, actions, mask, out):
        for i in np.flatnonzero(mask):
            out.obs[i], out.reward[i], terminated, truncated, info = self.envs[i].step(actions[i])
            if terminated:  # only what is True need be written
                out.terminated[i] = True
            if truncated:
                out.truncated[i] = True
            out.info["success"][i], out.info["t"][i] = info["is_success"], info["t"]


class OneBuffer(Walk):
    """Walk whose environments share one array for their observations, as in some libraries."""

    shown = np.zeros(2)

    def show(self, seen):
        self.shown[:] = seen
        return self.shown

    def reset(self, *, seed=None, options=None):
        return self.show(super().reset(seed=seed)[0]), {}

    def step(self, action):
        seen, *rest = super().step(action)
        return (self.show(seen), *rest)


class OneDict(OneBuffer):
    """OneBuffer whose environments share one dictionary with the array, a picture and a mask of choices."""

    observation_space = gymlike.Dict({"state": Walk.observation_space, "picture": gymlike.Box(0, 255, (3, 4, 5), np.uint8),
                                      "action_mask": gymlike.MultiBinary(2)})
    picture, mask = np.zeros((3, 4, 5), np.uint8), np.zeros(2, np.int8)
    seen = {"state": OneBuffer.shown, "picture": picture, "action_mask": mask}

    def show(self, seen):
        super().show(seen)
        self.picture[:] = self.t
        self.mask[:] = self.t % 2, 1
        return self.seen


class OneBufferVector(gymlike.SyncVectorEnv):
    """A vector environment whose steps and resets return one array."""

    shown = None

    def batch(self, values):
        self.shown = np.zeros((len(values), 2)) if self.shown is None else self.shown
        return np.stack(values, out=self.shown)


class OldWalk:
    """Walk in the way of Gym before 0.26: seed, a reset that returns the observation alone, a step of four."""

    def __init__(self):
        self.walk, self.next_seed = Walk(), None

    def seed(self, seed):
        self.next_seed = seed

    def reset(self):
        return self.walk.reset(seed=self.next_seed)[0]

    def step(self, action):
        obs, reward, terminated, truncated, info = self.walk.step(action)
        return obs, reward, terminated or truncated, dict(info, **{"TimeLimit.truncated": truncated and not terminated})


def vector(mode, **arguments):
    def make(n):
        return gymlike.SyncVectorEnv([Walk] * n, mode)
    return lambda address: rlb.serve_vector(make, info=["success", "t"], address=address, **arguments)


CHILDREN = {
    "one by one": lambda address: rlb.serve(Walk, info=["success", "t"], address=address),
    "one by one, in one array": lambda address: rlb.serve(OneBuffer, info=["success", "t"], address=address),
    "one by one, in one dictionary": lambda address: rlb.serve(OneDict, info=["success", "t"], address=address),
    "old Gym": lambda address: rlb.serve(OldWalk, info=["success", "t"], observation_space=rlb.Box(-np.inf, np.inf, (2,)),
                                         action_space=rlb.Discrete(2), address=address),
    "batch": lambda address: rlb.serve_batch(BatchWalk, info=["success", "t"], address=address),
    "vector, next step": vector(AutoresetMode.NEXT_STEP),
    "vector, same step": vector(AutoresetMode.SAME_STEP),
    "vector, disabled, in one array": lambda address: rlb.serve_vector(
        lambda n: OneBufferVector([Walk] * n, AutoresetMode.DISABLED), info=["success", "t"], address=address),
    "vector, disabled": vector(AutoresetMode.DISABLED),
    "vector, a reset of its own": vector(AutoresetMode.DISABLED, num_envs=N, reset=lambda env, mask, seeds: env.reset(
        seed=seeds, options={"reset_mask": mask})),
}


class SameNumbers(unittest.TestCase):
    def check(self, parent):
        actions, seeds = drawn()
        seen, replies = by_hand(actions, seeds)
        ended = 0
        np.testing.assert_array_equal(parent.reset(seeds[0])["obs.state"], seen.astype(np.float32))
        for t, want in enumerate(replies):
            final = parent.step(actions[t], seeds[t + 1])
            self.assertEqual(final, bool(want["final"]))
            for key, name in (("obs", "obs.state"), ("reward", "reward"), ("terminated", "terminated"), ("truncated", "truncated"), ("info", "info")):
                np.testing.assert_array_equal(parent.out[name], np.array(want[key]).astype(parent.out[name].dtype), "step %d: %s" % (t, name))
            for i, obs in want["final"].items():
                np.testing.assert_array_equal(parent.out["final.state"][i], obs.astype(np.float32))
            if "obs.picture" in parent.out:
                self.check_dict(parent.out, want["final"])
            ended += len(want["final"])
        self.assertGreater(ended, 10)

    def check_dict(self, out, final):
        """Check that the other members of OneDict belong to the state: the time of the episode is in all of them."""
        for kind, rows in ("obs", range(N)), ("final", final):
            for i in rows:
                t = int(out[kind + ".state"][i, 1])
                np.testing.assert_array_equal(out[kind + ".picture"][i], np.full((4, 5, 3), t))
                self.assertEqual(out[kind + ".action_mask"][i].tolist(), [t % 2, 1])

    def test_players(self):
        for name, child in CHILDREN.items():
            with self.subTest(name), Parent(child, N) as parent:
                self.check(parent)

    def test_transports(self):
        for transport in ("fd", "unix", "tcp"):
            for shared in (True, False):
                with self.subTest(transport, shared=shared), Parent(CHILDREN["one by one"], N, shared=shared, transport=transport) as parent:
                    self.assertEqual(parent.shared, shared)
                    self.check(parent)


class Episodes(unittest.TestCase):
    def test_without_autoreset(self):
        """Environments that are over wait, others go on, and RESET begins anew with the seed: as the same walk played alone."""
        for name, child in CHILDREN.items():
            with self.subTest(name), Parent(child, 2, flags=0) if name != "vector, a reset of its own" else Parent(child, N) as parent:
                n = parent.n
                parent.reset(np.arange(n))
                alone = [Walk() for _ in range(n)]
                for i in range(n):
                    alone[i].reset(seed=i)
                over, last = np.zeros(n, bool), parent.out["obs.state"].copy()
                for t in range(40):
                    parent.step(np.full(n, t % 2 if t % 3 else 1), autoreset=False, mask=~over)
                    for i in np.flatnonzero(~over):
                        obs, _, terminated, truncated, _ = alone[i].step(t % 2 if t % 3 else 1)
                        last[i], over[i] = obs, terminated or truncated
                    np.testing.assert_array_equal(parent.out["obs.state"], last)
                    np.testing.assert_array_equal(parent.out["terminated"] | parent.out["truncated"], over)
                    if over.all():
                        break
                self.assertTrue(over.all())
                parent.reset(np.full(n, 9), mask=np.arange(n) == 1)
                last[1] = Walk().reset(seed=9)[0]
                np.testing.assert_array_equal(parent.out["obs.state"], last)
                self.assertEqual(parent.out["terminated"][1] | parent.out["truncated"][1], 0)

    def test_waiting_for_the_rest_of_a_chunk(self):
        """An environment that begins an episode within a chunk of actions waits for the others, and goes on as if nothing had been."""
        for name, child in CHILDREN.items():
            with self.subTest(name), Parent(child, N) as parent:
                parent.reset(np.arange(N))
                alone = [Walk() for _ in range(N)]
                for i, env in enumerate(alone):
                    env.reset(seed=i)
                waited = 0
                for t in range(0, 24, 3):
                    mask = np.ones(N, bool)
                    for k in range(3):
                        seeds = np.arange(N) + 10 * t + k
                        parent.step(np.full(N, t % 4 // 3), seeds, mask=mask)
                        waited += (~mask).sum()
                        for i in np.flatnonzero(mask):
                            obs, _, terminated, truncated, _ = alone[i].step(t % 4 // 3)
                            if terminated or truncated:
                                np.testing.assert_array_equal(parent.out["final.state"][i], np.float32(obs))
                                obs, mask[i] = alone[i].reset(seed=int(seeds[i]))[0], False
                            np.testing.assert_array_equal(parent.out["obs.state"][i], np.float32(obs))
                self.assertGreater(waited, 5)

    def test_expert_of_a_vector(self):
        """The expert of a vector sees the present observations, also of environments that wait for others while the vector steps them."""
        for mode in AutoresetMode:
            asked = []

            def expert(seen, env):
                asked.append(env.num_envs)
                return seen[:, 0] < 0

            with self.subTest(mode), Parent(vector(mode, expert=expert), N) as parent:
                self.assertTrue(parent.greeting["expert"])
                parent.reset(np.arange(N))
                for t in range(0, 24, 3):
                    mask = np.ones(N, bool)
                    for k in range(3):
                        parent.step(np.full(N, t % 4 // 3), np.arange(N) + 10 * t + k, mask=mask)
                        mask &= (parent.out["terminated"] | parent.out["truncated"]) == 0
                        said = np.frombuffer(parent.ask(EXPERT), "<i4")
                        np.testing.assert_array_equal(said, parent.out["obs.state"][:, 0] < 0)
                self.assertEqual(asked, [N] * 24)

    def test_goal(self):
        """The greeting has the goal's rule, whatever serves."""
        goal = {"threshold": 0.5, "reward": "sparse", "terminates": True}
        def walks(n):
            return gymlike.SyncVectorEnv([Walk] * n, AutoresetMode.SAME_STEP)

        for serve in (lambda goal, address: rlb.serve(Walk, goal=goal, address=address),
                      lambda goal, address: rlb.serve_batch(BatchWalk, goal=goal, address=address),
                      lambda goal, address: rlb.serve_vector(walks, goal=goal, address=address)):
            with Parent(functools.partial(serve, goal), N) as parent:
                self.assertEqual(parent.greeting["goal"], goal)
            with Parent(functools.partial(serve, None), N) as parent:
                self.assertNotIn("goal", parent.greeting)

    def test_rows_of_those_that_wait(self):
        """A batch may write all rows at once: those of environments that wait keep their values."""
        class Careless(BatchWalk):
            def step(self, actions, mask, out):
                super().step(actions, mask, out)
                out.reward[:], out.terminated[:] = 7, True
                out.obs[~mask] = 7

        with Parent(lambda address: rlb.serve_batch(Careless, info=["success", "t"], address=address), 2) as parent:
            seen = parent.reset([1, 2])["obs.state"][0].copy()
            parent.step([0, 0], mask=[0, 1])
            np.testing.assert_array_equal(parent.out["obs.state"][0], seen)
            self.assertEqual((parent.out["reward"].tolist(), parent.out["terminated"].tolist()), ([0, 7], [0, 1]))

    def test_waiting_in_the_middle_of_an_episode(self):
        with quiet(), Parent(CHILDREN["vector, disabled"], 2) as parent:
            parent.reset([1, 2])
            parent.step([0, 1])
            with self.assertRaisesRegex(AssertionError, "can't wait in the middle"):
                parent.step([0, 1], mask=[0, 1])

    def test_step_of_what_is_over(self):
        for name in ("one by one", "batch", "vector, disabled"):
            with self.subTest(name), quiet(), Parent(CHILDREN[name], 2) as parent:
                with self.assertRaisesRegex(AssertionError, "over"):
                    parent.step([0, 0])

    def test_max_steps(self):
        for name in ("one by one", "batch", "vector, disabled", "vector, same step", "vector, next step"):
            with self.subTest(name), Parent(CHILDREN[name], 2, max_steps=3) as parent:
                parent.reset([1, 2])
                for t in range(1, 8):
                    self.assertEqual(parent.step([t % 2, t % 2], [t, t]), t % 3 == 0)
                    np.testing.assert_array_equal(parent.out["truncated"], [t % 3 == 0] * 2)

    def test_never_terminate(self):
        for name in ("one by one", "batch"):
            with self.subTest(name), Parent(CHILDREN[name], 2, flags=1) as parent:
                parent.reset([1, 2])
                for _ in range(20):
                    self.assertFalse(parent.step([1, 1]))
                self.assertGreater(parent.out["obs.state"][0, 0], 10)
        with quiet(), Parent(CHILDREN["vector, disabled"], 2, flags=1) as parent:
            self.assertIn(b"ignore_terminations", parent.receive()[1])

    def test_save_and_load(self):
        class Saving(BatchWalk):
            state_size = 4096

            def save(self, out):
                for i, env in enumerate(self.envs):
                    state = repr((env.rng.bit_generator.state, env.x, env.t)).encode()
                    out[i, :len(state)] = np.frombuffer(state, np.uint8)

            def load(self, states):
                for env, state in zip(self.envs, states):
                    env.rng.bit_generator.state, env.x, env.t = eval(state.tobytes().rstrip(b"\0"))

        children = {
            "pickled": lambda address: rlb.serve(Walk, state_size=2000, address=address),
            "hooks": lambda address: rlb.serve(Walk, state_size=500, address=address, save=lambda env: repr((env.rng.bit_generator.state, env.x, env.t)).encode(),
                                               load=restore),
            "batch": lambda address: rlb.serve_batch(Saving, info=["success", "t"], address=address),
        }
        for name, child in children.items():
            with self.subTest(name):
                actions, seeds = drawn()
                with Parent(child, N) as parent:
                    parent.reset(seeds[0])
                    for t in range(8):
                        parent.step(actions[t], seeds[t + 1])
                    state, seen = parent.ask(SAVE), parent.out["obs.state"].copy()
                    self.assertEqual(len(state), N * parent.greeting["state_size"])
                    want = self.play_on(parent)
                with Parent(child, N) as parent:
                    parent.reset(seeds[30])
                    parent.ask(LOAD, payload=state)
                    np.testing.assert_array_equal(parent.out["obs.state"], seen)
                    for got, expected in zip(self.play_on(parent), want):
                        np.testing.assert_array_equal(got, expected)

    def play_on(self, parent):
        actions, seeds = drawn()
        seen = []
        for t in range(8, 20):
            parent.step(actions[t], seeds[t + 1])
            seen.append(parent.out["obs.state"].copy())
        return seen

    def test_state_too_large(self):
        with quiet(), Parent(lambda address: rlb.serve(Walk, state_size=10, address=address)) as parent:
            with self.assertRaisesRegex(AssertionError, "state_size says 10"):
                parent.ask(SAVE)


def restore(env, state):
    env.rng.bit_generator.state, env.x, env.t = eval(state)


@contextlib.contextmanager
def quiet():
    """Leave out what a child that is meant to fail says on standard error."""
    with contextlib.redirect_stderr(io.StringIO()) as stderr:
        yield stderr


class Everything:
    """An environment of every kind of observation, whose action is a box, and whose mask is in info."""

    render_mode = "rgb_array"
    observation_space = gymlike.Dict({
        "state": gymlike.Box(-1, 1, (3,), np.float64),
        "camera": gymlike.Box(0, 255, (3, 8, 6), np.uint8),
        "gray": gymlike.Box(0, 255, (4, 5), np.uint8),
        "goal": gymlike.Discrete(4, start=1),
        "parts": gymlike.MultiDiscrete([2, 3]),
        "switches": gymlike.MultiBinary(2),
        "robot": gymlike.Dict({"arm": gymlike.Box(np.array([-1, -np.inf]), np.array([1, 1e300]), None, np.float64)}),
    })
    action_space = gymlike.Box(-9, 9, (2, 2), np.float64)

    def observe(self, k):
        return {"state": np.full(3, k), "camera": np.arange(144, dtype=np.uint8).reshape(3, 8, 6), "gray": np.full((4, 5), k, np.uint8),
                "goal": 1 + k % 4, "parts": np.array([k % 2, k % 3]), "switches": np.array([1, 0], np.int8), "robot": {"arm": [0.5, 7]}}

    def reset(self, *, seed=None, options=None):
        return self.observe(0), {}

    def step(self, action):
        assert action.shape == (2, 2) and action.dtype == np.float64
        self.action = action
        return self.observe(2), action.sum(), False, False, {}

    def render(self):
        picture = np.zeros((4, 2, 3), np.uint8)
        picture[:, 1] = 200
        picture[3] = 7
        return picture


class Kinds(unittest.TestCase):
    def test_observations(self):
        with Parent(lambda address: rlb.serve(Everything, address=address), 2) as parent:
            spaces = {space["name"]: space for space in parent.greeting["obs"]}
            self.assertEqual(list(spaces), ["state", "camera", "gray", "goal", "parts", "switches", "robot.arm"])
            self.assertEqual(spaces["state"], {"name": "state", "kind": "box", "dtype": "f32", "shape": [3], "low": -1, "high": 1})
            self.assertEqual(spaces["robot.arm"]["low"], [-1, None])
            self.assertEqual(spaces["robot.arm"]["high"], [1, None])
            self.assertEqual((spaces["camera"]["dtype"], spaces["camera"]["shape"], spaces["gray"]["shape"]), ("u8", [8, 6, 3], [4, 5, 1]))
            self.assertEqual(parent.greeting["action"], {"kind": "box", "dtype": "f32", "shape": [2, 2], "low": -9, "high": 9})
            out = parent.reset()
            parent.step(np.arange(8))
            np.testing.assert_array_equal(out["reward"], [6, 22])
            np.testing.assert_array_equal(out["obs.state"], np.full((2, 3), 2))
            np.testing.assert_array_equal(out["obs.camera"][1], np.moveaxis(np.arange(144).reshape(3, 8, 6), 0, 2))
            np.testing.assert_array_equal(out["obs.gray"], np.full((2, 4, 5, 1), 2))
            self.assertEqual((spaces["goal"]["kind"], spaces["goal"]["n"], spaces["parts"]["nvec"]), ("discrete", 4, [2, 3]))
            self.assertEqual((out["obs.goal"].tolist(), out["obs.parts"].tolist()), ([[2], [2]], [[0, 2], [0, 2]]))
            np.testing.assert_array_equal(out["obs.switches"][0], [1, 0])
            np.testing.assert_array_equal(out["obs.robot.arm"][0], [0.5, 7])

    def test_render(self):
        with Parent(lambda address: rlb.serve(Everything, address=address), 2) as parent:
            self.assertTrue(parent.greeting["render"])
            pictures = parent.ask(RENDER, payload=np.array([4, 2], "<u4").tobytes() + b"\0\1")
            self.assertEqual(np.frombuffer(pictures, np.uint8).reshape(2, 4, 3)[:, :, 0].tolist(), [[0, 0, 200, 200]] * 2)

    def test_render_fails(self):
        """The simulator says why it cannot draw, and its episode goes on."""
        class Blind(Everything):
            def render(self):
                raise RuntimeError("no display")

        class Flat(Everything):
            def render(self):
                return np.zeros((4, 2))

        for kind, why in [(Blind, "no display"), (Flat, "shape \\(4, 2\\)")]:
            with self.subTest(why), quiet(), Parent(lambda address: rlb.serve(kind, address=address), 2) as parent:
                parent.reset()
                with self.assertRaisesRegex(AssertionError, why):
                    parent.ask(RENDER, payload=np.array([4, 2], "<u4").tobytes() + b"\1\1")
                parent.step(np.arange(8))
                np.testing.assert_array_equal(parent.out["reward"], [6, 22])

    def test_actions(self):
        for space, greeting, action, want in [
            (gymlike.Discrete(3, start=5), {"kind": "discrete", "n": 3}, [2], 7),
            (gymlike.MultiDiscrete([3, 4]), {"kind": "multi_discrete", "nvec": [3, 4]}, [2, 3], np.array([2, 3])),
            (gymlike.MultiBinary(3), {"kind": "multi_discrete", "nvec": [2, 2, 2]}, [1, 0, 1], np.array([1, 0, 1], np.int8)),
            (gymlike.Box(-1, 1, ()), {"kind": "box", "dtype": "f32", "shape": [], "low": -1, "high": 1}, [0.5], np.array(0.5, np.float32)),
        ]:
            with self.subTest(greeting["kind"]):
                taken = []

                class Env(Walk):
                    action_space = space

                    def step(self, action):
                        taken.append(action)
                        return super().step(0)

                with Parent(lambda address: rlb.serve(Env, address=address), 1) as parent:
                    self.assertEqual(parent.greeting["action"], greeting)
                    parent.reset()
                    parent.step(action)
                    np.testing.assert_array_equal(taken[0], want)
                    self.assertEqual(getattr(taken[0], "dtype", None), getattr(want, "dtype", None))

    def test_bad_actions(self):
        for space, action in [(gymlike.Discrete(3), [3]), (gymlike.Discrete(3), [-1]), (gymlike.MultiDiscrete([3, 4]), [3, 3]),
                              (gymlike.Box(-1, 1, (2,)), [0, np.nan]), (gymlike.Box(-1, 1, (2,)), [np.inf, 0])]:
            class Env(Walk):
                action_space = space

            with self.subTest(action), quiet(), Parent(lambda address: rlb.serve(Env, address=address), 1) as parent:
                parent.reset()
                with self.assertRaisesRegex(AssertionError, "out of range or not finite"):
                    parent.step(action)

    def test_masks(self):
        class Masked(Walk):
            action_space = gymlike.Discrete(3)

            def reset(self, *, seed=None, options=None):
                return super().reset(seed=seed)[0], {"action_mask": np.array([1, 0, 1], np.int8)}

            def step(self, action):
                return super().step(action)[:4] + ({"action_mask": np.array([0, 1, self.t % 2], np.int8)},)

        class Method(Walk):
            action_space = gymlike.MultiDiscrete([1, 2])

            def action_masks(self):
                return [[True], [self.t % 2, True]]

        def vector(address):
            rlb.serve_vector(lambda n: gymlike.SyncVectorEnv([Masked] * n), action_mask=True, address=address)

        for child in (lambda address: rlb.serve(Masked, action_mask=True, address=address), vector):
            with Parent(child, 2) as parent:
                self.assertEqual(parent.greeting["obs"][1]["shape"], [3])
                self.assertEqual(parent.reset()["obs.action_mask"].tolist(), [[1, 0, 1]] * 2)
                while not parent.step([1, 1]):
                    self.assertEqual(parent.out["obs.action_mask"][0, 1], 1)
                ended = parent.out["terminated"] == 1
                self.assertEqual(parent.out["obs.action_mask"][ended][0].tolist(), [1, 0, 1])
                self.assertEqual(parent.out["final.action_mask"][ended][0, 1], 1)
        with Parent(lambda address: rlb.serve(Method, action_mask=True, address=address), 1) as parent:
            self.assertEqual(parent.reset()["obs.action_mask"].tolist(), [[1, 0, 1]])

    def test_tensors(self):
        class Tensor:
            """It behaves as torch's tensors on a device: no array before it is detached and copied."""

            def __init__(self, array):
                self.array = np.asarray(array)

            def detach(self):
                return self

            def cpu(self):
                return self

            def numpy(self):
                return self.array

            def __array__(self, *_):
                raise TypeError("can't convert cuda tensor")

            def __float__(self):
                return float(self.array)

            def __bool__(self):
                return bool(self.array)

        class Single(Walk):
            def step(self, action):
                obs, *rest, info = super().step(action)
                return (Tensor(obs), *map(Tensor, rest), {key: Tensor(value) for key, value in info.items()})

            def action_masks(self):
                return Tensor([1, self.t % 2])

        class Device(gymlike.SyncVectorEnv):
            def batch(self, values):
                return Tensor(super().batch(values))

            def step(self, actions):
                observations, *rest, infos = super().step(actions)
                return (observations, *map(Tensor, rest), {key: Tensor(value) for key, value in infos.items()})

        actions, seeds = drawn()
        seen, replies = by_hand(actions, seeds)
        with Parent(lambda address: rlb.serve_vector(lambda n: Device([Walk] * n), info=["success", "t"], address=address), N) as parent:
            self.check_step(parent, actions, seeds, replies)
        with Parent(lambda address: rlb.serve(Single, info=["success", "t"], action_mask=True, address=address), N) as parent:
            self.check_step(parent, actions, seeds, replies)
            self.assertEqual(parent.out["obs.action_mask"].tolist(), [[1, 1]] * N)

    def check_step(self, parent, actions, seeds, replies):
        parent.reset(seeds[0])
        parent.step(actions[0], seeds[1])
        np.testing.assert_array_equal(parent.out["obs.state"], np.float32(replies[0]["obs"]))
        np.testing.assert_array_equal(parent.out["info"], np.float32(replies[0]["info"]))


class Failures(unittest.TestCase):
    def test_exception(self):
        class Broken(Walk):
            def step(self, action):
                raise RuntimeError("the arm is stuck")

        for transport, says in ("fd", "^the child says: RuntimeError: the arm is stuck$"), ("unix", "(?s)^the child says: Traceback .*in step.*arm is stuck$"):
            with self.subTest(transport):
                with quiet() as stderr, Parent(lambda address: rlb.serve(Broken, address=address), transport=transport) as parent:
                    parent.reset()
                    with self.assertRaisesRegex(AssertionError, says):
                        parent.step([0, 0])
                    parent.thread.join(60)
                    self.assertEqual(parent.end.code, 1)
                self.assertIn("Traceback", stderr.getvalue())

    def test_long_exception(self):
        class Broken(Walk):
            def step(self, action):
                raise RuntimeError("\udcff" * (1 << 21) + "the arm is stuck")  # nor is it text

        with quiet(), Parent(lambda address: rlb.serve(Broken, address=address)) as parent:
            parent.reset()
            with self.assertRaises(AssertionError) as says:
                parent.step([0, 0])
            self.assertRegex(str(says.exception), r"^the child says: \?+the arm is stuck$")
            self.assertLess(len(str(says.exception)), 1 << 20)

    def test_wrong_shape(self):
        class Wrong(Walk):
            def reset(self, *, seed=None, options=None):
                return np.zeros(1), {}  # which NumPy would stretch

        with quiet(), Parent(lambda address: rlb.serve(Wrong, address=address)) as parent:
            with self.assertRaisesRegex(AssertionError, r"state has shape \(1,\); its space says \(2,\)"):
                parent.reset()

    def test_wrong_results(self):
        for result, want in [
            (([0, 0], 1, False), "step returned 3 values, expected observation, reward, terminated, truncated, info"),
            (([0, 0], None, False, False, {}), "step returned the reward None, expected a number"),
            (([0, 0], [1, 2], False, False, {}), r"step returned the reward \[1, 2\], expected a number"),
        ]:
            class Wrong(Walk):
                def step(self, action):
                    return result

            with self.subTest(want), quiet(), Parent(lambda address: rlb.serve(Wrong, address=address)) as parent:
                parent.reset()
                with self.assertRaisesRegex(AssertionError, want):
                    parent.step([0, 0])

    def test_no_spaces(self):
        with self.assertRaisesRegex(TypeError, "observation_space"):
            rlb.serve(OldWalk, address="fd:0,1")

    def test_spaces_that_are_none(self):
        with self.assertRaisesRegex(TypeError, "can't be observed"):
            rlb.serve(Walk, observation_space=object(), address="fd:0,1")
        with self.assertRaisesRegex(TypeError, "can't be acted in"):
            rlb.serve(Walk, action_space=gymlike.Dict({}), address="fd:0,1")


class Stubborn(gymlike.SyncVectorEnv):
    """A vector environment that knows no reset by mask, as Gymnasium's own before 1.1."""

    def reset(self, *, seed=None, options=None):
        assert seed is None or isinstance(seed, int)
        return super().reset(seed=seed)


class Vectors(unittest.TestCase):
    def test_same_step_without_resets_of_single_environments(self):
        def old(n):
            env = Stubborn([Walk] * n, AutoresetMode.SAME_STEP)
            env.metadata = {}
            return env

        self.check_same_step(lambda address: rlb.serve_vector(old, autoreset="SameStep", address=address))
        self.check_same_step(lambda address: rlb.serve_vector(lambda n: Stubborn([Walk] * n, AutoresetMode.SAME_STEP), reset=False, address=address))

    def check_same_step(self, child):
        with Parent(child, N) as parent:
            parent.reset(np.full(N, 3))
            alone = [Walk() for _ in range(N)]
            for i, env in enumerate(alone):
                env.reset(seed=3 + i)
            ended = 0
            for _ in range(20):
                final = parent.step(np.ones(N))
                for i, env in enumerate(alone):
                    obs, _, terminated, truncated, _ = env.step(1)
                    if terminated or truncated:
                        ended += 1
                        np.testing.assert_array_equal(parent.out["final.state"][i], np.float32(obs))
                        obs, _ = env.reset()
                    np.testing.assert_array_equal(parent.out["obs.state"][i], np.float32(obs))
                self.assertEqual(final, bool(parent.out["terminated"].any()))
            self.assertGreater(ended, 5)
            self.assertIn("does not repeat", parent.logs[0])

    def test_other_numbers_of_info(self):
        many = lambda n: gymlike.SyncVectorEnv([Walk] * n, AutoresetMode.SAME_STEP)
        for serve, make in (rlb.serve, Walk), (rlb.serve_vector, many):
            for info, says in ([], ["rlb: info has is_success, t: info=['is_success', 't'] reports them as metrics"]), (["is_success", "t"], []):
                with Parent(lambda address: serve(make, info=info, address=address), 2) as parent:
                    parent.reset()
                    for _ in range(3):
                        parent.step(np.ones(2))
                    self.assertEqual(parent.logs, says)

    def test_refusals(self):
        def stubborn(mode):
            return lambda address: rlb.serve_vector(lambda n: Stubborn([Walk] * n, mode), address=address)

        with quiet(), Parent(stubborn(AutoresetMode.NEXT_STEP), 2) as parent:
            with self.assertRaisesRegex(AssertionError, "can't reset environments one by one, nor within a step"):
                parent.reset()
        with quiet(), Parent(stubborn(AutoresetMode.SAME_STEP), 2) as parent:
            parent.reset()
            with self.assertRaisesRegex(AssertionError, "can't wait for each other"):
                parent.step([1, 1], autoreset=False)

    def test_mask_of_none(self):
        with Parent(vector(AutoresetMode.DISABLED), 2) as parent:
            seen = parent.reset([1, 2])["obs.state"].copy()
            np.testing.assert_array_equal(parent.reset([3, 4], mask=[0, 0])["obs.state"], seen)

    def test_mask_that_is_not_understood(self):
        class Deaf(gymlike.SyncVectorEnv):
            def reset(self, *, seed=None, options=None):
                return super().reset(seed=seed)

        with quiet(), Parent(lambda address: rlb.serve_vector(lambda n: Deaf([Walk] * n), address=address), N) as parent:
            parent.reset(np.arange(N))
            with self.assertRaisesRegex(AssertionError, "resets all environments"):
                for _ in range(20):
                    parent.step([1] * N)

    def test_objects_in_final_obs(self):
        """Gymnasium 0.28 says what was seen at the end as an array of objects, None where no episode ended."""
        class Objects(gymlike.SyncVectorEnv):
            def step(self, actions):
                *rest, infos = super().step(actions)
                if "final_obs" in infos:
                    which = infos.pop("_final_obs")
                    final, final_info = np.full(self.num_envs, None), np.full(self.num_envs, None)
                    for i in np.flatnonzero(which):
                        final[i] = infos["final_obs"][i]
                        final_info[i] = {key: value[i] for key, value in infos["final_info"].items()}
                    infos["final_observation"], infos["final_info"] = final, final_info
                    del infos["final_obs"]
                return (*rest, infos)

        actions, seeds = drawn()
        seen, replies = by_hand(actions, seeds)
        with Parent(lambda address: rlb.serve_vector(lambda n: Objects([Walk] * n, AutoresetMode.SAME_STEP), info=["success", "t"], address=address),
                    N) as parent:
            parent.reset(seeds[0])
            for t in range(20):
                parent.step(actions[t], seeds[t + 1])
                np.testing.assert_array_equal(parent.out["info"], np.float32(replies[t]["info"]))
                for i, obs in replies[t]["final"].items():
                    np.testing.assert_array_equal(parent.out["final.state"][i], np.float32(obs))


if __name__ == "__main__":
    unittest.main()
