package export

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// BenchmarkStep measures one step of exported policies in C, and of the policies themselves with one environment, in
// alternating rounds. It reports medians in µs. The C is that of gcc, without and with -march=native:
//
//	nice -n -20 go test ./policy/export -run '^$' -bench Step -benchtime 20x
func BenchmarkStep(b *testing.B) {
	box := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{-1}, High: []float32{1}}
	state := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{8}, Low: slices.Repeat([]float32{-1}, 8),
		High: slices.Repeat([]float32{1}, 8)}
	image := env.Space{Kind: env.Box, DType: tensor.U8, Shape: []int{84, 84, 4},
		Low: slices.Repeat([]float32{0}, 84*84*4), High: slices.Repeat([]float32{255}, 84*84*4)}
	for name, of := range map[string]struct {
		model, observed string
		seen            env.Field
		steps           int
	}{
		"2x64":       {"mlp_policy", "float", env.Field{Name: "state", Space: state}, 20000},
		"nature_cnn": {"cnn_policy", "uint8_t", env.Field{Name: "pixels", Space: image}, 50},
	} {
		b.Run(name, func(b *testing.B) {
			cfg := policy.DefaultConfig()
			cfg.ModelType, cfg.HiddenSizes = of.model, []int{64, 64}
			p := &TrainedPolicy{Spec: env.Spec{Name: "Bench-v0", Obs: []env.Field{of.seen}, Action: box}}
			p.Policy = test.Must(policy.Builtin().New(cfg, p.Spec, 1, tensor.Heap))(b)
			dir := b.TempDir()
			test.Must(p.WriteC(dir))(b)
			compiled := func(flags ...string) func() float64 {
				program := filepath.Join(b.TempDir(), "time")
				args := append(flags, "-std=c99", "-DOBSERVED="+of.observed, fmt.Sprint("-DLENGTH=", of.seen.Dim()),
					"-DACTED=float", "-I"+dir, "-o", program, "testdata/time.c", filepath.Join(dir, "policy.c"), "-lm")
				if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
					b.Skipf("gcc: %v: %s", err, out)
				}
				return func() float64 {
					cmd := exec.Command(program, strconv.Itoa(of.steps))
					cmd.Dir = dir
					out := test.Must(cmd.Output())(b)
					return test.Must(strconv.ParseFloat(strings.TrimSpace(string(out)), 64))(b)
				}
			}
			work, obs := p.NewWork(1), p.Spec.NewStep(1, 1).Obs
			noise := policy.Noise{Env: []uint64{0}, Step: []uint64{0}}
			rounds := []struct {
				name  string
				step  func() float64
				times []float64
			}{
				{name: "O2", step: compiled("-O2")}, {name: "O3-native", step: compiled("-O3", "-march=native")},
				{name: "rlinf", step: func() float64 {
					begin := time.Now()
					for range of.steps {
						test.Must(p.Forward(work, obs, policy.Deterministic, noise))(b)
					}
					return float64(time.Since(begin).Nanoseconds()) / 1e3 / float64(of.steps)
				}},
			}
			for b.Loop() {
				for i := range rounds {
					rounds[i].times = append(rounds[i].times, rounds[i].step())
				}
			}
			b.ReportMetric(0, "ns/op")
			for _, r := range rounds {
				slices.Sort(r.times)
				b.ReportMetric(r.times[len(r.times)/2], r.name+"-µs")
			}
		})
	}
}
