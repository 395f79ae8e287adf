"""Plays Tanks and adds every episode to a file, a line for each step, first,second,wanted,action: record.py episodes.csv. For draw.py."""
import sys

import rlb
from tanks import Tanks

STEPS = 100


class Recorded(Tanks):
    def reset(self, seed=None):
        self.rows = []
        return super().reset(seed)

    def step(self, action):
        self.rows.append("%g,%g,%g,%g\n" % (self.first, self.second, self.wanted, action[0]))
        if len(self.rows) == STEPS:
            with open(sys.argv[1], "a") as file:
                file.writelines(self.rows)
        return super().step(action)


rlb.serve(Recorded, max_steps=STEPS)
