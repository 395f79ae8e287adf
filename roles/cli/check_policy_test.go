package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/tensor"
)

// TestCheckPolicy compares what check --policy writes of each kind of policy with testdata/policy. With RLINF_UPDATE=1
// it writes these files.
func TestCheckPolicy(t *testing.T) {
	reg := rolestest.Registries()
	reg.Envs.Add("Watched-v0", func(cfg env.Config, n int) (env.Vec, error) {
		return env.NewEpisodic(make(watched, n), cfg), nil
	})
	watch := "env.train.env_type=Watched-v0 env.eval.env_type=Watched-v0 "
	for name, args := range map[string]string{
		"categorical": "cartpole_ppo",
		"gaussian": "pendulum_ppo actor.model.use_sde=false actor.model.normalize_observations=true " +
			"actor.model.action_bound=tanh",
		"recurrent":   "cartpole_masked_gru_ppo",
		"soft_actor":  "pendulum_sac",
		"noisy_actor": "pendulum_td3",
		"crossq":      "pendulum_crossq",
		"greedy":      "cartpole_dqn",
		"cnn":         "pendulum_ppo " + watch + "actor.model.model_type=cnn_policy actor.model.encoder=impala",
		"vla": "pendulum_ppo " + watch + "actor.model.model_type=vla_policy actor.model.use_sde=false " +
			"actor.model.vision_keypoints=4 actor.model.vision_film=true " +
			"actor.model.normalize_observations=false actor.model.action_bound=clip",
	} {
		t.Run(name, func(t *testing.T) {
			given := strings.Fields(args)
			file := filepath.Join("../../configs", given[0]+".yaml")
			code, out, errs := runWith(t, reg, append([]string{"check", "--policy", "-c", file}, given[1:]...)...)
			_, tree, found := strings.Cut(out, "\npolicy ")
			tree, _, _ = strings.Cut("policy "+tree, "verdict: ")
			if code != loop.ExitOK || !found {
				t.Fatalf("exit code %d: %s%s", code, out, errs)
			}
			golden := filepath.Join("testdata/policy", name+".txt")
			if os.Getenv("RLINF_UPDATE") != "" {
				test.OK(t, os.WriteFile(golden, []byte(tree), 0o666))
			}
			if want, err := os.ReadFile(golden); err != nil || tree != string(want) {
				t.Errorf("%v:\n%s\nexpected %s", err, tree, want)
			}
		})
	}
}

// watched are environments that show an image, numbers and an instruction.
type watched []bool

func (w watched) Spec() env.Spec {
	box := func(dtype tensor.DType, high float32, shape ...int) env.Space {
		s := env.Space{Kind: env.Box, DType: dtype, Shape: shape}
		for range s.Dim() {
			s.Low, s.High = append(s.Low, 0), append(s.High, high)
		}
		return s
	}
	return env.Spec{Name: "Watched-v0", MaxSteps: 10, Action: box(tensor.F32, 2, 1), Obs: []env.Field{
		{Name: "camera", Space: box(tensor.U8, 255, 16, 16, 3)}, {Name: "state", Space: box(tensor.F32, 1, 2)},
		{Name: "task", Space: box(tensor.I32, 2, 4), Words: []string{"", "go", "stop"}}}}
}

func (w watched) Len() int                                                           { return len(w) }
func (w watched) Reset(int, uint64) error                                            { return nil }
func (w watched) Observe([]bool, tensor.Dict)                                        {}
func (w watched) Close() error                                                       { return nil }
func (w watched) Step(tensor.Tensor, []env.Turn, []float32, []byte, []float32) error { return nil }
