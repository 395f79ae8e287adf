"""A person at the keyboard of another terminal takes over, and leaves."""

import os
import pty
import select
import subprocess
import sys
import tempfile
import time
import unittest

import rlb


class TestKeyboard(unittest.TestCase):
    def test_takes_over(self):
        """The arrow keys reach the robot, the view reaches the person, and q ends the terminal's program."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "keys")
            keyboard = rlb.Keyboard(path)
            self.assertIsNone(keyboard.direction("alone"))
            ours, theirs = pty.openpty()
            person = subprocess.Popen([sys.executable, "-m", "rlb.keyboard", path], stdin=theirs, stdout=theirs, stderr=theirs)
            self.addCleanup(person.kill)
            os.close(theirs)
            shown = self.until(ours, lambda: keyboard.direction("the table"), "the table")
            self.assertIn("arrow keys", shown)
            for key, direction in ((b"\x1b[A", (0, -1)), (b"\x1b[C", (1, 0)), (b"x", (0, 0))):
                os.write(ours, key)
                self.wait(lambda: keyboard.direction() == direction)
            self.wait(lambda: keyboard.direction() is None)  # no key is pressed any more
            os.write(ours, b"q")
            self.assertEqual(person.wait(10), 0)
            self.assertEqual(os.listdir(folder), ["keys"])
            rlb.Keyboard(path)  # replaces the file
            os.close(ours)

    def wait(self, reached):
        end = time.monotonic() + 10
        while not reached():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def until(self, terminal, ask, word):
        """Ask until the terminal shows the word, and return all that it shows."""
        shown, end = "", time.monotonic() + 10
        while word not in shown:
            self.assertLess(time.monotonic(), end)
            ask()
            if select.select([terminal], [], [], 0.05)[0]:
                shown += os.read(terminal, 4096).decode()
        return shown

    def test_without_a_terminal(self):
        end = subprocess.run([sys.executable, "-m", "rlb.keyboard", "keys"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual(end.returncode, 1)
        self.assertIn("expected a terminal", end.stderr)


if __name__ == "__main__":
    unittest.main()
