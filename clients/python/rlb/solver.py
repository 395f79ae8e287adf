"""A solver that owns its loop: it reports observations, and asks for actions."""

from . import spaces, wire
from .conversation import Conversation
from .play import explain, seed_of, write_taken
from .wire import ProtocolError


class Solver:
    """The conversation of a solver that owns its loop, and plays one environment.

        solver = rlb.Solver(rlb.Box(-1, 1, (8,)), rlb.Box(-1, 1, (2,)))
        while True:
            simulation = start(solver.seed)              # the episode's seed, of 31 bits; optional
            solver.send_init(simulation.observe())
            while (action := solver.recv_action()) is not None:
                simulation.advance(action)
                solver.send_state(simulation.observe(), reward)    # or send_last at the end of the episode

    observation_space, action_space, name, info, max_steps, channels, address    as for serve; figures of info are keyword arguments of send_state and send_last
    expert    expert(observation) returns the action of an expert in the present state
    intervene    a person may act in place of the policy: send_state and send_last then take intervene_action, what the person did in place of the last action
    period    as for serve
    goal      as for serve

    In an MPI job with rlinf, every rank of the solver calls rlb.mpi.split(), which returns the solver's communicator. Rank 0 of it makes the Solver.

    When the job is over, recv_action, seed and send_init raise SystemExit, which ends the program unless it is caught.
    """

    def __init__(self, observation_space, action_space, *, name="solver", info=(), max_steps=0, expert=None, goal=None, intervene=False, period=0, channels=None, address=None):
        self._actions = spaces.Actions(action_space)
        self._figures = list(info)
        fields = spaces.fields(observation_space, channels)
        self._expert, self._seen = expert, None
        self._conversation = conversation = Conversation({
            **({"expert": True} if expert else {}), **({"intervene": True} if intervene else {}),
            **({"period": period} if period else {}), **({"goal": goal} if goal else {}),
            "name": name, "lang": "python", "obs": [field.space for field in fields], "action": self._actions.space, "num_envs": 1,
            "max_steps": max_steps, "info": self._figures, "owns_loop": True,
        }, address)
        if conversation.never_terminate:
            self._refuse("a solver that owns its loop ends its episodes: ignore_terminations can't be")
        self._actions.bind(conversation.action)
        explain(fields, conversation)
        self._obs = spaces.Observer(fields, conversation.obs)
        self._final = spaces.Observer(fields, conversation.final)
        self._steps = 0
        self._request = None  # (type, flags) of the unanswered request
        self._begun = False  # an episode is running

    @property
    def seed(self):
        """The seed of the episode that begins with the next send_init."""
        if self._begun:
            raise RuntimeError("the seed of the next episode is known when this one is over")
        if self._request is None:
            self._receive()
            if self._request[0] == wire.STEP:
                self._refuse("STEP came, and no episode is under way")
        return seed_of(self._conversation.seed[0])

    def send_init(self, observation):
        """Begin an episode with its first observation."""
        self.seed  # waits for the request to begin an episode
        if self._request[0] == wire.RESET:
            self._write(self._obs, observation, 0, False, False, {})
            self._answer()
        else:  # the step that ended the last episode, under AUTORESET
            self._obs.write(0, observation)
            self._seen = observation
            self._answer(final=True)
        self._begun, self._steps = True, 0

    def recv_action(self):
        """Wait for the next action, and return it; None if the episode is over, by rlinf or by send_last. Then the next episode begins."""
        if self._begun:
            if self._request is not None:
                raise RuntimeError("the last action was not answered: send_state or send_last comes before recv_action")
            self._receive()
            if self._request[0] == wire.STEP:
                return self._actions.each()[0]
            self._begun = False
        return None

    def send_state(self, observation, reward, **info):
        """Answer the action with the observation after it, and its reward."""
        self._send(observation, reward, False, False, info)

    def send_last(self, observation, reward, terminated=True, **info):
        """Answer the last action of an episode. terminated: the task ended, and no reward can follow; False: the episode was cut off from outside."""
        self._send(observation, reward, terminated, not terminated, info)

    def _send(self, observation, reward, terminated, truncated, info):
        if not self._begun or self._request is None:
            raise RuntimeError("there is no action to answer: send_init begins an episode, and recv_action comes before send_state and send_last")
        self._steps += 1
        truncated = truncated or self._steps == self._conversation.max_steps
        over = terminated or truncated
        autoreset = self._request[1] & wire.AUTORESET
        self._write(self._final if over and autoreset else self._obs, observation, reward, terminated, truncated, info)
        self._begun = not over
        if not (over and autoreset):  # otherwise the next send_init answers
            self._answer()

    def _write(self, observer, observation, reward, terminated, truncated, info):
        conversation = self._conversation
        observer.write(0, observation)
        self._seen = observation
        conversation.reward[0], conversation.terminated[0], conversation.truncated[0] = reward, terminated, truncated
        for j, name in enumerate(self._figures):
            conversation.info[0, j] = info.get(name, 0)
        if conversation.intervened is not None:
            write_taken(conversation, self._actions, 0, info.get("intervene_action"))

    def _receive(self):
        """Wait for a request for the environment. A request whose mask is 0 is answered at once."""
        while True:
            try:
                request = self._conversation.receive()
            except ProtocolError as err:
                self._refuse(str(err))
            if request is None:
                raise SystemExit(0)
            if request[0] == wire.EXPERT:
                self._conversation.answer_with(self._actions.rows([self._expert(self._seen) if self._begun else None]))
                continue
            if request[0] not in (wire.STEP, wire.RESET):
                self._refuse("a solver that owns its loop does not speak requests of type %d" % request[0])
            self._request = request
            if self._conversation.mask[0]:
                return
            self._answer()

    def _answer(self, final=False):
        self._request = None
        self._conversation.answer(final)

    def _refuse(self, text):
        self._conversation.error(text)
        raise ProtocolError(text)
