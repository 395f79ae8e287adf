package external_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// A crew is four environments of two children, with their log.
type crew struct {
	t      *testing.T
	hub    *external.Hub
	vec    env.Vec
	out    *env.Step
	seeds  []uint64
	action tensor.Dict
	log    *record
}

// A record is a log that may be read while it is written.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// newCrew makes a crew whose children get these arguments.
func newCrew(t *testing.T, change func(*env.External), args ...string) *crew {
	log := &record{}
	c := newCrewOn(t, newHub(log), change, args...)
	c.log = log
	return c
}

// newCrewOn does what newCrew does, with a given hub.
func newCrewOn(t *testing.T, hub *external.Hub, change func(*env.External), args ...string) *crew {
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.External.Command, cfg.External.N = env.ExternalID, append(env.Command{os.Args[0]}, args...), 2
	if change != nil {
		change(&cfg.External)
	}
	c := &crew{t: t, hub: hub, seeds: []uint64{11, 12, 13, 14}}
	t.Cleanup(func() { c.close() })
	var err error
	if c.vec, err = c.hub.New(cfg, 4); err != nil {
		t.Fatal(err)
	}
	c.out = c.vec.Spec().NewStep(4, 1)
	c.action.Set("action", tensor.New(tensor.I32, 4, 1, 1))
	return c
}

func (c *crew) reset() {
	c.t.Helper()
	if err := c.vec.Reset(nil, c.seeds, c.out); err != nil {
		c.t.Fatal(err)
	}
}

// step takes step k and returns Step's error.
func (c *crew) step(k int) error {
	for n := range c.seeds {
		c.action.Must("action").I32()[n] = int32((k + n) % 2)
		c.seeds[n] = uint64(100*k + n)
	}
	return c.vec.Step(c.action, c.seeds, c.out)
}

// lost returns the number of environments with a status other than Normal after the last step.
func (c *crew) lost() int {
	lost := 0
	for n, status := range c.out.Status.U8() {
		if status != env.Normal {
			lost++
			if c.out.Truncated.U8()[n] != 1 {
				c.t.Errorf("environment %d: status %d, truncated %d, expected 1", n, status, c.out.Truncated.U8()[n])
			}
		}
	}
	return lost
}

func (c *crew) close() {
	if c.vec != nil {
		if err := errors.Join(c.vec.Close(), c.hub.Close()); err != nil {
			c.t.Error(err)
		}
	}
	c.vec = nil
}

// alone plays environment n of a crew in this process. It returns the observation after the reset, [0], and after step
// k, [k].
func alone(t *testing.T, n, steps int, seed uint64, from int) [][]byte {
	v := test.Must(newCartPole(0, false))(t)
	out := v.Spec().NewStep(1, 1)
	test.OK(t, v.Reset(nil, []uint64{seed}, out))
	shown := [][]byte{bytes.Clone(out.Obs.Must("state").Bytes())}
	var action tensor.Dict
	action.Set("action", tensor.New(tensor.I32, 1, 1, 1))
	for k := from; k < from+steps; k++ {
		action.Must("action").I32()[0] = int32((k + n) % 2)
		test.OK(t, v.Step(action, []uint64{uint64(100*k + n)}, out))
		shown = append(shown, bytes.Clone(out.Obs.Must("state").Bytes()))
	}
	return shown
}

// TestChildFails: a child that fails is reported with its last output, its episodes are aborted, another simulator
// takes over, and the other children are not affected.
func TestChildFails(t *testing.T) {
	t.Parallel()
	for fault, says := range map[string]string{
		"exit":     "the other side is gone (exit status 7); its last output:\n    about to leave\n    out of fuel",
		"orphan":   "the other side is gone (exit status 7)",
		"kill":     "the other side is gone (signal: killed); its last output:\n    farewell",
		"hang":     "no answer in 5s (external.step_timeout)",
		"chatter":  "no answer in 5s (external.step_timeout)",
		"cut":      "no answer in 5s (external.step_timeout): 5 of the 100 bytes of ERROR came",
		"shrink":   "the other side is gone (exit status 7); its last output:\n    shrink: operation not permitted",
		"garbage":  `"Segm" where a frame should begin, expected "RLB1"`,
		"nan":      "environment 0: reward NaN",
		"observed": "environment 0: observation state[1] is +Inf",
		"flags":    "environment 0: terminated 0, truncated 2, expected 0 or 1",
		"error":    "error: the pole broke in step 4 (exit status 1)\nenvironments ", // the child also printed it
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			timeout := time.Minute
			if fault == "hang" || fault == "chatter" || fault == "cut" {
				timeout = 5 * time.Second
			}
			c := newCrew(t, func(e *env.External) {
				e.StepTimeout = timeout
			}, fault+"@4", filepath.Join(t.TempDir(), "once"))
			lost := loseOne(t, c)
			where := fmt.Sprintf("environments %d-%d of CartPole-v1: simulator %d: ", max(lost, 0)*2, max(lost, 0)*2+1,
				max(lost, 0))
			if log := c.log.String(); lost < 0 || !strings.Contains(log, where+says) ||
				!strings.Contains(log,
					"their episodes are left out; another simulator takes over (restart 1 of 3 in a row)") {
				t.Errorf("lost %d, want %q in the log:\n%s", lost, where+says, log)
			}
		})
	}
}

// loseOne plays eight steps with a child that fails in the fourth, and returns the number of that child. Its
// environments begin new episodes, and the other environments continue.
func loseOne(t *testing.T, c *crew) int {
	t.Helper()
	first := append([]uint64(nil), c.seeds...)
	c.reset()
	const steps = 8
	want := make([][][]byte, 4)
	at := make([]int, 4) // [n]: the row of want[n] that environment n must show
	for n := range want {
		want[n] = alone(t, n, steps, first[n], 0)
	}
	lost := -1
	for k := range steps {
		test.OK(t, c.step(k))
		for n := range want {
			at[n]++
			if c.out.Status.U8()[n] == env.Aborted {
				if k != 3 || lost >= 0 && lost != n/2 {
					t.Fatalf("step %d: environment %d is lost", k, n)
				}
				lost = n / 2
				want[n], at[n] = alone(t, n, steps, uint64(100*k+n), k+1), 0
				if c.out.Reward.F32()[n] != 0 ||
					bytes.Trim(c.out.FinalObs.Must("state").Slice(n, n+1).Bytes(), "\x00") != nil {
					t.Errorf("environment %d is lost, with reward %v and %v at last", n, c.out.Reward.F32()[n],
						c.out.FinalObs.Must("state"))
				}
			}
			if got := c.out.Obs.Must("state").Slice(n, n+1).Bytes(); !bytes.Equal(got, want[n][at[n]]) {
				t.Errorf("step %d: environment %d shows other numbers than one alone", k, n)
			}
		}
	}
	return lost
}

// TestFailsInReset: if a child fails in the reset of some of its environments, the episodes of its other environments
// are lost. The reset gives the same observations as without the failure.
func TestFailsInReset(t *testing.T) {
	c := newCrew(t, func(*env.External) {}, "reset@2", filepath.Join(t.TempDir(), "once"))
	c.reset()
	test.OK(t, c.step(0))
	want := bytes.Clone(c.out.Obs.Must("state").Bytes())
	copy(want[16*1:], alone(t, 1, 0, 7, 0)[0])
	test.OK(t, c.vec.Reset([]bool{false, true, false, false}, []uint64{0, 7, 0, 0}, c.out))
	if got := c.out.Obs.Must("state").Bytes(); !bytes.Equal(got, want) {
		t.Errorf("observations %v, want %v", got, want)
	}
	test.OK(t, c.step(1))
	if got, cut := c.out.Status.U8(), c.out.Truncated.U8(); !bytes.Equal(got, []byte{env.Aborted, 0, 0, 0}) ||
		!bytes.Equal(cut, []byte{1, 0, 0, 0}) {
		t.Errorf("status %v, truncated %v, want environment 0 to be aborted and no other", got, cut)
	}
}

// A shelf is a log with a separate place for repeats.
type shelf struct{ record, apart record }

func (s *shelf) Write(p []byte) (int, error) { return s.record.Write(p) }
func (s *shelf) Repeat(p []byte)             { s.apart.Write(p) }

// TestAlike: if children write and fail alike, the log shows one child, and its place for repeats has the others.
func TestAlike(t *testing.T) {
	log := &shelf{}
	c := newCrewOn(t, newHub(log), func(e *env.External) { e.N = 4 }, "exit@1")
	c.reset()
	for k := range 3 {
		test.OK(t, c.step(k))
	}
	shown, apart := log.record.String(), log.apart.String()
	for text, want := range map[string][2]int{
		": about to leave\n": {1, 11}, ": out of fuel\n": {1, 11}, "another simulator takes over": {1, 11},
		"its last output:\n    about to leave\n    out of fuel\n": {1, 11},
	} {
		test.Equal(t, [2]int{strings.Count(shown, text), strings.Count(apart, text)}, want, "%q: times", text)
	}
	if t.Failed() {
		t.Logf("shown:\n%sapart:\n%s", shown, apart)
	}
}

// TestTooManyRestarts: a child that fails too often is not replaced. The function of Watch gets the error; without such
// a function, Step returns it.
func TestTooManyRestarts(t *testing.T) {
	for _, c := range []struct {
		args, says string
		lost       int // lost episodes: four for each child that began episodes
	}{
		{"exit@1", "(exit status 7); its last output:\n    about to leave\n    out of fuel", 12},
		{"changeling@1 FILE", `its greeting differs from that of the first child: {"action":`, 4},
	} {
		for _, watched := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, watched %v", c.args, watched), func(t *testing.T) {
				t.Parallel()
				args := strings.Fields(strings.ReplaceAll(c.args, "FILE", filepath.Join(t.TempDir(), "once")))
				crew := newCrew(t, func(e *env.External) { e.MaxRestarts, e.N = 2, 1 }, args...)
				var told []error
				if watched {
					crew.hub.Watch(func(err error) { told = append(told, err) })
				}
				crew.reset()
				episodes := env.NewEpisodes(crew.vec.Spec(), 0, 4, true)
				var err error
				for k := range 5 {
					if e := crew.step(k); err == nil {
						err = e
					}
					test.Equal(t, crew.lost(), 4, "step %d: environments are lost", k)
					episodes.Observe(crew.out)
				}
				if lost := env.Summarize(episodes.Take()).NumLost; lost != c.lost {
					t.Errorf("%d episodes were lost, want %d", lost, c.lost)
				}
				if watched != (len(told) == 1) || watched != (err == nil) {
					t.Fatalf("watchers were told %v, and Step gave %v", told, err)
				}
				if watched {
					err = told[0]
				}
				// The first child is replaced twice. The first replacement of a changeling does not play.
				if says := err.Error(); !strings.HasPrefix(says, "environments 0-3 of CartPole-v1: ") ||
					!strings.Contains(says, c.says) ||
					!strings.Contains(says,
						"that was 3 times in a row without the end of an episode (external.max_restarts)") {
					t.Errorf("%v", err)
				}
			})
		}
	}
}

// TestRestartsInARow: a child that ends episodes between its failures is replaced each time.
func TestRestartsInARow(t *testing.T) {
	t.Parallel()
	c := newCrew(t, func(e *env.External) { e.MaxRestarts, e.N = 1, 1 }, "exit@15")
	c.reset()
	ended, lost := 0, 0
	for range 60 { // pushing in one direction ends an episode after some 10 steps
		test.OK(t, c.vec.Step(c.action, c.seeds, c.out))
		ended += bytes.Count(c.out.Terminated.U8(), []byte{1})
		lost += bytes.Count(c.out.Status.U8(), []byte{env.Aborted})
	}
	if ended == 0 || lost != 4*4 || strings.Count(c.log.String(), "(restart 1 of 1 in a row)") != 4 {
		t.Errorf("%d episodes ended, %d were lost, want 16 of them in 4 restarts:\n%s", ended, lost, c.log)
	}
}

// TestSameError: an error that simulators report too often ends the job, even if its numbers differ and episodes end in
// between.
func TestSameError(t *testing.T) {
	for _, c := range []struct {
		most, want int // max_same_errors, and the number of errors
	}{{3, 3}, {0, 6}} {
		t.Run(fmt.Sprint(c.most), func(t *testing.T) {
			t.Parallel()
			crew := newCrew(t, func(e *env.External) { e.MaxRestarts, e.N, e.MaxSameErrors = 1, 1, c.most }, "error@15")
			crew.reset()
			var err error
			ended := 0
			for range 90 { // pushing in one direction ends an episode after some 10 steps
				if err = crew.vec.Step(crew.action, crew.seeds, crew.out); err != nil {
					break
				}
				ended += bytes.Count(crew.out.Terminated.U8(), []byte{1})
			}
			if n := strings.Count(crew.log.String(), "another simulator takes over"); ended == 0 ||
				n != c.want-min(c.most, 1) {
				t.Errorf("%d episodes ended, %d children were replaced\n%s", ended, n, crew.log)
			}
			says := "error: the pole broke in step 15"
			if (err == nil) != (c.most == 0) || err != nil && (!strings.Contains(err.Error(), says) ||
				!strings.HasSuffix(err.Error(),
					"the simulators have reported this error 3 times (external.max_same_errors)")) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestLostAfterSave: if a child fails in Save, the episodes that it began in the step before are lost.
func TestLostAfterSave(t *testing.T) {
	c := newCrew(t, func(e *env.External) { e.N = 1 }, "exit@1", filepath.Join(t.TempDir(), "once"))
	c.reset()
	episodes := env.NewEpisodes(c.vec.Spec(), 0, 4, true)
	observe := func(k int) {
		test.OK(t, c.step(k))
		episodes.Observe(c.out)
	}
	observe(0)
	for _, child := range offspring() {
		pid, _ := strconv.Atoi(child)
		syscall.Kill(pid, syscall.SIGKILL)
	}
	if _, err := env.Save(c.vec); err == nil {
		t.Fatal("who was killed has saved")
	}
	observe(1)
	test.Equal(t, env.Summarize(episodes.Take()).NumLost, 8, "episodes were lost")
}

// TestBlockingMask: a child whose mask allows no option is replaced.
func TestBlockingMask(t *testing.T) {
	c := newCrew(t, func(e *env.External) { e.MaxRestarts, e.N = 1, 1 }, "blocking")
	err := c.vec.Reset(nil, c.seeds, c.out)
	const want = "simulator 1: environment 0: observation action_mask allows no option of choice 0, expected at " +
		"least one\nthat was 2 times in a row"
	test.Fails(t, err, want)
}

// TestMaskOfNobody: environments without a simulator allow all actions, after a reset and after each step. Otherwise
// the error of their masks would end the program before its checkpoint.
func TestMaskOfNobody(t *testing.T) {
	c := newCrew(t, func(e *env.External) { e.MaxRestarts, e.N = 0, 1 }, "blocking")
	told := 0
	c.hub.Watch(func(error) { told++ })
	c.out.Obs.Must(env.ActionMask).Zero()
	if err := c.vec.Reset(nil, c.seeds, c.out); err != nil || told != 1 {
		t.Fatalf("watchers were told %d times, and Reset gave %v", told, err)
	}
	mask := c.out.Obs.Must(env.ActionMask).U8()
	if bytes.Contains(mask, []byte{0}) {
		t.Errorf("mask %v, want ones", mask)
	}
	clear(mask)
	if err := c.step(0); err != nil || bytes.Contains(mask, []byte{0}) {
		t.Errorf("after a step, %v: mask %v, want ones", err, mask)
	}
}

// stopSoon requests a stop in 300 ms. The returned function returns the time since the call of stopSoon.
func stopSoon(hub *external.Hub, atOnce bool) func() time.Duration {
	start := time.Now()
	time.AfterFunc(300*time.Millisecond, func() { hub.RequestStop(atOnce) })
	return func() time.Duration { return time.Since(start) }
}

// TestRequestStopBeforePlay: after a request to stop, the Hub does not wait for a child that has sent no greeting.
func TestRequestStopBeforePlay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*env.External)
		says   string
	}{
		"nobody connects": {
			func(e *env.External) { e.Listen = "unix:" + filepath.Join(t.TempDir(), "s") },
			"before the program was asked to stop",
		},
		"no greeting": {
			func(e *env.External) { e.Command = env.Command{os.Args[0], "silent"} },
			"greeting: not ready to play before the program was asked to stop",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := env.DefaultConfig()
			cfg.EnvType = env.ExternalID
			c.change(&cfg.External)
			hub := newHub(&record{})
			defer hub.Close()
			took := stopSoon(hub, false)
			if _, err := hub.Ask(cfg); err == nil || !strings.Contains(err.Error(), c.says) || took() > time.Minute {
				t.Errorf("after %v: %v, want %q within a minute", took(), err, c.says)
			}
		})
	}
}

// TestRequestStopBeforeLoad: if no child has connected before a request to stop, Load succeeds and the environments are
// lost.
func TestRequestStopBeforeLoad(t *testing.T) {
	t.Parallel()
	c := newCrew(t, nil)
	c.reset()
	state, err := env.Save(c.vec)
	test.OK(t, err)
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.External.Listen = env.ExternalID, "unix:"+filepath.Join(t.TempDir(), "s")
	asked := env.External{Command: env.Command{os.Args[0]}, StartTimeout: time.Minute}
	if cfg.External.Greeting, err = c.hub.Ask(env.Config{External: asked}); err != nil {
		t.Fatal(err)
	}
	test.OK(t, c.vec.Close())
	if c.vec, err = c.hub.New(cfg, 4); err != nil {
		t.Fatal(err)
	}
	took := stopSoon(c.hub, false)
	err = errors.Join(env.Load(c.vec, state), c.step(0))
	if err != nil || c.lost() != 4 || took() > time.Minute {
		t.Errorf("after %v: %v, status %v, want 4 environments that are lost", took(), err, c.out.Status)
	}
}

// TestRequestStopBeforeReady: after a request to stop, environments are lost if their child has sent a greeting but no
// READY. The function of Watch is not called.
func TestRequestStopBeforeReady(t *testing.T) {
	t.Parallel()
	c := newCrew(t, nil, "unready")
	c.hub.Watch(func(err error) { t.Errorf("watchers were told %v", err) })
	took := stopSoon(c.hub, false)
	c.reset()
	const says = "after CONFIG: not ready to play before the program was asked to stop"
	err := c.step(0)
	if err != nil || c.lost() != 4 || took() > time.Minute || !strings.Contains(c.log.String(), says) {
		t.Errorf("after %v: %v, status %v, expected 4 environments that are lost, and %q in\n%s",
			took(), err, c.out.Status, says, c.log)
	}
}

// TestRequestStopWithoutAnswer: after a request to stop, a child that does not answer is not replaced, and the other
// children continue. A request to stop at once also limits each pending reply.
func TestRequestStopWithoutAnswer(t *testing.T) {
	t.Parallel()
	const atOnceSays = "no reply within 5s after the program was asked to stop\n"
	for name, c := range map[string]struct {
		before, atOnce bool
		timeout        time.Duration
		says           string
	}{
		"asked at once":         {false, true, 2 * time.Minute, atOnceSays},
		"asked before":          {true, true, 2 * time.Minute, atOnceSays},
		"there is time for one": {true, false, 7 * time.Second, "no answer in 7s (external.step_timeout)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			once := filepath.Join(t.TempDir(), "once")
			crew := newCrew(t, func(e *env.External) { e.StepTimeout = c.timeout }, "hang@2", once)
			crew.hub.Watch(func(err error) { t.Errorf("watchers were told %v", err) })
			crew.reset()
			test.OK(t, crew.step(0))
			took := stopSoon(crew.hub, c.atOnce)
			if c.before {
				crew.hub.RequestStop(c.atOnce)
			}
			for k := 1; k < 5; k++ {
				test.OK(t, crew.step(k))
				test.Equal(t, crew.lost(), 2, "step %d: environments are lost", k)
			}
			log := crew.log.String()
			if took() > time.Minute || strings.Contains(log, "restart") || !strings.Contains(log, c.says) {
				t.Errorf("after %v: want %q in the log:\n%s", took(), c.says, log)
			}
		})
	}
}

// A noChild is a change of the configuration that makes the first child fail, and the expected error.
type noChild struct {
	change func(*env.External)
	says   string
}

// askForNone checks the error of each case.
func askForNone(t *testing.T, cases map[string]noChild) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cfg := env.DefaultConfig()
			cfg.EnvType = env.ExternalID
			c.change(&cfg.External)
			hub := newHub(&record{})
			defer hub.Close()
			test.Fails(t, test.Err(hub.New(cfg, 2)), c.says)
		})
	}
}

// commanded returns a change of the command and, unless it is 0, of the start timeout.
func commanded(greeting time.Duration, command ...string) func(*env.External) {
	return func(e *env.External) {
		e.Command = command
		if greeting > 0 {
			e.StartTimeout = greeting
		}
	}
}

// shell returns a change of the command to a script of sh.
func shell(script string) func(*env.External) { return commanded(0, "sh", "-c", script) }

// TestNoChildStarts: the error says why a program did not start or sent no greeting.
func TestNoChildStarts(t *testing.T) {
	t.Parallel()
	notRun := filepath.Join(t.TempDir(), "sim")
	test.OK(t, os.WriteFile(notRun, []byte("#!/bin/sh\n"), 0o600))
	half := "printf 'RLB1\\1" + strings.Repeat(`\0`, 19) + "\\12" + strings.Repeat(`\0`, 7) + `{"v"' >&4; sleep 100`
	askForNone(t, map[string]noChild{
		"no program": {commanded(0, "no-such-program"), "expected a program that can be found and run"},
		"not to be run": {commanded(0, notRun),
			"permission denied: expected a program that can be found and run"},
		"no greeting": {commanded(300*time.Millisecond, os.Args[0], "silent"),
			"no greeting in 300ms (external.start_timeout)"},
		"half a greeting": {commanded(3*time.Second, "sh", "-c", half),
			"no greeting in 3s (external.start_timeout): 4 of the 10 bytes of HELLO came"},
	})
}

// TestNoChildStays: if a child ends before its greeting, the error has its last output, and advice for known causes.
func TestNoChildStays(t *testing.T) {
	askForNone(t, map[string]noChild{
		"no client": {shell("echo \"ModuleNotFoundError: No module named 'rlb'\"; exit 1"),
			"No module named 'rlb'\nPython does not find rlinf's client: " +
				"pip install clients/python of rlinf's folder, or put it into PYTHONPATH"},
		"no NumPy": {shell("echo \"ModuleNotFoundError: No module named 'numpy'\"; exit 1"),
			"No module named 'numpy'\nThis Python has no NumPy: pip install numpy for it, " +
				"or name another Python in the command (.venv/bin/python)"},
		"gone": {shell("echo no licence; exit 3"),
			"it exited before the handshake: does it speak RLB1? (exit status 3); its last output:\n    no licence"},
		"a traceback, which the log has": {
			shell("echo 'Traceback (most recent call last):'; echo '  File \"sim.py\", line 1'; " +
				"echo 'OSError: no scene'; exit 1"),
			"(exit status 1); its last output:\n    OSError: no scene"},
		"gone, and then ends": {shell("exec 3<&- 4>&-; echo no licence; sleep 0.5; exit 3"),
			"it exited before the handshake: does it speak RLB1? (exit status 3); its last output:\n    no licence"},
	})
}

// TestNoChildConnects: the error says why the Hub cannot listen, or why no simulator connected.
func TestNoChildConnects(t *testing.T) {
	dir := t.TempDir()
	taken := test.Must(net.Listen("unix", filepath.Join(dir, "taken")))(t)
	defer taken.Close()
	withToken := func(name, text string, mode os.FileMode) func(*env.External) {
		return func(e *env.External) {
			e.Listen, e.TokenFile = fmt.Sprintf("tcp::%d", freePort(t)), filepath.Join(dir, name)
			os.WriteFile(e.TokenFile, []byte(text), 0o600)
			os.Chmod(e.TokenFile, mode)
		}
	}
	askForNone(t, map[string]noChild{
		"nobody": {func(e *env.External) {
			e.Listen = "unix:" + filepath.Join(dir, "s")
			e.StartTimeout = 100 * time.Millisecond
		}, "no simulator connected in 100ms (start_timeout)"},
		"TCP": {func(e *env.External) { e.Listen = fmt.Sprintf("tcp::%d", freePort(t)) },
			"a token_file is needed"},
		"another job": {func(e *env.External) { e.Listen = "unix:" + filepath.Join(dir, "taken") },
			"another job listens there"},
		"an empty token": {withToken("empty", "", 0o600), "its first line is empty"},
		"a token for all": {withToken("loose", "open sesame", 0o644),
			"loose: other users may read or change it (-rw-r--r--), expected mode 0600: chmod 600 "},
	})
}

// TestMuchOutput: the log gets a limited amount of the output and the LOG frames of children. All output is read, and
// the error has the last lines.
func TestMuchOutput(t *testing.T) {
	for name, command := range map[string]env.Command{
		"standard output": {"sh", "-c", "yes $(printf %0999d) | head -c 20000000; echo no licence; exit 3"},
		"LOG":             {os.Args[0], "wordy@20"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := env.DefaultConfig()
			cfg.EnvType, cfg.External.Command = env.ExternalID, command
			log := &record{}
			hub := newHub(log)
			defer hub.Close()
			const want = "it exited before the handshake: does it speak RLB1? (exit status 3); its last output:\n"
			for range 2 { // the second error is the same
				_, err := hub.New(cfg, 2)
				if err == nil || !strings.Contains(err.Error(), want) ||
					!strings.HasSuffix(err.Error(), "    no licence") {
					t.Errorf("%v, want %q and at last \"no licence\"", err, want)
				}
			}
			text, notice := log.String(), "simulators have written 16 MiB: the rest is left out here"
			if n := len(text); n < 14<<20 || n > 16<<20+1000 || strings.Count(text, notice) != 1 {
				t.Errorf("%d bytes in the log, with %q %d times, want 16 MiB and once", n, notice,
					strings.Count(text, notice))
			}
		})
	}
}

// TestOwnLoop: a solver that owns its loop is refused, before it plays, for a task that ignores terminations.
func TestOwnLoop(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.External.Command, cfg.IgnoreTerminations = env.ExternalID, env.Command{"solver"}, true
	cfg.External.Greeting = `{"v":1,"name":"solver","owns_loop":true,"obs":[{"name":"x","kind":"discrete","n":2}],` +
		`"action":{"kind":"discrete","n":2}}`
	hub := newHub(&record{})
	defer hub.Close()
	if _, err := hub.New(cfg, 2); err == nil ||
		!strings.Contains(err.Error(), "solver: ignore_terminations: true: a solver that owns its loop") {
		t.Errorf("%v, want what is wrong with ignore_terminations", err)
	}
}

// TestErrorAfterMuchOutput: if the log lacks the last output of a child, the message has it, even after an ERROR.
func TestErrorAfterMuchOutput(t *testing.T) {
	crew := newCrew(t, func(e *env.External) { e.N, e.MaxRestarts = 1, 0 }, "rant@1")
	crew.reset()
	const says, last = "error: the pole broke in step 1", "; its last output:\n    and another thing: the pole\n"
	if err := crew.step(0); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), last) {
		t.Errorf("%v, want %q and %q", err, says, last)
	}
}

// TestNoReady: the error of a child that does not answer CONFIG names the missing frame and the setting of the timeout.
func TestNoReady(t *testing.T) {
	t.Parallel()
	c := newCrew(t, func(e *env.External) { e.StartTimeout = 5 * time.Second }, "unready")
	err := c.vec.Reset(nil, c.seeds, c.out)
	if want := "simulator 0: no READY after CONFIG in 5s (external.start_timeout)"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestWrongToken: a simulator without the secret is refused, and one with it is accepted.
func TestWrongToken(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.EnvType = env.ExternalID
	cfg.External.Listen, cfg.External.TokenFile = fmt.Sprintf("tcp:127.0.0.1:%d", freePort(t)),
		filepath.Join(t.TempDir(), "token")
	test.OK(t, os.WriteFile(cfg.External.TokenFile, []byte("open sesame\n"), 0o600))
	log := &record{}
	hub := newHub(log)
	defer hub.Close()
	come := func(token string) *exec.Cmd {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "RLB_ADDR="+cfg.External.Listen, "RLB_TOKEN="+token)
		test.OK(t, c.Start())
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		return c
	}
	done := make(chan error)
	go func() { _, err := hub.Ask(cfg); done <- err }()
	come("open barley").Wait()
	if !strings.Contains(log.String(), "waiting for simulators at RLB_ADDR="+cfg.External.Listen+"\n") {
		t.Errorf("the log does not say where to: %s", log)
	}
	if !strings.Contains(log.String(), "refused: greeting: wrong token") {
		t.Errorf("the log of one with a wrong token: %s", log)
	}
	come("open sesame")
	test.Check(t, <-done)
}

// held counts the descriptors, child processes and shared memories of this process.
func held(t *testing.T) map[string]int {
	count := map[string]int{}
	descriptors := test.Must(os.ReadDir("/proc/self/fd"))(t)
	maps := test.Must(os.ReadFile("/proc/self/maps"))(t)
	count["descriptors"] = len(descriptors)
	count["mappings"] = strings.Count(string(maps), "rlinf-")
	count["processes"] = len(offspring())
	return count
}

// TestNothingIsLeft: children that were closed or replaced leave no descriptor, process or memory, over any transport.
func TestNothingIsLeft(t *testing.T) {
	// the first use of Go's poller opens descriptors that stay
	if r, w, err := os.Pipe(); errors.Join(err, r.Close(), w.Close()) != nil {
		t.Fatal(err)
	}
	before, named := held(t), names(t)
	for _, args := range [][]string{nil, {"kill@2", filepath.Join(t.TempDir(), "once")}, {"family"}} {
		c := newCrew(t, nil, args...)
		c.reset()
		for k := range 4 {
			test.OK(t, c.step(k))
		}
		if now := held(t); now["processes"] != before["processes"]+2 || now["mappings"] != before["mappings"]+2 {
			t.Errorf("%v: %v while children play, before them %v", args, now, before)
		}
		c.close()
		if args == nil || args[0] != "family" {
			continue
		}
		for _, line := range strings.Split(c.log.String(), "\n") {
			if _, pid, ok := strings.Cut(line, "grandchild "); ok {
				awaitEnd(t, pid)
			}
		}
	}
	if after := held(t); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("%v, before %v", after, before)
	}
	for by := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // other programs share memory, too
		left := slices.DeleteFunc(names(t), func(name string) bool { return slices.Contains(named, name) })
		if len(left) == 0 {
			return
		}
		if time.Now().After(by) {
			t.Fatalf("%q are left", left)
		}
	}
}

// names returns the names of shared memory that children started elsewhere can open.
func names(t *testing.T) []string {
	found := test.Must(filepath.Glob("/dev/shm/rlinf-*"))(t)
	return found
}

// awaitEnd waits until the process of this number has ended. The process may be a zombie.
func awaitEnd(t *testing.T, pid string) {
	t.Helper()
	for by := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		_, state, _ := strings.Cut(string(stat), ") ")
		if err != nil || strings.HasPrefix(state, "Z") {
			return
		}
		if time.Now().After(by) {
			t.Fatalf("process %s lives", pid)
		}
	}
}

// TestParentIsKilled: children end with a killed parent.
func TestParentIsKilled(t *testing.T) {
	parent := exec.Command(os.Args[0], "parent")
	parent.Env = append(os.Environ(), "RLB_ADDR=none")
	out := test.Must(parent.StdoutPipe())(t)
	test.OK(t, parent.Start())
	line := make([]byte, 256)
	n, _ := out.Read(line)
	children := strings.Fields(string(line[:n]))
	parent.Process.Kill()
	parent.Wait()
	if len(children) != 2 {
		t.Fatalf("children %q, want 2", children)
	}
	for _, pid := range children {
		awaitEnd(t, pid)
	}
}
