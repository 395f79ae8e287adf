"""A verifier in Python: an answer is worth 1 if its last number is a solution. It needs rlb (clients/python), and no NumPy."""

import re

import rlb


def judge(prompt, answer, solutions):
    numbers = re.findall(r"-?\d+", answer)
    return float(numbers[-1] in solutions) if numbers else None


rlb.grade(judge)
