"""Serving environments that compute on arrays, and read and write the arrays of rlinf directly."""

import types

import numpy as np

from . import spaces
from .play import play, state_type
from .wire import ProtocolError


def serve_batch(make, *, num_envs=0, name=None, max_steps=0, info=(), goal=None, channels=None, address=None):
    """Play environments that compute on arrays. They read and write the arrays of rlinf directly, without a copy.

    make(n), a class for example, makes an object that plays n environments, by

        observation_space, action_space    the spaces of one environment; if make has them too, as a class does, make(1) is not called for them
        reset(mask, seeds, out)            begins episodes where mask is True, with the seed (uint64) of each environment, and writes their out.obs
        step(actions, mask, out)           takes a step where mask is True, and writes out.obs, out.reward, out.terminated, out.truncated there. The other
                                           environments wait for a reset or the end of a chunk of actions; their rows are restored after the call
        state_size, save(out), load(states)    optional: writes, or restores, the state of all environments in an array [n, state_size] of bytes
        expert(actions)                    optional: writes an expert's actions for the present observations, in an array as that of step
        intervene = True                   optional: a person may act in place of the policy; step then writes out.intervened, True where a person acted, and
                                           out.taken, an array as that of the actions, with what the person did; rlinf clips it
        render(i)                          optional: draws environment i, [height, width, 3]
        close()                            optional

    out.obs is an array [n, ...] of observations, or a dictionary of such arrays for a Dict space. Observation spaces are Box, and images are [height, width,
    channels]. out.info has an array [n] for each figure named in info. Actions are [n, ...] and read only: int32 for choices, whole numbers of the space's type for
    a Box of whole numbers, else float32. rlinf resets ended episodes with its seeds; the environment must not reset by itself. Other arguments are those of serve.
    """
    env = None
    if getattr(make, "observation_space", None) is None or getattr(make, "action_space", None) is None:
        env = make(num_envs or 1)
    player = _Batch(make, env, info, channels)
    greeting = {"name": name or getattr(make, "__name__", "batch"), "num_envs": num_envs, "max_steps": max_steps, "render": hasattr(env or make, "render")}
    if hasattr(env or make, "expert"):
        greeting["expert"] = True
    if getattr(env or make, "intervene", False):
        greeting["intervene"] = True
    if goal:
        greeting["goal"] = goal
    play(player, greeting, address)


class _Batch:
    """Plays environments that compute on arrays, and write to the parent's arrays."""

    def __init__(self, make, env, info, channels):
        said = env or make
        self.actions = spaces.Actions(said.action_space)
        self.fields = spaces.fields(said.observation_space, channels)
        if any(field.encode for field in self.fields):
            raise TypeError("serve_batch takes observations as they travel: Box, images [height, width, channels], or a Dict of these")
        self.info = list(info)
        own = getattr(said, "state_size", 0)
        self._state = state_type(self.fields, own)
        self.state_size = self._state.itemsize if own else 0
        self._make = make
        self._env = env

    def begin(self, conversation):
        n = conversation.num_envs
        self._conversation = conversation
        self.close()
        self._env = self._make(n)
        one = len(self.fields) == 1 and not self.fields[0].path
        obs = conversation.obs[self.fields[0].name] if one else conversation.obs
        figures = {name: conversation.info[:, j] for j, name in enumerate(self.info)}
        self._out = types.SimpleNamespace(obs=obs, reward=conversation.reward, terminated=conversation.terminated,
                                          truncated=conversation.truncated, info=figures)
        self._intervene = conversation.intervened is not None
        if self._intervene:
            self._out.intervened = conversation.intervened
            self._out.taken = conversation.taken.reshape((n,) + self.actions.view().shape[1:])
        self._written = [conversation.reward, conversation.terminated, conversation.truncated, conversation.info, *conversation.obs.values()]
        if self._intervene:
            self._written += [conversation.intervened, conversation.taken]
        self._steps = np.zeros(n, np.uint32)
        self._over = np.ones(n, bool)
        self._waiting = True  # some episode is over
        self._ended = False

    def reset(self):
        conversation, mask = self._conversation, self._conversation.mask
        conversation.reward[mask] = 0
        conversation.terminated[mask] = conversation.truncated[mask] = False
        self._begin_episodes(mask)

    def _begin_episodes(self, mask):
        conversation = self._conversation
        self._env.reset(mask, conversation.seed, self._out)
        if conversation.max_steps:
            self._steps[mask] = 0
        if self._waiting:
            self._over[mask] = False
            self._waiting = bool(self._over.any())

    def step(self, autoreset):
        conversation, mask = self._conversation, self._conversation.mask
        rows = ... if conversation.whole() else mask
        if self._waiting and self._over[rows].any():
            raise ProtocolError("STEP of environments %s, whose episodes are over" % np.flatnonzero(self._over & mask))
        if self._ended:  # in the step before; environments need not write False
            conversation.terminated[rows] = False
            conversation.truncated[rows] = False
        if self._intervene:
            conversation.intervened[rows] = False
        kept = () if rows is ... else [(array, array[~mask]) for array in self._written]
        self._env.step(self.actions.view(), mask, self._out)
        for array, values in kept:  # restore the rows of waiting environments
            array[~mask] = values
        if conversation.max_steps:
            self._steps += mask
            conversation.truncated[rows] |= (self._steps >= conversation.max_steps)[rows]
        if conversation.never_terminate:
            conversation.terminated[rows] = False
        self._ended = conversation.ended()
        if not self._ended:
            return False
        done = conversation.terminated | conversation.truncated
        if rows is not ...:
            done &= mask
        if not autoreset:
            self._over |= done
            self._waiting = True
            return False
        which = done.nonzero()[0].tolist()
        if not which:
            return False
        for name, seen in conversation.obs.items():
            final = conversation.final[name]
            for i in which:  # for few rows this is faster than an index array
                final[i] = seen[i]
        self._begin_episodes(done)
        return True

    def save(self):
        states = np.zeros(len(self._steps), self._state)
        states["steps"], states["over"] = self._steps, self._over
        for name, seen in self._conversation.obs.items():
            states["obs." + name] = seen
        self._env.save(states["own"])
        return states.tobytes()

    def load(self, states):
        conversation, states = self._conversation, np.frombuffer(states, self._state)
        self._steps[:], self._over[:], self._waiting = states["steps"], states["over"], True
        for name, seen in conversation.obs.items():
            seen[:] = states["obs." + name]
        conversation.reward[:] = 0
        conversation.terminated[:] = conversation.truncated[:] = False
        self._env.load(states["own"])

    def advise(self):
        actions = np.zeros_like(self.actions.view())
        self._env.expert(actions)
        return self.actions.packed(actions)

    def render(self, i):
        return self._env.render(i)

    def close(self):
        if hasattr(self._env, "close"):
            self._env.close()
