"""A person at the keyboard of another terminal.

    python3 -m rlb.keyboard keys

Arrow keys move the robot while they are pressed; q ends. The robot's program asks rlb.Keyboard("keys"). The two meet at the socket file keys. This module
needs no NumPy.
"""

import os
import select
import socket
import sys
import termios
import time
import tty

HOLD = 0.6  # seconds for which a key counts: as long as a terminal waits before it repeats a key
KEYS = {b"\x1b[A": (0, -1), b"\x1b[B": (0, 1), b"\x1b[C": (1, 0), b"\x1b[D": (-1, 0)}  # up, down, right, left


class Keyboard:
    """What a person asks for by the arrow keys: a direction (right, down), each -1, 0 or 1.

    path    the socket file at which the person's terminal is expected. It is replaced
    """

    def __init__(self, path):
        if os.path.exists(path):
            os.remove(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(path)
        self._socket.setblocking(False)
        self._terminal = self._direction = None
        self._until = 0.0

    def direction(self, view=""):
        """Return the direction, or None if the person does not act. The person sees the view."""
        try:
            while True:
                message, self._terminal = self._socket.recvfrom(64)
                if message:
                    self._direction, self._until = tuple(int(x) for x in message.split()), time.monotonic() + HOLD
        except BlockingIOError:
            pass
        if self._terminal:
            try:
                self._socket.sendto(view.encode(), self._terminal)
            except OSError:  # the terminal is gone, or does not read
                self._terminal = None
        return self._direction if time.monotonic() < self._until else None


def main(arguments):
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.exit("usage: python3 -m rlb.keyboard FILE, the socket file of the robot's rlb.Keyboard. Arrow keys take over, q ends")
    if not sys.stdin.isatty():
        sys.exit("rlb.keyboard: expected a terminal as standard input")
    path, own = arguments[0], "%s.%d" % (arguments[0], os.getpid())
    link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    link.bind(own)
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        follow(link, path)
    except (KeyboardInterrupt, OSError):  # the terminal may be closed
        pass
    finally:
        os.remove(own)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def follow(link, path):
    """Send keys to the robot at path, and show its views, until the person presses q."""
    seen = 0.0  # when the last view came
    while True:
        ready, _, _ = select.select([sys.stdin, link], [], [], 1)
        message = b""
        if sys.stdin in ready:
            keys = os.read(sys.stdin.fileno(), 64)
            if b"q" in keys:
                return
            message = b"%d %d" % KEYS.get(keys[-3:], (0, 0))
        if link in ready:
            seen = time.monotonic()
            sys.stdout.write("\x1b[H\x1b[J%s\narrow keys: take over, q: end\n" % link.recv(65536).decode())
            sys.stdout.flush()
        if message or time.monotonic() - seen > 1:  # an empty message asks for views
            try:
                link.sendto(message, path)
            except OSError:
                sys.stdout.write("\r\x1b[Kno robot with rlb.Keyboard(%r) runs in this folder" % path)
                sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
