package cli

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/cli/manual"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/urfave/cli/v2"
)

// program runs this test as rlinf, with these words and variables, in a folder of its own, and returns its exit code
// and what it said.
func program(t *testing.T, dir string, variables []string, words ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], words...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), asProgram+"=1"), variables...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), said.String()
}

// leftovers are variables of launchers that have ended, as a shell may still have them.
var leftovers = []string{"PMI_RANK=2", "SLURM_PROCID=3", "PMI_RANK=1 PMI_SIZE=2", "PMI_RANK=1 PMI_SIZE=2 PMI_FD=9",
	"OMPI_COMM_WORLD_RANK=1",
	"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4", "SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4",
	"PMIX_RANK=1 PMIX_NAMESPACE=1"}

// TestLeftovers: with variables of a launcher that has ended, commands print their output, and errors have their exit
// code.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	for _, leftover := range leftovers {
		variables := strings.Fields(leftover)
		if code, out, said := program(t, t.TempDir(), variables, "version"); code != 0 ||
			!strings.HasPrefix(out, "rlinf ") {
			t.Errorf("%s rlinf version: exit code %d, %q, %q", leftover, code, out, said)
		}
		if code, out, said := program(t, t.TempDir(), variables, "check", "-c", "none.yaml"); code != 2 ||
			said != "none.yaml: no such file\n" {
			t.Errorf("%s rlinf check: exit code %d, %q, %q, expected exit code 2 and an error", leftover, code, out,
				said)
		}
	}
}

// TestLostOutput: a command that cannot write its output fails with that error.
func TestLostOutput(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, words := range []string{"version", "help", "envs", "check -c " + rolestest.Cartpole, "config algorithm"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], strings.Fields(words)...)
		var said bytes.Buffer
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asProgram+"=1"), full, &said
		cmd.Run()
		if code, want := cmd.ProcessState.ExitCode(), "write /dev/stdout: no space left on device\n"; code != 1 ||
			said.String() != want {
			t.Errorf("rlinf %s on a full disk: exit code %d, %q, expected exit code 1, %q", words, code, &said, want)
		}
	}
}

// TestTooManyRanks: the number of ranks of a process is bounded, for the flag and for the placement.
func TestTooManyRanks(t *testing.T) {
	for _, args := range []string{"-np 65536", "cluster.component_placement.env=0-65535", "eval -np 1025",
		"sweep -np 1025 --seeds 2"} {
		words := strings.Fields(args)
		at := 0
		if words[0] == "eval" || words[0] == "sweep" {
			at = 1
		}
		code, _, said := run(t, slices.Insert(words, at, "-c", rolestest.Cartpole, "cluster.allow_idle_ranks=true")...)
		if code != 2 ||
			!strings.Contains(said, "ranks in one process: expected at most 1024, or mpirun or srun to start them") {
			t.Errorf("rlinf %s: exit code %d, %s", args, code, said)
		}
	}
}

// TestNumbersAreBounded: every flag for a number refuses absurd numbers before the command begins.
func TestNumbersAreBounded(t *testing.T) {
	numbers := 0
	check := func(path string, flags []cli.Flag) {
		for _, f := range flags {
			var hostile []string
			switch f.(type) {
			case *cli.IntFlag, *cli.Int64Flag, *cli.UintFlag:
				hostile = []string{fmt.Sprint(math.MinInt64), fmt.Sprint(math.MaxInt64)}
			case *cli.Float64Flag:
				hostile = []string{"NaN", "Inf", "-Inf"}
			case *cli.DurationFlag:
				hostile = []string{"-1ns", time.Duration(math.MaxInt64).String()}
			}
			for _, value := range hostile {
				numbers++
				set := flag.NewFlagSet("", flag.ContinueOnError)
				test.OK(t, f.Apply(set))
				test.OK(t, set.Set(f.Names()[0], value))
				err := f.(cli.ActionableFlag).RunAction(cli.NewContext(nil, set, nil))
				if _, refused := err.(config.UsageError); !refused {
					t.Errorf("rlinf %s --%s %s: %v, expected a usage error: declare the flag by args.Int, args.Float "+
						"or args.Duration", path, f.Names()[0], value, err)
				}
			}
		}
	}
	app := newApp(rolestest.Registries(), tasks(), session.UserProgram{}, nil, new(int))
	check("", app.Flags)
	manual.Each(app.Commands, func(path string, c *cli.Command) { check(path, c.Flags) })
	if numbers < 150 {
		t.Errorf("%d numbers were tried", numbers)
	}
}

// TestHostileCommandLines: with any numbers, paths and variables, commands end in time, with a documented exit code and
// without a stack trace. RLINF_TEST_FULL=1 tries for five minutes.
func TestHostileCommandLines(t *testing.T) {
	t.Parallel()
	full := os.Getenv("RLINF_TEST_FULL") != ""
	lines, until := 40, time.Now().Add(time.Hour)
	switch {
	case full:
		lines, until = math.MaxInt, time.Now().Add(5*time.Minute)
	case testing.Short():
		lines = 10
	}
	dir := t.TempDir()
	text, err := os.ReadFile(rolestest.Cartpole)
	if err == nil {
		err = syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600)
	}
	test.OK(t, err)
	h := newHostile(rand.New(rand.NewPCG(1, 2)))
	tried := 0
	for ; tried < lines && time.Now().Before(until); tried++ {
		words, variables := h.line()
		// a command may have written there
		test.OK(t, os.WriteFile(filepath.Join(dir, "job.yaml"), text, 0o600))
		began := time.Now()
		code, out, said := endedEarly(t, dir, variables, words)
		line := fmt.Sprintf("%q rlinf %q: exit code %d after %v\n%.1000s%.3000s", variables, words, code,
			time.Since(began), out, said)
		switch quiet := strings.TrimSpace(harmless.ReplaceAllString(said, "")); {
		case strings.Contains(said, "panic:") || strings.Contains(said, "fatal error:") ||
			strings.Contains(said, "goroutine 1 ["):
			t.Errorf("a stack trace: %s", line)
		case full && time.Since(began) > 10*time.Second:
			t.Errorf("it hangs: %s", line)
		case code == 0 && quiet != "":
			t.Errorf("exit code 0 after an error: %s", line)
		case code > 0 && out == "" && said == "": // -1: it was asked to end before it began
			t.Errorf("a failure without a word: %s", line)
		}
	}
	t.Logf("%d command lines", tried)
}

// harmless are lines on standard error that are no errors.
var harmless = regexp.MustCompile(`(?m)^(warning|note|left out|ignored|measuring|running without MPI|group|start ` +
	`\d|#|evaluation|rank \d+ | ).*$`)

// endedEarly is program, with little memory. A command that works for long is asked to end.
func endedEarly(t *testing.T, dir string, variables, words []string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command("sh", slices.Concat([]string{"-c", `ulimit -v 8000000; exec "$0" "$@"`, os.Args[0]}, words)...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), asProgram+"=1"), variables...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.WaitDelay = time.Second // what it started may hold the pipes
	test.OK(t, cmd.Start())
	ask := time.AfterFunc(3*time.Second, func() { cmd.Process.Signal(syscall.SIGTERM) })
	kill := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	cmd.Wait()
	ask.Stop()
	kill.Stop()
	return cmd.ProcessState.ExitCode(), out.String(), said.String()
}

// hostile makes command lines.
type hostile struct {
	r        *rand.Rand
	commands []string // paths
	flags    map[string][]cli.Flag
	keys     []string
}

func newHostile(r *rand.Rand) *hostile {
	app := newApp(rolestest.Registries(), tasks(), session.UserProgram{}, nil, new(int))
	h := &hostile{r: r, commands: []string{""}, flags: map[string][]cli.Flag{"": app.Flags},
		keys: keyNames(rolestest.Registries())}
	manual.Each(app.Commands, func(path string, c *cli.Command) {
		h.commands, h.flags[path] = append(h.commands, path), c.Flags
	})
	return h
}

func (h *hostile) pick(of ...string) string { return of[h.r.IntN(len(of))] }

// line returns the words of a command line, and variables.
func (h *hostile) line() (words, variables []string) {
	path := h.pick(h.commands...)
	words = strings.Fields(path)
	flags := h.flags[path]
	if args.TakesValue(flags, "config") && h.r.IntN(4) > 0 {
		words = append(words, "-c", "job.yaml")
	}
	for range h.r.IntN(3) {
		if len(flags) == 0 {
			break
		}
		f := flags[h.r.IntN(len(flags))]
		name := f.Names()[0]
		words = append(words, "--"+name)
		if args.TakesValue(flags, name) {
			words = append(words, h.value(f, name))
		}
	}
	for range h.r.IntN(3) {
		word := h.pick("job.yaml", "none", "..", "fifo", "countdown", "-", "--", "a=b=c", "=", "~", "\x1b[2J", "a\nb",
			"help")
		if args.TakesValue(flags, "config") && h.r.IntN(3) > 0 {
			word = h.pick(h.keys...) + "=" + h.pick(h.number(), "none", "[1,2", "{a: 1}", "null", "~", "${a}",
				strings.Repeat("[", 10000))
		}
		words = append(words, word)
	}
	if h.r.IntN(4) == 0 {
		variables = strings.Fields(h.pick(leftovers...))
	}
	return words, variables
}

func (h *hostile) number() string {
	return h.pick("0", "-1", "1", "2", "3", "1000", "1048576", "9223372036854775807", "-9223372036854775808",
		"99999999999999999999", "NaN", "Inf", "-Inf", "1e-320",
		"1e308", "0x10", "1_000", "", " 1", "one", "1.5", "1h", "-1ns", "1ns", "9999999h")
}

// value returns a value for a flag. A file that a command writes is in its own folder.
func (h *hostile) value(f cli.Flag, name string) string {
	switch f.(type) {
	case *cli.StringFlag, *cli.StringSliceFlag, *cli.GenericFlag:
		written := []string{"out", "plot", "tune", "keep", "film", "cpu-profile"}
		if !slices.Contains(written, name) && h.r.IntN(2) == 0 {
			if name == "config" { // a pipe is read, once it has a writer
				return h.pick("/dev/zero", "/dev/null", "/proc/self/mem", ".", "..", "job.yaml", "/")
			}
			return h.pick("/dev/zero", "/dev/null", "/proc/self/mem", "fifo", ".", "..", "job.yaml", "/")
		}
		return h.pick("", "none", "no/where", "job.yaml", strings.Repeat("x", 5000), "a\nb", "\x1b[2J", h.number(),
			"8,64", "1,2", "table", "json", "all", "-1,5", "f32")
	}
	return h.number()
}
