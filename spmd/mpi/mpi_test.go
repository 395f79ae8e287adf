package mpi_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// These tests run without MPI in their own build: they build internal/ranktest with each MPI of the machine, and
// start it under the launcher of that MPI.

// A flavour is one MPI library: its name for scripts/build, and its launchers.
type flavour struct {
	name      string
	launchers []string // names of the launcher; the first one whose --version prints `says` is used
	says      string
	args      []string
	install   string
	// endsOverTCP says that jobs without shared memory end at once. With MPICH 4.0.2 over UCX's TCP, MPI_Finalize
	// often takes 10 s: see docs/known-issues.md.
	endsOverTCP bool

	setup func() (rig, error) // runs once
}

// A rig is what the tests of one flavour use.
type rig struct {
	launcher []string
	program  string
	dir      string
	cflags   string
	ldflags  string
}

// errMissing is the error of a setup that lacks software which can be installed.
var errMissing = errors.New("not on this machine")

func flavours() []*flavour {
	all := []*flavour{
		{
			name: "openmpi", launchers: []string{"mpirun.openmpi", "mpirun"}, says: "Open MPI",
			args:        []string{"--oversubscribe", "--bind-to", "none"},
			install:     "apt-get install openmpi-bin libopenmpi-dev pkg-config gcc",
			endsOverTCP: true,
		},
		{
			name: "mpich", launchers: []string{"mpirun.mpich", "mpiexec.hydra", "mpirun"}, says: "HYDRA",
			install: "apt-get install mpich libmpich-dev pkg-config gcc",
		},
	}
	for _, f := range all {
		f.setup = sync.OnceValues(f.build)
	}
	return all
}

var built = flavours()

// build builds the program, once for all tests.
func (f *flavour) build() (rig, error) {
	var r rig
	// Go's test cache must notice changes of the program's sources. It watches the folders that a test reads.
	for _, root := range []string{"..", filepath.Join("..", "..", "scripts")} {
		if err := filepath.WalkDir(root, func(string, os.DirEntry, error) error { return nil }); err != nil {
			return r, err
		}
	}
	for _, name := range f.launchers {
		if text, err := exec.Command(name, "--version").CombinedOutput(); err == nil &&
			strings.Contains(string(text), f.says) {
			r.launcher = append([]string{name}, f.args...)
			break
		}
	}
	if r.launcher == nil {
		return r, fmt.Errorf("%w: no launcher", errMissing)
	}
	dir, err := os.MkdirTemp("", "rlinf-ranktest-"+f.name+"-")
	if err != nil {
		return r, err
	}
	r.dir, r.program = dir, filepath.Join(dir, "ranktest")
	script := filepath.Join("..", "..", "scripts", "build")
	text, err := exec.Command(script, "--tags", "mpi", "--mpi", f.name, "--out", r.program, "--package",
		"./spmd/mpi/internal/ranktest").CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 2 {
		return r, fmt.Errorf("%w: %s", errMissing, text)
	}
	if err != nil {
		return r, fmt.Errorf("%v\n%s", err, text)
	}
	env, err := exec.Command("bash", "-c", `eval "$(`+script+` --env --tags mpi --mpi `+f.name+`)" && echo `+
		`"$CGO_CFLAGS" && echo "$CGO_LDFLAGS"`).Output()
	if err != nil {
		return r, err
	}
	lines := strings.Split(string(env), "\n")
	r.cflags, r.ldflags = lines[0], lines[1]
	return r, nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, f := range built {
		if r, _ := f.setup(); r.dir != "" {
			os.RemoveAll(r.dir)
		}
	}
	os.Exit(code)
}

// each runs a test with every MPI, beside other tests: ranks mostly wait.
func each(t *testing.T, test func(t *testing.T, f *flavour, r rig)) {
	t.Parallel()
	eachAlone(t, test)
}

// eachAlone is each for a test that measures.
func eachAlone(t *testing.T, test func(t *testing.T, f *flavour, r rig)) {
	for _, f := range built {
		t.Run(f.name, func(t *testing.T) {
			r, err := f.setup()
			if errors.Is(err, errMissing) {
				t.Skipf("%v; %s", err, f.install)
			}
			if err != nil {
				t.Fatal(err)
			}
			test(t, f, r)
		})
	}
}

// A job is one run of the program under the launcher.
type job struct {
	np      int
	env     []string
	flags   []string // of the launcher
	command []string // nil: the program with args
	args    []string
}

// run starts the job and returns its output and exit code. It is an error if a process outlives the launcher, or if a
// job takes longer than five minutes.
func (r rig) run(t *testing.T, j job) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd, ended := r.command(ctx, t, j)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%v: not over after five minutes\n%s", cmd.Args, text.String())
	}
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	code = cmd.ProcessState.ExitCode()
	if code < 0 { // a signal ended the launcher itself
		code = 128 + int(cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
	ended(&text)
	return text.String(), code
}

// command returns the job's command. ended waits for the end of its ranks, and fails the test if one is left.
func (r rig) command(ctx context.Context, t *testing.T, j job) (cmd *exec.Cmd, ended func(text fmt.Stringer)) {
	t.Helper()
	pids := t.TempDir()
	line := slices.Concat(r.launcher[1:], j.flags, []string{"-np", strconv.Itoa(j.np)}, j.command)
	if j.command == nil {
		line = append(append(line, r.program), j.args...)
	}
	cmd = exec.CommandContext(ctx, r.launcher[0], line...)
	cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"RANKTEST_PIDS="+pids,
		"OMPI_MCA_orte_tmpdir_base="+own(t)) // launchers that start at once must not share it
	cmd.Env = append(cmd.Env, j.env...)
	cmd.WaitDelay = 5 * time.Second
	return cmd, func(text fmt.Stringer) {
		t.Helper()
		left, err := os.ReadDir(pids)
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range left {
			for deadline := time.Now().Add(10 * time.Second); alive(pid.Name()); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%v: process %s is left\n%s", cmd.Args, pid.Name(), text)
				}
			}
		}
	}
}

// own returns a folder for this test with a short name, because names of sockets contain it.
func own(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// alive reports whether a process still runs. A zombie does not.
func alive(pid string) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	return err == nil && !regexp.MustCompile(`\) [ZX] `).Match(stat)
}

// ok runs a job that must succeed.
func (r rig) ok(t *testing.T, j job) string {
	t.Helper()
	out, code := r.run(t, j)
	if code != 0 {
		t.Fatalf("%d ranks, %v: exit code %d\n%s", j.np, j.args, code, out)
	}
	return out
}

// sizes returns the sizes of worlds to test with this MPI: all in a full run, otherwise a sample. The sample of the
// second MPI is smaller, because only the messages differ.
func sizes(f *flavour) []int {
	switch {
	case os.Getenv("RLINF_TEST_FULL") != "":
		return []int{1, 2, 3, 4, 5, 8}
	case f == built[0]:
		return []int{1, 3, 5}
	}
	return []int{2, 5}
}

func TestConformance(t *testing.T) {
	each(t, func(t *testing.T, f *flavour, r rig) {
		for _, np := range sizes(f) {
			if out := r.ok(t, job{np: np, args: []string{"cases"}}); !regexp.MustCompile(
				`(?m)^[1-9]\d* cases$`).MatchString(out) {
				t.Errorf("%d ranks: no cases were run\n%s", np, out)
			}
		}
	})
}

// Messages between ranks of a node go through shared memory, or by MPI if there is none.
func TestMessages(t *testing.T) {
	each(t, func(t *testing.T, f *flavour, r rig) {
		for _, np := range sizes(f) {
			r.ok(t, job{np: np, args: []string{"messages"}})
		}
		r.ok(t, job{np: 3, env: []string{"RLINF_SHM=off"}, args: []string{"messages"}})
		r.ok(t, job{np: 5, env: []string{"RLINF_SHM=2"}, args: []string{"messages"}})
		if f.endsOverTCP { // over TCP the libraries move data in other ways
			r.ok(t, job{np: 3, env: overTCP, args: []string{"messages"}})
		}
	})
}

// A rank waits at once for its neighbour on a node of two and for a rank of another node. Either message may come
// first.
func TestWaitsForNodeAndNetwork(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) {
		t.Log(r.ok(t, job{np: 4, env: []string{"RLINF_SHM=2"}, args: []string{"mixed"}}))
	})
}

// overTCP returns the environment that makes the library use TCP instead of shared memory.
var overTCP = []string{"RLINF_SHM=off", "OMPI_MCA_btl=tcp,self", "OMPI_MCA_btl_tcp_if_include=lo"}

func TestDescribe(t *testing.T) {
	each(t, func(t *testing.T, f *flavour, r rig) {
		library := map[string]string{"openmpi": "Open MPI v.*, mpirun", "mpich": "MPICH Version: .*, mpiexec"}[f.name]
		for _, with := range []struct {
			env    []string
			shared string
		}{
			{nil, `[0-9.]+ GiB per rank`},
			{[]string{"RLINF_SHM=off"}, `none: RLINF_SHM=off`},
			{[]string{"RLINF_SHM=2"}, `[0-9.]+ GiB per rank`},
		} {
			nodes := "0 0 0"
			if slices.Contains(with.env, "RLINF_SHM=2") {
				nodes = "0 0 1"
			}
			out := r.ok(t, job{np: 3, env: with.env, args: []string{"describe"}})
			for rank := range 3 {
				if !regexp.MustCompile(fmt.Sprintf(`(?m)^rank %d of 3, nodes \[%s\], %s, threads multiple, shared %s$`,
					rank, nodes, library, with.shared)).MatchString(out) {
					t.Errorf("%v: no line of rank %d in\n%s", with.env, rank, out)
				}
			}
		}
		// If one rank cannot share memory, none does. That rank says why, and the others say whose memory they cannot
		// reach.
		out := r.ok(t,
			job{np: 1, command: []string{"env", "RLINF_SHM=off", r.program, "describe", ":", "-np", "1", r.program,
				"describe"}})
		for _, want := range []string{`(?m)^rank 0 of 2,.* shared none: RLINF_SHM=off$`,
			`(?m)^rank 1 of 2,.* shared none: .* rank 0 \(pid \d+\) .* has none to share$`} {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("no %s in\n%s", want, out)
			}
		}
	})
}

// MPI knows a communicator with its name and members for the world and for each group.
func TestCommunicators(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) {
		out := r.ok(t, job{np: 4, args: []string{"spaces"}})
		var got []string
		for _, line := range strings.Split(out, "\n") {
			if strings.Contains(line, " is in ") {
				got = append(got, line)
			}
		}
		slices.Sort(got)
		want := []string{
			`rank 0 is in "actor" of ranks [3 0]`,
			`rank 0 is in "rollout" of ranks [3 0]`,
			`rank 0 is in "world" of ranks [0 1 2 3]`,
			`rank 1 is in "world" of ranks [0 1 2 3]`,
			`rank 2 is in "world" of ranks [0 1 2 3]`,
			`rank 3 is in "actor" of ranks [3 0]`,
			`rank 3 is in "env" of ranks [3]`,
			`rank 3 is in "rollout" of ranks [3 0]`,
			`rank 3 is in "world" of ranks [0 1 2 3]`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// A profiler sees the messages that MPI carries for a group under the name of the group, and only these.
func TestProfilersSeeGroups(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) {
		preload := r.compile(t, "profile.c", "-shared", "-fPIC")
		out := r.ok(t,
			job{np: 4, command: []string{"env", "RLINF_SHM=off", "LD_PRELOAD=" + preload, r.program, "spaces"}})
		var got []string
		for _, line := range strings.Split(out, "\n") {
			if strings.HasPrefix(line, "profile of ") {
				got = append(got, line)
			}
		}
		slices.Sort(got)
		// Two of the three actors are on rank 0. Each member sends one byte.
		want := []string{
			"profile of rank 0: 1 in rollout", "profile of rank 0: 2 in actor",
			"profile of rank 3: 1 in actor", "profile of rank 3: 1 in rollout",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s\nin\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), out)
		}
	})
}

// One program in several app contexts is one world. A foreign program is not part of it.
func TestSeveralPrograms(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) {
		foreign := r.compile(t, "foreign.c")
		out := r.ok(t,
			job{np: 1, command: []string{foreign, ":", "-np", "1", r.program, "describe", ":", "-np", "2", r.program,
				"describe"}})
		for _, want := range []string{"foreign: a world of 1\n", "rank 0 of 3,", "rank 1 of 3,", "rank 2 of 3,"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	})
}

// compile compiles a C file of testdata with the flags of this MPI.
func (r rig) compile(t *testing.T, name string, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), strings.TrimSuffix(name, ".c"))
	args := slices.Concat(strings.Fields(r.cflags), flags, []string{"-o", out, filepath.Join("testdata", name)},
		strings.Fields(r.ldflags))
	if text, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %v: %v\n%s", args, err, text)
	}
	return out
}

// A job ends with its exit code even if MPI_Finalize does not return on a rank, while the others wait for that rank
// or after they have left MPI_Finalize. No output is lost, and the launcher takes no process for crashed.
func TestFinalizeHangs(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) {
		preload := r.compile(t, "hang.c", "-shared", "-fPIC")
		for _, hangs := range []string{"HANG_BEFORE=0", "HANG_AFTER=1"} {
			for _, want := range []int{0, 75} {
				t.Run(fmt.Sprint(hangs, ", exit code ", want), func(t *testing.T) {
					t.Parallel()
					j := job{np: 3, command: []string{"env", hangs, "LD_PRELOAD=" + preload, r.program, "end",
						strconv.Itoa(want)}}
					out, code := r.run(t, j)
					for range 3 {
						if !strings.Contains(out, "(PMIx_server_finalize+") { // docs/known-issues.md
							break
						}
						t.Log("mpirun has crashed at its end")
						out, code = r.run(t, j)
					}
					if code != want {
						t.Errorf("exit code %d, want %d", code, want)
					}
					// Open MPI ends a job at the first exit code other than 0, perhaps before a rank hangs that is
					// later than the others.
					var lines []string
					if hangs == "HANG_BEFORE=0" || want == 0 {
						lines = append(lines, "rank "+hangs[len(hangs)-1:]+" hangs")
					}
					if hangs == "HANG_BEFORE=0" {
						lines = append(lines,
							"MPI_Finalize has not returned for 10s: the job is done and ends without it")
					}
					for rank := 0; want == 0 && rank < 3; rank++ {
						lines = append(lines, fmt.Sprintf("rank %d ends with 0", rank))
					}
					for _, line := range lines {
						if strings.Count(out, line+"\n") != 1 {
							t.Errorf("not once: %s", line)
						}
					}
					if strings.Contains(out, "BAD TERMINATION") || strings.Contains(out, "improperly") {
						t.Error("the launcher complains")
					}
					if t.Failed() {
						t.Log(out)
					}
				})
			}
		}
	})
}

// A foreign program may take longer to call MPI_Finalize than this program waits in jobs of its own.
func TestFinalizeAwaitsForeignPrograms(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) {
		t.Parallel()
		foreign := r.compile(t, "foreign.c")
		out := r.ok(t, job{np: 1, command: []string{foreign, "12", ":", "-np", "2", r.program, "end", "0"}})
		for _, want := range []string{"foreign: a world of 1\n", "rank 0 ends with 0\n", "rank 1 ends with 0\n"} {
			if strings.Count(out, want) != 1 || strings.Contains(out, "has not returned") {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	})
}

func TestCloseNamesOpenRequests(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) { r.ok(t, job{np: 3, args: []string{"leak"}}) })
}

func TestCommMismatch(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) {
		out, code := r.run(t, job{np: 3, args: []string{"mismatch"}})
		if code != 1 || !strings.Contains(out, "makes another communicator at this point") {
			t.Errorf("exit code %d, want 1 and an error that names the rank\n%s", code, out)
		}
	})
}

func TestSignals(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) { r.ok(t, job{np: 2, args: []string{"signals"}}) })
}

func TestNoAllocations(t *testing.T) {
	eachAlone(t, func(t *testing.T, _ *flavour, r rig) { r.ok(t, job{np: 2, args: []string{"allocs"}}) })
}

func TestProgressWhileComputing(t *testing.T) {
	eachAlone(t, func(t *testing.T, f *flavour, r rig) {
		for _, by := range []struct {
			name string
			env  []string
		}{
			{"shared memory", nil},
			{"by MPI", []string{"RLINF_SHM=off"}},
			{"tcp", overTCP},
			{"no single copy", []string{"RLINF_SHM=off", "OMPI_MCA_btl_vader_single_copy_mechanism=none"}},
		} {
			if by.name != "tcp" || f.endsOverTCP {
				t.Log(by.name, r.ok(t, job{np: 2, env: by.env, args: []string{"progress", t.TempDir()}}))
			}
		}
	})
}

// A spinning wait uses a whole core, and a wait here should use less than 5 % of one. The bound of 20 % leaves room
// for a loaded machine. A virtual machine may also count time in which it stood still, so each measurement has a few
// tries. Ranks wait for one message, or for one message every 5 ms as with slow simulators, with a core for each rank
// and with fewer cores than ranks.
func TestWaitingIsCheap(t *testing.T) {
	for _, c := range []struct {
		name string
		np   int
		env  []string
		args []string
	}{
		{"one message", 3, nil, []string{"idle"}},
		{"one message by MPI", 3, []string{"RLINF_SHM=off"}, []string{"idle"}},
		{"a message every 5 ms", 2, nil, []string{"steps"}},
		{"a message every 5 ms, few cores", 6, nil, []string{"steps"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachAlone(t, func(t *testing.T, _ *flavour, r rig) {
				least := 100.0
				for try := 0; try < 4 && least > 20; try++ {
					out := r.ok(t, job{np: c.np, env: c.env, args: c.args})
					t.Log(out)
					shares := regexp.MustCompile(`([0-9.]+)% of a core`).FindAllStringSubmatch(out, -1)
					if len(shares) != c.np {
						t.Fatal("want a line of each rank")
					}
					most := 0.0
					for _, s := range shares {
						x, err := strconv.ParseFloat(s[1], 64)
						if err != nil {
							t.Fatal(err)
						}
						most = max(most, x)
					}
					least = min(least, most)
				}
				if least > 20 {
					t.Errorf("a waiting rank uses %v %% of a core, at the least", least)
				}
			})
		})
	}
}

// The memory that ranks share has no name, so the kernel frees it with the last process of a killed job. run checks
// that no process is left.
func TestKilledJobLeavesNoMemory(t *testing.T) {
	each(t, func(t *testing.T, f *flavour, r rig) {
		out, code := r.run(t, job{np: 3, env: []string{"RANKTEST_STALL=3s"}, args: []string{"fail", "kill"}})
		if code == 0 {
			t.Errorf("exit code 0 of a job with a rank that was killed\n%s", out)
		}
		if n := len(regexp.MustCompile(`(?m)^rank \d shares 3 files: .*/memfd:rlinf \(deleted\)`).FindAllString(out,
			-1)); n != 3 {
			t.Errorf("%d of 3 ranks map the memory of all three, in files without a name\n%s", n, out)
		}
	})
}

// A job leaves no file of MPI's own shared memory when it ends, and none when its launcher is killed.
func TestKilledLauncherLeavesNoMemory(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) {
		empty := func(dir, text string) {
			t.Helper()
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v\n%s", left, err, text)
			}
		}
		dir := own(t)
		place := "OMPI_MCA_btl_vader_backing_directory=" + dir
		if out := r.ok(t, job{np: 2, env: []string{place}, args: []string{"end", "0"}}); strings.Contains(out, "help") {
			t.Errorf("MPI complains\n%s", out)
		} else {
			empty(dir, out)
		}
		// The ranks wait for each other until the launcher is killed.
		cmd, ended := r.command(t.Context(), t, job{np: 2, env: []string{place, "RANKTEST_STALL=5m"},
			args: []string{"fail", "leave", "signal"}})
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = cmd.Stdout
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		share := regexp.MustCompile(`(?m)^rank \d shares 2 files: `)
		for lines := bufio.NewScanner(out); len(share.FindAllString(text.String(), -1)) < 2 && lines.Scan(); {
			fmt.Fprintln(&text, lines.Text())
		}
		cmd.Process.Kill()
		cmd.Wait()
		ended(&text)
		empty(dir, text.String())
	})
}

// A rank that waits long for a living rank reports the wait and goes on waiting.
func TestLongWaitIsReported(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) {
		out := r.ok(t, job{np: 2, env: []string{"RANKTEST_STALL=1500ms"}, args: []string{"idle"}})
		if !regexp.MustCompile(`(?m)^rank 1 has waited [1-9].* for communicator "idle", member 1: receive 0 bytes ` +
			`from member 0, tag 0; no rank has stopped`).MatchString(out) {
			t.Errorf("no word of rank 1's wait in\n%s", out)
		}
	})
}

// rank1Silent is the output for a stopped rank 1.
const rank1Silent = `(?ms)^rank 1 \(host .*, pid \d+\) has been silent for .* rank 2 on .* exit code 76$`

// shortStall makes the other ranks notice soon.
var shortStall = []string{"RANKTEST_STALL=3s"}

func TestFailures(t *testing.T) {
	each(t, func(t *testing.T, f *flavour, r rig) {
		launcher := -1 // stands for any exit code of the launcher except 0
		killed, exited := map[string]int{"openmpi": 137, "mpich": launcher},
			map[string]int{"openmpi": 3, "mpich": launcher}
		both := func(code int) map[string]int { return map[string]int{"openmpi": code, "mpich": code} }
		const left = `rank 1 \(host .*, pid \d+\) has left`
		for _, c := range []struct {
			how   string // the kind of failure, and what the other ranks wait for
			code  map[string]int
			names string // texts that the output must contain
		}{
			{"leave", both(77), `(?m)^rank [02] host .*: communicator "waiting", member [02]: ` +
				`receive 8 bytes from member 1, tag 0: ` + left},
			{"leave signal", both(77), `(?m)^rank [02] host .*: wait for a signal: ` + left},
			{"stop signal", both(76), rank1Silent},
			{"leave launch", both(77), `(?m)^rank [02] host .*: launch group "late": new group "late": .*: ` + left},
			{"stop launch", both(76), rank1Silent},
			{"kill launch", killed, ``},
			{"error launch", both(77), `(?m)^rank 1 host .* step 42: out of patience$`},
			{"error", both(77), `(?m)^rank 1 host .* step 42: out of patience$`},
			{"panic", both(77), `(?m)^rank 1 host .* step 42: panic: out of its mind$`},
			{"goroutine", both(77), `(?m)^feeder rank 1 host .* step 42: panic: in a goroutine$`},
			{"exit", exited, ``},
			{"kill", killed, ``},
			{"stop", both(76), `(?ms)^goroutine.*` + strings.TrimPrefix(rank1Silent, `(?ms)`)},
		} {
			t.Run(c.how, func(t *testing.T) {
				t.Parallel()
				out, code := r.run(t,
					job{np: 3, env: shortStall, args: append([]string{"fail"}, strings.Fields(c.how)...)})
				if want := c.code[f.name]; code != want && (want != launcher || code == 0) {
					t.Errorf("exit code %d, want %d\n%s", code, want, out)
				}
				if !regexp.MustCompile(c.names).MatchString(out) {
					t.Errorf("want %s in\n%s", c.names, out)
				}
			})
		}
	})
}

// A job that is suspended for longer than the stall timeout goes on when it is resumed.
func TestSuspendedJobGoesOn(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) {
		r.ok(t, job{np: 3, env: []string{"RANKTEST_STALL=3s"}, args: []string{"resume"}})
	})
}

// If the launcher of one MPI starts a binary built for the other, the binary says so, instead of running as n jobs of
// one rank.
func TestWrongLauncher(t *testing.T) {
	each(t, func(t *testing.T, f *flavour, r rig) {
		for _, other := range built {
			if other == f {
				continue
			}
			o, err := other.setup()
			if err != nil {
				t.Skip(err)
			}
			// Each process is a job of its own, which makes and removes a folder of the same name. So each gets
			// another place for that folder.
			alone := `OMPI_MCA_orte_tmpdir_base=$(mktemp -d) exec "$0" "$@"`
			out, code := o.run(t,
				job{np: 2, env: []string{"TMPDIR=" + own(t)},
					command: []string{"sh", "-c", alone, r.program, "describe"}})
			if code == 0 || !strings.Contains(out, "started 2 processes, but each sees a world of one") {
				t.Errorf("exit code %d\n%s", code, out)
			}
		}
	})
}

func TestTooFewThreads(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) {
		preload := r.compile(t, "serialized.c", "-shared", "-fPIC")
		out, code := r.run(t, job{np: 1, command: []string{"env", "LD_PRELOAD=" + preload, r.program, "describe"}})
		if code == 0 || !strings.Contains(out, "needs MPI_THREAD_MULTIPLE, which this MPI does not give") {
			t.Errorf("exit code %d\n%s", code, out)
		}
	})
}
