package bench

import (
	"math"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/spmd"
)

// TestScale: on any number of ranks the components get the same parts of the ranks, and the metrics become rows.
func TestScale(t *testing.T) {
	cfg, _, err := config.Load(rolestest.Registries(), "../../../configs/cartpole_ppo.yaml", nil, false)
	test.OK(t, err)
	s := &scaling{program: "rlinf", file: "a/job.yaml", cfg: cfg, sizes: []int{2, 4}, steps: 9, ranks: 8, weak: true,
		launcher: "mpirun -np {np}"}
	if s.place, err = spmd.Place(cfg.ClusterSpec(), make([]int, 8)); err != nil {
		t.Fatal(err)
	}
	args := test.Must(s.arguments(4, "out"))(t)
	line := strings.Join(args, " ")
	for _, want := range []string{
		"mpirun -np 4 rlinf -c a/job.yaml ~cluster.component_placement ", "+cluster.component_placement.actor=0-3",
		"+cluster.component_placement.env=0-1",
		"+cluster.component_placement.rollout=2-3", "runner.max_steps=9", "log_path=out",
		"env.train.total_num_envs=128", "actor.global_batch_size=512",
	} {
		if !strings.Contains(line, want) {
			t.Errorf("want %q in %s", want, line)
		}
	}
	if _, err := s.arguments(1, "out"); err == nil {
		t.Error("one rank has halves")
	}
	step := results.MetricsLine{Values: map[string]float64{"time/step": 0.5, "time/env_steps_per_second": 100,
		"time/actor_training": 0.25, "time/actor_training_mean": 0.2, "time/sync_weights": math.NaN()}}
	row, note := s.row(4, []results.MetricsLine{step, step, step})
	if row.Op != "job" || row.Median != 5e5 || row.Figures["steps_s"] != 100 ||
		math.Abs(row.Figures["wait_pct"]-10) > 1e-9 || note != "n=4: actor_training 50.0 % (waiting 20.0 % of it)" {
		t.Errorf("%+v\n%s", row, note)
	}
}
