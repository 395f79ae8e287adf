package cli

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/roles/cli/manual"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/urfave/cli/v2"
)

// program runs this test as rlinf, with these words and variables, in a folder of its own, and returns its exit code and what it said.
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

// leftovers are variables of launchers that a shell or a script has kept: there is no launcher.
var leftovers = []string{"PMI_RANK=2", "SLURM_PROCID=3", "PMI_RANK=1 PMI_SIZE=2", "PMI_RANK=1 PMI_SIZE=2 PMI_FD=9", "OMPI_COMM_WORLD_RANK=1",
	"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4", "SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4", "PMIX_RANK=1 PMIX_NAMESPACE=1"}

// TestLeftovers: with variables of a launcher that is gone, commands still print what they have to say, and errors have their exit code.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	for _, leftover := range leftovers {
		variables := strings.Fields(leftover)
		if code, out, said := program(t, t.TempDir(), variables, "version"); code != 0 || !strings.HasPrefix(out, "rlinf ") {
			t.Errorf("%s rlinf version: exit code %d, %q, %q", leftover, code, out, said)
		}
		if code, out, said := program(t, t.TempDir(), variables, "check", "-c", "none.yaml"); code != 2 || said != "none.yaml: no such file\n" {
			t.Errorf("%s rlinf check: exit code %d, %q, %q, expected exit code 2 and an error", leftover, code, out, said)
		}
	}
}

// TestTooManyRanks: one process has no more ranks than it can drive, whether a flag or the placement asks for them.
func TestTooManyRanks(t *testing.T) {
	for _, args := range []string{"-np 65536", "cluster.component_placement.env=0-65535", "eval -np 1025", "sweep -np 1025 --seeds 2"} {
		words := strings.Fields(args)
		at := 0
		if words[0] == "eval" || words[0] == "sweep" {
			at = 1
		}
		code, _, said := run(t, slices.Insert(words, at, "-c", rolestest.Cartpole, "cluster.allow_idle_ranks=true")...)
		if code != 2 || !strings.Contains(said, "ranks in one process: expected at most 1024, or mpirun or srun to start them") {
			t.Errorf("rlinf %s: exit code %d, %s", args, code, said)
		}
	}
}

// TestNumbersAreBounded: every flag of every command that takes a number refuses those that nobody means, before the command begins.
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
				if err := f.Apply(set); err != nil {
					t.Fatal(err)
				}
				if err := set.Set(f.Names()[0], value); err != nil {
					t.Fatal(err)
				}
				err := f.(cli.ActionableFlag).RunAction(cli.NewContext(nil, set, nil))
				if _, refused := err.(config.UsageError); !refused {
					t.Errorf("rlinf %s --%s %s: %v, expected a usage error: declare the flag by args.Int, args.Float or args.Duration", path, f.Names()[0], value, err)
				}
			}
		}
	}
	app := newApp(rolestest.Registries(), nil, new(int))
	check("", app.Flags)
	manual.Each(app.Commands, func(path string, c *cli.Command) { check(path, c.Flags) })
	if numbers < 150 {
		t.Errorf("%d numbers were tried", numbers)
	}
}
