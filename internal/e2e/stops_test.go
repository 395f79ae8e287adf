package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
)

// A stop is a way to stop a running job from outside, and the expected end.
type stop struct {
	name   string
	p      *platform
	below  []string // a program that starts the job in a process group
	args   []string // of the job
	do     func(t *testing.T, j *job, run string)
	code   int // exit code of the job; 0 under MPICH: any code of the launcher
	status runfolder.Status
	orDead bool // STATUS may also be dead, if the launcher is quicker
	orDie  int  // another allowed code, if the launcher dies after the run is done
	prints bool // the job itself prints the commands; otherwise only rlinf status does
	says   string
}

// signals sends sig to the launcher or, without one, to the process.
func signals(sig syscall.Signal) func(*testing.T, *job, string) {
	return func(_ *testing.T, j *job, _ string) { j.signal(sig) }
}

var timeout = []string{"timeout", "--preserve-status", "1h"}

// read sends all output of a job to a cat.
var read = []string{"bash", "-c", `"$@" 2>&1 | cat > /dev/null; exit ${PIPESTATUS[0]}`, "bash"}

// unread kills the cat of read, and checks that the job takes more steps.
func unread(t *testing.T, j *job, run string) {
	for _, p := range j.processes() {
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.pid)); err == nil && string(name) == "cat\n" {
			syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
	goesOn(t, j, run)
}

// goesOn checks that a job takes more steps.
func goesOn(t *testing.T, j *job, run string) {
	done := len(readMetrics(t, run))
	poll(t, j, func() bool { return len(readMetrics(t, run)) > done+1 })
}

var stops = []stop{
	// On ALRM timeout acts as at its time limit: it signals the program, and then the group.
	{name: "timeout", p: local, below: timeout, do: signals(syscall.SIGALRM), code: 143, status: runfolder.Interrupted,
		prints: true},
	{name: "timeout", p: mpich, below: timeout, do: signals(syscall.SIGALRM), status: runfolder.Interrupted,
		prints: true},
	// A terminal signals the whole process group, and a launcher may also pass the signal on to the ranks.
	{name: "Ctrl-C", p: local, below: []string{"setsid"}, do: group(syscall.SIGINT), code: 130,
		status: runfolder.Interrupted, prints: true},
	{name: "Ctrl-C", p: mpich, below: []string{"setsid"}, do: group(syscall.SIGINT), status: runfolder.Interrupted,
		prints: true},
	{name: "closed terminal", p: local, do: signals(syscall.SIGHUP), code: 129, status: runfolder.Interrupted,
		prints: true},
	{name: "closed terminal", p: openmpi, args: []string{"runner.save_interval=1"}, do: signals(syscall.SIGHUP),
		code: 1, status: runfolder.Interrupted, orDead: true, prints: true},
	{name: "closed terminal", p: mpich, args: []string{"runner.save_interval=1"}, do: signals(syscall.SIGHUP),
		code: 129, status: runfolder.Dead},
	{name: "nohup", p: local, below: []string{"nohup"}, do: func(t *testing.T, j *job, run string) {
		j.signal(syscall.SIGHUP)
		goesOn(t, j, run)
		j.signal(syscall.SIGUSR1)
	}, code: 75, status: runfolder.Checkpointed, prints: true},
	{name: "lost reader", p: local, below: read, args: []string{steps(60)}, do: unread, status: runfolder.Done},
	{name: "lost reader", p: openmpi, below: read, args: []string{steps(60)}, do: unread, orDie: 141,
		status: runfolder.Done},
	{name: "lost reader", p: mpich, below: read, args: []string{steps(60), "runner.save_interval=1"}, do: unread,
		code: 141, status: runfolder.Done, orDead: true},
	{name: "USR1", p: local, do: signals(syscall.SIGUSR1), code: 75, status: runfolder.Checkpointed, prints: true},
	{name: "USR1", p: openmpi, do: signals(syscall.SIGUSR1), code: 75, status: runfolder.Checkpointed, prints: true},
	{name: "kill -9", p: local, args: []string{"runner.save_interval=1"}, do: signals(syscall.SIGKILL), code: 137,
		status: runfolder.Dead},
	{name: "SIGSTOP", p: local, do: func(t *testing.T, j *job, run string) {
		j.signal(syscall.SIGSTOP)
		j.signal(syscall.SIGTERM) // the stopped process gets this signal when it continues
		if s, err := runfolder.ReadStatus(run); s != runfolder.Running || err != nil {
			t.Errorf("while it is stopped: STATUS %q, %v", s, err)
		}
		j.signal(syscall.SIGCONT)
	}, code: 143, status: runfolder.Interrupted, prints: true},
	{name: "SIGSTOP", p: openmpi, args: []string{"runner.save_interval=1", "comm.stall_timeout=2s"},
		do: rank(1, syscall.SIGSTOP), code: 76,
		status: runfolder.Failed, prints: true, says: "rank 1 (host %, pid %) has been silent for %ends the job with " +
			"exit code 76"},
}

// group signals the process group of the job.
func group(sig syscall.Signal) func(*testing.T, *job, string) {
	return func(t *testing.T, j *job, _ string) {
		test.Check(t, syscall.Kill(-j.cmd.Process.Pid, sig))
	}
}

// rank signals a rank.
func rank(n int, sig syscall.Signal) func(*testing.T, *job, string) {
	return func(t *testing.T, _ *job, run string) {
		test.Check(t, syscall.Kill(processOf(t, run, n), sig))
	}
}

// TestStops stops jobs in each of these ways. There is a checkpoint, STATUS is right, and the printed command resumes
// the run.
func TestStops(t *testing.T) {
	t.Parallel()
	for _, s := range stops {
		t.Run(s.name+"/"+s.p.name, func(t *testing.T) {
			t.Parallel()
			s.p.program(t, ".") // or skip the test
			for instant := range repeats() {
				s.try(t, instant)
			}
		})
	}
}

func (s stop) try(t *testing.T, instant int) {
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", good)
	run := filepath.Join(dir, "logs", "job")
	args := append([]string{"-c", "job.yaml", "runner.max_steps=1000000", "env.train.step_delay=1ms",
		"runner.save_interval=-1"}, s.args...)
	j := s.p.startBelow(t, s.below, s.p.program(t, "."), dir, 2, args...)
	poll(t, j, func() bool { return len(readMetrics(t, run)) > 1+instant })
	s.do(t, j, run)
	r := j.result()
	if (s.code != 0 || s.p != mpich) && r.code != s.code && (s.orDie == 0 || r.code != s.orDie) {
		t.Errorf("exit code %d, want %d", r.code, s.code)
	}
	got, err := statusAtEnd(run)
	printed := printedCommand(r.stdout+r.stderr, "resume") != ""
	if s.orDead && got == runfolder.Dead {
		s.status, s.prints = got, printed // the commands may appear before STATUS, and before the end of the job
	}
	if got != s.status || err != nil {
		t.Errorf("STATUS %q, %v, want %q", got, err, s.status)
	}
	if _, err := checkpoint.Load(filepath.Join(run, "checkpoints", "latest")); err != nil {
		t.Error(err)
	}
	if s.says != "" && (count(r.stderr, s.says) != 1 || strings.Contains(r.stderr, "goroutine ")) {
		t.Errorf("want once, and no stacks: %s", s.says)
	}
	// The launcher wakes the stopped rank, which then writes messages, too. The launcher has its own messages.
	others := regexp.MustCompile(`(?m)^(rank 1 host |\[).*\n`).ReplaceAllString(r.stderr, "")
	if s.says != "" && !strings.HasSuffix(before(others, "MPI_ABORT", "application called", "=====", "-----"),
		"exit code 76\n") {
		t.Errorf("the line that names the culprit is not rlinf's last")
	}
	test.Equal(t, printed, s.prints, "it prints the next command")
	told := local.ok(t, dir, 0, "status", filepath.Join("logs", "job"))
	if !strings.Contains(told.stdout, fmt.Sprintf("logs/job: %s after step ", s.status)) {
		t.Errorf("rlinf status says %s", told.stdout)
	}
	if t.Failed() {
		t.Fatalf("%s%s", r.stdout, r.stderr)
	}

	// The printed command resumes the run. The command of rlinf status has no launcher, because that binary has no MPI.
	next := printedCommand(r.stdout+r.stderr, "resume")
	if next == "" {
		next = printedCommand(told.stdout, "resume")
	}
	done := len(readMetrics(t, run))
	if launcher, _ := s.p.launcher(); launcher != "" && s.prints { // the launcher's name
		next = strings.Join(append([]string{launcher}, s.p.flags...), " ") + next[strings.Index(next, " -np "):]
	}
	cmd := exec.Command("sh", "-c", fmt.Sprintf("%s runner.max_steps=%d", next, done+2))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", next, err, text)
	}
	if got := readStatus(t, run); got != runfolder.Done || len(readMetrics(t, run)) != done+2 {
		t.Errorf("%s: STATUS %q, %d iterations, want %d", next, got, len(readMetrics(t, run)), done+2)
	}
}

// statusAtEnd returns the status of a run whose job has ended. wait counts a process without an environment as ended,
// although the process may not be quite over, so statusAtEnd may have to wait.
func statusAtEnd(run string) (s runfolder.Status, err error) {
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if s, err = runfolder.ReadStatus(run); s != runfolder.Running || time.Since(start) > 5*time.Second {
			return s, err
		}
	}
}

// before returns text up to the first line that contains one of the words.
func before(text string, ends ...string) (head string) {
	for line := range strings.Lines(text) {
		for _, end := range ends {
			if strings.Contains(line, end) {
				return head
			}
		}
		head += line
	}
	return head
}
