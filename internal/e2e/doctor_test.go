package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestDoctorOverHosts: doctor names the hosts of all ranks, and how one host differs from the others. The second host
// is a process with its own host name and its own limit.
func TestDoctorOverHosts(t *testing.T) {
	t.Parallel()
	if text, err := exec.Command("unshare", "--uts", "hostname", "elsewhere").CombinedOutput(); err != nil {
		t.Skipf("a host name of its own needs root and unshare of util-linux: %v %s", err, text)
	}
	for _, p := range []*platform{openmpi, mpich} {
		dir := t.TempDir()
		script := filepath.Join(dir, "rank")
		text := fmt.Sprintf("#!/bin/sh\n"+`case ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} in
2) exec unshare --uts sh -c 'hostname elsewhere && ulimit -l 1024 && exec "$0" "$@"' %[1]s "$@" ;;
esac
exec unshare --uts sh -c 'hostname here && ulimit -l 2048 && exec "$0" "$@"' %[1]s "$@"
`, p.program(t, "."))
		test.OK(t, os.WriteFile(script, []byte(text), 0o777))
		r := p.startProgram(t, script, dir, 3, "doctor").result()
		for _, want := range []string{
			"nodes          2, with so many ranks: here (2), elsewhere (1)",
			"DIFFERENT on elsewhere: memlock 1.0 MiB: %; rank 0: 2.0 MiB: %",
		} {
			if r.code != 0 || count(r.stdout, want) != 1 {
				t.Errorf("%s: exit code %d, not once %q in\n%s%s", p.name, r.code, want, r.stdout, r.stderr)
			}
		}
	}
}
