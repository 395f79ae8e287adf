package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rlinf/rlinf/internal/moves"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
)

// moveSteps are the steps of a move at which faulty's gate stops a rank, in order. The ranks quiesce, agree on a plan,
// pack, count the memory, send, retire the workers, end the world, launch the next one, and give the states to the new
// workers. Only asynchronous jobs quiesce.
var moveSteps = []string{"quiesce", "agree", "pack", "count", "send", "retire", "end", "launch", "takeover"}

// languageSteps are the steps at which the gate stops a rank of a language model's job.
var languageSteps = []string{"agree", "count", "end", "launch"}

// A blow is what happens to a job while one of its ranks stands at the gate.
type blow struct {
	name   string
	signal syscall.Signal // sent to the whole job; 0: no signal
	code   int            // exit code without a launcher; see ends
	status runfolder.Status
}

var blows = []blow{
	{"kill", 0, 137, runfolder.Dead},
	{"USR1", syscall.SIGUSR1, 75, runfolder.Checkpointed},
	{"TERM", syscall.SIGTERM, 143, runfolder.Interrupted},
	{"full disk", 0, 1, runfolder.Failed},
	{"stop", 0, 76, runfolder.Failed}, // stops a rank, so only if ranks are processes
}

// ends reports whether a job on a platform may end with this code and status.
func (b *blow) ends(on *platform, code int, status runfolder.Status) bool {
	switch {
	case on == local:
		return code == b.code && status == b.status
	case b.signal == 0 && b.name != "stop": // the launcher chooses the code
		return code != 0 && status == b.status
	case b.signal == syscall.SIGTERM && on == openmpi: // mpirun kills ranks one second later
		return code == 1 && (status == b.status || status == runfolder.Dead)
	}
	return on.stopped(code, b.code) && status == b.status
}

// TestMovesStruck: something happens to a job while one of its ranks stands in a step of a move. The job ends as in an
// iteration. After a resume it moves again, and ends like an undisturbed job.
func TestMovesStruck(t *testing.T) {
	t.Parallel()
	times := 1
	if full {
		times = 2
	}
	for p, on := range platforms {
		for s, step := range moveSteps {
			for b, blow := range blows {
				sample := (p+s+b)%4 == 0 && (on == local || on == openmpi && s%3 == 1)
				if on == local && blow.name == "stop" || !full && !sample {
					continue
				}
				t.Run(on.name+"/"+step+"/"+blow.name, func(t *testing.T) {
					t.Parallel()
					on.program(t, ".") // or skip the test
					for again := range times {
						draw := draws(t, 100*again+10*s+b)
						n := nomads()[(s+b+again)%6]
						switch {
						case step == "quiesce": // before it saves, a job quiesces in any case
							n = &nomad{name: "asynchronous", yaml: asyncTasks[0].yaml, members: nomads()[0].members,
								args: []string{"runner.async=true", "++runner.save_interval=4"}}
						case again == 1 && slices.Contains(languageSteps, step):
							n = nomads()[6+draw.IntN(2)]
						}
						blow.try(t, on, newCamp(t, n), step, draw)
					}
				})
			}
		}
	}
}

// try strikes the job of c while a rank stands in a step of a move. Then it resumes the job, and checks the results.
func (b *blow) try(t *testing.T, on *platform, c camp, step string, draw *rand.Rand) {
	logs := b.makeLogs(t, c.dir)
	rank, moved, whom := draw.IntN(4), draw.IntN(2), draw.IntN(4)
	start := c.place(draw)
	place, plans, args := start, moved+1, []string{steps(1_000_000)}
	if b.name == "stop" {
		args = append(args, "comm.stall_timeout=2s")
	}
	switch {
	case step == "quiesce":
		plans = moved
	case c.members["env"] > 0:
		place = strings.TrimSuffix(start, "}") + ", gate: 0-3}"
	}
	what := fmt.Sprintf("%s, %s: %s while rank %d stands in %s after %d moves", c.name, start, b.name, rank, step,
		moved)
	t.Log(what)
	j := on.startBelow(t, []string{"env", fmt.Sprintf("GATE=%d %d %s", rank, plans, step), "GATE_DIR=" + c.dir},
		on.program(t, "./internal/e2e/testdata/faulty"), c.dir, 4, c.line("run", place, args...)...)
	w := c.wander(j, "run", start, draw)
	poll(t, j, func() bool {
		_, err := os.Stat(filepath.Join(c.dir, "shut"))
		return err == nil
	})
	before := len(readMetrics(t, c.folder("run")))
	cure := b.strike(t, j, c, logs, rank, whom)
	r := j.result()
	<-w.ended
	status, err := statusAtEnd(c.folder("run"))
	done := len(readMetrics(t, c.folder("run")))
	if !b.ends(on, r.code, status) || err != nil || len(w.refused) > 0 ||
		b.name == "full disk" && !strings.Contains(r.stderr, illnesses[0].says) ||
		b.name == "stop" && count(r.stderr, fmt.Sprintf("rank %d (host %%) has been silent for %%", rank)) != 1 {
		t.Errorf("%s: exit code %d, STATUS %s, %v, refused %q\n%s%s", what, r.code, status, err, w.refused, r.stdout,
			r.stderr)
	}
	if status == runfolder.Checkpointed || status == runfolder.Interrupted { // the job stopped after a complete move
		made, _, err := moves.Read(c.folder("run"))
		_, saved := os.Stat(filepath.Join(c.folder("run"), "checkpoints", fmt.Sprint("global_step_", done)))
		if len(made) <= moved || done < before || err != nil || saved != nil {
			t.Errorf("%s: %d moves and %d steps of %d, %v, %v\n%s%s", what, len(made), done-before, done, err, saved,
				r.stdout, r.stderr)
		}
	}
	if n := len(readRanks(t, c.folder("run"))); n != 4 {
		t.Errorf("%s: ranks.jsonl has %d ranks, want 4", what, n)
	}
	cure()
	j = c.start(t, on, "run", start, steps(done+4), "--resume", "auto")
	c.wander(j, "run", start, draw).end(t, j, 0)
	c.checkRecord(t, "run")
	if step == "quiesce" { // the metrics depend on time
		if n := len(readMetrics(t, c.folder("run"))); n != done+4 {
			t.Errorf("%s: %d steps, want %d", what, n, done+4)
		}
		return
	}
	c.settle(t, start, steps(done+4))(t, "run")
}

// makeLogs makes the folder of logs in dir. For a full disk it mounts a small file system there.
func (b *blow) makeLogs(t *testing.T, dir string) string {
	t.Helper()
	logs := filepath.Join(dir, "logs")
	test.OK(t, os.Mkdir(logs, 0o777))
	if b.name == "full disk" {
		if err := syscall.Mount("tmpfs", logs, "tmpfs", 0, "size=16m,nr_inodes=1000"); err != nil {
			t.Skipf("mounting a small tmpfs needs root: %v", err)
		}
		t.Cleanup(func() { syscall.Unmount(logs, syscall.MNT_DETACH) })
	}
	return logs
}

// strike strikes the job j, of which the rank rank stands at the gate. It kills the rank whom, or stops the rank at the
// gate. cure removes the obstacle to another job.
func (b *blow) strike(t *testing.T, j *job, c camp, logs string, rank, whom int) (cure func()) {
	t.Helper()
	switch {
	case b.signal != 0:
		j.signal(b.signal) // the signal opens the gate, too
	case b.name == "full disk":
		cure = illnesses[0].strike(t, logs)
		writeFile(t, c.dir, "open", "")
		return cure
	case b.name == "stop":
		syscall.Kill(processOf(t, c.folder("run"), rank), syscall.SIGSTOP)
	case !j.killRank(whom):
		j.kill()
	}
	return func() {}
}
