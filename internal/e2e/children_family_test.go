package e2e

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
)

// family is a simulator with processes of its own: children, some of which called setsid, and some of which were forked
// twice.
const family = `#!/bin/sh
for how in "" setsid; do
	$how sleep 1000 3>&- 4>&- 5>&- >/dev/null 2>&1 &
	($how sleep 1000 3>&- 4>&- 5>&- >/dev/null 2>&1 &)
done
exec %s bridge serve -c served.yaml
`

// TestFamiliesEnd: all processes that simulators have started end with the job, however the job ends.
func TestFamiliesEnd(t *testing.T) {
	t.Parallel()
	endings := []struct {
		name string
		args []string
		do   func(*testing.T, *job, string) // nil: the job ends by itself
		on   []*platform                    // nil: on all platforms
		main string                         // the program, "": rlinf
	}{
		{"done", []string{"runner.max_steps=2"}, nil, nil, ""},
		{"failure", []string{"actor.optim.lr=1e30"}, nil, nil, ""},
		{"76", []string{"comm.stall_timeout=2s"}, rank(1, syscall.SIGSTOP), []*platform{openmpi, mpich}, ""},
		{"kill -9", nil, rank(1, syscall.SIGKILL), []*platform{openmpi, mpich}, ""},
		{"kill -9, launcher", nil, signals(syscall.SIGKILL), nil, ""},
		{"TERM", nil, signals(syscall.SIGTERM), nil, ""},
		{"INT", nil, signals(syscall.SIGINT), nil, ""},
		{"HUP", nil, signals(syscall.SIGHUP), nil, ""},
		{"USR1", nil, signals(syscall.SIGUSR1), nil, ""},
		{"a crash", nil, rank(1, syscall.SIGABRT), []*platform{openmpi, mpich}, ""},
		{"own program, done", []string{"runner.max_steps=2"}, nil, nil, "./examples/embodied"},
		{"own program, kill -9", nil, rank(1, syscall.SIGKILL), []*platform{openmpi, mpich}, "./examples/embodied"},
	}
	for _, e := range endings {
		for _, p := range platforms {
			name := e.name + "/" + p.name
			if e.on != nil && !slices.Contains(e.on, p) ||
				!full && !slices.Contains([]string{"failure/local", "kill -9/openmpi", "TERM/mpich"}, name) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				program := p.program(t, cmp.Or(e.main, ".")) // or skip the test
				dir := t.TempDir()
				writeFile(t, dir, "served.yaml", served)
				script := writeFile(t, dir, "family", fmt.Sprintf(family, program))
				test.OK(t, os.Chmod(script, 0o777))
				writeFile(t, dir, "job.yaml", strings.ReplaceAll(fmt.Sprintf(killed, 1000000, script),
					" bridge serve -c served.yaml", ""))
				j := p.startProgram(t, program, dir, 2, append([]string{"-c", "job.yaml", "env.train.external.n=1"},
					e.args...)...)
				if run := filepath.Join(dir, "logs", "run"); e.do != nil {
					poll(t, j, func() bool { return len(readMetrics(t, run)) > 0 })
					test.Equal(t, len(j.children()), 2, "simulators")
					e.do(t, j, run)
				}
				r := j.result() // the result fails if a process is left
				t.Logf("exit code %d, the last process ended %v later", r.code, j.lasted.Round(time.Millisecond))
				if e.do == nil && (r.code == 0) != strings.HasSuffix(e.name, "done") {
					t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
				}
			})
		}
	}
}
