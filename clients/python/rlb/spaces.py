"""Spaces of observations and actions, and how their values travel.

Gymnasium's spaces are understood by their attributes (nothing is imported): Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple. Where there is no
Gymnasium the classes here do, with the same arguments; a dictionary of spaces is a Dict.
"""

import re

import numpy as np

from .wire import ProtocolError, element_and_shape

_FLOAT_MAX = float(np.finfo(np.float32).max)
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")


class Box:
    """Arrays of numbers between low and high, which are numbers or arrays of the shape."""

    def __init__(self, low, high, shape=None, dtype=np.float32):
        self.shape = tuple(np.shape(low) if shape is None else shape)
        self.dtype = np.dtype(dtype)
        self.low = np.broadcast_to(np.asarray(low), self.shape)
        self.high = np.broadcast_to(np.asarray(high), self.shape)


class Discrete:
    """One of the numbers start, start+1, ... start+n-1."""

    def __init__(self, n, start=0):
        self.n, self.start, self.shape = int(n), int(start), ()


class MultiDiscrete:
    """An array of choices, each one of 0 ... nvec[i]-1."""

    def __init__(self, nvec):
        self.nvec = np.asarray(nvec, np.int64)
        self.shape = self.nvec.shape


def to_numpy(value):
    """Make an array of what an environment returned; tensors of torch may be on any device."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value)


class Field:
    """One array of an observation: its place in what the environment returns, its name, element and shape in the reply block, and how it gets there.

    encode takes a value, or a batch of values with one more axis in front, to the shape here; it is None where both are the same.
    """

    def __init__(self, path, space, encode=None):
        self.path = path
        self.name = ".".join(str(key) for key in path) or ("image" if space.get("dtype") == "u8" else "state")
        if not _NAME.match(self.name):
            raise ValueError("the observation %r can't be called so: a name is 1 to 64 letters, digits, '_', '-' and '.'" % self.name)
        self.space = dict(space, name=self.name)
        self.element, self.shape = element_and_shape(space)
        self.encode = encode

    def value(self, observation):
        """Find the array in an observation, or a batch of them, and encode it."""
        for key in self.path:
            observation = observation[key]
        if type(observation) is not np.ndarray:
            observation = to_numpy(observation)
        return self.encode(observation) if self.encode else observation

    def check(self, got, want):
        """Refuse a value of another shape, which NumPy might stretch."""
        if got != want:
            raise ValueError("the observation %s has shape %s; its space says %s" % (self.name, got, want))


def fields(space, path=()):
    """List the arrays of an observation space, in the order of its members.

    A Box of uint8 that is an image stays bytes, [height, width, channels]: channels come last, and a missing axis of them is added. Everything else becomes
    float32, which bounds are clipped to, except for Discrete and MultiDiscrete, which are choices counted from 0.
    """
    inner = space if isinstance(space, dict) else getattr(space, "spaces", None)
    if inner is not None:
        items = inner.items() if hasattr(inner, "items") else enumerate(inner)
        return [field for key, member in items for field in fields(member, path + (key,))]
    if hasattr(space, "nvec"):
        start, axes = np.asarray(getattr(space, "start", 0)), len(space.shape)
        choices = {"kind": "multi_discrete", "nvec": [int(n) for n in np.ravel(space.nvec)]}
        return [Field(path, choices, lambda value: (value - start).reshape(value.shape[:value.ndim - axes] + (-1,)))]
    if hasattr(space, "n") and space.shape in ((), None):
        first = int(getattr(space, "start", 0))
        return [Field(path, {"kind": "discrete", "n": int(space.n)}, lambda value: (value - first)[..., None])]
    if hasattr(space, "n"):  # MultiBinary
        return [Field(path, _box("u8" if path == ("action_mask",) else "f32", space.shape, 0, 1))]
    if not hasattr(space, "low"):
        raise TypeError("%r can't be observed: expected Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or Tuple of these" % (space,))
    if path == ("action_mask",):
        return [Field(path, _box("u8", space.shape, 0, 1))]
    if np.dtype(space.dtype) == np.uint8 and len(space.shape) in (2, 3):
        return [_image(path, space.shape)]
    return [Field(path, _box("f32", space.shape, _bounds(space.low), _bounds(space.high)))]


def _image(path, shape):
    if len(shape) == 2:
        return Field(path, _box("u8", shape + (1,), 0, 255), lambda value: value[..., None])
    if shape[0] <= 4 < shape[2]:
        return Field(path, _box("u8", shape[1:] + shape[:1], 0, 255), lambda value: np.moveaxis(value, -3, -1))
    return Field(path, _box("u8", shape, 0, 255))


def mask_field(action):
    """The field of an action mask that the environment says beside its observation; action is the greeting's space."""
    return Field(("action_mask",), _box("u8", [sum(action["nvec"]) if action["kind"] == "multi_discrete" else action["n"]], 0, 1))


def _box(dtype, shape, low=None, high=None):
    return {"kind": "box", "dtype": dtype, "shape": [int(size) for size in shape], "low": low, "high": high}


def _bounds(bound):
    """Say bounds as the greeting does: null where there is none, one number where all are equal."""
    values = [float(x) if abs(x) < _FLOAT_MAX else None for x in np.asarray(bound, np.float64).ravel()]
    values = [None if x is None else float(np.float32(x)) for x in values]
    if all(x == values[0] for x in values):
        return values[0] if values else None
    return values


class Actions:
    """An action space: how the rows of the request block become what the environment takes.

    space is the greeting's.
    """

    def __init__(self, space):
        if hasattr(space, "nvec") or (hasattr(space, "n") and space.shape not in ((), None)):
            nvec = np.asarray(getattr(space, "nvec", np.full(space.shape, 2)))
            self._start = np.asarray(getattr(space, "start", 0))
            self._dtype, self._shape, self._choices = getattr(space, "dtype", np.int64), nvec.shape, nvec.ravel().astype(np.uint32)
            self.space = {"kind": "multi_discrete", "nvec": [int(n) for n in nvec.ravel()]}
        elif hasattr(space, "n"):
            self._dtype, self._shape, self._choices = np.int64, (), np.uint32(space.n)
            self._start = int(getattr(space, "start", 0))
            self.space = {"kind": "discrete", "n": int(space.n)}
        elif hasattr(space, "low"):
            self._dtype, self._shape, self._choices, self._start = space.dtype, tuple(space.shape), None, 0
            self.space = _box("f32", space.shape, _bounds(space.low), _bounds(space.high))
        else:
            raise TypeError("%r can't be acted in: expected Box, Discrete, MultiDiscrete or MultiBinary" % (space,))
        self._shifted = bool(np.any(self._start))

    def bind(self, rows):
        """Remember the array of the request block that actions come in, [N, A]."""
        self._batch = rows.reshape((len(rows),) + self._shape)
        self._batch.setflags(write=False)
        # To check takes one operation on arrays that are there already, and a search for a byte: half the time of any().
        self._good = bytearray(rows.size)
        self._goods = np.ndarray(rows.shape, bool, self._good)
        if self._choices is None:
            self._rows, self._bounds = rows, None
        else:
            self._rows, self._bounds = rows.view(np.uint32), np.ascontiguousarray(np.broadcast_to(self._choices, rows.shape))

    def view(self):
        """Return the actions of all environments where they lie, [N, ...] float32 or int32, counted from 0, to be read only; they were checked."""
        if self._bounds is None:
            np.isfinite(self._rows, self._goods)
        else:
            np.less(self._rows, self._bounds, self._goods)
        if b"\0" in self._good:
            raise ProtocolError("an action is out of range or not finite: %s, for the space %s" % (self._batch.tolist(), self.space))
        return self._batch

    def batch(self):
        """Return the actions of all environments as their space has them, in an array that is the caller's."""
        batch = self.view().astype(self._dtype)
        if self._shifted:
            batch += self._start
        return batch

    def each(self):
        """List the actions of the environments as their space has them: numbers for Discrete, else arrays."""
        batch = self.batch()
        return batch.tolist() if self.space["kind"] == "discrete" else list(batch)


class Observer:
    """Writes observations into the arrays of a reply block: obs or final of a conversation."""

    def __init__(self, fields, arrays):
        self._fields = [(field, arrays[field.name]) for field in fields]

    def write(self, i, observation):
        """Write what environment i sees."""
        for field, array in self._fields:
            value = field.value(observation)
            field.check(value.shape, field.shape)
            array[i] = value

    def write_all(self, observations):
        """Write what the environments see from a list with an observation for each."""
        for field, array in self._fields:
            values = [field.value(observation) for observation in observations]
            for value in values:
                if value.shape != field.shape:
                    field.check(value.shape, field.shape)
            if field.shape:  # all at once: a tenth of the time
                np.concatenate(values, out=array.reshape((-1,) + field.shape[1:]), casting="unsafe")
            else:
                array[:] = values

    def write_rows(self, which, observations):
        """Write what the environments see that which says, a mask, numbers, or ... for all, from a batch of all."""
        for field, array in self._fields:
            values = field.value(observations)
            field.check(values.shape, array.shape)
            array[which] = values[which]
