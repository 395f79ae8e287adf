"""Channels carry frames between the parent and this process, one class for each kind of RLB_ADDR."""

import os
import platform
import select
import socket
import struct
import threading
import time

from . import frames

_LOOK_FOR = 50e-6  # seconds
_MAX_SLEEPS = 63
_PATIENCE = 10  # seconds to wait for an rlinf that does not listen yet

# Indices of 8-byte words of the bells. Each bell has a header, and a word that is 1 while the receiver polls. The bell of requests comes first, then that of results.
_SEQ, _LOOKING = frames.SEQ_WORD, 4
_RESULT, _RESULT_SEQ, _RESULT_LOOKING = 8, 10, 12
_BELL_LOOKS = range(80)
_BESIDE_LOOKS = range(400)  # if the parent runs on another core
_WORDS = struct.Struct("<QQQQ")

# Python has no memory barriers, so bells need a processor that keeps the order of stores.
_ORDERED = platform.machine() in ("x86_64", "AMD64")


def connect(address):
    """Open the channel to the parent at an address: fd:3,4, unix:/path, tcp:host:port or mpi:rank."""
    kind, _, rest = address.partition(":")
    if kind == "fd":
        read_fd, write_fd = (int(fd) for fd in rest.split(","))
        for fd in (read_fd, write_fd):  # otherwise programs that the simulator starts keep the conversation open
            os.set_inheritable(fd, False)
        return Stream(read_fd, write_fd)
    if kind == "unix":
        return _dial(address, lambda: _unix(rest))
    if kind == "tcp":
        host, _, port = rest.rpartition(":")
        return _dial(address, lambda: _tcp(host.strip("[]"), int(port)))
    if kind == "mpi":
        from .mpi import Messages  # needs mpi4py

        return Messages(int(rest or 0))
    raise ValueError("RLB_ADDR is %r; valid are fd:READ,WRITE, unix:PATH, tcp:HOST:PORT and mpi:RANK" % address)


def _dial(address, socket_of):
    """Return the stream of a socket that socket_of connects. It retries for a while, because rlinf may not listen yet."""
    by = time.monotonic() + _PATIENCE
    while True:
        try:
            fd = socket_of().detach()
            return Stream(fd, fd)
        except OSError as err:
            early = isinstance(err, (ConnectionRefusedError, FileNotFoundError))
            if not early or time.monotonic() > by:
                after = " for %g s: does rlinf listen there?" % _PATIENCE if early else ""
                raise frames.ProtocolError("RLB_ADDR %s: %s%s" % (address, err.strerror or err, after)) from None
        time.sleep(_PATIENCE / 100)


def _unix(path):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    return sock


def _tcp(host, port):
    sock = socket.create_connection((host, port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


class Stream:
    """Two pipes or a connected socket, by their file descriptors."""

    def __init__(self, read_fd, write_fd):
        self._read_fd = read_fd
        self._write_fd = write_fd
        readable = select.poll()
        readable.register(read_fd, select.POLLIN)
        self._readable = readable.poll
        self._vain = self._sleeps = 0  # requests to block for after the last failed polling, and those left
        self._bells = self._request = None  # words of the bells, and of the request's header in them; None: no bells
        self._heard = 0  # seq of the last frame from the bell
        # The parent runs on another core: a frame came between two polls, and every later frame came before this side yielded. While this is set, LOOKING is 1.
        self._beside = False
        self._rung_words = None  # words of the last header in the bell of results
        barrier = threading.Lock()
        self._acquire, self._release = barrier.acquire, barrier.release

    def hang(self, bells):
        """Use the bells, a writable buffer that is shared with the parent, from now on. Return whether this process can use bells."""
        if _ORDERED:
            self._bells = memoryview(bells).cast("B").cast("Q")
            self._request = self._bells[:4]
        return _ORDERED

    def rings(self, words):
        """If the parent runs on another core, poll the bell for a moment, and return whether the frame with these header words has come.

        Any other frame is left to the method header.
        """
        if self._beside:
            bells, heard = self._bells, self._heard
            for _ in _BESIDE_LOOKS:
                seq = bells[_SEQ]
                if seq != heard:
                    if seq == words[_SEQ] and self._request == words:  # seq first: the parent writes it last
                        self._heard = seq
                        return True
                    break
        return False

    def _look(self):
        """Poll for a frame for a moment, because waking up takes longer than a fast parent's next request. Return its header if it came by the bell.

        Between rounds of polls, the core is yielded. If polling fails, because the parent is slow or the cores are busy, the next 1, 3, 7, … up to _MAX_SLEEPS
        frames are awaited without polling.
        """
        if self._sleeps:
            self._sleeps -= 1
            return None
        readable, rest, clock, bells, heard = self._readable, os.sched_yield, time.monotonic, self._bells, self._heard
        if bells is not None:
            if not bells[_LOOKING]:
                bells[_LOOKING] = 1
            if bells[_SEQ] != heard:
                return self._rung()
            self._beside = False
            rest()  # the parent may need this core
        until = clock() + _LOOK_FOR
        while True:
            if bells is not None:
                for look in _BELL_LOOKS:
                    if bells[_SEQ] != heard:
                        self._vain, self._beside = 0, look > 0
                        return self._rung()
            if readable(0):
                break
            rest()
            if clock() > until:
                self._vain = self._sleeps = min(2 * self._vain + 1, _MAX_SLEEPS)
                if bells is not None:
                    bells[_LOOKING] = 0
                    self._order()
                    if bells[_SEQ] != heard:  # the frame came before the parent noticed
                        return self._rung()
                return None
        self._vain = 0
        return None

    def _rung(self):
        """Take the header from the bell. seq is read once, and first, because the other words may already be those of the next frame."""
        bells = self._bells
        self._heard = seq = bells[_SEQ]
        return _WORDS.pack(bells[0], bells[1], seq, bells[3])

    def _order(self):
        """Order all writes before all later reads. Acquiring and releasing a lock is a memory barrier."""
        self._acquire(False)
        self._release()

    def ring(self, words):
        """Write the header of a RESULT, given by its words, to the bell, and send the frame if the parent does not poll the bell."""
        bells = self._bells
        if words is not self._rung_words:  # otherwise only seq differs
            bells[_RESULT], bells[_RESULT + 1], bells[_RESULT + 3] = words[0], words[1], words[3]
            self._rung_words = words
        bells[_RESULT_SEQ] = words[_SEQ]  # last
        self._acquire(False)  # as _order does
        self._release()
        if not bells[_RESULT_LOOKING]:
            self.write(words.tobytes())

    def header(self):
        """Wait for a frame, and return its header; nothing if the other side is gone."""
        frame = self._look()
        if frame is not None:
            return frame
        frame = self._receive(os.read, frames.HEADER.size)
        while 0 < len(frame) < frames.HEADER.size:
            more = self._receive(os.read, frames.HEADER.size - len(frame))
            if not more:
                raise frames.ProtocolError("the stream ends after %d bytes of a header" % len(frame))
            frame += more
        return frame

    def read_into(self, buffer):
        """Fill a buffer with the next bytes of the frame."""
        view = memoryview(buffer).cast("B")
        while len(view):
            n = self._receive(os.readv, [view])
            if not n:
                raise frames.ProtocolError("the stream ends within a frame, %d bytes before its end" % len(view))
            view = view[n:]

    def _receive(self, read, what):
        try:
            return read(self._read_fd, what)
        except ConnectionResetError:  # the parent left with answers unread
            return b""

    def write(self, header, payload=b""):
        """Send a frame. If the parent is gone, the frame is lost, and the next call of header returns nothing."""
        try:
            self._write(header, payload)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def _write(self, header, payload):
        parts = [memoryview(header), memoryview(payload).cast("B")]
        if not len(payload):  # most frames; faster than a list
            parts = [parts[0][os.write(self._write_fd, header):]]
        while parts and len(parts[-1]):
            n = os.writev(self._write_fd, parts)
            while parts and n >= len(parts[0]):
                n -= len(parts.pop(0))
            if parts:
                parts[0] = parts[0][n:]

    def close(self):
        for fd in {self._read_fd, self._write_fd}:
            os.close(fd)
