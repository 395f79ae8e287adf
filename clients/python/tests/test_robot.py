"""The clock of a robot: the rate of commands, and every way to stop."""

import signal
import subprocess
import sys
import threading
import time
import unittest

import rlb

STOPPED = "stop"


class Recorder:
    """Records commands and stops."""

    def __init__(self):
        self.events = []

    def robot(self, **options):
        return rlb.Robot(options.pop("period", 0.01), self.events.append, lambda: self.events.append(STOPPED), **options)


class TestVirtual(unittest.TestCase):
    def setUp(self):
        self.seen = Recorder()

    def test_hold(self):
        """The last action is repeated for hold periods. Then the robot stops once, until the next action, which is late."""
        robot = self.seen.robot(virtual=True, hold=3)
        self.assertFalse(robot.act(1))
        robot.idle(9)
        self.assertEqual(self.seen.events, [1, 1, 1, STOPPED])
        self.assertTrue(robot.act(2))
        self.assertFalse(robot.act(3))
        self.assertEqual(self.seen.events[4:], [2, 3])
        self.assertEqual(robot.late_steps, 1)
        robot.close()

    def test_zero(self):
        """A robot without stop gets the action zero."""
        robot = rlb.Robot(0.1, self.seen.events.append, zero=0, virtual=True)
        robot.act(1)
        robot.close()
        self.assertEqual(self.seen.events, [1, 0])

    def test_pause_and_close(self):
        """A pause is not late. After close no command follows."""
        robot = self.seen.robot(virtual=True)
        robot.act(1)
        robot.pause()
        robot.idle(5)
        self.assertEqual(self.seen.events, [1, STOPPED])
        self.seen.events.clear()
        robot.pause()  # it rests already
        self.assertFalse(robot.act(2))
        robot.close()
        robot.close()
        robot.idle(5)
        self.assertEqual(self.seen.events, [2, STOPPED])
        with self.assertRaisesRegex(RuntimeError, "stopped"):
            robot.act(3)
        self.assertEqual(self.seen.events, [2, STOPPED])

    def test_error(self):
        """An exception of command stops the robot for good, and act raises it."""
        stops = []

        def command(action):
            raise OSError("no cable")

        robot = rlb.Robot(0.1, command, lambda: stops.append(1), virtual=True)
        for _ in range(2):
            with self.assertRaisesRegex(OSError, "no cable"):
                robot.act(1)
        robot.close()
        self.assertEqual(stops, [1])

    def test_arguments(self):
        for options, why in (({"period": 0.0005}, "at least 0.001"), ({"hold": 0}, "at least 1")):
            with self.assertRaisesRegex(ValueError, why):
                self.seen.robot(virtual=True, **options)
        with self.assertRaisesRegex(ValueError, "zero"):
            rlb.Robot(0.1, print)


class TestRealTime(unittest.TestCase):
    def test_thread_holds_and_stops(self):
        """The thread repeats the action by itself, and stops by itself."""
        stopped = threading.Event()
        commands = []
        robot = rlb.Robot(0.01, commands.append, stopped.set)
        robot.act(1)
        self.assertTrue(stopped.wait(60))
        count = len(commands)
        self.assertGreaterEqual(count, 2)
        time.sleep(0.05)
        self.assertEqual(len(commands), count)
        robot.close()

    def test_act_takes_a_period(self):
        robot = Recorder().robot(period=0.02)
        began = time.monotonic()
        for i in range(5):
            robot.act(i)
        self.assertGreaterEqual(time.monotonic() - began, 0.1 - 1e-3)
        robot.close()

    def test_ends(self):
        """SIGTERM, an exception and the plain end of the program stop the robot, and no command follows."""
        program = """
import os, signal, sys, time, rlb
say = lambda word: os.write(1, word + b"\\n")  # at once: two threads speak
robot = rlb.Robot(0.01, lambda action: say(b"command"), lambda: say(b"stop"), hold=10**6)
robot.act(1)
%s
say(b"begun")
%s
"""
        unseen = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])"  # another thread gets the signal
        for before, what, code in (("", "time.sleep(60)", 143), ("", "sys.stdin.read()", 143), (unseen, "sys.stdin.read()", 143),
                                   ("", "raise ValueError", 1), ("", "", 0)):
            with self.subTest(before + what):
                child = subprocess.Popen([sys.executable, "-c", program % (before, what)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                if code == 143:
                    while child.stdout.readline() != "begun\n":
                        pass
                    child.send_signal(signal.SIGTERM)
                    child.wait(60)  # with its input open
                out = child.communicate()[0].split()
                self.assertEqual(child.returncode, code)
                self.assertEqual((out[-1], out.count("stop")), ("stop", 1), out)


if __name__ == "__main__":
    unittest.main()
