"""The part of serving that all kinds of players share. rlinf calls reset and step, and a player answers."""

import inspect
import struct
import sys
import traceback

import numpy as np

from . import spaces, wire
from .conversation import Conversation
from .wire import ProtocolError


def play(player, greeting, address=None):
    """Send the greeting of the player, and let the player answer requests until the job is over.

    A player has fields, actions, info and state_size, for the greeting, and begin(conversation), reset(), step(autoreset), which says whether an episode
    ended under it, save(), load(states), render(i), which returns a picture [height, width, 3], advise(), which returns the expert's actions as bytes if the
    greeting has an expert, and close().
    """
    greeting = dict(greeting, lang="python", action=player.actions.space, obs=[field.space for field in player.fields],
                    info=list(player.info), state_size=player.state_size)
    try:
        conversation = Conversation(greeting, address)
    except ProtocolError as err:
        sys.exit("rlb: %s" % err)
    try:
        player.actions.bind(conversation.action)
        player.begin(conversation)
        explain(player.fields, conversation)
        while True:
            request = conversation.receive()
            if request is None:
                break
            kind, flags = request
            if kind == wire.STEP:
                conversation.answer(player.step(flags == wire.AUTORESET))
            elif kind == wire.RESET:
                player.reset()
                conversation.answer()
            elif kind == wire.SAVE:
                conversation.answer_with(player.save())
            elif kind == wire.EXPERT:
                conversation.answer_with(player.advise())
            elif kind == wire.LOAD:
                player.load(conversation.payload)
                conversation.answer()
            else:
                _draw(player, conversation)
    except KeyboardInterrupt:
        sys.exit(130)
    except ProtocolError as err:
        conversation.error(str(err))
        sys.exit("rlb: %s" % err)
    except Exception as err:
        _report(err, conversation)
        sys.exit(1)
    finally:
        player.close()
    conversation.close()


def _report(err, conversation):
    """Send the exception that is being handled as ERROR."""
    traceback.print_exc()
    if conversation.logged:  # standard error, with the traceback, is in the log
        conversation.error("".join(traceback.format_exception_only(type(err), err)).rstrip())
    else:
        conversation.error(traceback.format_exc().rstrip())


def _draw(player, conversation):
    """Answer RENDER. If the simulator cannot draw, its episodes go on."""
    try:
        pictures = _pictures(player, conversation.payload)
    except ProtocolError:
        raise
    except Exception as err:
        _report(err, conversation)
    else:
        conversation.answer_with(pictures)


def explain(fields, conversation):
    """Log how unusual images were interpreted, once for all children of a rank."""
    for field in fields:
        if field.remark and not conversation.first:
            conversation.log(field.remark)


def _pictures(player, payload):
    """Render the environments of a request, scaled to its size by the nearest pixel."""
    width, height = struct.unpack_from("<II", payload)
    wanted = payload[8:].count(1)
    if not (1 <= width <= wire.MAX_SIDE and 1 <= height <= wire.MAX_SIDE and wanted * width * height * 3 <= wire.MAX_PAYLOAD):
        raise ProtocolError("RENDER asks for %d pictures of %d by %d; expected sides of 1 to %d, and %d bytes at most"
                            % (wanted, width, height, wire.MAX_SIDE, wire.MAX_PAYLOAD))
    pictures = []
    for i, wanted in enumerate(payload[8:]):
        if wanted:
            picture = spaces.to_numpy(player.render(i))
            if picture.ndim != 3 or picture.shape[2] != 3:
                raise ValueError("render returned an array of shape %s; expected [height, width, 3]: make the environment with "
                                 "render_mode=\"rgb_array\"" % (picture.shape,))
            rows = np.arange(height) * picture.shape[0] // height
            columns = np.arange(width) * picture.shape[1] // width
            pictures.append(picture[rows[:, None], columns].astype(np.uint8).tobytes())
    return b"".join(pictures)


def seed_of(seed):
    """Make a seed of 31 bits, which every library takes, from one of rlinf's seeds of 64 bits."""
    return int(seed) & 0x7FFFFFFF


def state_type(fields, own):
    """Return the layout of an environment in a checkpoint: progress of its episode, observations, and the environment's own state of a given size."""
    observed = [("obs." + field.name, field.element, field.shape) for field in fields]
    return np.dtype([("steps", np.uint32), ("over", np.bool_)] + observed + [("size", np.uint32), ("own", np.uint8, (own,))])


def write_taken(conversation, actions, i, action):
    """Report that a person did this action in environment i in place of the policy; None: nobody acted."""
    conversation.intervened[i] = action is not None
    if action is not None:
        actions.write(conversation.taken[i], action, 'info["intervene_action"]')


class Figures:
    """Finds figures by name in an environment's info."""

    def __init__(self, names):
        self.names = list(names)
        self.told = False  # tell_others has been called

    def of(self, info):
        """List the figures: numbers for one environment, or arrays for a batch."""
        return [info.get(name, info.get("is_success", 0) if name == "success" else 0) for name in self.names]

    def tell_others(self, info, conversation):
        """Log, once for all children of a rank, which other numbers an info has: for one environment, or arrays for a batch."""
        self.told = True
        numbers = (bool, int, float, np.bool_, np.number)
        others = [name for name, x in info.items() if isinstance(name, str) and name not in self.names and
                  (isinstance(x, numbers) or getattr(x, "shape", None) == (conversation.num_envs,) and x.dtype != object and name[0] != "_")]
        if others and not conversation.first:
            conversation.log("rlb: info has %s: info=%r reports them as metrics" % (", ".join(others), self.names + others))


def parameters(function):
    """Say the names and kinds of a function's parameters; of none where that can't be known."""
    try:
        return {name: p.kind for name, p in inspect.signature(function).parameters.items()}
    except (TypeError, ValueError):
        return {}
