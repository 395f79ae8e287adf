package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
)

// full asks for all cases of the tests, and not only samples.
var full = os.Getenv("RLINF_TEST_FULL") != ""

// A platform is a way to start the ranks of a job.
type platform struct {
	name    string
	build   []string // arguments of scripts/build
	names   []string // of the launcher, and what its --version says; none: the process starts its ranks itself
	says    string
	flags   []string // of the launcher
	install string   // how to install what is missing

	of    *platform // nil, or the platform whose programs this one runs in another way
	env   []string  // more variables of its jobs
	hosts int       // number of hosts, by scripts/hosts
	first int       // number of the first host
	slow  string    // a host, and the rate at which it gets what is sent to it; "": all are as fast as they can

	mu       sync.Mutex
	programs map[string]program // by package
}

type program struct {
	path string
	err  error
}

// The platforms: goroutines of one process, in a build that needs only Go, and two MPIs.
var (
	local   = &platform{name: "local", build: []string{"--tags", ""}}
	openmpi = &platform{
		name: "openmpi", build: []string{"--tags", "mpi", "--mpi", "openmpi"},
		names: []string{"mpirun.openmpi", "mpirun"}, says: "Open MPI",
		flags:   []string{"--oversubscribe", "--bind-to", "none"},
		install: "apt-get install openmpi-bin libopenmpi-dev pkg-config gcc",
	}
	mpich = &platform{
		name: "mpich", build: []string{"--tags", "mpi", "--mpi", "mpich"},
		names: []string{"mpirun.mpich", "mpiexec.hydra", "mpirun"}, says: "HYDRA",
		install: "apt-get install mpich libmpich-dev pkg-config gcc",
	}
	platforms = []*platform{local, openmpi, mpich}
)

// errMissing is the error of a build that lacks something that can be installed.
var errMissing = errors.New("not on this machine")

// bin is the folder of the built programs.
var bin string

func TestMain(m *testing.M) {
	// If HUP is ignored, as under nohup, jobs would inherit that. Notify prevents this.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	client, err := filepath.Abs(filepath.Join(root, "clients", "python"))
	if err == nil {
		bin, err = os.MkdirTemp("", "rlinf-e2e-")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("PYTHONPATH", client)
	os.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	code := m.Run()
	os.RemoveAll(bin)
	os.Exit(code)
}

// program returns the path of the main package pkg ("." is rlinf itself), built for p. It builds each program once for
// all tests.
func (p *platform) program(t testing.TB, pkg string) string {
	t.Helper()
	if p.of != nil {
		return p.of.program(t, pkg)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	prog, ok := p.programs[pkg]
	if !ok {
		prog.path, prog.err = p.compile(pkg)
		if p.programs == nil {
			p.programs = map[string]program{}
		}
		p.programs[pkg] = prog
	}
	if errors.Is(prog.err, errMissing) {
		t.Skipf("%s: %v; %s", p.name, prog.err, p.install)
	}
	if prog.err != nil {
		t.Fatal(prog.err)
	}
	return prog.path
}

// with returns the platform whose jobs have one more variable.
func (p *platform) with(variable string) *platform {
	return &platform{name: p.name, names: p.names, says: p.says, flags: p.flags, of: p, env: []string{variable}}
}

const root = "../.."

func (p *platform) compile(pkg string) (string, error) {
	if _, err := p.launcher(); err != nil {
		return "", err
	}
	// Go's test cache must know the sources of the program: it watches the folders that a test reads.
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "logs") {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		return "", err
	}
	out := filepath.Join(bin, p.name, filepath.Base(pkg), "rlinf")
	text, err := exec.Command(filepath.Join(root, "scripts", "build"),
		slices.Concat(p.build, []string{"--out", out, "--package", pkg})...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 2 {
		return "", fmt.Errorf("%w: %s", errMissing, bytes.TrimSpace(text))
	}
	if err != nil {
		return "", fmt.Errorf("build %s for %s: %w\n%s", pkg, p.name, err, text)
	}
	return out, nil
}

// launcher returns the launcher's name; "" if it is not installed.
func (p *platform) launcher() (string, error) {
	for _, name := range p.names {
		if text, err := exec.Command(name, "--version").CombinedOutput(); err == nil &&
			strings.Contains(string(text), p.says) {
			return name, nil
		}
	}
	if len(p.names) > 0 {
		return "", fmt.Errorf("%w: no launcher %s", errMissing, p.names[0])
	}
	return "", nil
}

// A job is a running rlinf.
type job struct {
	t              testing.TB
	cmd            *exec.Cmd
	launcher       string // "": the job is a process of its own
	mark           string // in the environment of all processes of the job
	folder         string // of its hosts; "": there is one host
	stdout, stderr bytes.Buffer
	ended          chan struct{}
	code           int           // exit code, valid after the end
	lasted         time.Duration // how long the last process lived after the launcher
}

// jobs numbers the jobs, so that their processes can be told apart.
var jobs = struct {
	sync.Mutex
	n int
}{}

// marker is the environment variable that identifies the processes of a job.
const marker = "RLINF_E2E_JOB"

// start starts rlinf with args on np ranks, in the folder dir. 0 means no launcher, and as many ranks as rlinf chooses.
// The test ends only after the job.
func (p *platform) start(t testing.TB, dir string, np int, args ...string) *job {
	t.Helper()
	return p.startProgram(t, p.program(t, "."), dir, np, args...)
}

// startProgram is start for another program.
func (p *platform) startProgram(t testing.TB, path, dir string, np int, args ...string) *job {
	t.Helper()
	return p.startBelow(t, nil, path, dir, np, args...)
}

// startBelow is startProgram with a command in front of the command of the job.
func (p *platform) startBelow(t testing.TB, above []string, path, dir string, np int, args ...string) *job {
	t.Helper()
	line := append([]string{path}, args...)
	launcher, err := p.launcher()
	switch {
	case err != nil:
		t.Fatal(err)
	case launcher != "":
		line = slices.Concat([]string{launcher}, p.flags, []string{"-np", strconv.Itoa(np)}, line)
	case np > 0:
		line = append(line, "-np", strconv.Itoa(np))
	}
	jobs.Lock()
	jobs.n++
	j := &job{t: t, launcher: launcher, mark: fmt.Sprintf("%s=%d.%d", marker, os.Getpid(), jobs.n),
		ended: make(chan struct{})}
	// Two launchers of Open MPI that create one folder at the same time can fail.
	own := filepath.Join(bin, fmt.Sprint("job-", jobs.n))
	jobs.Unlock()
	test.OK(t, os.Mkdir(own, 0o777))
	if p.hosts > 0 {
		j.folder = filepath.Join(own, "hosts")
		line = slices.Concat([]string{hostsScript(t), "run", j.folder, strconv.Itoa(p.hosts)}, line)
	}
	line = slices.Concat(above, line)
	j.cmd = exec.Command(line[0], line[1:]...)
	j.cmd.Dir = dir
	j.cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", j.mark,
		// Files that a killed Open MPI leaves are removed with bin.
		"TMPDIR="+own, "OMPI_MCA_btl_vader_backing_directory="+own)
	j.cmd.Env = append(j.cmd.Env, p.env...)
	if p.hosts > 0 {
		j.cmd.Env = append(j.cmd.Env, fmt.Sprint("SLOTS=", (np+p.hosts-1)/p.hosts), fmt.Sprint("FIRST=", p.first),
			"SLOW="+p.slow)
	}
	j.cmd.Stdout, j.cmd.Stderr = &j.stdout, &j.stderr
	j.cmd.WaitDelay = 5 * time.Second
	test.OK(t, j.cmd.Start())
	go func() {
		defer close(j.ended)
		j.cmd.Wait()
		j.code = j.cmd.ProcessState.ExitCode()
		if j.code < 0 { // the launcher was killed by a signal
			j.code = 128 + int(j.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
		}
	}()
	t.Cleanup(func() {
		j.kill()
		<-j.ended
	})
	return j
}

// hung is the time after which a job that should have ended counts as hung.
const hung = 5 * time.Minute

// wait returns the exit code after the job and all its processes have ended. It kills a launcher that stays after all
// ranks have ended, as Open MPI's sometimes does (docs/known-issues.md).
func (j *job) wait() int {
	j.t.Helper()
	deadline := time.NewTimer(hung)
	defer deadline.Stop()
	look := time.NewTicker(10 * time.Second)
	defer look.Stop()
	for alone := 0; !j.over(); {
		select {
		case <-j.ended:
		case <-look.C:
			if alone++; j.ranks() > 0 {
				alone = 0
			}
			if alone == 4 {
				j.kill()
				<-j.ended
				j.t.Logf("%v: all ranks were gone and their launcher stayed: killed it\n%s", j.cmd.Args, &j.stderr)
			}
		case <-deadline.C:
			j.kill()
			<-j.ended
			j.t.Fatalf("%v: not over after %v\n%s%s", j.cmd.Args, hung, &j.stdout, &j.stderr)
		}
	}
	start := time.Now()
	for ; len(j.processes()) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			left := j.processes()
			j.kill()
			j.t.Fatalf("%v: processes are left: %v\n%s%s", j.cmd.Args, left, &j.stdout, &j.stderr)
		}
	}
	j.lasted = time.Since(start)
	return j.code
}

// over reports whether the job has ended.
func (j *job) over() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

// poll waits until what returns true. The test fails if the job ends before.
func poll(t *testing.T, j *job, what func() bool) {
	t.Helper()
	for start := time.Now(); !what(); time.Sleep(5 * time.Millisecond) {
		if j.over() || time.Since(start) > hung {
			t.Fatalf("the job ended, or hangs\n%s%s", &j.stdout, &j.stderr)
		}
	}
}

// A process is a process of a job.
type process struct {
	pid  int
	rank int // in MPI_COMM_WORLD; -1: a process of the launcher, or one without a launcher
}

// processes returns the job's living processes.
func (j *job) processes() []process {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		j.t.Fatal(err)
	}
	var found []process
	for _, dir := range dirs {
		environ, err := os.ReadFile(filepath.Join(dir, "environ"))
		// a process of another user, or one that has ended; a zombie has no environment
		if err != nil || !bytes.Contains(append(environ, 0), []byte(j.mark+"\x00")) {
			continue
		}
		p := process{rank: -1}
		p.pid, _ = strconv.Atoi(filepath.Base(dir))
		if m := rankOf.FindSubmatch(environ); m != nil {
			p.rank, _ = strconv.Atoi(string(m[1]))
		}
		found = append(found, p)
	}
	return found
}

// ranks returns the number of the job's processes that are ranks. Without a launcher all processes are ranks.
func (j *job) ranks() int {
	n := 0
	for _, p := range j.processes() {
		if p.rank >= 0 || j.launcher == "" {
			n++
		}
	}
	return n
}

// rankOf returns the rank from the environment that a launcher gives to a process.
var rankOf = regexp.MustCompile(`(?:^|\x00)(?:OMPI_COMM_WORLD_RANK|PMI_RANK)=(\d+)`)

// killAt kills a rank after a time, or when the job has ended; without such a rank it kills the whole job. It waits for
// the end, and returns what it killed.
func (j *job) killAt(at time.Duration, rank int) (whom string) {
	select {
	case <-j.ended:
	case <-time.After(at):
	}
	whom = fmt.Sprint("rank ", rank)
	if !j.killRank(rank) {
		whom = "the job"
		j.kill()
	}
	j.wait()
	return whom
}

// kill ends all processes of the job by SIGKILL, including processes that they start meanwhile.
func (j *job) kill() {
	for left := j.processes(); len(left) > 0; left = j.processes() {
		for _, p := range left {
			syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
}

// stopped reports whether code is the exit code of a job that a signal stopped and whose program exits with want.
// MPICH's launcher sometimes returns 0 (docs/known-issues.md).
func (p *platform) stopped(code, want int) bool { return code == want || p == mpich && code == 0 }

// signal sends sig to the launcher or, without one, to the process.
func (j *job) signal(sig syscall.Signal) { j.cmd.Process.Signal(sig) }

// A result has the exit code and the output of a job.
type result struct {
	code           int
	stdout, stderr string
}

// run runs rlinf with args on np ranks in the folder dir.
func (p *platform) run(t testing.TB, dir string, np int, args ...string) result {
	t.Helper()
	return p.start(t, dir, np, args...).result()
}

// result waits for the job to end.
func (j *job) result() result {
	j.t.Helper()
	code := j.wait()
	return result{code, j.stdout.String(), j.stderr.String()}
}

// ok runs a job that must succeed.
func (p *platform) ok(t testing.TB, dir string, np int, args ...string) result {
	t.Helper()
	r := p.run(t, dir, np, args...)
	if r.code != 0 {
		t.Fatalf("%s, %d ranks, %q: exit code %d\n%s%s", p.name, np, args, r.code, r.stdout, r.stderr)
	}
	return r
}

// writeFile writes a file for a job to read, and returns its path.
func writeFile(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	test.OK(t, os.WriteFile(path, []byte(text), 0o666))
	return path
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	text := test.Must(os.ReadFile(path))(t)
	return string(text)
}
