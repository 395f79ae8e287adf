"""Grading: rlinf asks for grades of a language model's answers. This needs no NumPy."""

import json
import math
import os
import sys
import traceback

from . import frames
from .channel import connect
from .frames import ProtocolError

_TAIL = frames.MAX_TEXT // 4  # characters, of 4 bytes at most


def grade(judge, address=None):
    """Grade answers by judge(prompt, answer, solutions), until the job is over.

    prompt and answer are texts, solutions is a list of texts. The judge returns a number, or None if it can't read the answer. An answer with 1
    or more is right. An exception ends the job, with its text.
    """
    address = address or os.environ.get("RLB_ADDR")
    if not address:
        raise RuntimeError("RLB_ADDR is not set: this program is started by rlinf (reward_type: program, reward.program.command)")
    channel = connect(address)
    try:
        name = os.path.basename(sys.argv[0]) or "python"
        _send(channel, frames.HELLO, 0, _text({"v": frames.VERSION, "name": name, "grader": True, "lang": "python"}))
        seq = 0
        while True:
            header = channel.header()
            if not header:
                break
            kind, flags, count, got, length = frames.unpack(header)
            if kind == frames.CLOSE:
                break
            seq += 1
            if kind != frames.GRADE or flags or count or got != seq:
                raise ProtocolError("a frame of type %d with flags %#x, count %d and seq %d came; expected type %d, seq %d and else 0"
                                    % (kind, flags, count, got, frames.GRADE, seq))
            payload = bytearray(length)
            channel.read_into(payload)
            _send(channel, frames.RESULT, seq, _text([_one(judge, q) for q in json.loads(payload.decode())]))
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as err:
        traceback.print_exc()
        said = "".join(traceback.format_exception_only(type(err), err)).strip()
        _send(channel, frames.ERROR, 0, said[-_TAIL:].encode(errors="replace"))
        sys.exit(1)
    channel.close()


def _one(judge, question):
    """Grade one answer: a finite number or None."""
    worth = judge(question["prompt"], question["answer"], question["solutions"])
    if worth is None:
        return None
    number = float(worth)
    if not math.isfinite(number):
        raise ValueError("the judge says %r of the answer %r; expected a finite number or None" % (worth, question["answer"]))
    return number


def _text(value):
    return json.dumps(value).encode()


def _send(channel, kind, seq, payload):
    channel.write(frames.HEADER.pack(frames.MAGIC, kind, 0, 0, 0, seq, len(payload)), payload)
