"""Two tanks in a row: a pump fills the first, which runs into the second, whose level should reach the wanted one."""
import random, rlb

class Tanks:
    observation_space, action_space = rlb.Box(0, 4, (3,)), rlb.Box(-1, 1, (1,))

    def reset(self, seed=None):
        draw = random.Random(seed).uniform
        self.first, self.second, self.wanted = draw(0, 1), draw(0, 1), draw(0.2, 0.8)
        return (self.first, self.second, self.wanted), {}

    def step(self, action):
        flow, drain = 0.2 * self.first**0.5, 0.2 * self.second**0.5  # Torricelli's law
        self.first = max(self.first + 0.1 * (1 + action[0]) - flow, 0)
        self.second = max(self.second + flow - drain, 0)
        return (self.first, self.second, self.wanted), -abs(self.second - self.wanted), False, False, {}

if __name__ == "__main__":
    rlb.serve(Tanks, max_steps=100)
