package main_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A flavour is one MPI library: its name for scripts/build, and its launcher.
type flavour struct {
	name, says, install string
	launchers, args     []string
	build               func() (program string, err error) // once
	launcher            string
}

var errMissing = errors.New("not on this machine")

var flavours = []*flavour{
	{name: "openmpi", says: "Open MPI", launchers: []string{"mpirun.openmpi", "mpirun"},
		args:    []string{"--oversubscribe", "--bind-to", "none"},
		install: "apt-get install openmpi-bin libopenmpi-dev pkg-config gcc"},
	{name: "mpich", says: "HYDRA", launchers: []string{"mpirun.mpich", "mpiexec.hydra", "mpirun"},
		install: "apt-get install mpich libmpich-dev pkg-config gcc"},
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "rlinf-ranks-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, f := range flavours {
		f.build = sync.OnceValues(func() (string, error) { return f.make(dir) })
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// make finds the launcher and builds the program.
func (f *flavour) make(dir string) (string, error) {
	for _, name := range f.launchers {
		if text, err := exec.Command(name, "--version").CombinedOutput(); err == nil &&
			strings.Contains(string(text), f.says) {
			f.launcher = name
			break
		}
	}
	if f.launcher == "" {
		return "", fmt.Errorf("%w: no launcher", errMissing)
	}
	program := filepath.Join(dir, "ranks-"+f.name)
	script := filepath.Join("..", "..", "..", "scripts", "build")
	text, err := exec.Command(script, "--tags", "mpi", "--mpi", f.name, "--out", program, "--package",
		"./collectives/internal/ranks").CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 2 {
		return "", fmt.Errorf("%w: %s", errMissing, text)
	}
	if err != nil {
		return "", fmt.Errorf("%v\n%s", err, text)
	}
	return program, nil
}

// each runs a test with every MPI, beside other tests: ranks mostly wait.
func each(t *testing.T, test func(t *testing.T, f *flavour)) {
	t.Parallel()
	for _, f := range flavours {
		t.Run(f.name, func(t *testing.T) {
			if _, err := f.build(); errors.Is(err, errMissing) {
				t.Skipf("%v; %s", err, f.install)
			} else if err != nil {
				t.Fatal(err)
			}
			test(t, f)
		})
	}
}

// run starts the program on np ranks. It returns the output, the exit code and the duration. A job that takes longer
// than five minutes is an error.
func (f *flavour) run(t *testing.T, np int, env []string, args ...string) (out string, code int, took time.Duration) {
	t.Helper()
	program, err := f.build()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	line := append(append([]string{}, f.args...), "-np", strconv.Itoa(np), program)
	cmd := exec.CommandContext(ctx, f.launcher, append(line, args...)...)
	cmd.Env = append(append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		// otherwise two launchers that start at once make the same folder, and one fails
		"OMPI_MCA_orte_tmpdir_base="+own(t)), env...)
	cmd.WaitDelay = 5 * time.Second
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	start := time.Now()
	err = cmd.Run()
	took = time.Since(start)
	if ctx.Err() != nil {
		t.Fatalf("%d ranks, %v: not over after five minutes\n%s", np, args, text.String())
	}
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return text.String(), cmd.ProcessState.ExitCode(), took
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

// succeeds runs a job that must succeed and write this.
func (f *flavour) succeeds(t *testing.T, want string, np int, env []string, args ...string) {
	t.Helper()
	if out, code, _ := f.run(t, np, env, args...); code != 0 || !strings.Contains(out, want) {
		t.Errorf("%d ranks, %v %v: exit code %d, want 0 and %q\n%s", np, env, args, code, want, out)
	}
}

// full reports whether to run everything instead of samples.
var full = os.Getenv("RLINF_TEST_FULL") != ""

// of returns what to test with this MPI: everything in a full run, otherwise a sample. The sample of the second MPI
// is smaller, because only the messages differ.
func of[T any](f *flavour, all, first, second []T) []T {
	switch {
	case full:
		return all
	case f == flavours[0]:
		return first
	}
	return second
}

// TestConformance runs every operation by every algorithm in every type, also by the library. It starts one job for
// each size of group.
func TestConformance(t *testing.T) {
	each(t, func(t *testing.T, f *flavour) {
		for _, np := range of(f, []int{1, 2, 3, 4, 5, 7, 8}, []int{3, 8}, []int{4}) {
			f.succeeds(t, " operations\n", np, nil, "conformance")
		}
		for _, np := range of(f, []int{4, 5}, []int{5}, nil) {
			f.succeeds(t, " operations\n", np, []string{"RANKS_NODES=2"}, "conformance")
		}
	})
}

func TestLibrary(t *testing.T) {
	each(t, func(t *testing.T, f *flavour) {
		for _, np := range of(f, []int{2, 3, 4, 5, 8}, []int{5}, []int{3}) {
			f.succeeds(t, " operations\n", np, nil, "library")
		}
	})
}

func TestOrdered(t *testing.T) {
	each(t, func(t *testing.T, f *flavour) {
		for _, np := range of(f, []int{2, 5}, []int{5}, []int{2}) {
			f.succeeds(t, " shared allreduce ", np, nil, "ordered")
		}
		f.succeeds(t, " rabenseifner allreduce ", 4, []string{"RLINF_SHM=off"}, "ordered")
		f.succeeds(t, " hierarchical allreduce ", 4, []string{"RANKS_NODES=2"}, "ordered")
	})
}

// TestWeights runs on one node, on several nodes, and on ranks without shared memory. The last rank has two readers
// in each suite, with 273 comparisons each.
func TestWeights(t *testing.T) {
	each(t, func(t *testing.T, f *flavour) {
		all := [][]string{nil, {"RANKS_NODES=2"}, {"RANKS_NODES=4"}, {"RLINF_SHM=off"}}
		for _, env := range of(f, all, all[:2], all[3:]) {
			f.succeeds(t, "1092 comparisons\n", 4, env, "weights")
		}
	})
}

func TestStartGoesOnByItself(t *testing.T) {
	each(t, func(t *testing.T, f *flavour) { f.succeeds(t, "alone\n", 2, nil, "alone") })
}

func TestMismatchIsNamed(t *testing.T) {
	each(t, func(t *testing.T, f *flavour) {
		out, code, _ := f.run(t, 3, nil, "mismatch")
		for _, want := range []string{"members make different calls",
			"allreduce of 8 F32, sum (call 1, at ranks/main.go:",
			"allreduce of 8 F64, sum (call 1, at ranks/main.go:"} {
			if code == 0 || !strings.Contains(out, want) {
				t.Errorf("exit code %d, want another than 0 and %q\n%s", code, want, out)
			}
		}
	})
}

// If a peer stops or its program ends while others wait for it in a collective, the job ends with an error that names
// the peer.
func TestPeerThatStopsOrReturns(t *testing.T) {
	library := []string{"barrier", "broadcast", "allreduce"}
	kinds := map[string][]string{"mpi": library, "auto": append([]string{"reduce", "reduce_scatter", "allgather",
		"gather", "scatter", "alltoall", "sendrecv"}, library...)}
	if !full { // a sample; those of the library are in TestNativeFailures of spmd/mpi
		kinds = map[string][]string{"auto": library[1:]}
	}
	const stall = 3 * time.Second
	each(t, func(t *testing.T, f *flavour) {
		slots := make(chan struct{}, 4) // the jobs mostly wait
		for algorithm, kinds := range kinds {
			for _, kind := range kinds {
				for _, what := range []string{"stop", "return"} {
					t.Run(fmt.Sprint(kind, " ", algorithm, " ", what), func(t *testing.T) {
						t.Parallel()
						slots <- struct{}{}
						defer func() { <-slots }()
						out, code, took := f.run(t, 2, []string{"RANKS_STALL=" + stall.String()}, "await", kind,
							algorithm, what)
						want := "rank 1 (host "
						if code == 0 || !strings.Contains(out, want) {
							t.Errorf("exit code %d, want another than 0 and %q\n%s", code, want, out)
						}
						if what == "stop" && code != 76 {
							t.Errorf("exit code %d, want 76\n%s", code, out)
						}
						if took > time.Minute {
							t.Errorf("it took %v", took)
						}
					})
				}
			}
		}
	})
}
