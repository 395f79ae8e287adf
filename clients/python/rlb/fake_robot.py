"""A fake robot: a hand that follows velocities on a table, with a camera, a clock and a person. It needs no hardware.

    python3 -m rlb.fake_robot --person 0.3 --log commands.jsonl

The hand is to go to a red spot. It is seen by a camera, image [64, 64, 3], and by numbers, state [4]: place and velocity. An action is a velocity [2] from -1
to 1. The reward is 1 at the spot, which ends the episode as a success, else 0. The person takes over with this share of the steps, in stretches, and often
pushes beyond the bounds. The log has a line of JSON for every command, stop and step.
"""

import argparse
import json
import random
import sys
import time

import numpy as np

from . import Box, Keyboard, Robot, serve

SIZE, NEAR, LIMIT = 64, 0.15, 60  # pixels of the camera, distance of success, steps of an episode


class Log:
    """A file with a line for each event, written at once, so that nothing is lost when the program is killed."""

    def __init__(self, path):
        self._file = open(path, "a", buffering=1) if path else None
        self.lines = 0

    def write(self, event, **more):
        self.lines += 1
        if self._file:
            self._file.write(json.dumps({"event": event, "time": time.monotonic(), **more}) + "\n")


class Person:
    """A scripted person, who knows the way. A stretch has 5 steps; the share of the stretches that the person takes is given."""

    def __init__(self, share, episodes):
        self._share, self._episodes, self._episode = share, episodes, -1

    def begin(self, seed):
        self._episode += 1
        self._draw = random.Random(seed)
        self._acts = False

    def act(self, step, way):
        """Return the person's action, or None."""
        if step % 5 == 0:
            self._acts = self._draw.random() < self._share and (not self._episodes or self._episode < self._episodes)
        return [6 * way[0], 6 * way[1]] if self._acts else None


class FakeRobot:
    """The hand, with Gymnasium's API."""

    action_space = Box(-1, 1, (2,))

    def __init__(self, arguments, log):
        self._arguments, self._log = arguments, log
        self.observation_space = {"state": Box(-2, 2, (4,)), "image": Box(0, 255, (SIZE, SIZE, 3), np.uint8)}
        if not arguments.camera:
            del self.observation_space["image"]
        self._person = Person(arguments.person, arguments.person_episodes)
        self._keyboard = Keyboard(arguments.keyboard) if arguments.keyboard else None
        self._place = self._velocity = self._spot = np.zeros(2)
        self._steps = self._all = 0
        self._robot = Robot(arguments.period, self._command, self._stop, hold=arguments.hold, virtual=arguments.virtual)

    def _command(self, action):
        self._log.write("command", action=[float(x) for x in action])
        self._velocity = np.clip(action, -1, 1)
        self._place = np.clip(self._place + 0.1 * self._velocity, -1, 1)

    def _stop(self):
        self._log.write("stop")
        self._velocity = np.zeros(2)

    def reset(self, seed=None, options=None):
        self._robot.pause()
        draw = random.Random(seed)
        self._place, self._spot = (np.array([draw.uniform(-0.9, 0.9), draw.uniform(-0.9, 0.9)]) for _ in range(2))
        self._steps = 0
        self._person.begin(seed)
        self._log.write("reset", seed=seed)
        return self._observe(), {}

    def step(self, action):
        self._all += 1
        if self._all == self._arguments.crash:
            raise RuntimeError("the gripper is stuck")
        if self._all == self._arguments.stall:
            self._robot.idle(10) if self._arguments.virtual else time.sleep(10 * self._arguments.period)
        info = {}
        taken = self._person.act(self._steps, self._spot - self._place)
        if self._keyboard:
            taken = self._keyboard.direction(self._picture()) or taken
        if taken is not None:
            info["intervene_action"] = action = taken
        self._steps += 1
        info["late"] = self._robot.act(action)
        success = bool(np.abs(self._place - self._spot).max() < NEAR)
        info["success"] = success
        self._log.write("step", action=[float(x) for x in action], intervened=taken is not None, end=success or self._steps == LIMIT)
        return self._observe(), float(success), success, self._steps == LIMIT, info

    def _observe(self):
        seen = {"state": np.concatenate([self._place, self._velocity])}
        if self._arguments.camera:
            seen["image"] = image = np.full((SIZE, SIZE, 3), 40, np.uint8)
            for at, colour in ((self._spot, (220, 40, 40)), (self._place, (230, 230, 230))):
                x, y = ((at + 1) / 2 * (SIZE - 7)).astype(int)
                image[y:y + 7, x:x + 7] = colour
        else:
            seen["state"][2:] = self._spot
        return seen

    def _picture(self):
        """Return the table in letters, for the person at the keyboard."""
        lines = [[" "] * 41 for _ in range(21)]
        for at, letter in ((self._spot, "X"), (self._place, "O")):
            x, y = ((at + 1) * (20, 10)).round().astype(int)
            lines[y][x] = letter
        rows = ["|" + "".join(line) + "|" for line in lines]
        return "\n".join(["+" + "-" * 41 + "+", *rows, "+" + "-" * 41 + "+", "step %d: bring the hand O to the spot X" % self._steps])

    def close(self):
        self._robot.close()


def main():
    parser = argparse.ArgumentParser(prog="python3 -m rlb.fake_robot", description="A fake robot behind the bridge.")
    parser.add_argument("--period", type=float, default=0.1, help="seconds between two commands")
    parser.add_argument("--hold", type=int, default=3, help="periods without an action until the robot stops")
    parser.add_argument("--virtual", action="store_true", help="no waits: time passes with the steps")
    parser.add_argument("--person", type=float, default=0.0, help="share of the steps in which the person acts")
    parser.add_argument("--person-episodes", type=int, default=0, help="the person leaves after this many episodes; 0: never")
    parser.add_argument("--keyboard", help="file at which a person takes over: python3 -m rlb.keyboard FILE, in another terminal")
    parser.add_argument("--no-camera", dest="camera", action="store_false", help="state has the place of the spot in place of the velocity")
    parser.add_argument("--log", help="file for the log")
    parser.add_argument("--stall", type=int, default=0, help="the step that hangs for ten periods")
    parser.add_argument("--crash", type=int, default=0, help="the step that raises an exception")
    arguments = parser.parse_args()
    if arguments.keyboard and arguments.virtual:
        parser.error("--keyboard: a person needs real time, expected no --virtual")
    log = Log(arguments.log)
    robot = FakeRobot(arguments, log)
    serve(lambda: robot, num_envs=1, name="fake robot", max_steps=LIMIT, info=["success", "late"], intervene=True, period=arguments.period)


if __name__ == "__main__":
    sys.exit(main())
