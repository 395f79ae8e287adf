package external_test

import (
	"os"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// BenchmarkStep measures a step of 16 CartPoles that a Go child plays, over every transport.
func BenchmarkStep(b *testing.B) {
	for _, inline := range []bool{false, true} {
		name := "shared"
		if inline {
			name = "inline"
		}
		b.Run(name, func(b *testing.B) {
			cfg := env.DefaultConfig()
			cfg.EnvType = env.ExternalID
			cfg.External.Command = env.Command{os.Args[0]}
			cfg.External.SharedMemory = !inline
			hub := newHub(b.Output())
			defer hub.Close()
			vec := test.Must(hub.New(cfg, 16))(b)
			defer vec.Close()
			out, seeds := vec.Spec().NewStep(16, 1), make([]uint64, 16)
			test.OK(b, vec.Reset(nil, seeds, out))
			var action tensor.Dict
			action.Set("action", tensor.New(tensor.I32, 16, 1, 1))
			for b.Loop() {
				test.OK(b, vec.Step(action, seeds, out))
			}
		})
	}
}
