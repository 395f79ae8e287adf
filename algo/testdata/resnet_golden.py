"""Three updates of SAC on backbone resnet, and of the classifier, in PyTorch: python3 resnet_golden.py > resnet_golden.json

Weights, images and numbers follow from names and indices, as in policy/resnet/resnettest; noise, dropout and batches from
Philox streams, as in internal/philox. The output has for each tensor the largest element and some of its elements.
"""
import json
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
U = np.uint64


def numbers(name, n):
    key = 0xCBF29CE484222325
    for c in name.encode():
        key = (key ^ c) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        x = U(key) + (np.arange(n, dtype=U) + U(1)) * U(0x9E3779B97F4A7C15)
        x = (x ^ x >> U(30)) * U(0xBF58476D1CE4E5B9)
        x = (x ^ x >> U(27)) * U(0x94D049BB133111EB)
    return ((x ^ x >> U(31)) >> U(40)).astype(np.float64) / 2**24


def tensor(name, shape, fan=0):
    middle, bound = 0.0, 0.2
    if fan > 0:
        bound = math.sqrt(3 / fan)
    elif name.endswith(".weight") or name.endswith(".running_var"):
        middle = 1.0
    x = middle + bound * (2 * numbers(name, math.prod(shape)) - 1)
    return torch.from_numpy(x.astype(np.float32).astype(np.float64).reshape(shape))


def dense(name, rows, columns):
    return tensor(name, (rows, columns), rows)


class Stream:
    """Philox4x32-10 with the counters (counter, key, purpose·2^24 + block)."""

    def __init__(self, seed, purpose, key, counter):
        self.seed, self.purpose, self.key, self.counter, self.blocks, self.buffer = seed, purpose, key, counter, 0, []

    def uint32(self):
        if not self.buffer:
            m = 2**32 - 1
            c = [self.counter & m, self.counter >> 32, self.key, (self.purpose << 24) + self.blocks]
            k0, k1 = self.seed & m, self.seed >> 32
            for _ in range(10):
                a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
                c = [b >> 32 ^ c[1] ^ k0, b & m, a >> 32 ^ c[3] ^ k1, a & m]
                k0, k1 = k0 + 0x9E3779B9 & m, k1 + 0xBB67AE85 & m
            self.blocks, self.buffer = self.blocks + 1, c
        return self.buffer.pop(0)

    def uint64(self):
        return self.uint32() << 32 | self.uint32()

    def float64(self):
        return (self.uint64() >> 11) * 2.0**-53

    def normal(self):
        r, a = math.sqrt(-2 * math.log(1 - self.float64())), 2 * math.pi * self.float64()
        return r * math.cos(a), r * math.sin(a)

    def below(self, n):
        x = self.uint32() * n
        while x % 2**32 < (2**32 - n) % n:
            x = self.uint32() * n
        return x >> 32


ACTION, REPLAY, DROPOUT = 1, 7, 15
SEED, STEPS, ENVS, BATCH, SIDE, STATE, ACTIONS = 7, 6, 2, 8, 64, 3, 2
GAMMA, TAU, ALPHA, EPS, CLIP = 0.9, 0.02, 0.2, 1e-3, 0.1


def trunk(names, x, blocks, norm):
    """The network of He et al. 2016 before its last layers; x is [N,3,H,W]."""

    def conv(name, x, out, size, stride):
        w = names(name + ".weight", (out, x.shape[1], size, size))
        return F.conv2d(x, w, stride=stride, padding=size // 2)

    x = F.max_pool2d(F.relu(norm("bn1", conv("conv1", x, 64, 7, 2))), 3, 2, 1)
    for stage in range(4):
        for block in range(blocks):
            out, layer = 64 << stage, f"layer{stage + 1}.{block}."
            stride = 2 if stage > 0 and block == 0 else 1
            y = F.relu(norm(layer + "bn1", conv(layer + "conv1", x, out, 3, stride)))
            y = norm(layer + "bn2", conv(layer + "conv2", y, out, 3, 1))
            if x.shape[1] != out:
                x = norm(layer + "downsample.1", conv(layer + "downsample.0", x, out, 1, stride))
            x = F.relu(x + y)
    return x


def pixels(images):
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    return ((torch.from_numpy(images.astype(np.float64)) / 255 - mean) / deviation).permute(0, 3, 1, 2)


def images_of(name, n):
    return (numbers(name, n * SIDE * SIDE * 3) * 256).astype(np.uint8).reshape(n, SIDE, SIDE, 3)


class Adam:
    def __init__(self, lr):
        self.lr, self.m, self.v, self.t = lr, {}, {}, 0

    def step(self, params, limit):
        names = sorted(params)
        norm = math.sqrt(sum(float((params[k].grad**2).sum()) for k in names))
        scale = min(1, limit / norm) if limit else 1
        self.t += 1
        for k in names:
            g = params[k].grad * scale
            self.m[k] = 0.9 * self.m.get(k, 0) + 0.1 * g
            self.v[k] = 0.999 * self.v.get(k, 0) + 0.001 * g * g
            with torch.no_grad():
                m, v = self.m[k] / (1 - 0.9**self.t), self.v[k] / (1 - 0.999**self.t)
                params[k] -= self.lr * m / (v.sqrt() + EPS)
            params[k].grad = None
        return norm


def sac():
    camera, numeric = "encoder.main_images", "encoder.numbers"
    pixels_of_map = (SIDE // 32) ** 2
    encoder, actor, critic = {}, {}, {}

    def layer(to, name, rows, columns, norm):
        to[name + ".weight"] = dense(name + ".weight", rows, columns)
        to[name + ".bias"] = tensor(name + ".bias", (columns,))
        if norm:
            to[norm + ".weight"], to[norm + ".bias"] = tensor(norm + ".weight", (columns,)), tensor(norm + ".bias", (columns,))

    encoder[camera + ".embeddings.weight"] = dense(camera + ".embeddings.weight", 512 * pixels_of_map, 8)
    layer(encoder, camera + ".0", 4096, 256, camera + ".norm.0")
    layer(encoder, numeric + ".0", STATE, 64, numeric + ".norm.0")
    for to, net, width, out in [(actor, "actor", 320, 2 * ACTIONS)] + [(critic, f"critic.{h}", 320 + ACTIONS, 1) for h in (0, 1)]:
        layer(to, net + ".0", width, 256, net + ".norm.0")
        layer(to, net + ".1", 256, 256, net + ".norm.1")
        layer(to, net + ".head", 256, out, None)
    target = {k: v.clone() for k, v in critic.items()}
    delayed = {k: v.clone() for k, v in encoder.items()}
    for x in list(encoder.values()) + list(actor.values()) + list(critic.values()):
        x.requires_grad_()

    def hidden(p, x, name, norm):
        y = x @ p[name + ".weight"] + p[name + ".bias"]
        return torch.tanh(F.layer_norm(y, y.shape[1:], p[norm + ".weight"], p[norm + ".bias"]))

    def stack(p, x, net):
        for i in "01":
            x = hidden(p, x, f"{net}.{i}", f"{net}.norm.{i}")
        return x @ p[net + ".head.weight"] + p[net + ".head.bias"]

    def features(p, maps, state, kept):
        w = p[camera + ".embeddings.weight"].reshape(512, pixels_of_map, 8)
        x = torch.einsum("ncp,cpf->ncf", maps, w).flatten(1) * kept
        return torch.cat([hidden(p, x, camera + ".0", camera + ".norm.0"), hidden(p, state, numeric + ".0", numeric + ".norm.0")], 1)

    def act(x, noise):
        out = stack(actor, x, "actor")
        deviation = torch.clamp(out[:, ACTIONS:], math.log(1e-5), math.log(5))
        u = out[:, :ACTIONS] + deviation.exp() * noise
        logs = -(noise**2) / 2 - deviation - math.log(2 * math.pi) / 2 - 2 * (math.log(2) - u - F.softplus(-2 * u))
        return torch.tanh(u), logs.sum(1)

    def q(p, x, a):
        return torch.stack([stack(p, torch.cat([x, a], 1), f"critic.{h}")[:, 0] for h in (0, 1)])

    n = STEPS * ENVS  # of a rollout [STEPS, ENVS]

    def norm(name, x):
        return F.group_norm(x, 4, tensor(name + ".weight", (x.shape[1],)), tensor(name + ".bias", (x.shape[1],)))

    def frozen(name, shape):
        return tensor(name, shape, math.prod(shape[1:]))

    side = {}
    for name in ("observation", "next_observation"):
        maps = trunk(frozen, pixels(images_of(name + ".main_images", n)), 1, norm).flatten(2)
        side[name] = maps, torch.from_numpy((2 * numbers(name + ".state", n * STATE) - 1).astype(np.float32).astype(np.float64).reshape(n, STATE))
    action = torch.from_numpy((2 * numbers("action", n * ACTIONS) - 1).astype(np.float32).astype(np.float64).reshape(n, ACTIONS))
    reward = torch.from_numpy((2 * numbers("reward", n) - 1).astype(np.float32).astype(np.float64))
    live = torch.ones(n)
    live[3] = 0  # terminated

    seeds = Stream(SEED, REPLAY, 2**32 - 1, 2**64 - 1)
    seeds.uint64()
    noise_seed = seeds.uint64()

    def noise(draw):
        rows = [Stream(noise_seed, ACTION, i, draw).normal() for i in range(BATCH)]
        return torch.from_numpy(np.array(rows, dtype=np.float32).astype(np.float64))

    def dropout(update, side):
        kept = np.empty((BATCH, 4096))
        for i in range(BATCH):
            s = Stream(SEED, DROPOUT, 0, (2 * update + side) * BATCH + i)
            halves = [h for _ in range(2048) for u in [s.uint32()] for h in (u % 2**16, u >> 16)]
            kept[i] = [h >= round(0.1 * 2**16) for h in halves]
        return torch.from_numpy(kept) / 0.9

    critics, actors = Adam(1e-2), Adam(1e-2)
    for update in range(3):
        draws = Stream(SEED, REPLAY, 0, update)
        rows = [draws.below(n) for _ in range(BATCH)]
        rows = [k % STEPS * ENVS + k // STEPS for k in rows]
        maps, state = (x[rows] for x in side["observation"])
        next_maps, next_state = (x[rows] for x in side["next_observation"])
        before, after = dropout(update, 0), dropout(update, 1)
        with torch.no_grad():
            a, logs = act(features(encoder, next_maps, next_state, after), noise(2 * update))
            value = q(target, features(delayed, next_maps, next_state, after), a).min(0).values
            y = reward[rows] + GAMMA * live[rows] * (value - ALPHA * logs)
        x = features(encoder, maps, state, before)
        loss = ((q(critic, x, action[rows]) - y) ** 2).sum() / 2 / BATCH
        loss.backward()
        both = {**encoder, **critic}
        critics.step(both, CLIP)
        x = x.detach()
        a, logs = act(x, noise(2 * update + 1))
        ((ALPHA * logs - q(critic, x, a).min(0).values).sum() / BATCH).backward()
        for p in critic.values():
            p.grad = None
        actors.step(actor, CLIP)
        with torch.no_grad():
            for to, of in ((target, critic), (delayed, encoder)):
                for k in to:
                    to[k] += TAU * (of[k] - to[k])
    return {**encoder, **actor, **critic, **{"target." + k: v for k, v in {**target, **delayed}.items()}}


def classifier():
    names = {}

    def weight(name, shape):
        if name not in names:
            names[name] = tensor(name, shape, math.prod(shape[1:])).requires_grad_()
        return names[name]

    def norm(name, x):
        c = x.shape[1]
        for part in (".weight", ".bias"):
            names.setdefault(name + part, tensor(name + part, (c,)).requires_grad_())
        return F.batch_norm(x, None, None, names[name + ".weight"], names[name + ".bias"], training=True)

    adam = Adam(1e-3)  # with 1e-2 float32 alone makes a difference of 6e-3
    for update in range(3):
        x = pixels(images_of(f"frames.{update}", BATCH))
        labels = torch.from_numpy((numbers(f"labels.{update}", BATCH) < 0.5).astype(np.float64))
        x = trunk(weight, x, 2, norm).mean((2, 3))
        names.setdefault("fc.weight", dense("fc.weight", 512, 1).requires_grad_())
        names.setdefault("fc.bias", tensor("fc.bias", (1,)).requires_grad_())
        z = (x @ names["fc.weight"] + names["fc.bias"])[:, 0]
        F.binary_cross_entropy_with_logits(z, labels).backward()
        adam.step(names, CLIP)
    return names


def golden(tensors):
    out = {}
    for name, x in sorted(tensors.items()):
        x = x.detach()
        if x.dim() == 4:  # filters last
            x = x.permute(2, 3, 1, 0)
        x = x.reshape(-1)
        step = max(1, x.numel() // 16)
        out[name] = {"largest": float(x.abs().max()), "step": step, "values": [float(f"{v:.7g}") for v in x[::step].tolist()]}
    return out


json.dump({"sac": golden(sac()), "classifier": golden(classifier())}, sys.stdout, indent=None)
