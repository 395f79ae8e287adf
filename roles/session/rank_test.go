package session

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/embodied"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// A worn is a transport on which no second world begins.
type worn struct{ spmd.Transport }

func (worn) Renew([][]byte) error { return errors.New("worn") }

// A nomad wants to move at once.
type nomad struct{ Scheduler }

func (nomad) Observe(advice.Iteration) {}
func (nomad) Decide(step, _ int64) *advice.Decision {
	return &advice.Decision{Placement: "{actor: 1, env: 0, rollout: 0}", Reason: "a whim"}
}

// TestFailedMove: a session whose world fails after its ranks have agreed to a move leaves no hook behind.
func TestFailedMove(t *testing.T) {
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, "~cluster.component_placement",
		"+cluster.component_placement={actor: 0, env: 1, rollout: 1}",
		"runner.logger.log_path="+t.TempDir(), "runner.max_steps=4")
	var out, log bytes.Buffer
	asked := loop.Watch()
	defer asked.Close()
	s := New(Options{Registries: rolestest.Registries(), Asked: asked, Out: &out, Log: &log,
		Tasks: task.Tasks{embodied.Task{}}, Scheduler: nomad{}})
	ranks := local.New(2)
	for i := range ranks {
		ranks[i] = worn{ranks[i]}
	}
	code, err := s.Start(t.Context(), ranks, cfg, nil, nil)
	if code != loop.ExitFailed || err != nil || !bytes.Contains(log.Bytes(), []byte("worn")) {
		t.Fatalf("exit code %d, %v\n%s\n%s", code, err, &out, &log)
	}
	for rank := range ranks {
		if n := len(s.ranks.byNumber[rank].ends); n > 0 {
			t.Errorf("rank %d: %d hooks are left", rank, n)
		}
	}
}

// TestEndsOfRanks: a rank that ends leaves the hooks of others, which may still save or write the last lines.
func TestEndsOfRanks(t *testing.T) {
	first, second := new(rank), new(rank)
	s := ranks{byNumber: map[int]*rank{0: first, 1: second}}
	calls := ""
	s.atEnd(first, func() { calls += "first of 0, " })
	s.atEnd(first, func() { calls += "second of 0, " })
	s.atEnd(second, func() { calls += "of 1, " })
	s.leave(second)
	s.leaveAll()
	s.atEnd(first, func() { calls += "late" })
	if want := "of 1, second of 0, first of 0, late"; calls != want {
		t.Errorf("%s, expected %s", calls, want)
	}
}
