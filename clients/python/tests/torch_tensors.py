"""Environments that return tensors of torch itself, against the same that return arrays."""

import unittest

import numpy as np
import torch

import rlb
import test_serve
from gymlike import AutoresetMode, SyncVectorEnv, Walk
from parent import RENDER, Parent
from test_serve import N, Everything


def tensors(value):
    """Make tensors of all arrays and numbers within; those of floats ask for gradients, which forbids them to become arrays as they are."""
    if isinstance(value, dict):
        return {key: tensors(member) for key, member in value.items()}
    if isinstance(value, tuple):
        return tuple(map(tensors, value))
    tensor = torch.as_tensor(np.asarray(value))
    return tensor.requires_grad_() if tensor.is_floating_point() else tensor


def returning_tensors(kind):
    """Make of a kind of environments one whose reset, step, render and action_masks return tensors."""
    class Tensors(kind):
        def reset(self, **arguments):
            return tensors(super().reset(**arguments))

        def step(self, action):
            return tensors(super().step(action))

        def render(self):
            return tensors(super().render())

        def action_masks(self):
            return tensors(super().action_masks())

    return Tensors


class Floats(Walk):
    """A Walk whose figure t is no whole number to Python, and that says the allowed choices by a method."""

    def step(self, action):
        *rest, info = super().step(action)
        return (*rest, dict(info, t=float(info["t"])))

    def action_masks(self):
        return (np.array([1.0, self.t % 2]),)


class Masked(Floats):
    """One that says them by info."""

    def reset(self, **arguments):
        obs, info = super().reset(**arguments)
        return obs, dict(info, action_mask=Floats.action_masks(self)[0])

    def step(self, action):
        *rest, info = super().step(action)
        return (*rest, dict(info, action_mask=Floats.action_masks(self)[0]))


def vector(mode):
    def make(n):
        return returning_tensors(SyncVectorEnv)([Floats] * n, mode)
    return lambda address: rlb.serve_vector(make, info=["success", "t"], address=address)


class Torch(unittest.TestCase):
    def test_same_numbers(self):
        children = {"one by one": lambda address: rlb.serve(returning_tensors(Floats), info=["success", "t"], address=address)}
        for name, child in dict(children, **{mode.value: vector(mode) for mode in AutoresetMode}).items():
            with self.subTest(name), Parent(child, N) as parent:
                test_serve.SameNumbers.check(self, parent)

    def test_kinds(self):
        """Dictionaries, images, choices, pictures, and masks of allowed choices."""
        for kind, masked in (Everything, False), (Floats, True), (Masked, True):
            def child(kind):
                return lambda address: rlb.serve(kind, action_mask=masked, address=address)

            with self.subTest(kind), Parent(child(kind)) as arrays, Parent(child(returning_tensors(kind))) as parent:
                for p in arrays, parent:
                    p.reset([1, 2])
                    for t in range(8):
                        p.step(np.ones_like(p.action), [t, t])
                for name, array in arrays.out.items():
                    np.testing.assert_array_equal(parent.out[name], array, name)
                if kind is Everything:
                    wanted = np.array([5, 4], "<u4").tobytes() + b"\1\0"
                    self.assertEqual(parent.ask(RENDER, payload=wanted), arrays.ask(RENDER, payload=wanted))


if __name__ == "__main__":
    unittest.main()
