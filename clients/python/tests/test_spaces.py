"""Actions are in their space, and images are understood, whatever the space."""

import unittest

import gymlike
import numpy as np

import rlb
from gymlike import Walk
from parent import Parent
from rlb import spaces

FLOATS = [np.float16, np.float32, np.float64, np.longdouble]
WHOLE = [np.bool_] + [np.dtype(sign + size).type for sign in ("int", "uint") for size in ("8", "16", "32", "64")]


def sent(space, rows):
    """Return an Actions of the space that is given these rows, [N, A], and these once more, kept to the bounds of its greeting as rlinf does."""
    actions = spaces.Actions(space)
    rows = np.asarray(rows, np.float32).reshape(len(rows), -1)
    bounds = [np.full(rows.shape[1], none if bound is None else bound, np.float32) if bound is None or np.ndim(bound) == 0 else
              np.array([none if x is None else x for x in bound], np.float32)
              for bound, none in ((actions.space["low"], -np.inf), (actions.space["high"], np.inf))]
    rows = np.minimum(np.maximum(rows, bounds[0]), bounds[1])
    for k, bound in enumerate(bounds):  # what a policy that squashes says may be beyond by the last bit
        rows = np.concatenate([rows, [np.where(np.isfinite(bound), np.nextafter(bound, np.float32([-np.inf, np.inf][k])), 0)]])
    rows = np.ascontiguousarray(rows, np.float32)
    actions.bind(rows)
    return actions, rows


class InSpace(unittest.TestCase):
    def check(self, space, rows):
        actions, rows = sent(space, rows)
        for x in actions.each():
            x = np.asarray(x)
            self.assertEqual(x.dtype, space.dtype)
            self.assertTrue(space.contains(x), "%r in %s to %s of %s" % (x, space.low, space.high, space.dtype))
        for x in actions.view():
            self.assertTrue(space.contains(np.asarray(x)), "%r in %s to %s of %s, in arrays" % (x, space.low, space.high, space.dtype))
        return actions

    def test_boxes(self):
        for dtype in FLOATS + WHOLE:
            of = np.dtype(dtype)
            info = np.finfo(dtype) if of.kind == "f" else None if of.kind == "b" else np.iinfo(dtype)
            cases = [(0, 1), (0, 0)]
            if of.kind != "b":
                cases += [(0, 3), (info.min, info.max), (3, info.max), (info.min, 5)]
            if of.kind in "if":
                cases += [(-5, -2), (-1, 1)]
            if of.kind == "f":
                cases += [(-0.3, 0.3), (0.1, 0.7), (0.3, 0.3), (-np.inf, np.inf), (-np.inf, 0.3), (0.1, 0.1 + 1e-12)]
            if of.itemsize > 4 and of.kind == "i":
                cases += [(-2**53 - 1, 2**53 + 1), (2**62 + 1, 2**62 + 3)]
            for low, high in cases:
                for shape in ((), (2, 2)):
                    with self.subTest(dtype=of.name, low=low, high=high, shape=shape), np.errstate(over="ignore"):
                        space = gymlike.Box(low, high, shape, dtype)
                        least, most = (float(np.clip(np.float64(x), -1e30, 1e30)) for x in (space.low.ravel()[0], space.high.ravel()[0]))
                        rows = [np.full(shape, x) for x in np.linspace(least, most, 7)] + [np.full(shape, x) for x in (0.5, 1.5, 2.5, -0.5, 3e38, -3e38)]
                        self.check(space, rows)
        self.check(gymlike.Box(np.array([-0.3, 0, -np.inf]), np.array([0.7, 1e300, 0.1]), None, np.float64), np.linspace([-9] * 3, [9] * 3, 9))

    def test_every_whole_number_is_reached(self):
        rng = np.random.default_rng(1)
        for dtype, low, high in [(np.uint8, 0, 255), (np.int8, -128, 127), (np.int32, 0, 3), (np.int64, -100, 155), (np.uint16, 65280, 65535), (np.bool_, 0, 1)]:
            with self.subTest(dtype=dtype.__name__, low=low, high=high):
                space = gymlike.Box(low, high, (4,), dtype)
                actions, _ = sent(space, rng.uniform(low, high, (5000, 4)))
                self.assertEqual(np.unique(actions.batch()[:5000]).tolist(), list(range(low, high + 1)))

    def test_halves_to_even(self):
        actions, _ = sent(gymlike.Box(-9, 9, (1,), np.int32), [[-2.5], [-1.5], [-0.5], [0.5], [1.5], [2.5], [2.6], [-2.6]])
        self.assertEqual(actions.batch().ravel()[:8].tolist(), [-2, -2, 0, 0, 2, 2, 3, -3])

    def test_choices(self):
        for space, rows in [(gymlike.Discrete(3, start=-1), [[0], [1], [2]]), (gymlike.MultiDiscrete([3, 200], np.uint8, start=1), [[0, 0], [2, 199]]),
                            (gymlike.MultiDiscrete([[2, 3], [4, 5]]), [[0, 0, 0, 0], [1, 2, 3, 4]]), (gymlike.MultiBinary(3), [[0, 1, 0], [1, 1, 1]])]:
            with self.subTest(space=type(space).__name__):
                actions = spaces.Actions(space)
                actions.bind(np.array(rows, np.int32))
                for x in actions.each():
                    self.assertTrue(space.contains(x), x)

    def test_own_box(self):
        actions, _ = sent(rlb.Box(0.5, 3.5, (2,), np.int32), [[0.5, 3.5], [2.5, 1.5]])
        self.assertEqual(actions.batch().tolist()[:2], [[1, 3], [2, 2]])
        actions, _ = sent(rlb.Box(-np.inf, np.inf, (1,), np.int8), [[1e9], [-1e9], [7.6]])
        self.assertEqual(actions.batch().ravel().tolist()[:3], [127, -128, 8])
        with self.assertRaisesRegex(ValueError, "no whole number from 0.2 to 0.8"):
            spaces.Actions(rlb.Box(0.2, 0.8, (), np.int32))
        with self.assertRaisesRegex(TypeError, "complex"):
            spaces.Actions(rlb.Box(0, 1, (2,), np.complex64))

    def test_players(self):
        for space in (gymlike.Box(0, 3, (2,), np.int32), gymlike.Box(-0.3, 0.3, (2,), np.float64), gymlike.Box(-0.3, 0.3, (2,), np.float32)):
            whole, taken = space.dtype == np.int32, []

            class Taking(Walk):
                action_space = space

                def step(self, action):
                    taken.append(action)
                    return super().step(0)

            class Arrays:
                observation_space, action_space = rlb.Box(-9, 9, (2,)), space

                def __init__(self, n):
                    pass

                def reset(self, mask, seeds, out):
                    out.obs[:] = 0

                def step(self, actions, mask, out):
                    taken.append(actions[0].copy())

            def solve(address):
                solver = rlb.Solver(rlb.Box(-9, 9, (2,)), space, address=address)
                solver.send_init(np.zeros(2))
                while True:
                    taken.append(solver.recv_action())
                    solver.send_state(np.zeros(2), 0)

            def vector(n):
                return gymlike.SyncVectorEnv([Taking] * n, gymlike.AutoresetMode.SAME_STEP)

            for play in (lambda address: rlb.serve(Taking, address=address), lambda address: rlb.serve_vector(vector, address=address),
                         lambda address: rlb.serve_batch(Arrays, address=address), solve):
                with Parent(play, 1) as parent:
                    parent.reset()
                    parent.step([2.6, 0.5] if whole else [np.float32(0.3), np.nextafter(np.float32(-0.3), np.float32(-1))])
                self.assertTrue(space.contains(taken[-1]), "%r in a Box of %s" % (taken[-1], space.dtype))
                if whole:
                    self.assertEqual(taken[-1].tolist(), [3, 0])

    def test_right_actions_stay(self):
        rows = np.random.default_rng(2).normal(size=(100, 3)).astype(np.float32)
        for dtype in (np.float32, np.float64):
            actions, _ = sent(gymlike.Box(-9, 9, (3,), dtype), rows)
            np.testing.assert_array_equal(actions.batch()[:100], rows)
            np.testing.assert_array_equal(actions.view()[:100], rows)
            self.assertEqual(actions.view().dtype, np.float32)
            self.assertFalse(actions.view().flags.writeable)


class Images(unittest.TestCase):
    def test_channels(self):
        for count in range(1, 13):
            first, last = np.arange(count * 30 * 20, dtype=np.uint32).astype(np.uint8).reshape(count, 30, 20), None
            last = np.moveaxis(first, 0, -1)
            for image in (first, last):
                with self.subTest(shape=image.shape):
                    field, = spaces.fields(gymlike.Box(0, 255, image.shape, np.uint8))
                    self.assertEqual(field.space["shape"], [30, 20, count])
                    np.testing.assert_array_equal(field.value(image), last)
                    np.testing.assert_array_equal(field.value(np.stack([image, image]))[1], last)
                    self.assertEqual(bool(field.remark), image is first or count > 4)

    def test_unclear(self):
        for shape in [(8, 8, 8), (3, 3, 30), (30, 3, 3), (4, 30, 4), (30, 4, 30), (6, 2, 3)]:
            space = gymlike.Dict({"front": gymlike.Box(0, 255, shape, np.uint8)})
            with self.subTest(shape=shape):
                with self.assertRaisesRegex(ValueError, r'image front of shape \(%d, %d, %d\): no axis .* expected channels="first" or "last"' % shape):
                    spaces.fields(space)
                for said, want in (("last", shape), ({"front": "last"}, shape), ("first", shape[1:] + shape[:1]), ({"front": "first"}, shape[1:] + shape[:1])):
                    field, = spaces.fields(space, said)
                    self.assertEqual(field.shape, want)
        with self.assertRaisesRegex(ValueError, "'second': expected"):
            spaces.fields(gymlike.Box(0, 255, (5, 30, 20), np.uint8), "second")
        field, = spaces.fields(gymlike.Box(0, 255, (5, 30, 20), np.uint8), "last")  # what is declared counts
        self.assertEqual(field.shape, (5, 30, 20))

    def test_served(self):
        class Seeing(Walk):
            observation_space = gymlike.Box(0, 255, (5, 6, 7), np.uint8)

            def reset(self, **named):
                super().reset(**named)
                return np.arange(210, dtype=np.uint8).reshape(5, 6, 7), {}

        for said, shape in ((None, (6, 7, 5)), ("last", (5, 6, 7))):
            with Parent(lambda address: rlb.serve(Seeing, channels=said, address=address), 1) as parent:
                parent.reset()
                self.assertEqual(parent.out["obs.image"].shape, (1,) + shape)
                self.assertEqual(parent.out["obs.image"][0, 0, 0, 1], 42 if said is None else 1)
                self.assertIn("%d channels come %s" % (5 if said is None else 7, said or "first"), parent.logs[0])
            with Parent(lambda address: rlb.serve(Seeing, channels=said, address=address), 1, first=1) as parent:
                parent.reset()
                self.assertEqual(parent.logs, [])  # another child has said it


class OfAnExport(unittest.TestCase):
    """encode and decode lead to the arrays of a policy, and back."""

    space = gymlike.Dict({"eye": gymlike.Box(0, 255, (3, 8, 9), np.uint8), "mode": gymlike.Discrete(4, start=1),
                          "place": gymlike.Dict({"x": gymlike.Box(-1, 1, (2,), np.float64)})})

    def observation(self, first):
        return {"eye": np.arange(first, first + 216, dtype=np.uint8).reshape(3, 8, 9), "mode": np.int64(first), "place": {"x": np.array([first, 0.5])}}

    def test_encode(self):
        x = rlb.encode(self.space, self.observation(2))
        self.assertEqual({name: (a.shape, a.dtype) for name, a in x.items()}, {
            "eye": ((1, 8, 9, 3), np.uint8), "mode": ((1, 1), np.int32), "place.x": ((1, 2), np.float32)})
        self.assertEqual(x["mode"][0, 0], 1)
        self.assertEqual(x["eye"][0, 1, 2, 1], (2 + 72 + 9 + 2) % 256)

    def test_a_batch_is_rows(self):
        both = [self.observation(1), self.observation(3)]
        batch = {"eye": np.stack([o["eye"] for o in both]), "mode": np.array([1, 3]),
                 "place": {"x": np.stack([o["place"]["x"] for o in both])}}
        for name, rows in rlb.encode(self.space, batch, batched=True).items():
            for row, one in zip(rows, both):
                np.testing.assert_array_equal(row, rlb.encode(self.space, one)[name][0])

    def test_another_shape_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "place.x has shape"):
            rlb.encode(self.space, dict(self.observation(1), place={"x": np.zeros(3)}))

    def test_decode(self):
        self.assertEqual(rlb.decode(gymlike.Discrete(4, start=1), np.array([[0], [3]], np.int32)), [1, 4])
        whole = rlb.decode(gymlike.Box(-2, 3, (2,), np.int16), np.array([[1.5, 9]], np.float32))
        self.assertEqual((whole[0].tolist(), whole[0].dtype), ([2, 3], np.int16))
        with self.assertRaises(rlb.ProtocolError):
            rlb.decode(gymlike.Discrete(2), np.array([[2]], np.int32))

if __name__ == "__main__":
    unittest.main()
