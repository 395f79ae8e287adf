package session_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/embodied"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd/local"
)

// A measuredTask is a task whose jobs call profile and run when they are measured.
type measuredTask struct {
	embodied.Task
	profile func(context.Context) error
	run     func(context.Context) error
}

func (m measuredTask) Draft(cfg *config.Config, reg config.Registries, nodes []int) task.Draft {
	return measuredDraft{m.Task.Draft(cfg, reg, nodes), m}
}

func (m measuredTask) Run(ctx context.Context, _ *loop.Cluster) error { return m.run(ctx) }

type measuredDraft struct {
	task.Draft
	task measuredTask
}

func (d measuredDraft) Complete(cfg *config.Config, reg config.Registries) (*task.Plan, error) {
	p, err := d.Draft.Complete(cfg, reg)
	if err == nil {
		p.Profile = func(ctx context.Context, _ planner.ProbeOptions) (*planner.Profile, error) {
			return &planner.Profile{Work: p.Work()}, d.task.profile(ctx)
		}
	}
	return p, err
}

// untilDone is work that goes on until it is asked to end.
func untilDone(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(10 * time.Second):
		return errors.New("not asked to end")
	}
}

func nothing(context.Context) error { return nil }

// TestStopWhileMeasuring: a request to stop ends the measurement for a plan or a scheduler, in both parts of the
// measurement. The job ends with the request's exit code, its usual answer, and the reason. A mistake that would stop
// the next start, too, keeps the exit code 2.
func TestStopWhileMeasuring(t *testing.T) {
	signaled := func(s syscall.Signal, mistake error) func(context.Context) error {
		return func(ctx context.Context) error {
			syscall.Kill(syscall.Getpid(), s)
			return cmp.Or(mistake, untilDone(ctx))
		}
	}
	const reason, auto, scheduler = "the program was asked to stop", "cluster.component_placement=auto",
		"cluster={auto_scheduler: true, component_placement: {actor: 0, env: 1, rollout: 1}}"
	profile, run := func(s syscall.Signal, mistake error) measuredTask {
		return measuredTask{profile: signaled(s, mistake)}
	}, func(s syscall.Signal, mistake error) measuredTask {
		return measuredTask{profile: nothing, run: signaled(s, mistake)}
	}
	for i, c := range []struct {
		name, placed string
		task         measuredTask
		code         int
		says         string
	}{
		{"USR1", auto, profile(syscall.SIGUSR1, nil), loop.ExitRequeue, reason},
		{"USR1", scheduler, profile(syscall.SIGUSR1, nil), loop.ExitRequeue, reason},
		{"USR1 in real iterations", auto, run(syscall.SIGUSR1, nil), loop.ExitRequeue, reason},
		{"USR1 in real iterations", scheduler, run(syscall.SIGUSR1, nil), loop.ExitRequeue, reason},
		{"INT", auto, run(syscall.SIGINT, nil), loop.ExitInterrupted, reason},
		{"TERM", scheduler, run(syscall.SIGTERM, nil), loop.ExitTerminated, reason},
		{"HUP", auto, run(syscall.SIGHUP, nil), loop.ExitHungUp, reason},
		{"max_time", auto, profile(0, nil), loop.ExitRequeue, reason},
		{"max_time", scheduler, run(0, nil), loop.ExitRequeue, reason},
		{"Slurm's limit", auto, run(0, nil), loop.ExitRequeue, reason},
		{"a mistake after USR1", auto, profile(syscall.SIGUSR1, errors.New("a mistake")), loop.ExitConfig, "a mistake"},
	} {
		if testing.Short() && i%5 != 0 { // one in each part, and the mistake
			continue
		}
		t.Run(c.name+" "+c.placed, func(t *testing.T) {
			if c.code == loop.ExitHungUp && signal.Ignored(syscall.SIGHUP) {
				return // nohup has started the test
			}
			overrides := []string{"~cluster.component_placement", "++" + c.placed,
				"runner.logger.log_path=" + t.TempDir()}
			if c.name == "max_time" {
				overrides = append(overrides, "runner.max_time=1ms")
			} else if c.name == "Slurm's limit" {
				t.Setenv("SLURM_JOB_END_TIME", fmt.Sprint(time.Now().Unix()-1))
			}
			cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, overrides...)
			out, asked := new(transcript), loop.Watch()
			defer asked.Close()
			job := session.New(session.Options{Registries: rolestest.Registries(), Asked: asked, Out: out, Log: out,
				Tasks: task.Tasks{c.task}})
			begun := time.Now()
			code, err := job.Start(t.Context(), local.New(2), cfg, nil, nil)
			for out.find("(stopping before the first step)") == "" && time.Since(begun) < 20*time.Second {
				time.Sleep(time.Millisecond) // the answer comes from a goroutine of its own
			}
			text := out.find("(?s)^(.*)$")
			if code != c.code || err != nil || strings.Count(text, c.says) != 1 ||
				strings.Count(text, "stopping before the first step") != 1 {
				t.Errorf("exit code %d, %v, want %d and %q\n%s", code, err, c.code, c.says, text)
			}
		})
	}
}
