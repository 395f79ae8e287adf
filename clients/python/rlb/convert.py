"""Demonstrations of other programs as files for rlinf (docs/datasets.md): python3 -m rlb.convert KIND SOURCE OUT.

KIND is minari (a folder of Minari with data/main_data.hdf5, or that file) or robomimic (its .hdf5 file). It needs h5py. A file may be larger than
memory: one episode of one tensor is read at a time.
"""

import argparse
import json
import os
import re
import struct
import sys

import numpy as np

TYPES = {"f4": "F32", "f8": "F64", "i4": "I32", "i8": "I64", "u1": "U8"}


class Failure(Exception):
    """An error of the source or the arguments."""


class Column:
    """A tensor of all transitions: its shape in one transition, its type, and a function that reads it from an episode."""

    def __init__(self, name, like, read):
        self.name, self.shape, self.read = name, tuple(like.shape[1:]), read
        kind = like.dtype.kind
        if kind not in "fiub":
            raise Failure("%s has type %s: expected numbers" % (name, like.dtype))
        if like.dtype == np.uint8 or kind == "b":
            self.dtype = np.dtype("u1")
        else:
            self.dtype = np.dtype("<f4" if kind == "f" else "<i4")

    def rows(self, episode):
        """Return the rows of an episode, in the type of the file."""
        rows = np.asarray(self.read(episode))
        if rows.shape != (episode.steps,) + self.shape:
            raise Failure("%s: %s is %s: expected %s" % (episode.name, self.name, list(rows.shape), [episode.steps] + list(self.shape)))
        if rows.dtype.kind == "f" and not np.isfinite(rows).all():
            step = int(np.argwhere(~np.isfinite(rows))[0][0])
            raise Failure("%s: %s is not finite in step %d" % (episode.name, self.name, step))
        made = rows.astype(self.dtype)
        if rows.dtype.kind in "iu" and not np.array_equal(made, rows):
            raise Failure("%s: %s has numbers outside %s" % (episode.name, self.name, self.dtype))
        return made


class Episode:
    """A group of an HDF5 file with the steps of an episode."""

    def __init__(self, group, steps):
        self.group, self.steps, self.name = group, steps, group.name


def numbered(group, prefix):
    """Return the names in a group that are prefix and a number, in the order of the numbers."""
    names = [n for n in group if re.fullmatch(prefix + r"\d+", n)]
    return sorted(names, key=lambda n: int(n[len(prefix):]))


def leaves(group, path=()):
    """Return the paths of all data sets below a group, or the empty path for a data set."""
    if not hasattr(group, "keys"):
        return [path]
    return [leaf for key in group for leaf in leaves(group[key], path + (key,))]


def at(group, first, path):
    """Return the data set that a path leads to below a name of a group."""
    node = group[first]
    for key in path:
        node = node[key]
    return node


def minari(h5, names, _):
    """Return columns, episodes and what is left out, of Minari's main_data.hdf5. Observations have one step more than actions."""
    episodes = [Episode(h5[n], len(h5[n]["rewards"])) for n in numbered(h5, "episode_")]
    if not episodes:
        raise Failure("no groups episode_0, episode_1, …: expected a file of Minari")
    one, columns = episodes[0].group, []
    for path in leaves(one["observations"]):
        name = names.pop(".".join(path), ".".join(path) or "state")
        like = at(one, "observations", path)
        columns.append(Column("observation." + name, like, lambda e, p=path: at(e.group, "observations", p)[: e.steps]))
        columns.append(Column("next_observation." + name, like, lambda e, p=path: at(e.group, "observations", p)[1 : e.steps + 1]))
    if leaves(one["actions"]) != [()]:
        raise Failure("actions are %s: expected one array" % ", ".join(".".join(p) for p in leaves(one["actions"])))
    columns.append(Column("action", chunk(one["actions"]), lambda e: chunk(e.group["actions"])))
    columns.append(Column("reward", one["rewards"], lambda e: e.group["rewards"][:]))
    columns.append(Column("terminated", np.zeros(1, bool), lambda e: e.group["terminations"][:] != 0))
    columns.append(Column("truncated", np.zeros(1, bool), lambda e: cut(e.group["terminations"][:], e.group["truncations"][:])))
    return columns, episodes, [n for n in one if n not in ("observations", "actions", "rewards", "terminations", "truncations")]


def robomimic(h5, names, mask):
    """Return columns, episodes and what is left out, of a file of robomimic. mask names a list of its demonstrations, or is ""."""
    if "data" not in h5:
        raise Failure("no group data: expected a file of robomimic")
    chosen = numbered(h5["data"], "demo_")
    if mask:
        if mask not in h5.get("mask", {}):
            raise Failure("no mask/%s: it has %s" % (mask, ", ".join(h5.get("mask", {})) or "none"))
        listed = {n.decode() if isinstance(n, bytes) else n for n in h5["mask"][mask][:]}
        chosen = [n for n in chosen if n in listed]
    episodes = [Episode(h5["data"][n], len(h5["data"][n]["actions"])) for n in chosen]
    if not episodes or "obs" not in episodes[0].group:
        raise Failure("no groups data/demo_0 with obs: expected a file with observations")
    one, columns = episodes[0].group, []
    ahead = all("next_obs" in e.group and "rewards" in e.group for e in episodes)
    for path in leaves(one["obs"]):
        name = names.pop(".".join(path), ".".join(path))
        columns.append(Column("observation." + name, at(one, "obs", path), lambda e, p=path: at(e.group, "obs", p)[:]))
        if ahead:
            columns.append(Column("next_observation." + name, at(one, "obs", path), lambda e, p=path: at(e.group, "next_obs", p)[:]))
    columns.append(Column("action", chunk(one["actions"]), lambda e: chunk(e.group["actions"])))
    zeros = lambda e: np.zeros(e.steps, np.float32)
    columns.append(Column("reward", zeros(episodes[0]), lambda e: e.group["rewards"][:] if "rewards" in e.group else zeros(e)))
    columns.append(Column("terminated", np.zeros(1, bool), ended))
    columns.append(Column("truncated", np.zeros(1, bool), lambda e: cut(ended(e), np.zeros(e.steps))))
    known = ("obs", "actions", "rewards", "dones") + (("next_obs",) if ahead else ())
    return columns, episodes, [n for n in one if n not in known]


def chunk(actions):
    """Return actions [T, A], or choices [T], as chunks of one action, [T, 1, A]."""
    return np.asarray(actions).reshape(len(actions), 1, -1)


def ended(episode):
    """Return flags that are 1 at the last step if the episode is done there: earlier flags would split it."""
    flags = np.zeros(episode.steps, bool)
    flags[-1] = "dones" in episode.group and episode.group["dones"][-1] != 0
    return flags


def cut(terminated, truncated):
    """Return truncated, and 1 at the last step of an episode that has neither flag there."""
    truncated = np.array(truncated) != 0
    truncated[-1] = truncated[-1] or not terminated[-1]
    return truncated


def write(out, env, columns, episodes):
    """Write a file of demonstrations, one tensor after the other, one episode at a time."""
    steps = sum(e.steps for e in episodes)
    returns = [float(np.sum(next(c for c in columns if c.name == "reward").rows(e), dtype=np.float64)) for e in episodes]
    tensors = [(c.name, c.dtype, (steps,) + c.shape, map(c.rows, episodes)) for c in columns]
    tensors.append(("episode.length", np.dtype("<i8"), (len(episodes),), iter([np.array([e.steps for e in episodes], "<i8")])))
    tensors.append(("episode.return", np.dtype("<f8"), (len(episodes),), iter([np.array(returns, "<f8")])))
    order = sorted(tensors, key=lambda t: -t[1].itemsize)
    begin, end = {}, 0
    for name, dtype, shape, _ in order:
        begin[name] = end
        end += dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    header = {"__metadata__": {"env": env, "episodes": str(len(episodes)), "success_rate": "0"}}
    for name, dtype, shape, _ in tensors:
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        header[name] = {"dtype": TYPES[dtype.str[1:]], "shape": list(shape), "data_offsets": [begin[name], begin[name] + size]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(8 + len(text)) % 64)
    temp = os.path.join(os.path.dirname(out), ".writing-" + os.path.basename(out))
    try:
        with open(temp, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for _, _, _, parts in order:
                for part in parts:
                    file.write(np.ascontiguousarray(part).tobytes())
        os.replace(temp, out)
    finally:
        if os.path.exists(temp):
            os.remove(temp)
    return steps


def main(arguments):
    """Convert as the arguments say, and report what is left out. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="rlb.convert", description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=["minari", "robomimic"])
    parser.add_argument("source")
    parser.add_argument("out", help="the file to write, safetensors; it must not exist")
    parser.add_argument("--env", default="", help="name of the environment in the file")
    parser.add_argument("--name", action="append", default=[], metavar="THEIRS=OURS", help="rename an observation; '=OURS' for the only one")
    parser.add_argument("--mask", default="", help="take the demonstrations of mask/MASK alone (robomimic)")
    options = parser.parse_args(arguments)
    names = dict(pair.split("=", 1) if "=" in pair else parser.error("--name %s: expected THEIRS=OURS" % pair) for pair in options.name)
    import h5py  # here, so that the help needs no h5py

    source = options.source
    if os.path.isdir(source):
        source = os.path.join(source, "data", "main_data.hdf5")
        if not os.path.exists(source):
            print("rlb.convert: %s: no such file: of Minari's formats, hdf5 is read here, parquet by rlinf data convert, and arrow is not" % source, file=sys.stderr)
            return 2
    if os.path.exists(options.out):
        print("rlb.convert: %s: expected a file that does not exist" % options.out, file=sys.stderr)
        return 2
    try:
        with h5py.File(source, "r") as h5:
            columns, episodes, left = {"minari": minari, "robomimic": robomimic}[options.kind](h5, names, options.mask)
            if names:
                raise Failure("--name: no observation %s" % ", ".join(names))
            episodes = [e for e in episodes if e.steps > 0]
            steps = write(options.out, options.env or os.path.basename(options.source), columns, episodes)
    except (OSError, KeyError, Failure) as error:
        print("rlb.convert: %s: %s" % (source, error), file=sys.stderr)
        return 1
    print("%s: %d episodes, %d transitions: %s" % (options.out, len(episodes), steps, ", ".join(c.name for c in columns)))
    if left:
        print("left out: %s" % ", ".join(left))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
