package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/tensor"
)

// standInSpaces names the environment variable that makes this program a simulator behind the bridge: elements of an
// observation, elements of an action, the limit of steps, whether it shows images, their size, and further views.
const standInSpaces = "RLINF_TEST_STAND_IN"

// asProgram is the variable that makes this test a rlinf, for commands that start themselves.
const asProgram = "RLINF_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Run(os.Args, rolestest.Registries(), tasks(), Own{}))
	}
	spaces := os.Getenv(standInSpaces)
	if spaces == "" {
		os.Exit(m.Run())
	}
	var s standIn
	_, err := fmt.Sscanf(spaces, "%d,%d,%d,%t,%d,%d", &s.obs, &s.act, &s.limit, &s.images, &s.side, &s.views)
	if err == nil {
		err = external.Serve(os.Getenv("RLB_ADDR"), "", func(maxSteps int, ignoreTerminations bool) (env.Vec, error) {
			cfg := env.DefaultConfig()
			cfg.MaxEpisodeSteps, cfg.IgnoreTerminations = maxSteps, ignoreTerminations
			return s.vec(cfg, 1)
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A standIn is a simulator with the spaces of another one. Its state is a point, an action is a step of it, and the
// reward says how near to the origin it is. Its expert goes there.
type standIn struct {
	obs, act int
	images   bool        // it also shows black images
	side     int         // their height and width; 0: 8
	views    int         // further views in extra_view_images
	limit    int         // the task's own limit of steps; 0: none; with 13 no step ends
	at       [][]float32 // [N][act]
}

// vec returns n environments.
func (s standIn) vec(cfg env.Config, n int) (env.Vec, error) {
	s.at = make([][]float32, n)
	for i := range s.at {
		s.at[i] = make([]float32, s.act)
	}
	return env.NewEpisodic(&s, cfg), nil
}

// connect returns the value of env.train.external.command that connects s.
func (s standIn) connect() string {
	return fmt.Sprintf("env %s=%d,%d,%d,%t,%d,%d %s", standInSpaces, s.obs, s.act, s.limit, s.images, s.side, s.views,
		os.Args[0])
}

// registries returns the built-in parts, and s as the environment StandIn-v0.
func (s standIn) registries() config.Registries {
	reg := rolestest.Registries()
	reg.Envs.Add("StandIn-v0", s.vec)
	return reg
}

func (s *standIn) Spec() env.Spec {
	box := func(n int, bound float32) env.Space {
		b := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{n}, Low: make([]float32, n),
			High: make([]float32, n)}
		for i := range n {
			b.Low[i], b.High[i] = -bound, bound
		}
		return b
	}
	obs := []env.Field{{Name: "state", Space: box(s.obs, 10)}}
	if s.images {
		side := cmp.Or(s.side, 8)
		show := func(name string, shape ...int) {
			pixels := box(shape[0]*shape[1]*shape[2]*shape[3], 0)
			pixels.DType, pixels.Shape = tensor.U8, shape
			for i := range pixels.High {
				pixels.High[i] = 255
			}
			obs = append(obs, env.Field{Name: name, Space: pixels})
		}
		if show("main_images", 1, side, side, 3); s.views > 0 {
			show("extra_view_images", s.views, side, side, 3)
		}
		obs[1].Shape = obs[1].Shape[1:]
	}
	return env.Spec{Name: "StandIn-v0", Obs: obs, Action: box(s.act, 1), Info: []string{"success"}, MaxSteps: s.limit}
}

func (s *standIn) Len() int { return len(s.at) }

func (s *standIn) Reset(n int, seed uint64) error {
	r := philox.New(seed, philox.Reset, 0, 0)
	for i := range s.at[n] {
		s.at[n][i] = float32(r.Uniform(-1, 1))
	}
	return nil
}

func (s *standIn) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte,
	info []float32) error {
	if s.limit == 13 {
		return errors.New("no step ends")
	}
	for n, at := range s.at {
		if turn[n] == env.Idle {
			continue
		}
		var far float32
		for i, a := range action.F32()[n*s.act : (n+1)*s.act] {
			at[i] += 0.1 * max(-1, min(a, 1))
			far += at[i] * at[i]
		}
		reward[n], terminated[n], info[n] = -far, 0, 0
		if far < 0.1 {
			terminated[n], info[n] = 1, 1
		}
	}
	return nil
}

func (s *standIn) Observe(mask []bool, obs tensor.Dict) {
	for n, at := range s.at {
		if mask == nil || mask[n] {
			copy(obs.Must("state").F32()[n*s.obs:(n+1)*s.obs], at)
		}
	}
}

func (s *standIn) Act(action tensor.Tensor) error {
	for n, at := range s.at {
		for i, x := range at {
			action.F32()[n*s.act+i] = max(-1, min(-10*x, 1))
		}
	}
	return nil
}

func (s *standIn) Close() error { return nil }
