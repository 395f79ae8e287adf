"""Frames of the protocol RLB1, which docs/bridge.md defines. This module needs no NumPy."""

import os
import struct

VERSION = 1
MAGIC = b"RLB1"
HEADER = struct.Struct("<4sHHIIQQ")  # magic, type, flags, count, reserved, seq, length
SEQ_WORD = 2  # index of seq among the 8-byte words of a header
CONFIGURATION = struct.Struct("<IIIIIIQ")  # version, num_envs, first, max_steps, flags, reserved, shared
MAX_PAYLOAD = 1 << 31
MAX_TEXT = 1 << 20  # bytes of a greeting, an ERROR or a LOG
MAX_ENVS = 1 << 20
MAX_PATH = 4096  # bytes
MAX_SIDE = 1 << 14  # pixels of a picture

# Types of frames.
HELLO, CONFIG, READY, RESET, STEP, RESULT, CLOSE, ERROR, LOG, SAVE, LOAD, RENDER, GRADE, EXPERT = range(1, 15)

# Flags of READY, STEP and RESULT, and of the configuration.
SHARED, AUTORESET, FINAL = 1, 2, 4
NEVER_TERMINATE, INTERVENE = 1, 2


class ProtocolError(Exception):
    """The parent sent a frame that breaks the protocol."""


def unpack(frame, most=MAX_PAYLOAD):
    """Return the type, flags, count, seq and length of a header."""
    magic, kind, flags, count, reserved, seq, length = HEADER.unpack(frame)
    if magic != MAGIC or reserved or length > most:
        raise ProtocolError("a frame begins with %r; expected the header of an RLB1 frame" % frame)
    return kind, flags, count, seq, length


def token():
    """Return the secret for a socket."""
    if "RLB_TOKEN" in os.environ:
        return os.environ["RLB_TOKEN"]
    path = os.environ.get("RLB_TOKEN_FILE")
    if not path:
        return ""
    with open(path) as file:
        return file.readline().rstrip("\r\n")
