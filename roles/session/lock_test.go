package session_test

import (
	"bytes"
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/embodied"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd/local"
)

// A nomad moves the members in every iteration. It looks at the lock of the run's folder before each move.
type nomad struct {
	wanderer
	look func(moves int)
}

func (n *nomad) Decide(step, remaining int64) *advice.Decision {
	n.look(n.moved)
	n.next = step
	return n.wanderer.Decide(step, remaining)
}

// TestLockOfAWanderer: a job that moves much more often than it renews its lock keeps the lock, and never seems to be
// dead. A second start of the run is refused. The job has the numbers of a job whose members stay.
func TestLockOfAWanderer(t *testing.T) {
	const ranks = 4
	dir := t.TempDir()
	run, lock := filepath.Join(dir, "run"), filepath.Join(dir, "run", "lock")
	path := "../../internal/digests/testdata/ppo_disaggregated.yaml"
	of := func(dir, steps string) []string {
		return []string{"++cluster.allow_idle_ranks=true", "++runner.save_interval=-1",
			"++runner.val_check_interval=-1", "++actor.optim.lr_scheduler=constant", "++runner.max_steps=" + steps,
			"runner.logger.log_path=" + dir, "runner.logger.experiment_name=run"}
	}
	start := func(s session.Scheduler, asked *loop.Requests, overrides []string) (int, string) {
		cfg, _ := rolestest.MustLoad(t, path, overrides...)
		var text bytes.Buffer
		started := session.New(session.Options{Registries: rolestest.Registries(), Asked: asked, Out: &text, Log: &text,
			Tasks: task.Tasks{embodied.Task{}}, Scheduler: s, Heartbeat: 700 * time.Millisecond})
		code, err := started.Start(context.Background(), local.New(ranks), cfg, nil, nil)
		test.Check(t, err)
		return code, text.String()
	}
	asked := loop.Watch()
	defer asked.Close()
	renewed, second := 0, 0
	var newest time.Time
	w := &nomad{wanderer: wanderer{random: rand.New(rand.NewPCG(1, 0)), ranks: ranks,
		members: membersOf(t, ranks, path, of(dir, "1")...)}}
	w.look = func(moves int) {
		if s, err := runfolder.ReadStatus(run); s != runfolder.Running || err != nil {
			t.Errorf("after %d moves: status %q, %v", moves, s, err)
		}
		info, err := os.Stat(lock)
		if err != nil {
			t.Error(err)
		} else if at := info.ModTime(); !at.Equal(newest) {
			renewed, newest = renewed+1, at
		}
		if renewed > second { // let the heartbeat seem old
			second, newest = second+1, time.Unix(1_500_000_000, 0)
			test.Check(t, os.Chtimes(lock, newest, newest))
			code, text := start(nil, asked.ForRun(), of(dir, "1"))
			if code != loop.ExitConfig || !strings.Contains(text, ": in use by process ") {
				t.Errorf("a second start: exit code %d\n%s", code, text)
			}
		}
		if renewed >= 3 && moves > 10 {
			asked.Expire(time.Nanosecond)
		}
	}
	code, text := start(w, asked, of(dir, "200"))
	steps, err := filepath.Glob(filepath.Join(run, "checkpoints", "global_step_*"))
	if code != loop.ExitRequeue || renewed < 3 || len(steps) != 1 || err != nil {
		t.Fatalf("exit code %d after %d moves, %d heartbeats, checkpoints %q, %v\n%s", code, w.moved, renewed,
			steps, err, text)
	}
	_, last, _ := strings.Cut(filepath.Base(steps[0]), "global_step_")
	t.Logf("%d moves in %s steps", w.moved, last)
	settled, unasked := t.TempDir(), loop.Watch()
	defer unasked.Close()
	if code, text := start(nil, unasked, of(settled, last)); code != 0 {
		t.Fatalf("exit code %d\n%s", code, text)
	}
	got, want := results(t, run), results(t, filepath.Join(settled, "run"))
	if !maps.Equal(got, want) {
		t.Errorf("not the results of a job that stays: %.600s\n%.600s", got["metrics"], want["metrics"])
	}
}
