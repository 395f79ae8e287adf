package session_test

import (
	"bytes"
	"context"
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/embodied"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// A listener is a Scheduler that records how many iterations are left, and moves nothing.
type listener struct {
	shortest float64 // iteration, in seconds; +Inf: there was none
	left     []int64
}

func (l *listener) Observe(it advice.Iteration) {
	l.shortest = min(l.shortest, it.Phases[loop.WholeStep])
}

func (l *listener) Decide(_, left int64) *advice.Decision {
	if !math.IsInf(l.shortest, 1) {
		l.left = append(l.left, left)
	}
	return nil
}

func (l *listener) Moved(*spmd.Placement, int64, float64) {}
func (l *listener) Refused()                              {}

// TestIterationsLeft: left counts only the iterations before runner.max_time ends the run.
func TestIterationsLeft(t *testing.T) {
	const seconds = 4
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, "runner.logger.log_path="+t.TempDir(), "runner.max_time=4s",
		"runner.max_steps=1000000000", "runner.max_epochs=-1", "cluster.num_nodes=0", "~cluster.component_placement",
		"+cluster.component_placement={actor: 0, env: 1, rollout: 1}")
	heard := &listener{shortest: math.Inf(1)}
	var out, log bytes.Buffer
	asked := loop.Watch()
	defer asked.Close()
	job := session.New(session.Options{Registries: rolestest.Registries(), Asked: asked, Out: &out, Log: &log,
		Tasks: task.Tasks{embodied.Task{}}, Scheduler: heard})
	code, err := job.Start(context.Background(), local.New(2), cfg, nil, nil)
	if code != loop.ExitRequeue || err != nil || len(heard.left) == 0 {
		t.Fatalf("exit code %d, %v; %d iterations\n%s", code, err, len(heard.left), &log)
	}
	for i, left := range heard.left {
		if most := int64(seconds / heard.shortest); left < 0 || left > most {
			t.Fatalf("after %d iterations of at least %v s %d are left, want at most %d", i, heard.shortest, left, most)
		}
	}
	if len(heard.left) > 10 && slices.Max(heard.left) == 0 {
		t.Errorf("nothing is left in %d iterations", len(heard.left))
	}
}
