"""Spaces of observations and actions, and their values in frames.

Gymnasium's spaces are recognised by their attributes, without an import: Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple. The classes here, with the
same arguments, replace them without Gymnasium; a dictionary of spaces is a Dict.
"""

import math
import re

import numpy as np

from .wire import ProtocolError, element_and_shape

_FLOAT_MAX = float(np.finfo(np.float32).max)
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")


class Box:
    """Arrays of numbers between low and high. low and high are numbers, or arrays of the same shape."""

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
    """Convert a value of an environment to an array. Tensors of torch may be on any device."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value)


class Field:
    """One array of an observation: its path in the environment's observation, and its name, type and shape in the reply block.

    encode converts a value, or a batch of values with an additional first axis, to this shape; None if the shapes are equal. remark says how an unusual
    image was interpreted.
    """

    def __init__(self, path, space, encode=None, remark=None):
        self.path = path
        self.name = ".".join(str(key) for key in path) or ("image" if space.get("dtype") == "u8" else "state")
        if not _NAME.match(self.name):
            raise ValueError("the observation %r can't be called so: a name is 1 to 64 letters, digits, '_', '-' and '.'" % self.name)
        self.space = dict(space, name=self.name)
        self.element, self.shape = element_and_shape(space)
        self.encode = encode
        self.remark = remark

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


def fields(space, channels=None, path=()):
    """List the arrays of an observation space, in the order of its members.

    A Box of uint8 that is an image stays bytes, [height, width, channels]: channels come last, and a missing axis of channels is added. channels is "first" or
    "last", for all images or in a dictionary by name; by default the smaller of both axes has the channels. Discrete and MultiDiscrete become choices counted
    from 0. All other spaces become float32, with their bounds clipped to float32.
    """
    inner = space if isinstance(space, dict) else getattr(space, "spaces", None)
    if inner is not None:
        items = inner.items() if hasattr(inner, "items") else enumerate(inner)
        return [field for key, member in items for field in fields(member, channels, path + (key,))]
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
        return [_image(path, tuple(space.shape), channels)]
    return [Field(path, _box("f32", space.shape, _bounds(space.low), _bounds(space.high)))]


def _image(path, shape, channels):
    if len(shape) == 2:
        return Field(path, _box("u8", shape + (1,), 0, 255), lambda value: value[..., None])
    last = Field(path, _box("u8", shape, 0, 255))
    if isinstance(channels, dict):
        channels = channels.get(last.name)
    if channels is None and shape[0] < min(shape[1:]):
        channels = "first"
    elif channels is None and shape[2] < min(shape[:2]):
        channels = "last"
    if channels not in ("first", "last"):
        said = "%r" % (channels,) if channels is not None else "no axis at an end is the smallest"
        raise ValueError("the image %s of shape %s: %s: expected channels=\"first\" or \"last\", or {\"%s\": ...}" % (last.name, shape, said, last.name))
    if channels == "last" and shape[2] <= 4:
        return last
    count, height, width = shape if channels == "first" else (shape[2],) + shape[:2]
    last.remark = "rlb: the image %s of shape %s: %d channels come %s, of %d by %d pixels" % (last.name, shape, count, channels, height, width)
    if channels == "last":
        return last
    return Field(path, _box("u8", shape[1:] + shape[:1], 0, 255), lambda value: np.moveaxis(value, -3, -1), last.remark)


def mask_field(action):
    """Return the field of an action mask that the environment reports beside its observation. action is the greeting's action space."""
    return Field(("action_mask",), _box("u8", [sum(action["nvec"]) if action["kind"] == "multi_discrete" else action["n"]], 0, 1))


def _box(dtype, shape, low=None, high=None):
    return {"kind": "box", "dtype": dtype, "shape": [int(size) for size in shape], "low": low, "high": high}


def _bounds(bound):
    """Return bounds for the greeting: None for no bound, one number if all are equal."""
    values = [float(x) if abs(x) < _FLOAT_MAX else None for x in np.asarray(bound, np.float64).ravel()]
    values = [None if x is None else float(np.float32(x)) for x in values]
    if all(x == values[0] for x in values):
        return values[0] if values else None
    return values


def _limits(space):
    """Return the bounds of a Box in its own type, as whole numbers for a Box of whole numbers."""
    dtype, shape = np.dtype(space.dtype), tuple(space.shape)
    if dtype.kind not in "fiub":
        raise TypeError("actions can't be %s: expected a Box of floats or whole numbers" % dtype)
    low, high = np.broadcast_to(space.low, shape), np.broadcast_to(space.high, shape)
    if dtype.kind == "f":
        return low.astype(dtype), high.astype(dtype)
    least, most = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))

    def whole(bounds, round_inwards):
        numbers = [least if x <= least else most if x >= most else round_inwards(x) for x in bounds.ravel().tolist()]
        return np.array(numbers, dtype).reshape(shape)

    low, high = whole(low, math.ceil), whole(high, math.floor)
    if (low > high).any():
        raise ValueError("there is no whole number from %s to %s: expected a Box with at least one" % (space.low, space.high))
    return low, high


def _within(low, high):
    """Return the smallest and the largest float32 within bounds."""
    with np.errstate(over="ignore"):
        least, most = low.astype(np.float32), high.astype(np.float32)
    least = np.where(least.astype(np.longdouble) < low, np.nextafter(least, np.float32(np.inf)), least)
    return least, np.where(most.astype(np.longdouble) > high, np.nextafter(most, np.float32(-np.inf)), most)


def _whole(numbers, low, high):
    """Round to the nearest whole numbers, halves to even, within bounds and in their type."""
    nearest = np.rint(numbers.astype(np.float64))  # float64 represents every whole number of 32 bits
    with np.errstate(invalid="ignore"):  # numbers outside the type are replaced below
        whole = nearest.astype(low.dtype)
    np.copyto(whole, low, where=nearest <= low.astype(np.float64))
    np.copyto(whole, high, where=nearest >= high.astype(np.float64))
    return whole


class Actions:
    """An action space: converts rows of the request block to actions of the environment.

    space is the space in the greeting.
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
            self._dtype, self._shape, self._choices, self._start = np.dtype(space.dtype), tuple(space.shape), None, 0
            self._low, self._high = _limits(space)
            self._low32, self._high32 = _within(self._low, self._high)
            self._floats = self._dtype.kind == "f" and self._dtype.itemsize >= 4 and bool((self._low32 <= self._high32).all())
            self.space = _box("f32", space.shape, _bounds(space.low), _bounds(space.high))
        else:
            raise TypeError("%r can't be acted in: expected Box, Discrete, MultiDiscrete or MultiBinary" % (space,))
        self._shifted = bool(np.any(self._start))

    def bind(self, rows):
        """Set the array of the actions in the request block, [N, A]."""
        self._batch = rows.reshape((len(rows),) + self._shape)
        self._batch.setflags(write=False)
        self._boxed = np.empty_like(self._batch)
        self._shown = self._boxed.view()
        self._shown.setflags(write=False)
        # The check is one operation on existing arrays, and a search for a byte: half the time of any().
        self._good = bytearray(rows.size)
        self._goods = np.ndarray(rows.shape, bool, self._good)
        if self._choices is None:
            self._rows, self._bounds = rows, None
        else:
            self._rows, self._bounds = rows.view(np.uint32), np.ascontiguousarray(np.broadcast_to(self._choices, rows.shape))

    def _checked(self):
        """Check the actions of all environments, and return them in the request block, [N, ...] float32 or int32, choices counted from 0."""
        if self._bounds is None:
            np.isfinite(self._rows, self._goods)
        else:
            np.less(self._rows, self._bounds, self._goods)
        if b"\0" in self._good:
            raise ProtocolError("an action is out of range or not finite: %s, for the space %s" % (self._batch.tolist(), self.space))
        return self._batch

    def view(self):
        """Return the actions of all environments, [N, ...], read only. Choices are int32, counted from 0, in the request block. Other actions are float32 within
        the bounds of their Box; for a Box of whole numbers, of float16, or too narrow for float32, they have the type of the space.
        """
        if self._choices is not None:
            return self._checked()
        if not self._floats:
            batch = self.batch()
            batch.setflags(write=False)
            return batch
        np.maximum(self._checked(), self._low32, self._boxed)
        np.minimum(self._boxed, self._high32, self._boxed)
        return self._shown

    def batch(self):
        """Return the actions of all environments in the type of their space, in a new array. Numbers of a Box are within its bounds; whole numbers are rounded
        to the nearest, halves to even.
        """
        batch = self._checked()
        if self._choices is None and self._dtype.kind != "f":
            return _whole(batch, self._low, self._high)
        batch = batch.astype(self._dtype)
        if self._shifted:
            batch += self._start
        if self._choices is None:  # rounding may have left the bounds
            np.minimum(batch, self._high, batch)
            np.maximum(batch, self._low, batch)
        return batch

    def rows(self, actions):
        """Return actions of environments, in the type of their space, as bytes of rows as in the request block. An action of None is 0."""
        rows = np.zeros((len(actions), self._batch[:1].size), np.float32 if self._choices is None else np.int32)
        for row, action in zip(rows, actions):
            if action is not None:
                self.write(row, action, "the expert's action")
        return rows.tobytes()

    def write(self, row, action, what):
        """Write an action, in the type of its space, to a row of numbers as in the request block. what names the action in messages."""
        action = to_numpy(action)
        if action.size != row.size:
            raise ValueError("%s is %r, expected %d numbers" % (what, action, row.size))
        row[:] = (action.reshape(self._shape) - self._start).ravel()

    def packed(self, actions):
        """Return actions in the form of view as bytes of rows as in the request block."""
        return actions.astype(np.float32 if self._choices is None else np.int32).tobytes()

    def each(self):
        """List the actions of the environments in the type of their space: numbers for Discrete, else arrays."""
        batch = self.batch()
        return batch.tolist() if self.space["kind"] == "discrete" else list(batch)


class Observer:
    """Writes observations into the arrays of a reply block: obs or final of a conversation."""

    def __init__(self, fields, arrays):
        self._fields = [(field, arrays[field.name]) for field in fields]

    def write(self, i, observation):
        """Write the observation of environment i, at once: the environment may use its memory again for the next one."""
        for field, array in self._fields:
            value = field.value(observation)
            if value.shape != field.shape:
                field.check(value.shape, field.shape)
            array[i] = value

    def write_rows(self, which, observations):
        """Write the observations of some environments from a batch of all. which is a mask, numbers, or ... for all."""
        for field, array in self._fields:
            values = field.value(observations)
            field.check(values.shape, array.shape)
            array[which] = values[which]


def encode(space, observation, *, channels=None, batched=False):
    """Return the arrays that rlinf shows a policy for an observation: a dictionary by name, of arrays [1, ...]. These are the inputs of an exported policy.

    If batched is true, each member of observation has an additional first axis, and the arrays are [N, ...]. fields describes channels.
    """
    arrays = {}
    for field in fields(space, channels):
        value = field.value(observation)
        if not batched:
            field.check(value.shape, field.shape)
            value = value[None]
        field.check(value.shape[1:], field.shape)
        arrays[field.name] = np.ascontiguousarray(value, field.element)
    return arrays


def decode(space, action):
    """List the actions in a space for the output "action" of an exported policy, [N, A]. Whole numbers are rounded to the nearest, halves to even."""
    actions = Actions(space)
    action = np.asarray(action)
    rows = np.array(action.reshape(len(action), -1), np.float32 if actions.space["kind"] == "box" else np.int32)
    actions.bind(rows)
    return actions.each()
