"""A conversation with the parent: greeting, configuration, shared memory, requests and answers."""

import json
import mmap
import os

import numpy as np

from . import wire
from .channel import connect
from .frames import token as secret
from .frames import unpack
from .wire import ProtocolError


class Conversation:
    """The child's side of a conversation. The constructor sends the greeting; then receive and answer take turns until receive returns None.

    Arrays of the request block, to read after receive (N environments, first the parent's):

        action      [N, A] float32 (box) or int32
        seed        [N] uint64
        mask        [N] bool: the environments that RESET resets and STEP steps

    Arrays of the reply block, to write before answer; numbers that are not written keep their values:

        reward      [N] float32
        terminated  [N] bool
        truncated   [N] bool
        info        [N, M] float32, the figures that the greeting names
        intervened  [N] bool: a person acted in place of the policy; None unless the greeting has intervene
        taken       [N, A] as action: what the person did
        obs, final  dictionaries of an array [N, ...] for each observation, by name

    The arrays are in memory that is shared with the parent, if both sides can share it. They stay the same arrays.

    greeting is the JSON of docs/bridge.md as a dictionary; v and token are added. The defaults of address and token are the environment variables RLB_ADDR,
    and RLB_TOKEN or the file RLB_TOKEN_FILE.
    """

    def __init__(self, greeting, address=None, token=None):
        address = os.environ.get("RLB_ADDR") if address is None else address
        if not address:
            raise RuntimeError("RLB_ADDR is not set: this program is started by rlinf (env_type: external, external.command), "
                               "or by hand beside an rlinf that listens, with RLB_ADDR=unix:PATH or tcp:HOST:PORT")
        self.seq = 0
        self.payload = b""
        self._count = 0
        self._state_size = greeting.get("state_size", 0)
        self._renders = greeting.get("render", False)
        self._has_expert = greeting.get("expert", False)
        self._channel = connect(address)
        self.logged = address.startswith("fd:")  # the parent has started this process, and its log has the output
        hello = json.dumps(dict(greeting, v=wire.VERSION, token=secret() if token is None else token), allow_nan=False).encode()
        if len(hello) > wire.MAX_TEXT:
            raise ValueError("the greeting has %d bytes; at most %d are allowed: give bounds that are all the same as one number"
                             % (len(hello), wire.MAX_TEXT))
        self._send(wire.HELLO, payload=hello)
        try:
            self._configure(greeting)
        except ProtocolError as err:
            self.error(str(err))
            raise

    def _configure(self, greeting):
        frame = self._channel.header()
        if not frame:
            raise ProtocolError("the parent went away before its CONFIG; its log says why")
        kind, flags, count, seq, length = _unpack(frame)
        if kind == wire.CLOSE:  # the parent only asked for the greeting
            raise SystemExit(0)
        if kind != wire.CONFIG or flags or count or seq or not 0 <= length - wire.CONFIGURATION.size <= wire.MAX_PATH:
            raise ProtocolError("a frame of type %d with flags %#x, count %d, seq %d and %d bytes came in place of CONFIG; expected type %d, %d to %d bytes, and else 0"
                                % (kind, flags, count, seq, length, wire.CONFIG, wire.CONFIGURATION.size, wire.CONFIGURATION.size + wire.MAX_PATH))
        payload = self._read(length)
        version, self.num_envs, self.first, self.max_steps, flags, reserved, shared = wire.CONFIGURATION.unpack_from(payload)
        exactly = greeting.get("num_envs", 0)
        if version != wire.VERSION or not 1 <= self.num_envs <= wire.MAX_ENVS or exactly not in (0, self.num_envs):
            raise ProtocolError("CONFIG is of version %d for %d environments; expected version %d for %s"
                                % (version, self.num_envs, wire.VERSION, exactly or "1 to %d" % wire.MAX_ENVS))
        want = wire.INTERVENE if greeting.get("intervene") else 0
        if want & ~flags:
            raise ProtocolError("CONFIG has flags %#x; expected flag %d, because a person may act (intervene): this rlinf is too old" % (flags, want))
        if flags & ~(wire.NEVER_TERMINATE | want) or reserved:
            raise ProtocolError("CONFIG has flags %#x and reserved %d; expected flags %d or %d, and reserved 0"
                                % (flags, reserved, want, want | wire.NEVER_TERMINATE))
        self.never_terminate = bool(flags & wire.NEVER_TERMINATE)
        self._lay_out(greeting)
        memory = _share(payload[wire.CONFIGURATION.size:], shared, self._reply_begin + self._reply_size) if shared else None
        self.shared = memory is not None
        end = self._reply_begin + self._reply_size
        self._memory = memory if self.shared else bytearray(end)
        self._view(greeting)
        self._belled = self.shared and shared >= end + wire.BELLS and self._channel.hang(memoryview(memory)[end:end + wire.BELLS])
        self._spoke = False  # a log line was sent since the last answer
        self._flags = 0  # flags of the last STEP, and probably of the next
        self._step = self._words(wire.STEP)
        self._results = self._words(wire.RESULT), self._words(wire.RESULT, wire.FINAL)
        self._send(wire.READY, flags=wire.SHARED if self.shared else 0)

    def _words(self, kind, flags=0):
        """Return the 8-byte words of a header, for a frame for all environments without payload. The caller sets the word of seq."""
        return memoryview(bytearray(wire.HEADER.pack(wire.MAGIC, kind, flags, self.num_envs, 0, 0, 0))).cast("Q")

    def _lay_out(self, greeting):
        self._request = wire.Block(self.num_envs)
        self._request.add(*wire.element_and_shape(_flat(greeting["action"])))
        self._request.add(np.uint64)
        self._mask_begin = self._request.add(np.bool_)
        self._mask_end = self._mask_begin + self.num_envs
        self._reply_begin = wire.next_page(self._request.size)

        self._reply = wire.Block(self.num_envs)
        self._reply.add(np.float32)
        self._ends_begin = self._reply_begin + self._reply.add(np.bool_)
        self._ends_end = self._reply_begin + self._reply.add(np.bool_) + self.num_envs
        if greeting.get("info"):
            self._reply.add(np.float32, (len(greeting["info"]),))
        if greeting.get("intervene"):
            self._reply.add(np.bool_)
            self._reply.add(*wire.element_and_shape(_flat(greeting["action"])))
        for space in greeting["obs"]:
            self._reply.add(*wire.element_and_shape(space))
        self._reply_without_final = self._reply.size
        for space in greeting["obs"]:
            self._reply.add(*wire.element_and_shape(space))
        self._reply_size = self._reply.size

    def _view(self, greeting):
        self.action, self.seed, self.mask = self._request.views(self._memory, 0)
        self.reward, self.terminated, self.truncated, *rest = self._reply.views(self._memory, self._reply_begin)
        self.info = rest.pop(0) if greeting.get("info") else np.empty((self.num_envs, 0), np.float32)
        self.intervened, self.taken = (rest.pop(0), rest.pop(0)) if greeting.get("intervene") else (None, None)
        names = [space["name"] for space in greeting["obs"]]
        self.obs = dict(zip(names, rest))
        self.final = dict(zip(names, rest[len(names):]))
        whole = memoryview(self._memory)
        self._request_bytes = whole[:self._request.size]
        self._reply_bytes = whole[self._reply_begin:self._reply_begin + self._reply_size]

    def receive(self):
        """Wait for the next request, and return its type and flags; None when the conversation is over."""
        if self._belled:
            self._step[wire.SEQ_WORD] = self.seq + 1
            if self._channel.rings(self._step):  # most requests are the same STEP, and comparing is faster than unpacking
                self.seq += 1
                self._count = self.num_envs
                return wire.STEP, self._flags
        while True:
            frame = self._channel.header()
            if not frame:
                return None
            kind, flags, count, seq, length = _unpack(frame)
            if kind == wire.CLOSE:
                return None
            batch = kind == wire.STEP or kind == wire.RESET
            if not self._belled or not batch or seq > self.seq or length:
                break  # otherwise the frame has come by the bell before
        if seq != self.seq + 1:
            raise ProtocolError("request %d came after %d" % (seq, self.seq))
        if flags and (kind, flags) != (wire.STEP, wire.AUTORESET):
            raise ProtocolError("a request of type %d has the flags %#x" % (kind, flags))
        if count != (self.num_envs if batch else 0):
            raise ProtocolError("a request of type %d is for %d environments; there are %d" % (kind, count, self.num_envs))
        if length != (0 if batch and self.shared else self._length(kind)):
            raise ProtocolError("a request of type %d has %d bytes; expected %d" % (kind, length, self._length(kind)))
        self.seq, self._count = seq, count
        if kind == wire.STEP and flags != self._flags:
            self._flags, self._step = flags, self._words(kind, flags)
        if length and batch:
            self._channel.read_into(self._request_bytes)
        elif length:
            self.payload = self._read(length)
        return kind, flags

    def _length(self, kind):
        if kind in (wire.STEP, wire.RESET):
            return len(self._request_bytes)
        if kind == wire.RENDER and self._renders:
            return 8 + self.num_envs
        if kind in (wire.SAVE, wire.LOAD) and self._state_size:
            return self.num_envs * self._state_size if kind == wire.LOAD else 0
        if kind == wire.EXPERT and self._has_expert:
            return 0
        raise ProtocolError("a request of type %d came, which is none" % kind)

    def answer(self, final=False):
        """Answer the request with the reply block; final: an episode ended under AUTORESET."""
        if self._belled and self._count and not self._spoke:
            result = self._results[1 if final else 0]
            result[wire.SEQ_WORD] = self.seq
            self._channel.ring(result)
        else:  # there are no bells, or the parent reads the stream: behind what was said, for LOAD
            self._spoke = False
            self._send(wire.RESULT, wire.FINAL if final else 0, self._count, b"" if self.shared else self._reply_bytes[:None if final else self._reply_without_final])

    def answer_with(self, payload):
        """Answer SAVE, RENDER or EXPERT with these bytes."""
        self._send(wire.RESULT, 0, self._count, payload)

    def ended(self):
        """Return whether terminated or truncated of any environment is set."""
        return self._memory.find(b"\1", self._ends_begin, self._ends_end) >= 0

    def whole(self):
        """Return whether the request is for all environments: the mask has no 0."""
        return self._memory.find(b"\0", self._mask_begin, self._mask_end) < 0

    def log(self, text):
        """Write to the log of the rank."""
        self._spoke = True
        self._send(wire.LOG, payload=text.encode())

    def error(self, text):
        """Send ERROR with the end of a text, if the parent still listens. A character has 4 bytes at most."""
        try:
            self._send(wire.ERROR, payload=text[-(wire.MAX_TEXT // 4):].encode(errors="replace"))
        except OSError:
            pass

    def close(self):
        self._channel.close()

    def _send(self, kind, flags=0, count=0, payload=b""):
        self._channel.write(wire.HEADER.pack(wire.MAGIC, kind, flags, count, 0, self.seq, len(payload)), payload)

    def _read(self, length):
        payload = bytearray(length)
        self._channel.read_into(payload)
        return bytes(payload)


def _unpack(frame):
    return unpack(frame, wire.MAX_PAYLOAD)


def _flat(action):
    """Return the action's space as in the request block: one row of numbers."""
    if action["kind"] != "box":
        return action
    return dict(action, shape=[int(np.prod(action["shape"], dtype=np.int64))])


def _share(path, size, need):
    """Map the shared memory, or return None if that fails; then arrays travel in payloads."""
    if size < need:
        raise ProtocolError("CONFIG shares %d bytes; the blocks need %d" % (size, need))
    try:
        fd = os.open(os.fsdecode(path), os.O_RDWR | os.O_CLOEXEC)
        try:
            return mmap.mmap(fd, size)  # refuses shorter files
        finally:
            os.close(fd)
    except (OSError, ValueError, OverflowError):
        return None
