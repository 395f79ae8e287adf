"""A robot's clock: commands at a fixed rate, which stop by themselves. This module needs no NumPy."""

import atexit
import os
import signal
import sys
import threading
import time


class Robot:
    """Commands a robot every period, from a thread of its own.

        robot = rlb.Robot(0.1, command, stop)
        late = robot.act(action)    in the step of the environment: commands the action at once, and returns when the period is over
        robot.pause()               before a reset by hand: calls stop(), and no command follows before the next act

    period     seconds between two commands, at least 0.001. Give serve the same period
    command    command(action) sends an action to the robot. The thread repeats the last action every period
    stop       stop() brings the robot to rest. Default: command(zero)
    zero       the action at rest, for robots without stop
    hold       number of periods after which, without a new action, the robot is stopped: the policy, or rlinf, may be gone. Default 3
    virtual    no thread and no waits: time passes in act and idle alone, a period at a time. For tests

    stop() is also called by close, at the end of the program, at SIGTERM and after an exception of command. act then raises that exception. After
    close no command follows. command and stop are never called at the same time.
    """

    def __init__(self, period, command, stop=None, *, zero=None, hold=3, virtual=False):
        if not period >= 1e-3:
            raise ValueError("a period of %r s, expected at least 0.001" % (period,))
        if stop is None and zero is None:
            raise ValueError("expected stop, or the action zero")
        if hold < 1:
            raise ValueError("hold is %r periods, expected at least 1" % (hold,))
        self.period, self.late_steps = period, 0
        self._command, self._stop = command, stop or (lambda: command(zero))
        self._hold, self._virtual = hold, virtual
        self._changed = threading.Condition()
        self._action, self._age = None, 0  # the action that is repeated; None: the robot rests. The number of periods since act
        self._fresh = self._closed = False
        self._error = None
        self._ended = None  # when the last period with an action ended; None after a pause
        atexit.register(self.close)
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._terminate)
            wakes, woken = os.pipe()
            os.set_blocking(woken, False)
            earlier = signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
            threading.Thread(target=self._watch, args=(wakes, earlier), daemon=True, name="signals").start()
        if not virtual:
            threading.Thread(target=self._run, daemon=True, name="robot").start()

    def act(self, action):
        """Command an action, and wait for the end of the period. Return whether the action came after the end of the period before."""
        now = time.monotonic()
        with self._changed:
            if self._error is not None:
                raise self._error
            if self._closed:
                raise RuntimeError("the robot is stopped")
            due = now if self._ended is None else self._ended + self.period
            late = self._age > 1 if self._virtual else self._ended is not None and now > due
            if late or self._ended is None:
                due = now + self.period
            self._action, self._age, self._fresh = action, 0, True
            self.late_steps += late
            if self._virtual:
                self._tick()
            self._changed.notify_all()
            while not self._virtual and not self._closed and (left := due - time.monotonic()) > 0:
                self._changed.wait(left)
            self._ended = due
            if self._error is not None:
                raise self._error
        return late

    def idle(self, periods=1):
        """Let time pass without a new action, on a virtual clock."""
        with self._changed:
            for _ in range(periods):
                self._tick()

    def pause(self):
        """Stop the robot until the next act, as before a reset by hand."""
        with self._changed:
            self._ended, self._age = None, 0
            self._rest()

    def close(self):
        """Stop the robot for good. Later calls do nothing."""
        with self._changed:
            if not self._closed:
                self._closed = True
                try:
                    self._stop()  # also if it rests: nobody knows what has moved it since
                finally:
                    self._action = None
                    self._changed.notify_all()
        atexit.unregister(self.close)

    def _terminate(self, *_):
        self.close()  # the lock of a Condition can be taken again by the thread that has it
        if callable(self._before):
            self._before(signal.SIGTERM, None)
        sys.exit(128 + signal.SIGTERM)

    def _watch(self, wakes, earlier):
        """Stop at SIGTERM, and end the program if its main thread does not: Python calls a handler when this thread next runs, but it may read."""
        while True:
            number = os.read(wakes, 1)
            if earlier >= 0:
                os.write(earlier, number)
            if number[0] == signal.SIGTERM:
                break
        self.close()
        time.sleep(1)
        os._exit(128 + signal.SIGTERM)

    def _run(self):
        with self._changed:
            while not self._closed:
                began = time.monotonic()
                self._tick()
                while not self._closed and not self._fresh and (left := began + self.period - time.monotonic()) > 0:
                    self._changed.wait(left)

    def _tick(self):
        """Command the action of a period, or stop if the action is too old."""
        self._fresh = False
        if self._closed or self._action is None:
            self._age += 1
            return
        try:
            if self._age >= self._hold:
                self._rest()
            else:
                self._command(self._action)
        except Exception as err:
            self._error, self._action = err, None
            self._closed = True
            self._changed.notify_all()
            self._stop()
        self._age += 1

    def _rest(self):
        if self._action is not None:
            self._action = None
            self._stop()
