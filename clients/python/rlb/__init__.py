"""rlb: play your simulator with rlinf, over the protocol RLB1.

Four ways:

    rlb.serve(lambda: gymnasium.make("CartPole-v1"))     environments with reset and step, one by one
    rlb.serve_vector(make_vector_env)                    Gymnasium's vector environments, and others like them
    rlb.serve_batch(make_batch)                          your own arrays of environments, without a copy
    rlb.Solver(observation_space, action_space)          a solver that owns its loop

rlinf starts the program (env_type: external, external.command), or listens for it; where it is says the environment variable RLB_ADDR.
rlb.Conversation is the protocol itself, for other designs; docs/bridge.md describes it.
"""

from .batch import serve_batch
from .conversation import Conversation
from .single import serve
from .solver import Solver
from .spaces import Box, Discrete, MultiDiscrete
from .vector import serve_vector
from .wire import ProtocolError

__all__ = ["Box", "Conversation", "Discrete", "MultiDiscrete", "ProtocolError", "Solver", "serve", "serve_batch", "serve_vector"]
