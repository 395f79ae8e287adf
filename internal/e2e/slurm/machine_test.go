package slurm

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
)

// A machine is a running Slurm, and the programs that its jobs run.
type machine struct {
	dir     string   // jobs are submitted in this folder, and write their output there
	slurm   string   // the folder of Slurm's own files
	env     []string // of Slurm's commands
	scripts string
	openmpi platform
	mpich   platform
}

// A platform is rlinf built with an MPI, and the name of that MPI's mpirun.
type platform struct{ rlinf, mpirun string }

const root = "../../.."

// startMachine starts a Slurm. The Slurm ends with the test, even if the test's process is killed.
func startMachine(t *testing.T) *machine {
	t.Helper()
	for _, program := range []string{"slurmctld", "slurmd", "munged"} {
		_, err := exec.LookPath(program)
		if _, inSbin := os.Stat("/usr/sbin/" + program); err != nil && inSbin != nil {
			t.Skipf("no %s: scripts/setup test installs it, or says how", program)
		}
	}
	m := &machine{dir: t.TempDir()}
	var err error
	if m.scripts, err = filepath.Abs(filepath.Join(root, "scripts", "slurm")); err != nil {
		t.Fatal(err)
	}
	m.openmpi, m.mpich = m.build(t, "openmpi", "Open MPI", "OpenRTE"), m.build(t, "mpich", "HYDRA")

	m.slurm = t.TempDir()
	cmd := exec.Command(filepath.Join(m.scripts, "one-machine"), "run", m.slurm, "sh", "-c", `env -0; printf '\0'; cat`)
	cmd.Dir, cmd.Env = m.dir, append(os.Environ(), "CPUS=64") // room for all jobs at once
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	until, err := cmd.StdinPipe() // Slurm stops when this pipe closes, at the end of the test or of its process
	test.OK(t, err)
	out, err := cmd.StdoutPipe()
	test.OK(t, err)
	test.OK(t, cmd.Start())
	t.Cleanup(func() {
		until.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("one-machine: %v\n%s", err, &stderr)
		}
		// the last processes are about to end
		for by := time.Now().Add(20 * time.Second); len(processesOf(m.slurm)) > 0 && time.Now().Before(by); {
			time.Sleep(100 * time.Millisecond)
		}
		for _, p := range processesOf(m.slurm) {
			t.Errorf("left behind: %s", p)
		}
		if left, _ := filepath.Glob(filepath.Join(m.slurm, "*")); left != nil {
			t.Errorf("left behind: %q", left)
		}
	})
	for in := bufio.NewReader(out); ; {
		entry, err := in.ReadString(0)
		if err != nil {
			t.Fatal("one-machine did not start: its standard error is below")
		}
		if entry == "\x00" {
			break
		}
		m.env = append(m.env, strings.TrimSuffix(entry, "\x00"))
	}
	m.env = append(m.env, "TMPDIR="+t.TempDir(), "UCX_LOG_LEVEL=error")
	return m
}

// build builds rlinf with an MPI. mpirun is the mpirun of that MPI.
func (m *machine) build(t *testing.T, mpi string, says ...string) (p platform) {
	t.Helper()
	for _, name := range []string{"mpirun." + mpi, "mpirun"} {
		if text, err := exec.Command(name, "--version").CombinedOutput(); err == nil &&
			slices.ContainsFunc(says, func(s string) bool { return strings.Contains(string(text), s) }) {
			p.mpirun = name
			break
		}
	}
	if p.mpirun == "" {
		t.Skipf("no mpirun of %s: scripts/setup test installs it, or says how", mpi)
	}
	p.rlinf = filepath.Join(m.dir, "rlinf-"+mpi)
	if text, err := exec.Command(filepath.Join(root, "scripts", "build"), "--tags", "mpi", "--mpi", mpi, "--out",
		p.rlinf).CombinedOutput(); err != nil {
		t.Fatalf("build with %s: %v\n%s", mpi, err, text)
	}
	return p
}

// processesOf returns the processes that a Slurm in dir started, one in a line.
func processesOf(dir string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		environ, err := os.ReadFile(filepath.Join(p, "environ"))
		if err == nil && bytes.Contains(append(environ, 0), []byte("SLURM_CONF="+dir+"/etc/slurm.conf\x00")) {
			line, _ := os.ReadFile(filepath.Join(p, "cmdline"))
			found = append(found, filepath.Base(p)+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// command runs a program in the folder of jobs, with further environment variables (NAME=value), and returns its
// output.
func (m *machine) command(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = m.dir, append(append([]string{}, m.env...), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, &stderr)
	}
	return string(out)
}

// A job is a submitted job.
type job struct {
	t  *testing.T
	m  *machine
	id string
}

// A submission is a call of sbatch.
type submission struct {
	env     []string // environment variables of the script, NAME=value
	options []string // further options, after those of two nodes with two ranks each
	script  string   // path of the script, or its name in scripts/slurm
	args    []string // of the script
}

// submit submits a batch script.
func (m *machine) submit(t *testing.T, s submission) job {
	t.Helper()
	if !filepath.IsAbs(s.script) {
		s.script = filepath.Join(m.scripts, s.script+".sbatch")
	}
	args := append([]string{"--parsable", "--nodes=2", "--ntasks-per-node=2", "--cpus-per-task=1", "--time=5"},
		s.options...)
	args = append(append(args, s.script), s.args...)
	// Open MPI's daemons of a node make and remove one folder there for all jobs: two jobs that do so at the same time
	// can fail.
	own := append(slices.Clone(s.env), "TMPDIR="+t.TempDir())
	id, _, _ := strings.Cut(strings.TrimSpace(m.command(t, own, "sbatch", args...)), ";")
	j := job{t, m, id}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("output of job %s:\n%s\nSlurm said of it:\n%s", id, j.output(), j.log())
		}
	})
	return j
}

// output returns the output of a job, or of all tasks of an array.
func (j job) output() string {
	var all strings.Builder
	for _, name := range []string{"*-" + j.id + ".out", "*-" + j.id + "_*.out"} {
		paths, _ := filepath.Glob(filepath.Join(j.m.dir, name))
		for _, path := range paths {
			text, _ := os.ReadFile(path)
			all.Write(text)
		}
	}
	return all.String()
}

// log returns the lines of Slurm's own logs that name the job.
func (j job) log() string {
	var lines strings.Builder
	paths, _ := filepath.Glob(filepath.Join(j.m.slurm, "log", "slurm*.log"))
	named := regexp.MustCompile(`(?i)(job|jobid=|job_id=|\[)\s*` + regexp.QuoteMeta(j.id) + `\b`)
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if named.MatchString(line) {
				lines.WriteString(filepath.Base(path) + ": " + line)
			}
		}
	}
	return lines.String()
}

// A state is what scontrol prints about a job, or about one task of an array: JobState, ExitCode, Restarts, …
type state map[string]string

// states returns the state of a job, or the states of all tasks of an array.
func (j job) states() (all []state) {
	j.t.Helper()
	for line := range strings.Lines(j.m.command(j.t, nil, "scontrol", "show", "job", "--oneliner", j.id)) {
		s := state{}
		for _, word := range strings.Fields(line) {
			if name, value, ok := strings.Cut(word, "="); ok && s[name] == "" {
				s[name] = value
			}
		}
		all = append(all, s)
	}
	return all
}

// hung is the time after which a job counts as hung.
const hung = 5 * time.Minute

// over reports whether a job has ended. Other states are temporary, as SIGNALING near the time limit.
func (s state) over() bool {
	ends := []string{"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "DEADLINE",
		"OUT_OF_MEMORY", "PREEMPTED"}
	return slices.Contains(ends, s["JobState"])
}

// until waits until ok is true for all states.
func (j job) until(what string, ok func(state) bool) []state {
	j.t.Helper()
	for start := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		all := j.states()
		if !slices.ContainsFunc(all, func(s state) bool { return !ok(s) }) {
			return all
		}
		if time.Since(start) > hung || !slices.ContainsFunc(all, func(s state) bool { return !s.over() }) {
			j.t.Fatalf("job %s: not %s after %v: %v", j.id, what, time.Since(start), all)
		}
	}
}

// deserted waits until a job has ended, or has had no rank for half a minute. A rank is a process of rlinf with the
// configuration of the job.
func (j job) deserted(config string) (deserted bool) {
	j.t.Helper()
	last := time.Now() // the last time at which a rank existed, or was not yet expected
	j.until("over", func(s state) bool {
		if s["JobState"] != "RUNNING" {
			last = time.Now()
		}
		if lines, _ := filepath.Glob("/proc/[0-9]*/cmdline"); slices.ContainsFunc(lines, func(line string) bool {
			text, _ := os.ReadFile(line)
			return strings.HasPrefix(string(text), j.m.openmpi.rlinf) && strings.Contains(string(text), config)
		}) {
			last = time.Now()
		}
		deserted = time.Since(last) > 30*time.Second
		return deserted || s.over()
	})
	return deserted
}

// ended waits for the end of a job, and returns its state and exit code, as "COMPLETED 0:0". Each task of an array has
// a line.
func (j job) ended() string {
	j.t.Helper()
	var lines []string
	for _, s := range j.until("over", state.over) {
		lines = append(lines, fmt.Sprint(s["JobState"], " ", s["ExitCode"]))
	}
	return strings.Join(lines, "\n")
}

// wants waits for the end of a job, and compares its state and exit code.
func (j job) wants(how string) {
	j.t.Helper()
	if got := j.ended(); got != how {
		j.t.Fatalf("job %s ended with %s, expected %s", j.id, got, how)
	}
}

// signal sends USR1 to the batch script, as Slurm does before the time limit.
func (j job) signal() { j.m.command(j.t, nil, "scancel", "--batch", "--signal=USR1", j.id) }
