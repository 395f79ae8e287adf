"""Holds conversations that begin as the protocol says and go wrong somewhere, with children of every kind: fuzz.py SECONDS [SEED].

A child may answer, end by a ProtocolError, or end as after CLOSE. Any other exception, or nothing for 10 s, ends the program, which names the seed of the
conversation: fuzz.py 0 SEED holds it again. It prints how many conversations there were, how many errors the children told, and how many requests they answered
(those that a bell has answered are not counted).
"""

import contextlib
import io
import json
import mmap
import os
import random
import signal
import socket
import struct
import sys
import time
import traceback
from unittest import mock

import numpy as np

import rlb
from gymlike import AutoresetMode, Box, Dict, MultiDiscrete, SyncVectorEnv, Walk
from parent import AUTORESET, CLOSE, CONFIG, ERROR, HEADER, LOAD, RENDER, RESET, RESULT, SAVE, STEP, arrays, round_up, shape_of
from test_solver import solver

ROOM = 1 << 16  # bytes of shared memory
EDGES = [0, 1, 2, 5, 127, 128, 255, 256, 4096, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
FIELDS = [(4, "<H"), (6, "<H"), (8, "<I"), (12, "<I"), (16, "<Q"), (24, "<Q")]  # of a header: where, and in which form


class Rich(Walk):
    """A Walk with a picture, a mask of choices, and a state."""

    observation_space = Dict({"position": Box(-10, 10, (2,)), "image": Box(0, 255, (4, 6, 3), np.uint8), "action_mask": Box(0, 1, (5,), np.uint8)})
    action_space = MultiDiscrete([2, 3])
    render_mode = "rgb_array"
    x = t = 0

    def reset(self, *, seed=None, options=None):
        return self.see(super().reset(seed=seed)[0]), {}

    def step(self, action):
        assert action[0] in (0, 1) and action[1] in (0, 1, 2), action
        seen, *rest = super().step(action[0])
        return (self.see(seen), *rest)

    def see(self, seen):
        return {"position": np.float32(seen), "image": np.full((4, 6, 3), self.t % 256, np.uint8), "action_mask": np.ones(5, np.uint8)}

    def render(self):
        return np.zeros((8, 8, 3), np.uint8)

    def save(self):
        return struct.pack("<dQ", self.x, self.t)

    def load(self, state):
        self.x, self.t = struct.unpack("<dQ", state.ljust(16, b"\0"))


class Batch:
    """Walks in arrays, which any bytes are a state of."""

    observation_space, action_space, state_size = rlb.Box(-np.inf, np.inf, (1,)), rlb.Box(-1, 1, (2,)), 8

    def __init__(self, n):
        self.x = np.zeros(n)

    def reset(self, mask, seeds, out):
        out.obs[mask, 0] = self.x[mask] = seeds[mask] % 3

    def step(self, actions, mask, out):
        self.x[mask] += actions[mask, 0]
        out.obs[mask, 0] = out.reward[mask] = self.x[mask]
        out.terminated[mask] = ~(abs(self.x[mask]) < 2)

    def save(self, out):
        out[:] = self.x.view(np.uint8).reshape(-1, 8)

    def load(self, states):
        self.x[:] = np.ascontiguousarray(states).view(np.float64)[:, 0]


def conversation(address):
    """A child that speaks the protocol itself, and checks every message that it gets."""
    box = {"kind": "box", "dtype": "f32", "shape": [2], "low": None, "high": None}
    it = rlb.Conversation({"name": "plain", "lang": "python", "obs": [dict(box, name="state")], "action": box, "state_size": 4}, address)
    while it.receive() is not None:
        it.obs["state"][it.mask] = it.action[it.mask]
        it.log("seeds %s, %d bytes" % (it.seed, len(it.payload)))
        it.answer(it.ended())


def vector(mode):
    return lambda address: rlb.serve_vector(lambda n: SyncVectorEnv([Walk] * n, mode), info=["t"], address=address)


CHILDREN = [
    lambda address: rlb.serve(Rich, info=["success", "t"], state_size=16, save=Rich.save, load=Rich.load, address=address),
    lambda address: rlb.serve_batch(Batch, address=address),
    *map(vector, AutoresetMode),
    solver,
    conversation,
]


class Hostile:
    """A parent in the child's own thread: it says a little of what it has written down whenever the child is about to read, and rings when it yields."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.heard = b""
        self.script = None  # the frames that are not said yet, once the greeting is known
        self.answers = self.errors = self.time = 0
        if self.chance(0.5):
            (reading, child_writes), (child_reads, writing) = os.pipe(), os.pipe()
            self.reading, self.writing, self.child = open(reading, "rb", 0), open(writing, "wb", 0), (child_reads, child_writes)
            self.stop = self.writing.close
        else:
            own, child = socket.socketpair()
            self.reading = self.writing = own
            self.child = 2 * (child.detach(),)
            self.stop = lambda: own.shutdown(socket.SHUT_WR)
        os.set_blocking(self.reading.fileno(), False)
        self.shared = open(os.memfd_create("fuzz"), "r+b", 0)
        self.shared.truncate(ROOM)
        self.memory = mmap.mmap(self.shared.fileno(), ROOM)
        self.gone = False
        self.flees = self.chance(0.2)  # does it leave as soon as all is said?

    def chance(self, p):
        return self.random.random() < p

    def number(self):
        """Draw a number that is likely to be wrong."""
        return max(0, self.random.choice(EDGES) + self.random.randint(-1, 1)) if self.chance(0.8) else self.random.getrandbits(64)

    def listen(self):
        """Take what the child has said."""
        try:
            while True:
                more = os.read(self.reading.fileno(), ROOM)
                if not more:
                    break
                self.heard += more
        except (BlockingIOError, ConnectionResetError):
            pass
        while len(self.heard) >= 32:
            magic, kind, _, _, reserved, _, length = struct.unpack_from(HEADER, self.heard)
            assert (magic, reserved) == (b"RLB1", 0), self.heard
            if len(self.heard) < 32 + length:
                break
            if self.script is None:
                self.write(json.loads(self.heard[32:32 + length]))
            self.answers += kind == RESULT
            self.errors += kind == ERROR
            self.heard = self.heard[32 + length:]

    def write(self, greeting):
        """Write the script of a conversation with n environments, and spoil a little of it."""
        n = greeting.get("num_envs") or self.random.randint(1, 5)
        dtype, shape = shape_of(greeting["action"])
        self.members = [("action", dtype, (n,) + shape), ("seed", "<u8", (n,)), ("mask", "u1", (n,))]
        reply = [("reward", "<f4", (n,)), ("terminated", "u1", (n,)), ("truncated", "u1", (n,)), ("info", "<f4", (n, len(greeting.get("info", ()))))]
        reply += [(which + space["name"], shape_of(space)[0], (n,) + shape_of(space)[1]) for which in ("obs.", "final.") for space in greeting["obs"]]
        self.request_size = arrays(None, 0, self.members)[1]
        self.bells = arrays(None, round_up(self.request_size, 4096), reply)[1]
        shared = self.random.choice([0, self.bells, ROOM])
        self.rings = shared == ROOM
        config = struct.pack("<IIIIIIQ", 1, n, 0, self.random.randrange(4), self.chance(0.1), 0, shared)
        frames = [self.frame(CONFIG, 0, 0, 0, config + (b"/proc/self/fd/%d" % self.shared.fileno() if shared else b""))]
        for seq in range(1, self.random.randint(2, 14)):
            kind = RESET if seq == 1 else self.random.choice([RESET] + 6 * [STEP] + (seq > 4) * [SAVE, LOAD, RENDER, CLOSE])
            payload = b""
            if kind in (RESET, STEP):
                payload = self.request(kind == RESET)
                self.memory[:len(payload)] = payload
                payload = b"" if shared else payload
            elif kind == LOAD:
                payload = bytes(n * greeting.get("state_size", 0))
            elif kind == RENDER:
                payload = struct.pack("<II", self.random.randint(1, 9), self.random.randint(1, 9)) + bytes(self.random.choices(b"\0\1", k=n))
            frames.append(self.frame(kind, AUTORESET if kind == STEP and self.chance(0.7) else 0, n if kind in (RESET, STEP) else 0, seq, payload))
        self.script = self.spoil(frames)

    def frame(self, kind, flags, count, seq, payload):
        return bytearray(struct.pack(HEADER, b"RLB1", kind, flags, count, 0, seq, len(payload)) + payload)

    def request(self, whole):
        """Write a request block, which may be spoilt too."""
        block = bytearray(self.request_size)
        views, _ = arrays(block, 0, self.members)
        views["action"].flat = self.random.choices((0, 1), k=views["action"].size)
        views["seed"][:] = [self.random.getrandbits(64) for _ in views["seed"]]
        views["mask"][:] = [whole or self.chance(0.7) for _ in views["mask"]]
        if self.chance(0.1):
            block[self.random.randrange(len(block))] = self.random.randrange(256)
        return bytes(block)

    def spoil(self, frames):
        """Change, drop or repeat some of the frames, and cut the last."""
        for _ in range(self.random.choice([0, 0, 1, 1, 2, 4])):
            i = self.random.randrange(len(frames))
            frame, way = frames[i], self.random.randrange(7)
            if way < 4:
                payload = [(at, "<I") for at in range(32, len(frame) - 3, 4)] + 4 * (i == 0 and len(frame) >= 64) * [(56, "<Q")]  # of CONFIG: shared
                at, form = self.random.choice(FIELDS if way < 2 or not payload else payload)
                struct.pack_into(form, frame, at, self.number() % (1 << 8 * struct.calcsize(form)))
            elif way == 4:
                frame[self.random.randrange(len(frame))] = self.random.randrange(256)
            elif way == 5:
                del frames[i]
            else:
                frames.insert(i, bytearray(frame))
            if not frames:
                break
        if frames and self.chance(0.25):
            del frames[self.random.randrange(len(frames)) + 1:]
            del frames[-1][self.random.randint(1, len(frames[-1])):]
        return frames

    def say(self):
        """Say some bytes of the script; stop behind the last."""
        if self.gone:
            return
        self.listen()
        if self.script:
            n = self.random.randint(1, 600)
            frame = self.script.pop(0)
            os.write(self.writing.fileno(), frame[:n])
            if len(frame) > n:
                self.script.insert(0, frame[n:])
            if self.flees and not self.script:
                self.leave()
        elif self.script is not None:
            self.stop()

    def leave(self):
        self.gone = True
        for file in self.reading, self.writing, self.shared:
            file.close()

    def ring(self):
        """Change what is shared, and now and then say a frame by the bell."""
        if self.gone or not self.script or not self.rings or self.chance(0.3):
            return
        request = self.request(self.chance(0.5))
        self.memory[:len(request)] = request
        words = memoryview(self.memory)[self.bells:self.bells + 128].cast("Q")
        words[12] = self.random.randrange(2)  # does it look?
        if self.chance(0.1):
            words[self.random.randrange(16)] = self.number() % (1 << 64)
        elif self.chance(0.7) and len(self.script[0]) == 32:
            words[:4] = memoryview(self.script[0]).cast("Q")
            if self.chance(0.8):  # else it comes by the stream too
                del self.script[0]

    def clock(self):
        self.time += 5e-6
        return self.time


class Silence(BaseException):
    """The child neither reads nor ends."""


def silence(*_):
    raise Silence


def hold(seed):
    """Hold the conversation of a seed, and return its parent, and what became of the child if that must not be."""
    parent = Hostile(seed)
    read, readv = os.read, os.readv

    def feeding(call):
        def fed(fd, what):
            if fd == parent.child[0]:
                parent.say()
            return call(fd, what)
        return fed

    fault, said = None, io.StringIO()
    signal.signal(signal.SIGALRM, silence)
    signal.setitimer(signal.ITIMER_REAL, 10)
    try:
        with mock.patch.multiple("os", read=feeding(read), readv=feeding(readv), sched_yield=parent.ring), mock.patch("time.monotonic", parent.clock), \
                mock.patch.multiple("rlb.wire", MAX_PAYLOAD=ROOM, MAX_ENVS=64), contextlib.redirect_stderr(said):
            CHILDREN[seed % len(CHILDREN)]("fd:%d,%d" % parent.child)
    except rlb.ProtocolError:
        pass
    except SystemExit as end:
        if end.code and not str(end.code).startswith("rlb: "):
            fault = said.getvalue()
    except BaseException:
        fault = traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if not parent.gone:
        parent.listen()
        parent.leave()
    for fd in set(parent.child):
        try:
            os.close(fd)
        except OSError:  # the child closed it
            pass
    return parent, fault


def main(seconds, seed=0):
    conversations = errors = answers = 0
    end = time.time() + seconds
    while conversations == 0 or time.time() < end:
        parent, fault = hold(seed)
        if fault:
            sys.exit("%s\nseed %d: that is no answer, no ProtocolError, and not the end" % (fault, seed))
        conversations, errors, answers, seed = conversations + 1, errors + parent.errors, answers + parent.answers, seed + 1
    print("%d conversations, %d errors, %d answers" % (conversations, errors, answers))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or [10]))
