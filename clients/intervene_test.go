package clients_test

import (
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// TestInterventions: a job learns what a person did in place of the policy, within the bounds, from clients in C and
// Fortran.
func TestInterventions(t *testing.T) {
	for _, command := range [][]string{{"person.c"}, {"person.c", "loop"}, {"person.f90"}} {
		for _, share := range []bool{true, false} {
			cfg := env.DefaultConfig()
			cfg.EnvType = env.ExternalID
			cfg.External.Command = append([]string{compile(t, command[0])}, command[1:]...)
			cfg.External.SharedMemory = share
			hub := external.NewHub(t.Output(), 0)
			t.Cleanup(func() { hub.Close() })
			vec := test.Must(hub.New(cfg, 1))(t)
			out := vec.Spec().NewStep(1, 1)
			var action tensor.Dict
			action.Set("action", tensor.FromF32([]float32{0.25, 0.25}, 1, 1, 2))
			test.OK(t, vec.Reset(nil, []uint64{1}, out))
			for i := range 10 {
				test.OK(t, vec.Step(action, []uint64{1}, out))
				want := []byte{0, env.Clipped}[i%2]
				if got := out.Intervened.U8()[0]; got != want ||
					want != 0 && (out.Taken.F32()[0] != -0.5 || out.Taken.F32()[1] != 1) {
					t.Errorf("%q, step %d: intervened %d, taken %v", command, i, got, out.Taken.F32())
				}
			}
			test.OK(t, vec.Close())
		}
	}
}

// TestOldParent: a parent that takes no interventions gets an error.
func TestOldParent(t *testing.T) {
	p := greet(t, compile(t, "person.c"))
	body := make([]byte, 32)
	body[0], body[4] = 1, 1
	p.send(header{Type: config}, body)
	if h, text := p.receive(); h.Type != failure || string(text) != "CONFIG with flags 0: expected flag 2, because a "+
		"person may act (intervene): this rlinf is too old" {
		t.Errorf("type %d: %s", h.Type, text)
	}
	p.cmd.Wait()
}
