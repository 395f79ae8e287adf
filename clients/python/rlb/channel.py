"""Channels: what carries frames between the parent and this process, by the kinds of RLB_ADDR."""

import os
import select
import socket
import time

from . import wire

_LOOK_FOR = 20e-6  # seconds
_MAX_SLEEPS = 1023


def connect(address):
    """Open the channel to the parent at an address: fd:3,4, unix:/path, tcp:host:port or mpi:rank."""
    kind, _, rest = address.partition(":")
    if kind == "fd":
        read_fd, write_fd = (int(fd) for fd in rest.split(","))
        for fd in (read_fd, write_fd):  # programs that the simulator starts would keep the conversation open
            os.set_inheritable(fd, False)
        return Stream(read_fd, write_fd)
    if kind == "unix":
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(rest)
        return _stream_of(sock)
    if kind == "tcp":
        host, _, port = rest.rpartition(":")
        sock = socket.create_connection((host.strip("[]"), int(port)))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _stream_of(sock)
    if kind == "mpi":
        from .mpi import Messages  # which needs mpi4py

        return Messages(int(rest or 0))
    raise ValueError("RLB_ADDR is %r; valid are fd:READ,WRITE, unix:PATH, tcp:HOST:PORT and mpi:RANK" % address)


def _stream_of(sock):
    fd = sock.detach()
    return Stream(fd, fd)


class Stream:
    """Two pipes or a connected socket, by their file descriptors."""

    def __init__(self, read_fd, write_fd):
        self._read_fd = read_fd
        self._write_fd = write_fd
        readable = select.poll()
        readable.register(read_fd, select.POLLIN)
        self._readable = readable.poll
        self._vain = self._sleeps = 0  # requests to sleep for after looking in vain, and those that are left

    def _look(self):
        """Wait a moment for a frame without sleeping: to be woken takes longer than a quick parent.

        Others have the core between looks. Where looking is in vain, for the parent is slow or the cores are taken, it is left off for as many frames as
        1, 3, 7, … to _MAX_SLEEPS.
        """
        if self._sleeps:
            self._sleeps -= 1
            return
        readable, rest, clock = self._readable, os.sched_yield, time.monotonic
        until = clock() + _LOOK_FOR
        while not readable(0):
            rest()
            if clock() > until:
                self._vain = self._sleeps = min(2 * self._vain + 1, _MAX_SLEEPS)
                return
        self._vain = 0

    def header(self):
        """Wait for a frame, and return its header; nothing when the other side is gone."""
        self._look()
        frame = os.read(self._read_fd, wire.HEADER.size)
        while 0 < len(frame) < wire.HEADER.size:
            more = os.read(self._read_fd, wire.HEADER.size - len(frame))
            if not more:
                raise wire.ProtocolError("the stream ends after %d bytes of a header" % len(frame))
            frame += more
        return frame

    def read_into(self, buffer):
        """Fill a buffer with what follows of the frame."""
        view = memoryview(buffer).cast("B")
        while len(view):
            n = os.readv(self._read_fd, [view])
            if n == 0:
                raise wire.ProtocolError("the stream ends within a frame, %d bytes before its end" % len(view))
            view = view[n:]

    def write(self, header, payload=b""):
        """Send a frame."""
        if not len(payload) and os.write(self._write_fd, header) == len(header):
            return
        parts = [memoryview(header), memoryview(payload).cast("B")] if len(payload) else []
        while parts:
            n = os.writev(self._write_fd, parts)
            while parts and n >= len(parts[0]):
                n -= len(parts.pop(0))
            if parts:
                parts[0] = parts[0][n:]

    def close(self):
        for fd in {self._read_fd, self._write_fd}:
            os.close(fd)
