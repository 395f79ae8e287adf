"""Serving vector environments with Gymnasium's API."""

import numpy as np

from . import spaces
from .play import Figures, parameters, play, seed_of, write_taken
from .wire import ProtocolError


def serve_vector(make, *, num_envs=0, name=None, max_steps=0, info=(), action_mask=False, autoreset=None, reset=None,
                 observation_space=None, action_space=None, expert=None, goal=None, intervene=False, channels=None, address=None):
    """Play the environments of a vector environment, until the job is over.

    make(n) makes a vector of n environments with Gymnasium's API: reset(seed=..., options=...) returns (observations, infos), step(actions) returns
    (observations, rewards, terminations, truncations, infos), and single_observation_space and single_action_space are the spaces of one environment, unless
    they are arguments here. Arrays may be NumPy's or torch's, on any device. Without num_envs and the spaces, make(1) is called for the spaces.

    autoreset    when the vector resets environments whose episode ended: "SameStep" (infos["final_obs"], or "final_observation", has the final
                 observations), "NextStep" or "Disabled"; default: metadata["autoreset_mode"] (Gymnasium 1.1 and newer), or "Disabled" with reset
    reset        reset(env, mask, seeds) resets the environments whose mask is True, each with its seed, and returns the observations of all environments,
                 alone or with infos; default, if the vector has metadata["autoreset_mode"]: env.reset(seed=[...], options={"reset_mask": mask});
                 False: single environments cannot be reset
    expert       expert(observations) or expert(observations, env) returns the actions of an expert for all environments, in an array, in the present states,
                 which it must not change. observations are a batch of arrays of NumPy
    intervene    a person may act in place of the policy: then infos["intervene_action"] has an action for each environment, and
                 infos["_intervene_action"] or infos["intervene_flag"] says where a person acted; without these, None says that nobody did
    name, max_steps, info, action_mask, goal, channels, address    as for serve; figures and masks are arrays in infos

    If single environments can be reset, equal seeds give equal episodes, because resets of the vector are repeated with rlinf's seeds. Otherwise autoreset must
    be "SameStep". Then episodes after the first depend on the episodes before them, a resumed run does not repeat them, and environments can neither be reset
    nor wait one by one, as chunks of actions and algorithms that compare episodes need.
    """
    env = None
    if observation_space is None or action_space is None:
        env = make(num_envs or 1)
        observation_space = env.single_observation_space if observation_space is None else observation_space
        action_space = env.single_action_space if action_space is None else action_space
    player = _Vector(make, env, observation_space, action_space, info, action_mask, autoreset, reset, expert, intervene, channels)
    greeting = {"name": name or (type(env).__name__ if env else "vector environment"), "num_envs": num_envs, "max_steps": max_steps}
    if expert:
        greeting["expert"] = True
    if intervene:
        greeting["intervene"] = True
    if goal:
        greeting["goal"] = goal
    play(player, greeting, address)


class _Vector:
    """Plays a vector environment."""

    state_size = 0

    def __init__(self, make, env, observation_space, action_space, info, action_mask, autoreset, reset, expert, intervene, channels):
        self.actions = spaces.Actions(action_space)
        self._observed = spaces.fields(observation_space, channels)
        self._has_mask = action_mask
        self.fields = self._observed + ([spaces.mask_field(self.actions.space)] if action_mask else [])
        self.info = list(info)
        self._figures = Figures(info)
        self._make = make
        self._env = env
        self._mode = autoreset or (reset and "Disabled")
        self._reset = reset
        self._expert = expert
        self._intervene = intervene
        self._sees_env = expert is not None and len(parameters(expert)) > 1
        self._seen = None  # the present observations, for the expert

    def begin(self, conversation):
        n = conversation.num_envs
        self._conversation = conversation
        if getattr(self._env, "num_envs", None) != n:
            self.close()
            self._env = self._make(n)
        said = (getattr(self._env, "metadata", None) or {}).get("autoreset_mode")
        self._mode = self._mode or getattr(said, "value", said)
        if self._mode not in ("SameStep", "NextStep", "Disabled"):
            raise ValueError("%s does not say in metadata[\"autoreset_mode\"] when it resets environments; say it by serve_vector's autoreset: "
                             "\"SameStep\", \"NextStep\" or \"Disabled\"" % self._name())
        if conversation.never_terminate:
            raise ProtocolError("%s ends episodes that terminate: ignore_terminations can't be" % self._name())
        self._singly = bool(self._reset) or self._reset is None and said is not None  # environments can be reset one by one
        self._proven = bool(self._reset)
        self._obs = spaces.Observer(self._observed, conversation.obs)
        self._final = spaces.Observer(self._observed, conversation.final)
        self._steps, self._seeds = np.zeros(n, np.int64), [0] * n
        self._over = np.ones(n, bool)
        self._displaced = np.zeros(n, bool)  # at the beginning of an episode, and stepped on unseen
        self._waiting = True  # some environment is over, or displaced

    def _name(self):
        return type(self._env).__name__

    def reset(self):
        conversation, mask = self._conversation, self._conversation.mask.copy()
        if mask.any():
            self._begin_episodes(mask)
        conversation.reward[mask] = 0
        conversation.terminated[mask] = conversation.truncated[mask] = False

    def _begin_episodes(self, mask):
        """Reset the environments of the mask with their seeds, and write their observations."""
        for i in np.flatnonzero(mask):
            self._seeds[i] = seed_of(self._conversation.seed[i])
        observation, info = self._reset_envs(mask)
        if not (self._proven or mask.all()):
            self._prove(mask, observation)
        self._write(self._obs, self._conversation.obs, mask, observation, info)
        self._steps[mask], self._over[mask], self._displaced[mask] = 0, False, False
        self._waiting = bool((self._over | self._displaced).any())

    def _reset_envs(self, mask):
        """Reset the environments of the mask with their seeds, and return the observations of all environments, and infos."""
        seeds = list(self._seeds)
        if self._reset:
            result = self._reset(self._env, mask, seeds)
            return result if isinstance(result, tuple) else (result, {})
        if not mask.all():
            if not self._singly:
                raise ProtocolError("%s can't reset environments one by one: give serve_vector a reset, or train with auto_reset: True" % self._name())
            return self._env.reset(seed=seeds, options={"reset_mask": mask})
        try:
            return self._env.reset(seed=seeds)
        except Exception:  # environments react in many ways to a list in place of a number
            self._singly = False
        if self._mode != "SameStep":
            raise ProtocolError("%s can't reset environments one by one, nor within a step: give serve_vector a reset" % self._name())
        self._conversation.log("rlb: %s can't reset environments one by one: a resumed run does not repeat its episodes" % self._name())
        return self._env.reset(seed=seeds[0])

    def _prove(self, mask, observation):
        """Check once that a reset by mask does not reset the others: some environments ignore options, and reset all."""
        before = {name: array.copy() for name, array in self._conversation.obs.items()}
        self._obs.write_rows(..., observation)
        playing = ~(mask | self._over | self._displaced)
        for name, array in self._conversation.obs.items():
            if not np.array_equal(array[playing], before[name][playing]):
                raise ProtocolError("%s resets all environments where options={\"reset_mask\": mask} names some: give serve_vector a reset" % self._name())
            array[:] = before[name]
        self._proven = True

    def step(self, autoreset):
        conversation = self._conversation
        rows = ... if conversation.whole() else conversation.mask.copy()
        self._prepare(autoreset, rows)
        observation, reward, terminated, truncated, info = self._env.step(self.actions.batch())
        terminated, truncated = spaces.to_numpy(terminated), spaces.to_numpy(truncated)
        conversation.reward[rows] = spaces.to_numpy(reward)[rows]
        conversation.terminated[rows] = terminated[rows]
        conversation.truncated[rows] = truncated[rows]
        self._steps[rows] += 1
        if conversation.max_steps:
            conversation.truncated[rows] |= (self._steps >= conversation.max_steps)[rows]
        self._write(self._obs, conversation.obs, rows, observation, info)
        self._write_figures(rows, info)
        self._write_taken(rows, info)
        if not self._figures.told:
            self._figures.tell_others(info, conversation)
        if not conversation.ended():
            return False
        done = (conversation.terminated | conversation.truncated) & conversation.mask
        if not done.any():
            return False
        ended = done & (terminated | truncated).astype(bool)  # ended by the environment, not by max_steps
        observer, arrays = (self._final, conversation.final) if autoreset else (self._obs, conversation.obs)
        self._write(observer, arrays, done, observation, info)
        if self._mode == "SameStep" and ended.any():
            self._write_last(observer, arrays, ended, info)
        if not autoreset:
            self._over |= done
            self._waiting = True
        elif self._singly:
            self._begin_episodes(done)
        elif not np.array_equal(done, ended):
            raise ProtocolError("%s can't be cut off at max_steps: it can't reset environments one by one" % self._name())
        return autoreset

    def _prepare(self, autoreset, rows):
        """Bring all environments into a state that allows a step. The vector steps all of them; waiting environments continue without being reported."""
        if rows is ... and not self._waiting and (autoreset or self._singly):
            return
        if not self._singly:
            raise ProtocolError("environments of %s can't wait for each other: give serve_vector a reset, or train with auto_reset: True and single actions"
                                % self._name())
        mask = self._conversation.mask
        if (self._over & mask).any():
            raise ProtocolError("STEP of environments %s, whose episodes are over" % np.flatnonzero(self._over & mask))
        waiting = ~(mask | self._over)
        if (self._steps[waiting] > 0).any():
            raise ProtocolError("environments of %s can't wait in the middle of an episode" % self._name())
        self._displaced |= waiting  # at their beginning, which a reset with their seeds restores
        astray = self._displaced & mask
        if self._mode == "Disabled":
            astray = self._displaced | self._over  # these must be reset before any further step
        if astray.any():
            self._reset_envs(astray)
        self._displaced &= ~mask
        self._waiting = bool((self._over | self._displaced).any())

    def _write(self, observer, arrays, rows, observation, info):
        observer.write_rows(rows, observation)
        if self._expert and observer is self._obs:
            self._seen = _merged(self._seen, observation, rows)
        if self._has_mask:
            if "action_mask" not in info:
                raise ValueError("%s says no action_mask in infos" % self._name())
            arrays["action_mask"][rows] = spaces.to_numpy(info["action_mask"])[rows]

    def _write_last(self, observer, arrays, rows, info):
        """Write the final observations and figures of episodes after which the vector has already begun the next ones."""
        last = info.get("final_obs", info.get("final_observation"))
        if last is None:
            raise ValueError("%s says no final_obs in infos where episodes ended" % self._name())
        which = np.flatnonzero(rows)
        if getattr(last, "dtype", None) == object:  # an observation for each, None where no episode ended
            for i in which:
                observer.write(i, last[i])
        else:
            observer.write_rows(rows, last)
        final_info = info.get("final_info", {})
        for i in which if not isinstance(final_info, dict) else ():  # an info for each, before Gymnasium 1.0
            self._conversation.info[i] = [float(figure) for figure in self._figures.of(final_info[i])]
            if self._intervene:
                write_taken(self._conversation, self.actions, i, final_info[i].get("intervene_action"))
            if self._has_mask:
                arrays["action_mask"][i] = spaces.to_numpy(final_info[i]["action_mask"])
        if isinstance(final_info, dict) and final_info:
            self._write_figures(rows, final_info)
            self._write_taken(rows, final_info)
            if self._has_mask:
                arrays["action_mask"][rows] = spaces.to_numpy(final_info["action_mask"])[rows]

    def _write_figures(self, rows, info):
        for j, figure in enumerate(self._figures.of(info)):
            figure = spaces.to_numpy(figure)
            self._conversation.info[rows, j] = figure[rows] if figure.ndim else figure

    def _write_taken(self, rows, info):
        """Write what a person did in place of the policy."""
        if not self._intervene:
            return
        taken = info.get("intervene_action")
        acted = info.get("_intervene_action", info.get("intervene_flag"))
        for i in np.arange(len(self._over))[rows]:
            does = taken is not None and (acted is None or bool(acted[i]))
            write_taken(self._conversation, self.actions, i, taken[i] if does else None)

    def advise(self):
        actions = spaces.to_numpy(self._expert(self._seen, *((self._env,) if self._sees_env else ())))
        if len(actions) != len(self._over):
            raise ValueError("the expert returned %d actions for %d environments" % (len(actions), len(self._over)))
        return self.actions.rows([None if over else action for over, action in zip(self._over, actions)])

    def render(self, i):
        return self._env.render()[i]

    def close(self):
        if hasattr(self._env, "close"):
            self._env.close()


def _merged(seen, observations, rows):
    """Return observations of all environments: in some rows the given ones, in the others those that were seen before, if any."""
    if isinstance(observations, dict):
        return {key: _merged(seen and seen[key], part, rows) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(_merged(seen and seen[i], part, rows) for i, part in enumerate(observations))
    new = spaces.to_numpy(observations)
    if seen is None:
        return new.copy()
    seen[rows] = new[rows]
    return seen
