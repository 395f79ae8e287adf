package classic

import (
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// BenchmarkStep steps 64 environments with resets. A "step" is that of one environment.
func BenchmarkStep(b *testing.B) {
	for _, make := range []env.Constructor{NewCartPole, NewPendulum, NewMountainCar, NewMountainCarContinuous,
		NewAcrobot} {
		const n = 64
		vec := test.Must(make(env.DefaultConfig(), n))(b)
		b.Run(vec.Spec().Name, func(b *testing.B) {
			out := vec.Spec().NewStep(n, 1)
			seeds := env.NewSeeder(env.DefaultConfig(), env.Train, 0, n)
			test.OK(b, vec.Reset(nil, seeds.Next(), out))
			var acts [16]tensor.Dict // actions that differ by environment and by time
			for i := range acts {
				a := tensor.New(vec.Spec().Action.DType, n, 1, 1)
				for j := range n {
					if bit := (i ^ j ^ i*j>>2) & 1; a.DType() == tensor.I32 {
						a.I32()[j] = int32(bit)
					} else {
						a.F32()[j] = float32(2*bit - 1)
					}
				}
				acts[i].Set("action", a)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				test.OK(b, vec.Step(acts[i%len(acts)], seeds.Next(), out))
				i++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/step")
		})
	}
}
