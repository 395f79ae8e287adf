package roles

import (
	"errors"
	"strings"
	"testing"
)

// TestCheckObservations: environments that show more than the nodes' memory holds are refused, however many steps they take.
func TestCheckObservations(t *testing.T) {
	for _, c := range []struct {
		overrides []string
		nodes     int
		have      int64
		want      string
	}{
		{nil, 1, 128 * 64 * 16, ""}, // steps, environments, bytes of an observation
		{nil, 1, 128*64*16 - 1, "testdata/config/cartpole.yaml:16: env.train.total_num_envs: 64: want fewer environments or shorter rollouts: " +
			"128 observations of 16 bytes of each are 0 MiB, and this machine has 0.1 MiB free for each of 1 nodes"},
		{nil, 2, 64 * 64 * 16, ""},
		{nil, 1, 0, ""},
		{[]string{"env.train.max_steps_per_rollout_epoch=4611686018427387904", "env.train.rollout_epoch=4611686018427387904"}, 1, 1 << 40, "env.train.total_num_envs: 64"},
		{[]string{"env.eval.total_num_envs=1048576"}, 1, 1 << 23, "env.eval.total_num_envs: 1048576"},
	} {
		cfg, _, err := LoadConfig(cartpole, c.overrides, false)
		if err != nil {
			t.Fatal(err)
		}
		j := &job{cfg: cfg}
		if j.spec, err = probe(registries(), cfg.Env.Train); err != nil {
			t.Fatal(err)
		}
		j.checkObservations(c.nodes, c.have)
		if err := cfg.check.Err(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %d nodes of %d bytes: %v\nwant %s", c.overrides, c.nodes, c.have, err, c.want)
		}
	}
}

// TestHeapWithin: memory is given as long as all of it fits.
func TestHeapWithin(t *testing.T) {
	alloc := heapWithin(100)
	if b, err := alloc(60); err != nil || len(b) != 60 {
		t.Errorf("60 of 100 bytes: %d, %v", len(b), err)
	}
	if _, err := alloc(41); !errors.As(err, new(shortage)) {
		t.Errorf("101 of 100 bytes: %v, want a shortage", err)
	}
	if _, err := heapWithin(0)(1000); err != nil {
		t.Errorf("where the machine does not say what it has: %v", err)
	}
}

// TestPolicyTooLarge: a policy that no memory holds is refused under its key, before it is made.
func TestPolicyTooLarge(t *testing.T) {
	if have := availableMemory(); have == 0 || have > 1<<40 {
		t.Skipf("%d bytes free", have)
	}
	cfg, _ := mustLoad(t, cartpole, "actor.model.hidden_sizes=[16384"+strings.Repeat(",16384", 1100)+"]")
	_, err := newJob(cfg, registries(), make([]int, 8))
	if err == nil || !strings.Contains(err.Error(), "actor.model.hidden_sizes: [16384 16384") || !strings.Contains(err.Error(), "want a smaller policy: ") {
		t.Errorf("1101 layers of 16384: %v", err)
	}
}
