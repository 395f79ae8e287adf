"""Serving environments that are stepped one by one."""

import inspect
import pickle

import numpy as np

from . import spaces
from .play import Figures, parameters, play, seed_of, state_type, write_taken
from .wire import ProtocolError


def serve(make_env, *, num_envs=0, name=None, max_steps=None, info=(), action_mask=False, observation_space=None, action_space=None,
          state_size=0, save=None, load=None, expert=None, goal=None, intervene=False, period=0, channels=None, address=None):
    """Play environments that are stepped one by one, until the job is over.

    make_env() makes an environment with Gymnasium's API: reset(seed=...) returns (observation, info), step(action) returns (observation, reward,
    terminated, truncated, info), and observation_space and action_space are its spaces. rlinf chooses the number of environments, unless num_envs is not 0.
    Older and simpler environments also work: reset may have no seed (then seed(s) is called before, if it exists) or return only the observation, step may
    return (observation, reward, done, info), and the spaces may be arguments of serve.

    name         name of the simulator, for messages; default: the name of the environment's class
    max_steps    steps after which an episode is truncated, in addition to the environment's own ends; default: that of the environment's spec, else no limit
    info         names of figures to report from info at every step, such as "success" ("is_success" if that key is missing); missing figures are 0
    action_mask  report info["action_mask"], or the result of the environment's action_masks(), as the observation action_mask: the choices that are allowed
                 now. A member action_mask of a Dict observation is reported without this argument
    state_size   largest size in bytes of an environment's state, for checkpoints with the state; 0: checkpoints do not have it. save(env) returns the bytes
                 and load(env, bytes) restores them; default: the whole environment, pickled
    expert       expert(observation) or expert(observation, env) returns the action of an expert in the present state, which it must not change. Then
                 rlinf demos and DAgger work with this simulator
    goal         {"threshold": 0.05, "reward": "sparse" (or "zero_one"), "terminates": False}: the rule by which the environment computes its rewards from its
                 observations achieved_goal and desired_goal, vectors of numbers. Then rlinf can replace goals in hindsight
    intervene    a person may act in place of the policy: then info["intervene_action"] of a step is what the person did, in the action space, or beyond its
                 bounds; it is missing or None where nobody acted
    period       seconds between two steps of a robot, that of its rlb.Robot; 0: no robot. rlinf then stops it by SIGTERM, and puts no other in its place
    channels     the axis of the channels in images of uint8, "first" or "last", or a dictionary of these by name; default: the smallest axis
    address      the address of rlinf; default: RLB_ADDR

    rlinf gives each episode a seed of 31 bits. Equal seeds give equal episodes if the environment's reset follows its seed. An exception in an environment
    ends the process and is printed on standard error; its last lines are rlinf's error message.
    """
    first = make_env()
    player = _Single(make_env, first, info, action_mask, observation_space, action_space, save, load, state_size, expert, intervene, channels)
    spec = getattr(first, "spec", None)
    greeting = {
        "name": name or type(getattr(first, "unwrapped", first)).__name__,
        "num_envs": num_envs,
        "max_steps": (getattr(spec, "max_episode_steps", None) or 0) if max_steps is None else max_steps,
        "render": getattr(first, "render_mode", None) == "rgb_array",
    }
    if expert:
        greeting["expert"] = True
    if intervene:
        greeting["intervene"] = True
    if period:
        greeting["period"] = period
    if goal:
        greeting["goal"] = goal
    play(player, greeting, address)


class _Single:
    """Plays environments that are stepped one by one."""

    def __init__(self, make_env, first, info, action_mask, observation_space, action_space, save, load, state_size, expert, intervene, channels):
        observation_space = getattr(first, "observation_space", None) if observation_space is None else observation_space
        action_space = getattr(first, "action_space", None) if action_space is None else action_space
        if observation_space is None or action_space is None:
            raise TypeError("%s does not say its spaces: give serve observation_space and action_space, as rlb.Box(-1, 1, (3,))" % type(first).__name__)
        self.actions = spaces.Actions(action_space)
        self.fields = spaces.fields(observation_space, channels)
        self.info = list(info)
        self._make_env = make_env
        self._envs = [first]
        self._figures = Figures(info)
        self._mask = None
        if action_mask:
            self._mask = spaces.mask_field(self.actions.space)
        self._observed = self.fields
        self.fields = self.fields + ([self._mask] if self._mask else [])
        self._save = save or pickle.dumps
        self._load = load
        self._expert = expert
        self._intervene = intervene
        self._sees_env = expert is not None and len(parameters(expert)) > 1
        self._state = state_type(self.fields, state_size)
        self.state_size = self._state.itemsize if state_size else 0
        signature = parameters(getattr(first, "unwrapped", first).reset)
        self._takes_seed = "seed" in signature or inspect.Parameter.VAR_KEYWORD in signature.values()

    def begin(self, conversation):
        n = conversation.num_envs
        self._conversation = conversation
        self._envs += [self._make_env() for _ in range(n - 1)]
        self._obs = spaces.Observer(self._observed, conversation.obs)
        self._final = spaces.Observer(self._observed, conversation.final)
        self._steps = [0] * n
        self._over = [True] * n
        self._seen = [None] * n  # the present observations, for the expert
        # Single elements are written faster through a memoryview than through an array.
        self._reward = memoryview(conversation.reward)
        self._terminated = memoryview(conversation.terminated)
        self._truncated = memoryview(conversation.truncated)
        if not self._takes_seed and not hasattr(self._envs[0], "seed"):
            conversation.log("rlb: reset of %s takes no seed: its episodes can't be repeated" % type(self._envs[0]).__name__)

    def reset(self):
        for i in np.flatnonzero(self._conversation.mask).tolist():
            self._obs.write(i, self._begin_episode(i))
            self._reward[i], self._terminated[i], self._truncated[i] = 0, False, False

    def _begin_episode(self, i):
        """Reset environment i with its seed, and return its observation."""
        env, seed = self._envs[i], seed_of(self._conversation.seed[i])
        if self._takes_seed:
            result = env.reset(seed=seed)
        else:
            if hasattr(env, "seed"):
                env.seed(seed)
            result = env.reset()
        pair = isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)
        observation, info = result if pair else (result, {})
        self._steps[i], self._over[i] = 0, False
        self._write_mask(self._conversation.obs, i, info)
        self._seen[i] = observation
        return observation

    def _write_mask(self, observations, i, info):
        if not self._mask:
            return
        mask = info.get("action_mask")
        if mask is None:
            env = self._envs[i]
            masks = getattr(env, "action_masks", None) or getattr(getattr(env, "unwrapped", env), "action_masks", None)
            if masks is None:
                raise ValueError("environment %d says no action_mask: neither in info, nor by a method action_masks" % i)
            mask = masks()
        parts = mask if isinstance(mask, (list, tuple)) else [mask]
        observations["action_mask"][i] = np.concatenate([spaces.to_numpy(part).ravel() for part in parts])

    def step(self, autoreset):
        conversation, envs, over, final = self._conversation, self._envs, self._over, False
        reward_of, terminated_of, truncated_of = self._reward, self._terminated, self._truncated
        limit, never_terminate, more = conversation.max_steps, conversation.never_terminate, self.info or self._mask
        actions = self.actions.each()
        for i in range(len(actions)) if conversation.whole() else np.flatnonzero(conversation.mask).tolist():
            if over[i]:
                raise ProtocolError("STEP of environment %d, whose episode is over" % i)
            result = envs[i].step(actions[i])
            observation, reward, terminated, truncated, info = result if len(result) == 5 else _of_old_gym(result)
            if not self._figures.told:
                self._figures.tell_others(info, conversation)
            if limit:
                self._steps[i] += 1
                truncated = truncated or self._steps[i] >= limit
            if never_terminate:
                terminated = False
            try:
                reward_of[i], terminated_of[i], truncated_of[i] = reward, terminated, truncated
            except TypeError:
                raise TypeError("step returned the reward %r, expected a number" % (reward,)) from None
            ended = terminated or truncated
            if more:
                conversation.info[i] = [float(figure) for figure in self._figures.of(info)]
                self._write_mask(conversation.final if ended and autoreset else conversation.obs, i, info)
            if self._intervene:
                write_taken(conversation, self.actions, i, info.get("intervene_action"))
            self._seen[i] = observation
            if ended and autoreset:
                self._final.write(i, observation)
                observation, final = self._begin_episode(i), True
            elif ended:
                over[i] = True
            self._obs.write(i, observation)
        return final

    def save(self):
        states = np.zeros(len(self._envs), self._state)
        states["steps"], states["over"] = self._steps, self._over
        for field in self.fields:
            states["obs." + field.name] = self._conversation.obs[field.name]
        for i, env in enumerate(self._envs):
            own = self._save(env)
            if self._expert:
                own = pickle.dumps((own, self._seen[i]))
            if len(own) > states["own"].shape[1]:
                raise ValueError("the state of environment %d takes %d bytes; state_size says %d" % (i, len(own), states["own"].shape[1]))
            states["size"][i] = len(own)
            states["own"][i, :len(own)] = np.frombuffer(own, np.uint8)
        return states.tobytes()

    def load(self, states):
        conversation, states = self._conversation, np.frombuffer(states, self._state)
        self._steps, self._over = states["steps"].tolist(), states["over"].tolist()
        for field in self.fields:
            conversation.obs[field.name][:] = states["obs." + field.name]
        conversation.reward[:] = 0
        conversation.terminated[:] = conversation.truncated[:] = False
        for i, (own, size) in enumerate(zip(states["own"], states["size"])):
            own = own[:size].tobytes()
            if self._expert:
                own, self._seen[i] = pickle.loads(own)
            if self._load:
                self._load(self._envs[i], own)
            else:
                self._envs[i] = pickle.loads(own)

    def advise(self):
        more = [(env,) if self._sees_env else () for env in self._envs]
        return self.actions.rows([None if over else self._expert(seen, *env) for over, seen, env in zip(self._over, self._seen, more)])

    def render(self, i):
        return self._envs[i].render()

    def close(self):
        for env in self._envs:
            if hasattr(env, "close"):
                env.close()


def _of_old_gym(result):
    """Make what step returns today of what it returned before Gym 0.26."""
    if len(result) != 4:
        raise ValueError("step returned %d values, expected observation, reward, terminated, truncated, info" % len(result))
    observation, reward, done, info = result
    truncated = done and info.get("TimeLimit.truncated", False)
    return observation, reward, done and not truncated, truncated, info
