"""Files of Minari and robomimic, written by h5py, become demonstrations with equal numbers."""

import contextlib
import io
import json
import os
import struct
import tempfile
import unittest

import h5py
import numpy as np

from rlb import convert

NUMPY = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "u1"}


def tensors(path):
    """Return the tensors of a safetensors file."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            lo, hi = (8 + size + x for x in entry["data_offsets"])
            found[name] = np.frombuffer(data[lo:hi], NUMPY[entry["dtype"]]).reshape(entry["shape"])
    return found


class Converted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.source, self.out = os.path.join(folder.name, "x.hdf5"), os.path.join(folder.name, "demos.safetensors")
        self.rng = np.random.default_rng(0)

    def convert(self, *arguments):
        """Run the program, and return its exit code and what it says."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = convert.main(list(arguments))
        return code, said.getvalue()

    def test_minari(self):
        """Observations in a tree; the first episode terminates, the second is truncated. Episode 10 comes after episode 2."""
        want = []
        with h5py.File(self.source, "w") as h5:
            for number, steps in ((2, 3), (10, 4)):
                e = {"obs": self.rng.standard_normal((steps + 1, 2)), "image": self.rng.integers(0, 256, (steps + 1, 4, 4, 3), np.uint8),
                     "act": self.rng.integers(0, 5, steps), "reward": self.rng.standard_normal(steps)}
                want.append(e)
                g = h5.create_group("episode_%d" % number)
                g["observations/robot/joints"], g["observations/image"], g["actions"], g["rewards"] = e["obs"], e["image"], e["act"], e["reward"]
                g["terminations"], g["truncations"] = [False] * (steps - 1) + [number == 2], [False] * (steps - 1) + [number == 10]
                g["infos/x"] = np.zeros(steps)
        code, said = self.convert("minari", self.source, self.out, "--name", "robot.joints=state")
        self.assertEqual(code, 0, said)
        self.assertIn("2 episodes, 7 transitions", said)
        self.assertIn("left out: infos", said)
        got = tensors(self.out)
        np.testing.assert_array_equal(got["observation.state"], np.concatenate([e["obs"][:-1] for e in want]).astype("f4"))
        np.testing.assert_array_equal(got["next_observation.state"], np.concatenate([e["obs"][1:] for e in want]).astype("f4"))
        np.testing.assert_array_equal(got["next_observation.image"], np.concatenate([e["image"][1:] for e in want]))
        np.testing.assert_array_equal(got["action"], np.concatenate([e["act"] for e in want]).reshape(7, 1, 1))
        np.testing.assert_array_equal(got["reward"], np.concatenate([e["reward"] for e in want]).astype("f4"))
        np.testing.assert_array_equal(got["terminated"], [0, 0, 1, 0, 0, 0, 0])
        np.testing.assert_array_equal(got["truncated"], [0, 0, 0, 0, 0, 0, 1])
        np.testing.assert_array_equal(got["episode.length"], [3, 4])

    def test_robomimic(self):
        """The first demonstration is done at its end, the second is cut off; a mask chooses."""
        want = [{k: self.rng.standard_normal((n, 3)) for k in ("obs", "next", "act")} for n in (3, 2)]
        with h5py.File(self.source, "w") as h5:
            for i, e in enumerate(want):
                g, n = h5.create_group("data/demo_%d" % i), len(e["obs"])
                g["obs/eef"], g["next_obs/eef"], g["actions"], g["rewards"], g["states"] = e["obs"], e["next"], e["act"], np.ones(n), np.ones(n)
                g["dones"] = [0] * (n - 1) + [1 - i]
            h5["mask/valid"] = np.array([b"demo_1"])
        code, said = self.convert("robomimic", self.source, self.out)
        self.assertEqual(code, 0, said)
        self.assertIn("left out: states", said)
        got = tensors(self.out)
        for name, key in (("observation.eef", "obs"), ("next_observation.eef", "next")):
            np.testing.assert_array_equal(got[name], np.concatenate([e[key] for e in want]).astype("f4"))
        np.testing.assert_array_equal(got["action"][:, 0], np.concatenate([e["act"] for e in want]).astype("f4"))
        np.testing.assert_array_equal(got["terminated"], [0, 0, 1, 0, 0])
        np.testing.assert_array_equal(got["truncated"], [0, 0, 0, 0, 1])
        code, said = self.convert("robomimic", self.source, self.out + "2", "--mask", "valid")
        self.assertIn("1 episodes, 2 transitions", said)

    def test_refused(self):
        """An error says which episode has what, and no file is left."""
        with h5py.File(self.source, "w") as h5:
            for i in range(2):
                g = h5.create_group("data/demo_%d" % i)
                g["obs/eef"], g["actions"], g["rewards"], g["dones"] = np.ones((2, 3 + i)), np.ones((2, 1)), np.ones(2), [0, 1]
        code, said = self.convert("robomimic", self.source, self.out)
        self.assertEqual(code, 1)
        self.assertIn("/data/demo_1: observation.eef is [2, 4]: expected [2, 3]", said)
        self.assertEqual(os.listdir(os.path.dirname(self.out)), ["x.hdf5"])
        code, said = self.convert("minari", self.source, self.out)
        self.assertIn("expected a file of Minari", said)
        code, said = self.convert("minari", os.path.dirname(self.source), self.out)
        self.assertIn("of Minari's formats, hdf5 is read here, parquet by rlinf data convert, and arrow is not", said)


if __name__ == "__main__":
    unittest.main()
