package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
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
