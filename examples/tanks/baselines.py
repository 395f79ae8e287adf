"""Says what other pumps than a trained one achieve: the mean return of 1000 episodes. PYTHONPATH=clients/python python3 examples/tanks/baselines.py"""
import random

from tanks import Tanks

PUMPS = {
    "at random": lambda first, second, wanted: random.uniform(-1, 1),
    "always half": lambda first, second, wanted: 0,
    "as the level asks for in the long run": lambda first, second, wanted: 2 * wanted**0.5 - 1,
    "proportional to what is missing": lambda first, second, wanted: 2 * wanted**0.5 - 1 + 5 * (wanted - second),
}


def play(pump, tanks, seen):
    """Play an episode and yield what is seen, what the pump does, and the reward."""
    for _ in range(100):
        action = max(-1, min(1, pump(*seen)))
        before = seen
        seen, reward, *_ = tanks.step([action])
        yield before, action, reward


if __name__ == "__main__":
    for name, pump in PUMPS.items():
        returns = []
        for seed in range(1000):
            tanks = Tanks()
            returns.append(sum(reward for _, _, reward in play(pump, tanks, tanks.reset(seed)[0])))
        print("%-40s %6.2f" % (name, sum(returns) / len(returns)))
