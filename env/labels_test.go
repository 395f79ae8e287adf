package env_test

import (
	"errors"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/env/envtest"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// A taught counter has an expert, whose action is twice the state.
type taught struct{ *counter }

func (c taught) Act(action tensor.Tensor) error {
	for n, x := range c.state {
		action.F32()[n] = 2 * x
	}
	return nil
}

// TestLabels: the label is the expert's action in the observed state, including the first state of an episode, and with
// other wrappers inside.
func TestLabels(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.RewardCoef = 2
	v := env.NewLabels(env.Wrap(env.NewEpisodic(taught{&counter{state: make([]float32, 2)}}, cfg), cfg))
	label := v.Spec().Obs[1]
	if label.Name != env.ExpertAction || label.Dim() != 1 || label.High[0] != 1000 || len(v.Vec.Spec().Obs) != 1 {
		t.Errorf("observations %v", v.Spec().Obs)
	}
	out := begin(t, v, 1, 10, 20)
	wantF32(t, "label", out.Obs.Must(env.ExpertAction), 20, 40)
	step(t, v, out, actions(1, 1, 100), 0, 30)
	wantF32(t, "obs", out.Obs.Must("state"), 10.01, 30)
	wantF32(t, "label", out.Obs.Must(env.ExpertAction), 20.02, 60)
	test.OK(t, v.Reset([]bool{false, true}, []uint64{7, 7}, out))
	wantF32(t, "label", out.Obs.Must(env.ExpertAction), 20.02, 14)
}

// TestLabelsContract: an environment with labels keeps the contract. Without an expert, its calls return errors.
func TestLabelsContract(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.MaxEpisodeSteps = "Pendulum-v1", 20
	envtest.Run(t, func(n int) (env.Vec, error) {
		v, err := all.Registry().New(cfg, n)
		return env.NewLabels(v), err
	}, envtest.Options{})

	v := env.NewLabels(newCounter(env.DefaultConfig(), 1))
	if err := v.Reset(nil, []uint64{1}, v.Spec().NewStep(1, 1)); !errors.Is(err, errors.ErrUnsupported) ||
		err.Error() != "Counter has no expert (unsupported operation)" {
		t.Errorf("without an expert: %v", err)
	}
}
