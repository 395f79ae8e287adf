// Package ptx answers: what does a kernel in PTX compute? It runs kernels as a CUDA device would, but on the CPU, and
// reports what a device would let pass:
//
//   - accesses outside the mapped memory, or misaligned
//   - reads of shared memory before it is written
//   - races: two threads access a word, one of them writes, and no barrier lies between. Threads may not exchange
//     words of global memory at all
//   - barriers that only some threads of a block reach, and integer divisions by 0
//
// Results have the bits of a device: every operation rounds once, to nearest even, and subnormal numbers stay. Only the
// bits of a NaN may differ. The package knows the instructions that the kernels of policy/nn/kernel/device use, in the
// form in which clang writes them.
//
//	module, err := ptx.Parse(text)
//	var memory ptx.Memory
//	memory.Map(address, bytes)
//	err = module.Kernel("axpy").Launch(&memory, ptx.Grid{X: 4, Y: 1}, 256, []uint64{y, x, bits, n})
package ptx
