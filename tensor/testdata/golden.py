"""Writes golden.safetensors: python3 golden.py > golden.safetensors. It knows the format from its description alone."""
import json, struct, sys

tensors = [  # name, dtype, shape, elements; not in the order of their offsets
    ("model.0.weight", "F32", [2, 3], struct.pack("<6f", 0, 1, 2, 3, 4, -0.5)),
    ("model.0.scale", "BF16", [2], bytes([0x80, 0x3F, 0x00, 0xC0])),
    ("stats.mean", "F64", [], struct.pack("<d", 0.1)),
    ("steps", "I64", [1], struct.pack("<q", -1)),
    ("codes", "I32", [2], struct.pack("<2i", 7, -8)),
    ("mask", "U8", [3], bytes([1, 0, 255])),
    ("empty", "F32", [0, 2], b""),
]
data, header = b"", {}
for name, dtype, shape, elements in reversed(tensors):  # so that F32 starts on an odd byte: nothing may count on alignment
    header[name] = {"data_offsets": [len(data), len(data) + len(elements)], "shape": shape, "dtype": dtype}
    data += elements
ordered = {"__metadata__": {"made by": "golden.py"}} | {t[0]: header[t[0]] for t in tensors}
text = json.dumps(ordered, indent=1).encode()
sys.stdout.buffer.write(struct.pack("<Q", len(text)) + text + data)
