// Package tensor answers: how does data lie in memory, in messages and in files? It has dense row-major tensors, and
// Dicts of named tensors.
//
// A Tensor is a small value: element type, shape, and a pointer to memory that somebody else owns. Views (At, Slice,
// Reshape) share that memory and cost nothing. A Layout describes named tensors in one block of memory. Layout.Bind
// returns a Dict over such a block. An Allocator returns zeroed memory, aligned to 64 bytes:
//
//	layout := tensor.NewLayout(
//		tensor.Field{Name: "observation.state", DType: tensor.F32, Shape: []int{16, 4}},
//		tensor.Field{Name: "reward", DType: tensor.F32, Shape: []int{16}},
//	)
//	mem, err := tensor.Heap(layout.Size()) // or another Allocator
//	d := layout.Bind(mem)
//	reward := d.Must("reward").F32()
//
// Encode and Decode convert a Dict to bytes and back, for messages. WriteSafetensors and ReadSafetensors use a file
// format that other programs can read. Elements are little-endian in memory, messages and files, because all machines
// that rlinf runs on are little-endian.
//
// All packages of rlinf use the same names: observation (with parts such as observation.state and observation.image),
// action, reward, done, value, sample_log_prob, advantage, return, terminated, truncated, final_observation, mask,
// version. Leading dimensions are [T, N]: time, environment.
//
// A function panics if shapes or types do not match, because this is a mistake of the caller. Decode and the
// safetensors readers return errors instead, because their input may be untrusted.
package tensor
