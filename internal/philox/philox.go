// Package philox answers: which random numbers does a use get, on any rank and after any resume? It is a counter-based
// generator: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11. A
// seed, a purpose, a key and a counter identify a stream. The same values give the same numbers.
package philox

import (
	"math"
	"math/bits"
)

// A Purpose separates the streams of different uses.
type Purpose uint32

const (
	Action      Purpose = 1 + iota // exploration noise: key = global env index, counter = step of that env
	Reset                          // initial states: key = env / group_size, counter = episode
	Permutation                    // minibatches: key = actor, counter = iteration and epoch
	Init                           // initial parameters: key = parameter tensor
	EvalReset                      // initial states of evaluation episodes
	Exploration                    // noise matrices of state-dependent exploration
	Replay                         // transitions drawn from a replay buffer: key = actor, counter = update
	Delay                          // emulated duration of simulator steps: counter = step
	Mixture                        // choice of the expert's or the policy's action: key and counter like Action
	Token                          // tokens of texts: key = prompt, counter = sample·2^48 + position in the answer
	Text                           // choice of training texts: counter = number of the draw
	Crop                           // crop of an image: key = actor, counter = number of the sample
	Denoise                        // noise and time of the denoising loss: key and counter like Crop
	Hindsight                      // goals of transitions: key and counter like Replay
	Dropout                        // elements that Dropout sets to 0: key = layer, counter = number of the sample
	Shift                          // shift of an image of a batch: key = sample, side and camera, counter = update
)

// block is the Philox4x32-10 bijection. Its counter is (c0, c1, c2, c3), and its key is the seed. A Stream sets c0 and
// c1 to its counter, c2 to its key, and c3 to purpose·2^24 + the number of the block.
func block(seed uint64, c0, c1, c2, c3 uint32) (uint32, uint32, uint32, uint32) {
	k0, k1 := uint32(seed), uint32(seed>>32)
	for range 10 {
		h0, l0 := bits.Mul32(0xD2511F53, c0)
		h1, l1 := bits.Mul32(0xCD9E8D57, c2)
		c0, c1, c2, c3 = h1^c1^k0, l1, h0^c3^k1, l0
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return c0, c1, c2, c3
}

// A Stream generates the numbers of one seed, purpose, key and counter, block by block. A copy of a Stream continues
// independently.
type Stream struct {
	seed      uint64
	lo, hi, k uint32
	tag       uint32
	buf       [4]uint32
	have      int
}

// New returns the stream of a seed, a purpose, a key and a counter. The key must be below 2^32.
func New(seed uint64, p Purpose, key, counter uint64) Stream {
	return Stream{seed: seed, lo: uint32(counter), hi: uint32(counter >> 32), k: uint32(key), tag: uint32(p) << 24}
}

// Skip skips the next n blocks. A block is 4 numbers of Uint32, or 2 of Normal. The numbers drawn so far must fill
// whole blocks.
func (s *Stream) Skip(n int) { s.tag += uint32(n) }

// Uint32 returns the next 32 random bits.
func (s *Stream) Uint32() uint32 {
	if s.have == 0 {
		s.buf[0], s.buf[1], s.buf[2], s.buf[3] = block(s.seed, s.lo, s.hi, s.k, s.tag)
		s.tag++ // more than 2^24 blocks would change the purpose
		s.have = 4
	}
	s.have--
	return s.buf[3-s.have]
}

// Uint64 returns the next 64 random bits.
func (s *Stream) Uint64() uint64 { return uint64(s.Uint32())<<32 | uint64(s.Uint32()) }

// Float64 returns a number in [0, 1), with 53 random bits.
func (s *Stream) Float64() float64 { return float64(s.Uint64()>>11) * 0x1p-53 }

// Uniform returns a number in [lo, hi).
func (s *Stream) Uniform(lo, hi float64) float64 { return lo + (hi-lo)*s.Float64() }

// Normal returns two independent standard normal numbers, by the method of Box and Muller (1958).
func (s *Stream) Normal() (float64, float64) {
	u := 1 - s.Float64() // (0, 1]
	r, a := math.Sqrt(-2*math.Log(u)), 2*math.Pi*s.Float64()
	sin, cos := math.Sincos(a)
	return r * cos, r * sin
}

// IntN returns a number in [0, n), unbiased (Lemire 2019). n must be positive and below 2^32.
func (s *Stream) IntN(n int) int {
	m := uint64(s.Uint32()) * uint64(n)
	if uint32(m) < uint32(n) {
		for least := -uint32(n) % uint32(n); uint32(m) < least; {
			m = uint64(s.Uint32()) * uint64(n)
		}
	}
	return int(m >> 32)
}
