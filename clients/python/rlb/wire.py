"""Blocks of arrays of the protocol RLB1, which docs/bridge.md defines, and the names of frames."""

import numpy as np

from .frames import (  # noqa: F401
    AUTORESET, CLOSE, CONFIG, CONFIGURATION, ERROR, EXPERT, FINAL, HEADER, HELLO, INTERVENE, LOAD, LOG, MAGIC, MAX_ENVS, MAX_PATH, MAX_PAYLOAD,
    MAX_SIDE, MAX_TEXT, NEVER_TERMINATE, READY, RENDER, RESET, RESULT, SAVE, SEQ_WORD, SHARED, STEP, VERSION, ProtocolError,
)

ELEMENTS = {"f32": np.float32, "u8": np.uint8, "i32": np.int32}

BELLS = 128  # bytes
_ALIGN = 64
_PAGE = 4096


def element_and_shape(space):
    """Return the type and the shape of a value of a space in the greeting."""
    if space["kind"] == "box":
        return ELEMENTS[space["dtype"]], tuple(space["shape"])
    return np.int32, (len(space["nvec"]) if space["kind"] == "multi_discrete" else 1,)


class Block:
    """The arrays of a request or a reply. Each is [N, ...], at a multiple of 64 bytes from the beginning of the block."""

    def __init__(self, num_envs):
        self.size = 0
        self._num_envs = num_envs
        self._arrays = []

    def add(self, element, shape=()):
        """Add an array of N values of that shape, and return its offset in the block."""
        begin, shape = self.size, (self._num_envs,) + tuple(shape)
        nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(element).itemsize
        self._arrays.append((element, shape, begin))
        self.size = begin + -(-nbytes // _ALIGN) * _ALIGN
        return begin

    def views(self, buffer, begin):
        """Make the block's arrays over a buffer, from byte begin on, in the order in which they were added."""
        return [np.ndarray(shape, element, buffer, begin + at) for element, shape, at in self._arrays]


def next_page(offset):
    """Return the offset of the reply block in shared memory, after a request block of that size."""
    return -(-offset // _PAGE) * _PAGE
