package external_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/classic"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// A guided Vec is a Pendulum-v1 in which a person acts in every third step: in one of two times beyond the bounds.
type guided struct {
	env.Vec
	step int
	bad  float32 // what the person does in step 9, if it is not 0
}

func (g *guided) Spec() env.Spec {
	s := g.Vec.Spec()
	s.Intervene = true
	return s
}

func (g *guided) Step(action tensor.Dict, seeds []uint64, out *env.Step) error {
	g.step++
	out.Intervened.U8()[0] = 0
	if a := action.Must("action"); g.step%3 == 0 {
		out.Intervened.U8()[0], out.Taken.F32()[0] = 1, []float32{0.5, -3}[g.step%2]
		if g.step == 9 && g.bad != 0 {
			out.Taken.F32()[0] = g.bad
		}
		if x := out.Taken.F32()[0]; x-x == 0 {
			a.F32()[0] = x
		}
	}
	return g.Vec.Step(action, seeds, out)
}

func newGuided(bad float32) func(maxSteps int, ignore bool) (env.Vec, error) {
	return func(maxSteps int, ignore bool) (env.Vec, error) {
		c := env.DefaultConfig()
		c.MaxEpisodeSteps, c.IgnoreTerminations = maxSteps, ignore
		vec, err := classic.NewPendulum(c, 1)
		return &guided{Vec: vec, bad: bad}, err
	}
}

// behind returns n environments of newGuided behind the bridge.
func behind(t *testing.T, log *bytes.Buffer, n int, fault string) env.Vec {
	t.Helper()
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.External.Command = env.ExternalID, env.Command{os.Args[0], fault}
	hub := external.NewHub(log, 0)
	t.Cleanup(func() { hub.Close() })
	return test.Must(hub.New(cfg, n))(t)
}

// A Step says what the person did, for each action of a chunk, within the bounds.
func TestInterventions(t *testing.T) {
	for _, chunk := range []int{1, 4} {
		var log bytes.Buffer
		vec := behind(t, &log, 2, "guided")
		out, seeds := vec.Spec().NewStep(2, chunk), []uint64{1, 2}
		var action tensor.Dict
		action.Set("action", tensor.New(tensor.F32, 2, chunk, 1))
		test.OK(t, vec.Reset(nil, seeds, out))
		for step := 0; step < 24; step += chunk {
			test.OK(t, vec.Step(action, seeds, out))
			for k := range 2 * chunk {
				want, taken := byte(0), float32(0)
				switch n := step + k%chunk + 1; {
				case n%6 == 0:
					want, taken = env.Acted, 0.5
				case n%3 == 0:
					want, taken = env.Clipped, -2
				}
				if got := out.Intervened.U8()[k]; got != want || want != 0 && out.Taken.F32()[k] != taken {
					t.Fatalf("chunk %d, step %d, action %d: intervened %d, taken %v: want %d, %v", chunk, step, k, got,
						out.Taken.F32()[k], want, taken)
				}
			}
			if !out.IntervenedOf(1) && chunk == 4 {
				t.Fatal("nobody acted in four steps")
			}
		}
		test.NoAllocs(t, 20, func() { test.OK(t, vec.Step(action, seeds, out)) })
		test.OK(t, vec.Close())
	}
}

// A person's action that is not finite is a failure of the simulator: the episode is aborted.
func TestInterventionFails(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	vec := behind(t, &log, 1, "misguided")
	out, seeds := vec.Spec().NewStep(1, 1), []uint64{1}
	var action tensor.Dict
	action.Set("action", tensor.New(tensor.F32, 1, 1, 1))
	test.OK(t, vec.Reset(nil, seeds, out))
	for range 9 {
		test.Equal(t, out.StatusOf(0), env.Normal, "status")
		test.OK(t, vec.Step(action, seeds, out))
	}
	if out.StatusOf(0) != env.Aborted || out.IntervenedOf(0) ||
		!strings.Contains(log.String(), "environment 0: taken[0] is +Inf, expected a finite number") {
		t.Errorf("status %d: %s", out.StatusOf(0), log.String())
	}
	test.OK(t, vec.Close())
}

// A person acts in single steps: an action that is repeated is refused.
func TestInterventionsAreNotRepeated(t *testing.T) {
	t.Parallel()
	reg := env.NewRegistry()
	reg.Add("guided", func(cfg env.Config, n int) (env.Vec, error) { return newGuided(0)(0, false) })
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.ActionRepeat = "guided", 2
	_, err := reg.New(cfg, 1)
	test.Fails(t, err, "action_repeat: 2, but a person may act in every step of guided: expected 1")
}
