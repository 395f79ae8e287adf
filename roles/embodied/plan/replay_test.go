package plan

import (
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/tensor"
)

// TestReplayFits: the memory must hold each actor's replay buffer and its copy of the demonstrations, and the copy of
// each rank.
func TestReplayFits(t *testing.T) {
	// Bytes of the observations, the actions, the rewards and the flags of Pendulum-v1, each a multiple of 64: of 500
	// steps and of 1000 steps.
	const buffer, shown = 2*6016 + 2*2048 + 2*512, 2*12032 + 2*4032 + 2*1024
	var demos tensor.Dict
	for _, f := range []tensor.Field{
		{Name: "observation.state", DType: tensor.F32, Shape: []int{1000, 3}},
		{Name: "next_observation.state", DType: tensor.F32, Shape: []int{1000, 3}},
		{Name: "action", DType: tensor.F32, Shape: []int{1000, 1, 1}},
		{Name: "reward", DType: tensor.F32, Shape: []int{1000}},
		{Name: "terminated", DType: tensor.U8, Shape: []int{1000}},
		{Name: "truncated", DType: tensor.U8, Shape: []int{1000}},
	} {
		demos.Set(f.Name, tensor.New(f.DType, f.Shape...))
	}
	cfg, _ := rolestest.MustLoad(t, "../../configs/pendulum_sac.yaml", "cluster.allow_idle_ranks=true",
		"algorithm.demo_buffer.load_path="+rolestest.WriteDemos(t, demos),
		"algorithm.replay_buffer.sample_window_size=500")
	j := test.Must(newPlan(cfg, rolestest.Registries(), []int{0, 0}))(t)
	for rank, want := range []int64{buffer + 2*shown, shown} {
		if got := j.MemoryOf(rank).Replay; got != want {
			t.Errorf("rank %d: %d bytes to draw from, want %d", rank, got, want)
		}
	}
	for _, c := range []struct {
		free int64
		want string // "": no error
	}{
		{buffer + shown, ""},
		{buffer + shown - 1, "algorithm.replay_buffer.sample_window_size: 500: expected at most 496: the replay " +
			"buffers of a node take 0.0 MiB beside " +
			"demonstrations of 0.0 MiB, and a test has 0.0 MiB free"},
		{shown - 1, "expected a smaller file: the copies that the actors of a node draw from take 0.0 MiB, " +
			"and a test has 0.0 MiB free"},
	} {
		if err := j.checkReplay(1, job.Available{Free: c.free, Where: "a test"}); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("in %d bytes: %v, want %q", c.free, err, c.want)
		}
	}
}
