package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// watched is a job of a fake robot, which acts while the learner updates.
const watched = `
cluster: {component_placement: {"actor,env,rollout": 0}}
env:
  train:
    env_type: external
    total_num_envs: 1
    max_steps_per_rollout_epoch: 20
    external: {command: "%s", step_timeout: 10m}
algorithm:
  adv_type: embodied_sac
  loss_type: embodied_sac
  update_epoch: 200
  replay_buffer: {sample_window_size: 1000, min_buffer_size: 1}
  demo_buffer: {sample_window_size: 1000}
actor:
  recv_drain_max_trajectories: 1
  micro_batch_size: 8
  global_batch_size: 8
  model: {model_type: cnn_policy, encoder: keypoints, hidden_sizes: [8], add_q_head: true, add_value_head: false}
  optim: {lr: 1.0e-3}
runner: {async: true, val_check_interval: -1, logger: {experiment_name: run}}
`

// fakeRobot compiles the fake robot in C.
func fakeRobot(t *testing.T) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc: scripts/setup test installs it")
	}
	program, from := filepath.Join(t.TempDir(), "robot"), root+"/clients/c/"
	out, err := exec.Command(gcc, "-std=c99", "-O1", "-pthread", "-o", program, from+"fake_robot.c", from+"rlb_robot.c",
		from+"rlb.c", "-lm").CombinedOutput()
	test.OK(t, err, string(out))
	return program
}

// A noted is a line of the robot's log.
type noted struct {
	Event      string
	Action     [2]float32
	Intervened bool
}

// readNotes reads the robot's log in dir, as far as its lines are whole.
func readNotes(t testing.TB, dir string) (all []noted) {
	t.Helper()
	text, _ := os.ReadFile(filepath.Join(dir, "robot.jsonl"))
	for line := range bytes.Lines(text) {
		var n noted
		if bytes.HasSuffix(line, []byte("\n")) {
			test.OK(t, json.Unmarshal(line, &n), string(line))
			all = append(all, n)
		}
	}
	return all
}

// A deed is a transition of a robot: the actions that it took, and whether a person acted.
type deed struct {
	actions [4][2]float32
	taken   int
	guided  bool
}

// is reports whether d has these actions, [C,2].
func (d deed) is(actions tensor.Tensor) bool {
	for k := range d.taken {
		if !slices.Equal(actions.At(k).F32(), d.actions[k][:]) {
			return false
		}
	}
	return true
}

// deeds returns the transitions in the robot's log, with so many actions each, or fewer at the end of an episode.
func deeds(notes []noted, size int) (all []deed) {
	var d deed
	for _, e := range notes {
		if e.Event == "step" {
			d.actions[d.taken] = [2]float32{min(max(e.Action[0], -1), 1), min(max(e.Action[1], -1), 1)}
			d.guided = d.guided || e.Intervened
			d.taken++
		}
		if d.taken == size || d.taken > 0 && e.Event == "reset" {
			all, d = append(all, d), deed{}
		}
	}
	return all
}

// TestRobotTransitions: over a whole job with dropped rollouts, the transitions that the learner has are those of the
// robot's own log, one for one, clipped to the bounds. Those with a person are in the demonstration buffer, too.
func TestRobotTransitions(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 4} {
		t.Run(fmt.Sprint("chunks of ", size), func(t *testing.T) {
			t.Parallel()
			checkTransitions(t, size)
		})
	}
}

func checkTransitions(t *testing.T, size int) {
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", fmt.Sprintf(watched, fakeRobot(t)+" --virtual --person 0.2 --log robot.jsonl"))
	local.ok(t, dir, 0, "-c", "job.yaml", steps(12), "runner.save_interval=12", "actor.micro_batch_size=2",
		"actor.global_batch_size=2", fmt.Sprint("actor.model.num_action_chunks=", size))
	run := filepath.Join(dir, "logs", "run")
	dropped := 0
	for _, n := range readMetrics(t, run).values(t, "rollout/dropped") {
		dropped += int(n)
	}
	saved, _, err := tensor.ReadSafetensors([]byte(readFile(t, filepath.Join(run, "checkpoints", "global_step_12",
		"env.safetensors"))))
	test.OK(t, err)
	saved = saved.Sub("trainer.env")
	actions, flags := saved.Must("replay.action").At(0), saved.Must("replay.intervened").U8()
	did, perRollout, lost := deeds(readNotes(t, dir), size), 20/size, 0
	var guided []deed
	for first := 0; first < actions.Dim(0); first += perRollout {
		fits := func() bool {
			for i, d := range did[:perRollout] {
				if !d.is(actions.At(first + i)) {
					return false
				}
			}
			return true
		}
		for ; len(did) >= perRollout && !fits(); did = did[perRollout:] {
			lost++
		}
		if len(did) < perRollout {
			t.Fatalf("rollout %d of the learner is not in the robot's log", first/perRollout)
		}
		for i, d := range did[:perRollout] {
			test.Equal(t, flags[first+i] != 0, d.guided, "a person acts in transition %d", first+i)
			if d.guided {
				guided = append(guided, d)
			}
		}
		did = did[perRollout:]
	}
	shown := saved.Must("interventions.action").At(0)
	test.Equal(t, shown.Dim(0), len(guided), "transitions with a person")
	for i, d := range guided {
		if !d.is(shown.At(i)) {
			t.Fatalf("transition %d with a person: %v in the robot's log", i, d)
		}
	}
	if lost != dropped || lost == 0 {
		t.Errorf("%d rollouts are missing, and %d were dropped", lost, dropped)
	}
}

// rests reports whether the robot has stopped, and checks that it did so within hold = 3 periods of its last action.
func rests(t testing.TB, dir string) bool {
	notes := readNotes(t, dir)
	if len(notes) == 0 || notes[len(notes)-1].Event != "stop" {
		return false
	}
	for len(notes) > 1 && notes[len(notes)-2].Event == "stop" { // at the hold, and at the end of the program
		notes = notes[:len(notes)-1]
	}
	acted := len(notes) - 1
	for acted > 0 && notes[acted].Event != "step" {
		acted--
	}
	if more := notes[acted+1 : len(notes)-1]; len(more) > 3 || slices.ContainsFunc(more, func(n noted) bool {
		return n.Event != "command"
	}) {
		t.Errorf("after its last step the robot noted %v", more)
	}
	return true
}

// obeysHold checks that the robot never goes on with an action for more than hold = 3 periods. On a busy machine the
// step of an action is noted before its commands, and that of the next action after them.
func obeysHold(t testing.TB, dir string) {
	going := 0
	for i, n := range readNotes(t, dir) {
		if going++; n.Event != "command" {
			going = 0
		}
		if going > 2*3 {
			t.Fatalf("line %d of the robot's log is its command number %d since a step or a stop", i+1, going)
		}
	}
}

// acted returns the number of steps that the robot has taken.
func acted(t testing.TB, dir string) (n int) {
	for _, e := range readNotes(t, dir) {
		if e.Event == "step" {
			n++
		}
	}
	return n
}

// TestRobotStops: however rlinf ends or falls silent, the robot stops within its hold, and no command follows.
func TestRobotStops(t *testing.T) {
	t.Parallel()
	times := 1
	if full {
		times = 10
	}
	for _, how := range []string{"TERM", "KILL", "STOP", "exception", "cut"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			for range times {
				stopRobot(t, how)
			}
		})
	}
}

func stopRobot(t *testing.T, how string) {
	dir := t.TempDir()
	command := fakeRobot(t) + " --period 0.03 --person 0.3 --log robot.jsonl"
	args := []string{"-c", "job.yaml", steps(1e6)}
	if how == "exception" {
		command += " --crash 50"
	}
	cut := func() {}
	if how == "cut" {
		at := fmt.Sprint("127.0.0.1:", freePorts(t))
		args = append(args, "env.train.external.command=[]", "env.train.external.listen=tcp:"+at,
			"env.train.external.token_file="+writeSecret(t, dir))
		var through string
		through, cut = cable(t, at)
		robot := exec.Command("sh", "-c", "exec "+command)
		robot.Dir, robot.Env = dir, append(os.Environ(), "RLB_ADDR=tcp:"+through, "RLB_TOKEN_FILE="+filepath.Join(dir,
			"token"))
		test.OK(t, robot.Start())
		t.Cleanup(func() {
			robot.Process.Kill()
			robot.Wait()
		})
	}
	writeFile(t, dir, "job.yaml", fmt.Sprintf(watched, command))
	j := local.start(t, dir, 0, args...)
	poll(t, j, func() bool { return acted(t, dir) >= 40 })
	switch how {
	case "TERM":
		j.signal(syscall.SIGTERM)
	case "KILL":
		j.signal(syscall.SIGKILL)
	case "STOP":
		j.signal(syscall.SIGSTOP)
	case "cut":
		cut()
	}
	silent := how == "STOP" || how == "cut" // rlinf does not end
	for start := time.Now(); !rests(t, dir) || !silent && !j.over(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > hung {
			t.Fatalf("%s: the robot does not stop: %v\n%s%s", how, readNotes(t, dir), &j.stdout, &j.stderr)
		}
	}
	time.Sleep(10 * 30 * time.Millisecond)
	obeysHold(t, dir)
	if !rests(t, dir) {
		t.Errorf("%s: a command follows the stop", how)
	}
	j.kill()
}

// writeSecret writes the file token in dir, and returns its path.
func writeSecret(t *testing.T, dir string) string {
	path := writeFile(t, dir, "token", "secret of a fake robot\n")
	test.OK(t, os.Chmod(path, 0o600))
	return path
}

// cable returns an address at which connections to the address to are taken on, and a function that cuts them: nothing
// passes then, and neither end is told.
func cable(t *testing.T, to string) (at string, cut func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	test.OK(t, err)
	t.Cleanup(func() { l.Close() })
	var intact sync.RWMutex
	pass := func(to, from net.Conn) {
		for buf := make([]byte, 1<<16); ; {
			n, err := from.Read(buf)
			intact.RLock()
			if _, gone := to.Write(buf[:n]); err != nil || gone != nil {
				from.Close()
				to.Close()
				intact.RUnlock()
				return
			}
			intact.RUnlock()
		}
	}
	go func() {
		for {
			robot, err := l.Accept()
			if err != nil {
				return
			}
			for {
				if rlinf, err := net.Dial("tcp", to); err == nil { // rlinf may not listen yet
					go pass(robot, rlinf)
					go pass(rlinf, robot)
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
	}()
	return l.Addr().String(), func() {
		intact.Lock()
		t.Cleanup(intact.Unlock)
	}
}
