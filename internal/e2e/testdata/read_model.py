"""Reads folders of a language model with nothing but Python, and checks what other programs expect of them.

Usage: read_model.py FULL BF16

FULL has float32 weights in one file, BF16 the same weights rounded to bfloat16. Exits with 1 and a message at the
first thing that is wrong.
"""
import json
import os
import struct
import sys


def tensors(path):
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(n)), f.read()
    header.pop("__metadata__", None)
    end = 0
    for name, t in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        lo, hi = t["data_offsets"]
        assert lo == end, f"{path}: {name} begins at {lo}, expected {end}"
        end = hi
    assert end == len(data), f"{path}: {len(data)} bytes of data, expected {end}"
    return {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])]) for name, t in header.items()}


def folder(path):
    index = os.path.join(path, "model.safetensors.index.json")
    if not os.path.exists(index):
        return tensors(os.path.join(path, "model.safetensors"))
    found, files = {}, json.load(open(index))["weight_map"]
    for name in sorted(set(files.values())):
        part = tensors(os.path.join(path, name))
        assert all(files[t] == name for t in part), f"{index}: tensors of {name} differ"
        found.update(part)
    assert set(found) == set(files), f"{index}: other tensors than in the files"
    return found


def expected(c):
    d, e, f = c["hidden_size"], c["head_dim"], c["intermediate_size"]
    q, kv = c["num_attention_heads"] * e, c["num_key_value_heads"] * e
    shapes = {"model.embed_tokens.weight": [c["vocab_size"], d], "model.norm.weight": [d]}
    for i in range(c["num_hidden_layers"]):
        layer = {
            "self_attn.q_proj.weight": [q, d], "self_attn.q_proj.bias": [q],
            "self_attn.k_proj.weight": [kv, d], "self_attn.k_proj.bias": [kv],
            "self_attn.v_proj.weight": [kv, d], "self_attn.v_proj.bias": [kv],
            "self_attn.o_proj.weight": [d, q],
            "mlp.gate_proj.weight": [f, d], "mlp.up_proj.weight": [f, d], "mlp.down_proj.weight": [d, f],
            "input_layernorm.weight": [d], "post_attention_layernorm.weight": [d],
        }
        shapes.update({f"model.layers.{i}.{name}": shape for name, shape in layer.items()})
    return shapes


def main(full, half):
    c = json.load(open(os.path.join(full, "config.json")))
    assert c["model_type"] == "qwen2" and c["architectures"] == ["Qwen2ForCausalLM"], c
    assert c["tie_word_embeddings"] is True and c["torch_dtype"] == "float32", c
    a, b, want = folder(full), folder(half), expected(c)
    assert json.load(open(os.path.join(half, "config.json")))["torch_dtype"] == "bfloat16"
    assert {n: s for n, (_, s, _) in a.items()} == want, "names and shapes differ: %s" % (
        sorted(set(a) ^ set(want)) or [n for n in want if a[n][1] != want[n]])
    for name, (dtype, shape, data) in a.items():
        assert dtype == "F32" and b[name][0] == "BF16" and b[name][1] == shape, name
        words = struct.unpack(f"<{len(data) // 4}I", data)
        rounded = [(w + 0x7FFF + (w >> 16 & 1)) >> 16 for w in words]  # to nearest, ties to even
        assert list(struct.unpack(f"<{len(rounded)}H", b[name][2])) == rounded, f"{name} is rounded another way"
    for name in ("tokenizer.json", "tokenizer_config.json"):
        json.load(open(os.path.join(full, name)))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except AssertionError as e:
        sys.exit(str(e))
