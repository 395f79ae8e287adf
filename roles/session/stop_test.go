package session_test

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/embodied"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// A transcript is a writer for several goroutines.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

// find returns the part of the text in the brackets of pattern; "" if the pattern does not match.
func (t *transcript) find(pattern string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := regexp.MustCompile(pattern).FindSubmatch(t.text.Bytes()); m != nil {
		return string(m[1])
	}
	return ""
}

// An interrupter asks the job to stop once, and waits for the answer: in the first move if inMove is set, else when it
// hears of step 2.
type interrupter struct {
	inMove bool
	out    *transcript
	asked  sync.Once
	step   int64
}

// promise matches the answer to a request to stop.
const promise = `finishing step (\d+), then saving`

func (i *interrupter) interrupt() {
	i.asked.Do(func() {
		syscall.Kill(syscall.Getpid(), syscall.SIGUSR1)
		for by := time.Now().Add(20 * time.Second); i.out.find(promise) == "" && time.Now().Before(by); {
			time.Sleep(time.Millisecond)
		}
	})
}

func (i *interrupter) Observe(advice.Iteration) {
	if i.step++; !i.inMove && i.step == 2 {
		i.interrupt()
	}
}

func (i *interrupter) Decide(step, _ int64) *advice.Decision {
	if !i.inMove || step < 2 {
		return nil
	}
	return &advice.Decision{Placement: "{actor: 1, env: 0, rollout: 0}", Reason: "a whim"}
}

func (i *interrupter) Moved(*spmd.Placement, int64, float64) { i.interrupt() }
func (i *interrupter) Refused()                              {}

// TestPromisedEnd: the answer to a request to stop names the step after which the run ends: the step under way if a
// checkpoint is due after it, else the next one, because two ranks need a step to agree.
func TestPromisedEnd(t *testing.T) {
	for _, inMove := range []bool{false, true} {
		for _, interval := range []int{1, 2, 3, 4} {
			if testing.Short() && interval != 3 {
				continue
			}
			t.Run(fmt.Sprintf("move %v, save_interval %d", inMove, interval), func(t *testing.T) {
				cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, "~cluster.component_placement",
					"+cluster.component_placement={actor: 0, env: 1, rollout: 1}", "runner.max_steps=12",
					"runner.max_epochs=-1", fmt.Sprintf("++runner.save_interval=%d", interval),
					"++runner.val_check_interval=-1", "runner.logger.log_path="+t.TempDir())
				out := new(transcript)
				asked := loop.Watch()
				defer asked.Close()
				job := session.New(session.Options{Registries: rolestest.Registries(), Asked: asked, Out: out,
					Log: io.MultiWriter(t.Output(), out), Command: "rlinf", Tasks: task.Tasks{embodied.Task{}},
					Scheduler: &interrupter{inMove: inMove, out: out}})
				code, err := job.Start(t.Context(), local.New(2), cfg, nil, nil)
				promised, ended := out.find(promise), out.find(`(?m)^run .* after step (\d+)`)
				if code != loop.ExitRequeue || err != nil || promised == "" || promised != ended {
					t.Errorf("exit code %d, %v: the run promised to end after step %q and ended after %q", code, err,
						promised, ended)
				}
			})
		}
	}
}
