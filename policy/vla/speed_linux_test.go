package vla_test

import (
	"math"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn/kernel"
	"github.com/rlinf/rlinf/policy/vla"
	"github.com/rlinf/rlinf/tensor"
)

// BenchmarkSpeed compares decisions of the default policy with the rate of kernel.Gemm of 512³ on one core,
// measured in the same run: choosing actions, fine-tuning by log-probs, and an update of PPO. Each time is the
// shortest of several, in processor time of one thread. Run it with
//
//	go test ./policy/vla -run '^$' -bench Speed -benchtime 2s
func BenchmarkSpeed(b *testing.B) {
	const rows = 64
	p, obs := speedPolicy(b, rows)
	w, x := p.NewWork(rows), noise(rows)
	act := test.Must(p.Forward(w, obs, policy.Sample, x))(b)
	action := act.Action.Clone()
	g := policy.Grad{LogProb: tensor.New(tensor.F32, rows, 16), Entropy: tensor.New(tensor.F32, rows, 16),
		Value: tensor.New(tensor.F32, rows, 1)}
	for i := range g.LogProb.F32() {
		g.LogProb.F32()[i] = 0.01
	}
	update := func(g policy.Grad) func() {
		return func() {
			test.Must(p.Evaluate(w, obs, action))(b)
			test.OK(b, p.Backward(w, g, nil))
		}
	}
	rollout := func() {
		test.Must(p.Forward(w, obs, policy.Sample, x))(b)
	}
	forward, training := operations()
	for _, c := range []struct {
		name       string
		operations float64
		run        func()
	}{
		{"rollout", forward, rollout}, {"sft", training, update(policy.Grad{LogProb: g.LogProb})},
		{"ppo", training, update(g)},
	} {
		b.Run(c.name, func(b *testing.B) { compare(b, rows, rows*c.operations, c.run) })
	}
}

// speedPolicy is the default policy, with one camera of 64×64 pixels, 8 numbers, a sentence of six words and
// chunks of four actions of four dimensions.
func speedPolicy(b *testing.B, rows int) (policy.Policy, tensor.Dict) {
	b.Helper()
	cfg := policy.DefaultConfig()
	cfg.ModelType, cfg.NumActionChunks, cfg.LogProbType = "vla_policy", 4, "token_level"
	s := env.Spec{
		Name: "Speed-v0", Obs: []env.Field{{Name: "image", Space: box(tensor.U8, 0, 255, 64, 64, 3)},
			{Name: "text", Space: box(tensor.U8, 0, 255, 128), Text: true},
			{Name: "proprio", Space: box(tensor.F32, -9, 9, 8)}},
		Action: box(tensor.F32, -1, 1, 4),
	}
	p := test.Must(vla.New(cfg, vla.Defaults(), s, 1, tensor.Heap))(b)
	obs := tensor.Dict{}
	for _, f := range s.Obs {
		obs.Set(f.Name, tensor.New(f.DType, append([]int{rows}, f.Shape...)...))
	}
	for i := range rows {
		copy(obs.Must("text").U8()[128*i:], "pick up the small red cube")
	}
	for i := range obs.Must("image").U8() {
		obs.Must("image").U8()[i] = uint8(i * i % 251)
	}
	return p, obs
}

// operations returns the operations of the products of one decision of speedPolicy: convolutions, trunk, attention and
// heads. A gradient takes twice as many operations, except for the first convolution, whose input has no gradient.
func operations() (forward, training float64) {
	const tokens, d, layers, wide = 6 + 16 + 1 + 16, 128, 4, 352
	const first = 2.0 * 32 * 32 * 27 * 32
	const convolutions = 2.0 * (16*16*9*32*64 + 8*8*9*64*128 + 4*4*9*128*128 + 4*4*128*128)
	const attention = 4.0*layers*tokens*(tokens-16)*d + 4.0*layers*16*16*d
	const trunk = 2.0*tokens*layers*(4*d*d+3*d*wide) + attention
	const heads = 2.0 * (12*d*64 + 4*d*2 + d*64 + 64*64 + 8*d + d*d)
	return first + convolutions + trunk + heads, 2*first + 3*(convolutions+trunk+heads)
}

// compare reports decisions per second of run, and its operations per second as a share of those of a product,
// in per cent.
func compare(b *testing.B, decisions int, operations float64, run func()) {
	const n = 512
	x, y, z := make([]float32, n*n), make([]float32, n*n), make([]float32, n*n)
	for i := range x {
		x[i], y[i] = float32(i%5), float32(i%3)
	}
	best := [2]float64{math.Inf(1), math.Inf(1)}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	run()
	for b.Loop() {
		for i, f := range []func(){func() { kernel.Gemm(z, x, y, n, n, n, false) }, run} {
			start := threadTime()
			f()
			best[i] = min(best[i], threadTime()-start)
		}
	}
	product := 2 * n * n * n / best[0]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(product/1e9, "GF/s")
	b.ReportMetric(float64(decisions)/best[1], "decisions/s")
	b.ReportMetric(100*operations/best[1]/product, "%product")
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
