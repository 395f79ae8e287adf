"""The channel of solvers in one MPI job with rlinf, by mpi4py: a message of MPI_COMM_WORLD for each frame."""

import functools
import os
import time

from mpi4py import MPI

from . import frames

_TAG = 21586
_SPIN, _SLEEP = 50e-6, 20e-6  # seconds: waiting keeps no core busy for long


@functools.lru_cache(maxsize=None)
def split():
    """Return the solver's own communicator. The first call is collective: all ranks of the solver must make it before any other call of rlb."""
    application = int(os.environ.get("RLB_APP") or MPI.COMM_WORLD.Get_attr(MPI.APPNUM) or 0)
    return MPI.COMM_WORLD.Split(application, MPI.COMM_WORLD.Get_rank())


class Messages:
    """Carries frames to and from the parent. Only rank 0 of split(), the root, may use it."""

    def __init__(self, rank):
        split()
        self._parent = rank
        self._source = MPI.ANY_SOURCE  # until the parent has sent a message
        self._rest = memoryview(b"")

    def header(self):
        status, began = MPI.Status(), time.perf_counter()
        while not MPI.COMM_WORLD.Iprobe(self._source, _TAG, status):
            if time.perf_counter() - began > _SPIN:
                time.sleep(_SLEEP)
        self._parent = self._source = status.Get_source()
        message = bytearray(status.Get_count(MPI.BYTE))
        MPI.COMM_WORLD.Recv([message, MPI.BYTE], self._source, _TAG)
        if len(message) < frames.HEADER.size:
            raise frames.ProtocolError("a message has %d bytes; a header has %d" % (len(message), frames.HEADER.size))
        self._rest = memoryview(message)[frames.HEADER.size:]
        return bytes(message[:frames.HEADER.size])

    def read_into(self, buffer):
        view = memoryview(buffer).cast("B")
        if len(view) != len(self._rest):
            raise frames.ProtocolError("a message has %d bytes of payload, and says %d" % (len(self._rest), len(view)))
        view[:] = self._rest

    def write(self, header, payload=b""):
        message = bytearray(header) + memoryview(payload).cast("B")
        MPI.COMM_WORLD.Send([message, MPI.BYTE], self._parent, _TAG)

    def hang(self, bells):
        """Return False: messages of MPI have no bells."""
        return False

    def close(self):
        pass
