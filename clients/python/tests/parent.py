"""A parent for tests: it starts a child in a thread, and speaks to it as docs/bridge.md says, by code of its own."""

import json
import os
import socket
import struct
import tempfile
import threading

import mmap
import numpy as np

HEADER = "<4sHHIIQQ"
HELLO, CONFIG, READY, RESET, STEP, RESULT, CLOSE, ERROR, LOG, SAVE, LOAD, RENDER, _, EXPERT = range(1, 15)
AUTORESET = 2


def round_up(n, to):
    return -(-n // to) * to


def shape_of(space):
    if space["kind"] == "box":
        return {"f32": "<f4", "u8": "u1"}[space["dtype"]], tuple(space["shape"])
    return "<i4", (1,) if space["kind"] == "discrete" else (len(space["nvec"]),)


def arrays(buffer, begin, members):
    """Lay arrays out one after the other, each at a multiple of 64 bytes, and return them by name, and the end."""
    out, at = {}, begin
    for name, dtype, shape in members:
        count = int(np.prod(shape, dtype=int))
        out[name] = np.frombuffer(buffer, dtype, count, at).reshape(shape) if buffer is not None else None
        at += round_up(count * np.dtype(dtype).itemsize, 64)
    return out, at


class Parent:
    """Runs child(address) in a thread, over pipes, a Unix or a TCP socket, and is a context manager that says CLOSE at the end."""

    def __init__(self, child, n=2, shared=True, max_steps=0, flags=0, transport="fd", token=None, first=0):
        self.seq, self.logs, self.end = 0, [], None
        address, accept = getattr(self, "_" + transport)()

        def run():
            try:
                child(address)
            except BaseException as err:  # SystemExit included: how the child ended
                self.end = err
            finally:
                self._child_is_gone()

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        accept()
        self._configure(n, shared, max_steps, flags, first)

    def _fd(self):
        down, up = os.pipe(), os.pipe()
        self.read_fd, self.write_fd, child = up[0], down[1], (down[0], up[1])

        def gone():
            for fd in child:
                try:
                    os.close(fd)
                except OSError:
                    pass

        self._child_is_gone = gone
        return "fd:%d,%d" % child, lambda: None

    def _unix(self):
        path = os.path.join(tempfile.mkdtemp(), "socket")
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(path)
        return self._listen(sock, "unix:" + path)

    def _tcp(self):
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        return self._listen(sock, "tcp:127.0.0.1:%d" % sock.getsockname()[1])

    def _listen(self, sock, address):
        sock.listen()
        self._child_is_gone = lambda: None

        def accept():
            self.read_fd = self.write_fd = sock.accept()[0].detach()
            sock.close()

        return address, accept

    def _configure(self, n, shared, max_steps, flags, first):
        kind, payload = self.receive()
        assert kind == HELLO, (kind, payload)
        self.greeting = json.loads(payload)
        dtype, shape = shape_of(self.greeting["action"])
        request = [("action", dtype, (n, int(np.prod(shape)))), ("seed", "<u8", (n,)), ("mask", "u1", (n,))]
        obs = [(space["name"],) + shape_of(space) for space in self.greeting["obs"]]
        reply = [("reward", "<f4", (n,)), ("terminated", "u1", (n,)), ("truncated", "u1", (n,))]
        if self.greeting.get("info"):
            reply.append(("info", "<f4", (n, len(self.greeting["info"]))))
        if self.greeting.get("intervene"):
            reply += [("intervened", "u1", (n,)), ("taken", dtype, (n, int(np.prod(shape))))]
        reply += [("obs." + name, dtype, (n,) + shape) for name, dtype, shape in obs]
        self.inline_end = arrays(None, 0, reply)[1]
        reply += [("final." + name, dtype, (n,) + shape) for name, dtype, shape in obs]
        self.request_size, self.reply_size = arrays(None, 0, request)[1], arrays(None, 0, reply)[1]
        self.reply_begin = round_up(self.request_size, 4096)
        self.n = n
        size = self.reply_begin + self.reply_size
        if shared:
            fd = os.memfd_create("rlb")
            os.ftruncate(fd, size)
            self.buffer = mmap.mmap(fd, size)
            path = b"/proc/self/fd/%d" % fd
        else:
            self.buffer, path = bytearray(size), b""
        self.__dict__.update(arrays(self.buffer, 0, request)[0])
        self.out = arrays(self.buffer, self.reply_begin, reply)[0]
        self.send(CONFIG, payload=struct.pack("<IIIIIIQ", 1, n, first, max_steps, flags, 0, size if shared else 0) + path)
        kind, payload = self.receive()
        if shared:
            os.close(fd)
        if kind == ERROR:
            self.error = payload.decode()
            return
        assert kind == READY, (kind, payload)
        self.shared = bool(self.flags & 1)

    def send(self, kind, flags=0, count=0, payload=b"", **header):
        header = dict(dict(magic=b"RLB1", seq=self.seq, length=len(payload)), **header)
        os.write(self.write_fd, struct.pack(HEADER, header["magic"], kind, flags, count, 0, header["seq"], header["length"]) + payload)

    def receive(self):
        """Return the type and payload of the next frame that is no LOG; (None, b"") when the child is gone."""
        while True:
            frame = self._exactly(32)
            if not frame:
                return None, b""
            magic, kind, self.flags, self.count, reserved, seq, length = struct.unpack(HEADER, frame)
            assert magic == b"RLB1" and reserved == 0 and (seq == self.seq or kind in (LOG, ERROR)), frame
            payload = self._exactly(length)
            if kind != LOG:
                return kind, payload
            self.logs.append(payload.decode())

    def _exactly(self, n):
        data = b""
        while len(data) < n:
            more = os.read(self.read_fd, n - len(data))
            if not more:
                return data
            data += more
        return data

    def ask(self, kind, flags=0, payload=None):
        """Make a request, and return the answer's payload; a reply block that comes inline is laid where the shared one would be."""
        batch = kind in (RESET, STEP)
        if payload is None:
            payload = bytes(self.buffer[:self.request_size]) if batch and not self.shared else b""
        self.seq += 1
        count = self.n if batch else 0
        self.send(kind, flags, count, payload)
        kind_of_answer, answer = self.receive()
        if kind_of_answer != RESULT:
            raise AssertionError("the child says: %s" % answer.decode())
        assert self.count == count
        if (batch or kind == LOAD) and not self.shared:
            assert len(answer) in (self.inline_end, self.reply_size)
            self.buffer[self.reply_begin:self.reply_begin + len(answer)] = answer
        return answer

    def reset(self, seeds=None, mask=None):
        self.mask[:] = 1 if mask is None else mask
        if seeds is not None:
            self.seed[:] = seeds
        self.ask(RESET)
        return self.out

    def step(self, action, seeds=None, autoreset=True, mask=None):
        """Step, and say whether episodes ended under AUTORESET, by the flag FINAL."""
        self.action[:] = np.reshape(action, self.action.shape)
        self.mask[:] = 1 if mask is None else mask
        if seeds is not None:
            self.seed[:] = seeds
        self.ask(STEP, AUTORESET if autoreset else 0)
        return bool(self.flags & 4)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.send(CLOSE)
        except OSError:
            pass
        self.thread.join(60)
        for fd in {self.read_fd, self.write_fd}:
            os.close(fd)
        assert not self.thread.is_alive(), "the child goes on after CLOSE"
