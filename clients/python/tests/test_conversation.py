"""The protocol itself: greeting, configuration, and frames that are wrong."""

import contextlib
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
from fuzz import hold
from parent import AUTORESET, CLOSE, CONFIG, ERROR, LOAD, READY, RENDER, RESET, SAVE, STEP, Parent
from test_serve import quiet


def child(address):
    rlb.serve(Walk, info=["t"], max_steps=50, name="walk", address=address)


def drawn(address):
    """A child that can be drawn."""
    class Drawn(Walk):
        render_mode = "rgb_array"
    rlb.serve(Drawn, address=address)


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
                listener.settimeout(60)
                listener.accept()[0].detach()  # where it waits for its CONFIG

    def test_address_that_is_none(self):
        with self.assertRaisesRegex(SystemExit, "^rlb: RLB_ADDR unix:x+: AF_UNIX path too long$"):
            child("unix:" + 200 * "x")

    def test_number_of_environments(self):
        with quiet(), Parent(lambda address: rlb.serve(Walk, num_envs=3, address=address), 2) as parent:
            self.assertIn("expected version 1 for 3", parent.error)


class WrongFrames(unittest.TestCase):
    """After each of these the child says ERROR, and what it found."""

    def refuse(self, message, *frame, child=child, **header):
        with self.subTest(message), quiet(), Parent(child) as parent:
            parent.reset()
            parent.seq += 1
            parent.send(*frame, **header)
            parent.seq = header.get("seq_of_answer", parent.seq - 1)
            kind, payload = parent.receive()
            self.assertEqual(kind, ERROR)
            self.assertIn(message, payload.decode())
            parent.thread.join(60)
            self.assertIn(message, str(parent.end.code))

    def test_frames(self):
        self.refuse("expected the header", STEP, AUTORESET, 2, magic=b"HTTP")
        self.refuse("expected the header", STEP, AUTORESET, 2, length=1 << 40)
        self.refuse("request 7 came after 1", STEP, AUTORESET, 2, seq=7)
        self.refuse("has the flags 0x8", STEP, 8, 2)
        self.refuse("has the flags 0x2", RESET, AUTORESET, 2)
        self.refuse("for 3 environments; there are 2", STEP, AUTORESET, 3)
        self.refuse("has 5 bytes; expected", STEP, AUTORESET, 2, b"12345")
        self.refuse("type 2 came, which is none", CONFIG)
        self.refuse("type 99 came, which is none", 99)
        self.refuse("type 10 came, which is none", SAVE)
        self.refuse("type 12 came, which is none", RENDER)
        self.refuse("has 4 bytes; expected 10", RENDER, 0, 0, b"1234", child=drawn)

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

    def test_parent_that_is_gone(self):
        """It ends the conversation as CLOSE does, whichever side was to speak: a pipe says so by EPIPE, a socket with answers unread by ECONNRESET."""
        class Lonely(Walk):
            def step(self, action):
                parent.close()
                return super().step(action)

        block = bytes(128) + b"\1" + bytes(63)
        frames = [(CONFIG, 0, 0, struct.pack("<IIIIIIQ", 1, 1, 0, 0, 0, 0, 0)), (RESET, 1, 1, block), (STEP, 1, 2, block)]
        for transport in "pipe", "socket":
            with self.subTest(transport), contextlib.ExitStack() as parent:
                if transport == "pipe":
                    (read_fd, writes), (reads, write_fd) = os.pipe(), os.pipe()
                    parent.callback(os.close, reads)
                    parent.callback(os.close, writes)
                else:
                    own, other = socket.socketpair()
                    parent.callback(own.close)
                    read_fd = write_fd = other.detach()
                    writes = own.fileno()
                for kind, count, seq, payload in frames:
                    os.write(writes, struct.pack("<4sHHIIQQ", b"RLB1", kind, 0, count, 0, seq, len(payload)) + payload)
                rlb.serve(Lonely, address="fd:%d,%d" % (read_fd, write_fd))

    def test_close_after_the_greeting(self):
        read_fd, write_fd = os.pipe()
        answers = os.open(os.devnull, os.O_WRONLY)
        os.write(write_fd, struct.pack("<4sHHIIQQ", b"RLB1", CLOSE, 0, 0, 0, 0, 0))
        with self.assertRaises(SystemExit) as end:
            child("fd:%d,%d" % (read_fd, answers))
        self.assertEqual(end.exception.code, 0)

    def test_configuration(self):
        for message, payload, *header in [  # flags and count
            ("is of version 2", struct.pack("<IIIIIIQ", 2, 1, 0, 0, 0, 0, 0)),
            ("for 0 environments", struct.pack("<IIIIIIQ", 1, 0, 0, 0, 0, 0, 0)),
            ("and 8 bytes came in place of CONFIG", b"12345678"),
            ("has flags 0x3 and reserved 0; expected flags 0 or 1", struct.pack("<IIIIIIQ", 1, 1, 0, 0, 3, 0, 0)),
            ("has flags 0x1 and reserved 7; expected flags 0 or 1, and reserved 0", struct.pack("<IIIIIIQ", 1, 1, 0, 0, 1, 7, 0)),
            ("shares 64 bytes; the blocks need", struct.pack("<IIIIIIQ", 1, 1, 0, 0, 0, 0, 64)),
            ("with flags 0x4, count 0", struct.pack("<IIIIIIQ", 1, 1, 0, 0, 0, 0, 0), 4),
            ("with flags 0x0, count 5", struct.pack("<IIIIIIQ", 1, 1, 0, 0, 0, 0, 0), 0, 5),
        ]:
            with self.subTest(message):
                read_fd, write_fd = os.pipe()
                answers = os.open(os.devnull, os.O_WRONLY)
                flags, count = (header + [0, 0])[:2]
                os.write(write_fd, struct.pack("<4sHHIIQQ", b"RLB1", CONFIG, flags, count, 0, 0, len(payload)) + payload)
                os.close(write_fd)
                with quiet(), self.assertRaises(SystemExit) as end:
                    child("fd:%d,%d" % (read_fd, answers))
                self.assertIn(message, str(end.exception.code))

    def test_memory_that_can_not_be_mapped(self):
        """Then READY says so, and arrays travel in payloads."""
        with mock.patch("mmap.mmap", side_effect=OSError), Parent(child, 2, shared=False) as parent:
            parent.reset([5, 6])
            np.testing.assert_array_equal(parent.out["obs.state"][0], np.float32(Walk().reset(seed=5)[0]))

        read_fd, write_fd = os.pipe()
        answers, said = os.pipe()
        payload = struct.pack("<IIIIIIQ", 1, 1, 0, 0, 0, 0, 1 << 63) + b"/dev/zero"
        os.write(write_fd, struct.pack("<4sHHIIQQ", b"RLB1", CONFIG, 0, 0, 0, 0, len(payload)) + payload)
        os.close(write_fd)
        child("fd:%d,%d" % (read_fd, said))
        self.assertIn(struct.pack("<4sHHIIQQ", b"RLB1", READY, 0, 0, 0, 0, 0), os.read(answers, 4096))


class Fuzz(unittest.TestCase):
    def test_spoilt_conversations(self):
        """The first of those that fuzz.py holds: with errors in some, and answers in most."""
        parents = []
        for seed in range(400):
            parent, fault = hold(seed)
            self.assertIsNone(fault, "fuzz.py 0 %d" % seed)
            parents.append(parent)
        self.assertGreater(sum(parent.answers for parent in parents), len(parents))
        self.assertTrue(0.1 < sum(parent.errors for parent in parents) / len(parents) < 0.9)


if __name__ == "__main__":
    unittest.main()
