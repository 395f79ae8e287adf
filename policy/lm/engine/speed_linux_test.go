package engine_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel"
	"github.com/rlinf/rlinf/tensor"
)

// BenchmarkSpeed compares tokens/s with bounds. F is the operations per second of kernel.Gemm of 512³ on one core. W is
// the bytes per second of reading as much memory as the weights take.
//
//	training  F / 3(2N + 2·layers·heads·head_dim·T)
//	prefill   F / (2N + 2·layers·heads·head_dim·T), with the output matrix for the last token alone
//	decode    B / (max(4N/W, 2NB/F) + B·bytes of a token in the cache·T/2 / W)
//
// N is the number of weights in products, T the length of a sequence, B the number of sequences. The
// runs alternate with measurements of F and W. Each time is the shortest of several, in processor
// time of one thread, which other programs disturb less than the clock's. Run it with
//
//	go test ./policy/lm/engine -run '^$' -bench Speed -benchtime 2s
func BenchmarkSpeed(b *testing.B) {
	for _, s := range []speedCase{
		{"d=64", speedConfig(64, 4, 4, 176, 16), 16, 64},
		{"d=128", speedConfig(128, 4, 4, 352, 32), 48, 21},
		{"d=256", speedConfig(256, 6, 4, 704, 512), 160, 6},
	} {
		b.Run(s.name, func(b *testing.B) {
			b.Run("training", s.training)
			b.Run("prefill", s.prefill)
			for _, sequences := range []int{1, 16, 64} {
				b.Run(fmt.Sprint("decode/B=", sequences), func(b *testing.B) { s.decode(b, sequences) })
			}
		})
	}
	// Four layers of Qwen2.5-1.5B are 0.75 GB, more than the caches of most machines. W is measured on
	// these weights, so a larger cache has the same effect on both sides.
	large := speedCase{"large", speedConfig(1536, 4, 12, 8960, 1024), 16, 1}
	b.Run("large/decode/B=1", func(b *testing.B) { large.decode(b, 1) })
}

func speedConfig(d, layers, heads, f, vocab int) lm.Config {
	return lm.Config{
		Family: lm.Qwen2, Vocab: vocab, Hidden: d, Layers: layers, Heads: heads, KVHeads: 2, HeadDim: d / heads,
		Intermediate: f, Eps: 1e-6, Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault}, InitRange: 0.02, QKVBias: true,
		Tied: true,
	}
}

type speedCase struct {
	name              string
	c                 lm.Config
	length, sequences int // of a batch in training
}

// head returns the number of weights of the output matrix, and inner that of all other products.
func (s *speedCase) head() float64 { return float64(s.c.Vocab * s.c.Hidden) }

func (s *speedCase) inner() float64 {
	c := &s.c
	return float64(c.Layers * c.Hidden * (2*(c.Heads+c.KVHeads)*c.HeadDim + 3*c.Intermediate))
}

// attention returns the operations of attention for a token.
func (s *speedCase) attention() float64 {
	return 2 * float64(s.c.Layers*s.c.Heads*s.c.HeadDim*s.length)
}

// text returns the tokens of a sequence.
func (s *speedCase) text(i int) []int32 {
	ids := make([]int32, s.length)
	for t := range ids {
		ids[t] = int32((i*7 + t*5) % s.c.Vocab)
	}
	return ids
}

func (s *speedCase) training(b *testing.B) {
	m := s.model(b, lm.Options{})
	n := s.length * s.sequences
	w := m.NewTraining(n)
	batch := lm.Batch{Starts: []int32{0}}
	for i := range s.sequences {
		batch.IDs = append(batch.IDs, s.text(i)...)
		batch.Starts = append(batch.Starts, int32(len(batch.IDs)))
	}
	targets := batch.NextTokens(nil)
	logp, dlogp := make([]float32, len(targets)), make([]float32, len(targets))
	for i := range dlogp {
		dlogp[i] = -1 / float32(len(targets))
	}
	p := m.Params
	moments := [2][]float32{make([]float32, len(p.Data)), make([]float32, len(p.Data))}
	run := func() {
		clear(p.Grad)
		test.OK(b, m.Forward(w, batch))
		m.LogProbs(w, logp, nil, targets, 1)
		m.Backward(w, dlogp, nil, targets, 1, 0)
		m.FinishGradients(w)
		kernel.AdamStep(p.Data, p.Grad, moments[0], moments[1], 1e-5, 0.9, 0.999, 1e-8, 0, 1, 1, 1)
	}
	operations := float64(n) * 3 * (2*(s.head()+s.inner()) + s.attention())
	compare(b, n, run, func(f, _ float64) float64 { return operations / f }, nil)
}

func (s *speedCase) prefill(b *testing.B) {
	m := s.model(b, lm.Options{Frozen: true})
	sequences := max(1, 512/s.length)
	n := sequences * s.length
	w, cache := m.NewDecoding(n), m.NewCache(sequences*((s.length+lm.PageLen-1)/lm.PageLen))
	var pieces []lm.Piece
	var last []int32
	for i := range sequences {
		pieces = append(pieces, lm.Piece{Seq: cache.NewText(s.length), IDs: s.text(i)})
		last = append(last, int32((i+1)*s.length-1))
	}
	logits := make([]float32, sequences*s.c.Vocab)
	run := func() {
		for _, p := range pieces {
			p.Seq.Truncate(0)
		}
		test.OK(b, m.Extend(w, pieces...))
		m.Logits(w, logits, last)
	}
	operations := float64(n)*(2*s.inner()+s.attention()) + float64(sequences)*2*s.head()
	compare(b, n, run, func(f, _ float64) float64 { return operations / f }, nil)
}

func (s *speedCase) decode(b *testing.B, sequences int) {
	m := s.model(b, lm.Options{Frozen: true})
	e := test.Must(engine.New(m, engine.Options{MaxRunning: sequences}))(b)
	requests := make([]engine.Request, sequences)
	for i := range requests {
		requests[i] = engine.Request{Prompt: s.text(i)[:1], Key: uint64(i), Sampling: engine.Greedy(s.length)}
		requests[i].Sampling.Temperature = 1
	}
	run := func() {
		test.Must(e.Generate(context.Background(), requests, engine.Watch{}))(b)
	}
	weights, c := s.head()+s.inner(), &s.c
	kept := 8 * float64(c.Layers*c.KVHeads*c.HeadDim) // bytes of a token in the cache
	steps, batch := float64(s.length), float64(sequences)
	frozen := m.Frozen()
	memory := unsafe.Slice((*float32)(unsafe.Pointer(&frozen[0])), len(frozen)/4)
	compare(b, sequences*s.length, run, func(f, w float64) float64 {
		return steps * (max(4*weights/w, 2*weights*batch/f) + batch*kept*steps/2/w)
	}, memory)
}

func (s *speedCase) model(b *testing.B, o lm.Options) *lm.Model {
	m, err := lm.New(new(nn.Params[float32]), s.c, o)
	if err == nil {
		err = m.Alloc(tensor.Heap)
	}
	test.OK(b, err)
	if m.Count() < 1e7 {
		m.Init(1)
		return m
	}
	for _, t := range m.Tensors() {
		for i := range t.Data {
			t.Data[i] = 0.01 * float32(i%7-3)
		}
	}
	return m
}

// compare reports tokens per second of run, and the share of the bound in per cent: bound gives the
// shortest possible time from operations and bytes per second. memory is what the bytes are read
// from.
func compare(b *testing.B, tokens int, run func(), bound func(f, w float64) float64, memory []float32) {
	const n = 512
	x, y, z := make([]float32, n*n), make([]float32, n*n), make([]float32, n*n)
	for i := range x {
		x[i], y[i] = float32(i%5), float32(i%3)
	}
	var sum [64]float32
	memory = memory[:len(memory)/64*64]
	best := [3]float64{math.Inf(1), math.Inf(1), math.Inf(1)}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	timed := func(i, times int, f func()) {
		f()
		for range times {
			start := threadTime()
			f()
			best[i] = min(best[i], threadTime()-start)
		}
	}
	for b.Loop() {
		timed(0, 2, func() { kernel.Gemm(z, x, y, n, n, n, false) })
		timed(1, 2, func() { kernel.ColSum(sum[:], memory, len(memory)/64, 64, false) })
		timed(2, 1, run)
	}
	f, w := 2*n*n*n/best[0], 4*float64(len(memory))/best[1]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(f/1e9, "GF/s")
	if memory != nil {
		b.ReportMetric(w/1e9, "GB/s")
	}
	b.ReportMetric(float64(tokens)/best[2], "tokens/s")
	b.ReportMetric(100*bound(f, w)/best[2], "%bound")
}

// threadTime is the processor time of this thread in seconds.
func threadTime() float64 {
	const threadCPUTime = 3 // CLOCK_THREAD_CPUTIME_ID
	var t syscall.Timespec
	if _, _, e := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadCPUTime, uintptr(unsafe.Pointer(&t)), 0); e != 0 {
		panic(e)
	}
	return float64(t.Nano()) / 1e9
}
