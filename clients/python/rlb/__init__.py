"""rlb: play your simulator with rlinf, over the protocol RLB1, or grade the answers of its language models.

Four ways to play:

    rlb.serve(lambda: gymnasium.make("CartPole-v1"))     environments with reset and step, one by one
    rlb.serve_vector(make_vector_env)                    Gymnasium's vector environments, and others like them
    rlb.serve_batch(make_batch)                          your own arrays of environments, without a copy
    rlb.Solver(observation_space, action_space)          a solver that owns its loop

rlinf starts the program (env_type: external, external.command), or listens for it. The environment variable RLB_ADDR has rlinf's address.

rlb.Robot(period, command, stop) is the clock of a robot: it repeats commands at a fixed rate, and stops by itself. rlb.fake_robot is one to try.

    rlb.grade(judge)                                     grades answers (reward_type: program); needs no NumPy

rlb.encode and rlb.decode lead from Gymnasium's spaces to the arrays of an exported policy (rlinf export), and back.

rlb.Conversation is the protocol itself, for other designs; docs/bridge.md describes it.
"""

import importlib

_MODULES = {
    "Box": "spaces", "Conversation": "conversation", "Discrete": "spaces", "Keyboard": "keyboard", "MultiDiscrete": "spaces", "ProtocolError": "frames",
    "decode": "spaces", "encode": "spaces",
    "Robot": "robot", "Solver": "solver", "grade": "grading", "serve": "single", "serve_batch": "batch", "serve_vector": "vector",
}

__all__ = sorted(_MODULES)


def __getattr__(name):
    """Import a name at its first use, so that grade needs no NumPy."""
    if name not in _MODULES:
        raise AttributeError("module 'rlb' has no attribute %r" % name)
    value = getattr(importlib.import_module("." + _MODULES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return __all__
