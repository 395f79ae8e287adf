package clients_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// An event is a line of the fake robot's log.
type event struct {
	Event      string
	Action     []float32
	Intervened bool
}

// robots returns the commands of the fake robots in C and Python, without Python if there is no NumPy.
func robots(t *testing.T) map[string]env.Command {
	t.Helper()
	all := map[string]env.Command{"C": {compileRobot(t)}}
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import numpy").Run() == nil {
			all["Python"] = env.Command{"env", "PYTHONPATH=python", "PYTHONDONTWRITEBYTECODE=1", python, "-m",
				"rlb.fake_robot"}
		}
	}
	return all
}

// compileRobot builds the fake robot in C.
func compileRobot(t *testing.T) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc: scripts/setup test installs it")
	}
	program := filepath.Join(t.TempDir(), "fake_robot")
	out, err := exec.Command(gcc, "-std=c99", "-Wall", "-Wextra", "-Werror", "-g", "-fsanitize=address,undefined",
		"-pthread", "-o", program, "c/fake_robot.c", "c/rlb_robot.c", "c/rlb.c", "-lm").CombinedOutput()
	test.OK(t, err, string(out))
	return program
}

// robot returns the fake robot of this command, and a function that reads its log.
func robot(t *testing.T, log io.Writer, command env.Command, arguments ...string) (env.Vec, func() []event) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "log")
	cfg := env.DefaultConfig()
	cfg.EnvType = env.ExternalID
	cfg.External.Command = append(append(slices.Clone(command), "--log", file), arguments...)
	if slices.Contains(arguments, "--stall") {
		cfg.External.StepTimeout = time.Second
	}
	hub := external.NewHub(log, 0)
	t.Cleanup(func() { hub.Close() })
	vec := test.Must(hub.New(cfg, 1))(t)
	t.Cleanup(func() { vec.Close() })
	return vec, func() (all []event) {
		f := test.Must(os.Open(file))(t)
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var e event
			test.OK(t, json.Unmarshal(lines.Bytes(), &e), lines.Text())
			all = append(all, e)
		}
		return all
	}
}

// TestRobotTransitions: on a virtual clock, the actions of all transitions are those of the robot's own log, clipped to
// the bounds, one for one, with chunks of 1 and 4 actions.
func TestRobotTransitions(t *testing.T) {
	for name, command := range robots(t) {
		for _, chunk := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, chunks of %d", name, chunk), func(t *testing.T) {
				t.Parallel()
				playAgainstLog(t, command, chunk)
			})
		}
	}
}

func playAgainstLog(t *testing.T, command env.Command, chunk int) {
	vec, log := robot(t, t.Output(), command, "--virtual", "--person", "0.4")
	out, seeds := vec.Spec().NewStep(1, chunk), []uint64{7}
	var action tensor.Dict
	action.Set("action", tensor.New(tensor.F32, 1, chunk, 2))
	test.OK(t, vec.Reset(nil, seeds, out))
	var taken [][2]float32
	guided, clipped := 0, 0
	for step := range 200 / chunk {
		seeds[0]++
		for i := range action.Must("action").F32() {
			action.Must("action").F32()[i] = float32((step*7+i*3)%9)/4 - 1
		}
		test.OK(t, vec.Step(action, seeds, out))
		took, _ := out.Took(0)
		for k := range took {
			from := action.Must("action")
			if x := out.Intervened.U8()[k]; x != 0 {
				from = out.Taken
				guided++
				clipped += int(x) - env.Acted
			}
			taken = append(taken, [2]float32{from.F32()[2*k], from.F32()[2*k+1]})
		}
	}
	test.OK(t, vec.Close())
	var commands, steps [][2]float32
	for _, e := range log() {
		clip := func(x float32) float32 { return min(max(x, -1), 1) }
		switch e.Event {
		case "command":
			commands = append(commands, [2]float32{clip(e.Action[0]), clip(e.Action[1])})
		case "step":
			steps = append(steps, [2]float32{clip(e.Action[0]), clip(e.Action[1])})
			if e.Intervened {
				guided--
			}
		}
	}
	test.EqualSlices(t, commands, taken, "commands, chunks of", chunk)
	test.EqualSlices(t, steps, taken, "steps, chunks of", chunk)
	if guided != 0 || clipped == 0 {
		t.Errorf("chunks of %d: %d steps more with a person than in the log, %d clipped", chunk, guided, clipped)
	}
}

// TestRobotStops: the robot stops, and no command follows, at CLOSE, at an exception of its own, and when its step
// takes too long and it gets SIGTERM. While its step hangs it stops by itself. No other robot takes its place.
func TestRobotStops(t *testing.T) {
	commands := robots(t)
	for _, c := range []struct {
		name, says string
		arguments  []string
	}{
		{"close", "", nil},
		{"exception", "the gripper is stuck", []string{"--crash", "5"}},
		{"timeout", "no answer in 1s (external.step_timeout)", []string{"--period", "0.3", "--stall", "5"}},
	} {
		for name, command := range commands {
			t.Run(c.name+" "+name, func(t *testing.T) {
				t.Parallel()
				stopRobot(t, c.says, command, append([]string{"--period", "0.01"}, c.arguments...)...)
			})
		}
	}
}

func stopRobot(t *testing.T, says string, command env.Command, arguments ...string) {
	var out bytes.Buffer
	vec, log := robot(t, &out, command, arguments...)
	step, seeds := vec.Spec().NewStep(1, 1), []uint64{7}
	var action tensor.Dict
	action.Set("action", tensor.New(tensor.F32, 1, 1, 2))
	test.OK(t, vec.Reset(nil, seeds, step))
	var err error
	for range 5 {
		if err = vec.Step(action, seeds, step); err != nil {
			break
		}
	}
	if says != "" {
		test.Fails(t, err, says)
		test.Fails(t, err, "no other robot takes its place")
	}
	test.OK(t, vec.Close())
	events := log()
	last := events[len(events)-1].Event
	if n := len(events); last != "stop" || !slices.ContainsFunc(events[:n-1], func(e event) bool {
		return e.Event == "command"
	}) || strings.Contains(out.String(), "restart 1") {
		t.Errorf("the log ends with %q of %d events\n%s", last, n, out.String())
	}
}
