package play

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/state"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// newShards returns stages of CartPole that hold sizes environments each, one behind the other.
func newShards(t *testing.T, sizes ...int) (shards []*Stage) {
	t.Helper()
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.Seed, cfg.TotalNumEnvs, cfg.FrameStack = "CartPole-v1", 3, 12, 2
	first := 0
	for _, n := range sizes {
		s := test.Must(NewStage(all.Registry(), cfg, env.Train, first, n, 1))(t)
		shards = append(shards, s)
		first += n
	}
	return shards
}

// playShards takes the steps from..to-1, with actions that depend on the step and the environment alone. It returns the
// observations before each action, the rewards and the ends, of all environments in their order.
func playShards(t *testing.T, shards []*Stage, from, to int) []byte {
	t.Helper()
	var obs, reward, terminated []byte
	for step := from; step < to; step++ {
		e := 0
		for _, s := range shards {
			test.OK(t, s.Begin())
			obs = append(obs, s.Now.Obs.Must("state").Bytes()...)
			for i := range s.Action.Must("action").I32() {
				s.Action.Must("action").I32()[i] = int32((step + e) * 7 / 5 % 2)
				e++
			}
			test.OK(t, s.Step())
			reward = append(reward, s.Now.Reward.Bytes()...)
			terminated = append(terminated, s.Now.Terminated.Bytes()...)
		}
	}
	return slices.Concat(obs, reward, terminated)
}

// partsOf returns the states of the shards, which are slices of the states of n environments.
func partsOf(shards []*Stage, n int) (parts []state.Part) {
	lo := 0
	for _, s := range shards {
		rows := nn.Slice{From: lo, To: lo + s.Vec.Len(), Whole: n}
		parts = append(parts, state.Tensors{File: state.EnvFile, Slice: rows, Save: s.Save, Load: s.Load}.Part())
		lo = rows.To
	}
	return parts
}

// resume writes the state saved to a file, and reads it into loaded.
func resume(t *testing.T, saved, loaded []state.Part) error {
	t.Helper()
	return rolestest.OnRanks(t, 1, func(ctx context.Context, _ int, g *collectives.Group, c spmd.Comm) error {
		var file bytes.Buffer
		err := state.Collect(ctx, g, c, saved, func(c *state.Collection) error { return c.Write(&file, state.EnvFile) })
		if err != nil {
			return err
		}
		r, err := tensor.NewSafetensorsReader(bytes.NewReader(file.Bytes()), int64(file.Len()))
		if err != nil {
			return err
		}
		return state.Distribute(ctx, g, []state.StateFile{{File: state.EnvFile, Fields: r.Fields, Reader: r}}, loaded)
	})
}

// A resumed run has the same episodes if its environments are divided in another way.
func TestShardsTakeUpTheStateOfOtherShards(t *testing.T) {
	before, resumed := newShards(t, 6, 6), newShards(t, 4, 1, 7)
	playShards(t, before, 0, 50)
	test.OK(t, resume(t, partsOf(before, 12), partsOf(resumed, 12)))
	for _, s := range before {
		s.Episodes.Take()
	}
	if a, b := playShards(t, before, 50, 200), playShards(t, resumed, 50, 200); !bytes.Equal(a, b) {
		t.Error("environments taken up by shards of other sizes go on in another way")
	}
	var a, b []env.Episode
	for _, s := range before {
		a = append(a, s.Episodes.Take()...)
	}
	for _, s := range resumed {
		b = append(b, s.Episodes.Take()...)
	}
	x, y := env.Summarize(a), env.Summarize(b)
	if !reflect.DeepEqual(x, y) || x.NumTrajectories == 0 || fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("episodes %+v, of the shards that went on %+v", y, x)
	}
	if err := resume(t, partsOf(before, 12), partsOf(newShards(t, 4, 9), 13)); err == nil {
		t.Error("the states of 12 environments are taken up by 13")
	}
}
