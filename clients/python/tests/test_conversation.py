"""The protocol itself: greeting, configuration, and frames that are wrong."""

import os
import socket
import struct
import tempfile
import threading
import time
import unittest
from unittest import mock

import numpy as np

import rlb
from gymlike import Walk
from parent import AUTORESET, CLOSE, CONFIG, ERROR, LOAD, RENDER, RESET, SAVE, STEP, Parent
from test_serve import quiet


def child(address):
    rlb.serve(Walk, info=["t"], max_steps=50, name="walk", address=address)


class Greeting(unittest.TestCase):
    def test_members(self):
        with mock.patch.dict(os.environ, RLB_TOKEN="secret"), Parent(child) as parent:
            self.assertEqual(parent.greeting, {
                "v": 1, "name": "walk", "lang": "python", "token": "secret", "num_envs": 0, "max_steps": 50, "info": ["t"], "state_size": 0, "render": False,
                "obs": [{"name": "state", "kind": "box", "dtype": "f32", "shape": [2], "low": None, "high": None}], "action": {"kind": "discrete", "n": 2},
            })

    def test_token_file(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("from a file\n")
            file.flush()
            with mock.patch.dict(os.environ, RLB_TOKEN_FILE=file.name), Parent(child) as parent:
                self.assertEqual(parent.greeting["token"], "from a file")

    def test_address(self):
        with mock.patch.dict(os.environ, clear=True), self.assertRaisesRegex(RuntimeError, "RLB_ADDR is not set"):
            rlb.serve(Walk)
        with self.assertRaisesRegex(ValueError, "valid are"):
            rlb.serve(Walk, address="carrier pigeon")

    def test_listener_that_opens_later(self):
        path = os.path.join(tempfile.mkdtemp(), "socket")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for address, family, at in ("unix:" + path, socket.AF_UNIX, path), ("tcp:127.0.0.1:%d" % port, socket.AF_INET, ("127.0.0.1", port)):
            with self.subTest(address), mock.patch("rlb.channel._PATIENCE", 0.1), quiet():
                with self.assertRaisesRegex(SystemExit, "rlb: RLB_ADDR %s: .* for 0.1 s: does rlinf listen there" % address):
                    child(address)
            with self.subTest(address), socket.socket(family) as listener:
                thread = threading.Thread(target=child, args=(address,), daemon=True)
                thread.start()
                time.sleep(0.3)
                listener.bind(at)
                listener.listen()
                listener.settimeout(10)
                listener.accept()[0].detach()  # where it waits for its CONFIG

    def test_address_that_is_none(self):
        with self.assertRaisesRegex(SystemExit, "^rlb: RLB_ADDR unix:x+: AF_UNIX path too long$"):
            child("unix:" + 200 * "x")

    def test_number_of_environments(self):
        with quiet(), Parent(lambda address: rlb.serve(Walk, num_envs=3, address=address), 2) as parent:
            self.assertIn("want version 1 for 3", parent.error)


class WrongFrames(unittest.TestCase):
    """After each of these the child says ERROR, and what it found."""

    def refuse(self, message, *frame, **header):
        with self.subTest(message), quiet(), Parent(child) as parent:
            parent.reset()
            parent.seq += 1
            parent.send(*frame, **header)
            parent.seq = header.get("seq_of_answer", parent.seq - 1)
            kind, payload = parent.receive()
            self.assertEqual(kind, ERROR)
            self.assertIn(message, payload.decode())
            parent.thread.join(10)
            self.assertIn(message, str(parent.end.code))

    def test_frames(self):
        self.refuse("want the header", STEP, AUTORESET, 2, magic=b"HTTP")
        self.refuse("want the header", STEP, AUTORESET, 2, length=1 << 40)
        self.refuse("request 7 came after 1", STEP, AUTORESET, 2, seq=7)
        self.refuse("has the flags 0x8", STEP, 8, 2)
        self.refuse("has the flags 0x2", RESET, AUTORESET, 2)
        self.refuse("for 3 environments; there are 2", STEP, AUTORESET, 3)
        self.refuse("has 5 bytes; want", STEP, AUTORESET, 2, b"12345")
        self.refuse("type 2 came, which is none", CONFIG)
        self.refuse("type 99 came, which is none", 99)
        self.refuse("type 10 came, which is none", SAVE)
        self.refuse("has 4 bytes; want 10", RENDER, 0, 0, b"1234")

    def test_end_of_stream(self):
        with Parent(child) as parent:
            parent.reset()
            os.write(parent.write_fd, b"")
        self.assertIsNone(parent.end)
        read_fd, write_fd = os.pipe()
        answers = os.open(os.devnull, os.O_WRONLY)
        os.write(write_fd, b"RLB1")
        os.close(write_fd)
        with quiet(), self.assertRaises(SystemExit) as end:
            child("fd:%d,%d" % (read_fd, answers))
        self.assertIn("after 4 bytes of a header", str(end.exception.code))

    def test_close_after_the_greeting(self):
        read_fd, write_fd = os.pipe()
        answers = os.open(os.devnull, os.O_WRONLY)
        os.write(write_fd, struct.pack("<4sHHIIQQ", b"RLB1", CLOSE, 0, 0, 0, 0, 0))
        with self.assertRaises(SystemExit) as end:
            child("fd:%d,%d" % (read_fd, answers))
        self.assertEqual(end.exception.code, 0)

    def test_configuration(self):
        for message, payload in [
            ("is of version 2", struct.pack("<IIIIIIQ", 2, 1, 0, 0, 0, 0, 0)),
            ("for 0 environments", struct.pack("<IIIIIIQ", 1, 0, 0, 0, 0, 0, 0)),
            ("and 8 bytes came in place of CONFIG", b"12345678"),
            ("shares 64 bytes; the blocks need", struct.pack("<IIIIIIQ", 1, 1, 0, 0, 0, 0, 64)),
        ]:
            with self.subTest(message):
                read_fd, write_fd = os.pipe()
                answers = os.open(os.devnull, os.O_WRONLY)
                os.write(write_fd, struct.pack("<4sHHIIQQ", b"RLB1", CONFIG, 0, 0, 0, 0, len(payload)) + payload)
                with quiet(), self.assertRaises(SystemExit) as end:
                    child("fd:%d,%d" % (read_fd, answers))
                self.assertIn(message, str(end.exception.code))

    def test_memory_that_can_not_be_mapped(self):
        """Then READY says so, and arrays travel in payloads."""
        with mock.patch("mmap.mmap", side_effect=OSError), Parent(child, 2, shared=False) as parent:
            parent.reset([5, 6])
            np.testing.assert_array_equal(parent.out["obs.state"][0], np.float32(Walk().reset(seed=5)[0]))


if __name__ == "__main__":
    unittest.main()
