package e2e

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"testing"
)

// A possession is what a process holds.
type possession struct {
	descriptors, threads, mappings int
	memory, shared                 float64 // MiB
}

func possessionOf(pid int) (p possession) {
	proc := fmt.Sprintf("/proc/%d/", pid)
	descriptors, _ := os.ReadDir(proc + "fd")
	threads, _ := os.ReadDir(proc + "task")
	maps, _ := os.ReadFile(proc + "maps")
	status, _ := os.ReadFile(proc + "status")
	return possession{len(descriptors), len(threads), bytes.Count(maps, []byte("\n")),
		mebibytes(regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB`), status),
		mebibytes(regexp.MustCompile(`(?m)^RssShmem:\s+(\d+) kB`), status)}
}

// TestManyMoves: after any number of moves the processes of a job hold the same memory, shared memory, descriptors and
// threads.
func TestManyMoves(t *testing.T) {
	t.Parallel()
	most, from, on, room, pages := 60, 24, []*platform{local}, 1.25, 0.5
	if full {
		// MPICH uses all its shared memory only after some 400 moves, at random. The next 2600 moves add 1 %.
		most, from, on, room, pages = 1000, 400, platforms, 1.05, 0.1
	}
	for _, on := range on {
		t.Run(on.name, func(t *testing.T) {
			t.Parallel()
			on.program(t, ".") // or skip the test
			draw := draws(t, 3)
			n := nomads()[0]
			if full {
				n = nomads()[4]
			}
			c := newCamp(t, n)
			tour := []string{n.place(draw), n.place(draw), n.place(draw), n.place(draw)}
			// With this limit there is little garbage.
			j := c.startBelow(t, []string{"env", "GOMEMLIMIT=32MiB"}, on, "run", tour[0], "runner.max_steps=100000",
				"runner.save_interval=-1", "runner.val_check_interval=-1", "runner.save_at_end=false")
			asked := 0
			held := map[int][]possession{} // of each process, each time that the tour begins again
			w := j.walk(c.folder("run"), func() string {
				if asked++; asked%len(tour) == 1 && asked > from {
					for _, p := range j.processes() {
						if p.rank >= 0 || j.launcher == "" {
							held[p.pid] = append(held[p.pid], possessionOf(p.pid))
						}
					}
				}
				if asked > most {
					return ""
				}
				return tour[asked%len(tour)]
			})
			<-w.ended
			if j.over() || int(w.made.Load()) < most || len(w.refused) > 0 {
				j.kill()
				r := j.result()
				t.Fatalf("%d moves, %q, exit code %d\n%s%s", w.made.Load(), w.refused, r.code, r.stdout, r.stderr)
			}
			j.kill()
			j.wait()
			for _, all := range held {
				part := (len(all) + 2) / 3
				first, last := least(all[:part]), least(all[len(all)-part:])
				t.Logf("after %d moves %+v, after %d %+v", from, first, most, last)
				if last.descriptors > first.descriptors+2 || last.threads > first.threads+2 ||
					float64(last.mappings) > 1.05*float64(first.mappings) || last.memory > room*first.memory ||
					last.shared > room*first.shared+pages {
					t.Error("it holds more")
				}
			}
		})
	}
}

// least returns the smallest value of each resource. Memory varies with garbage, but its minimum does not.
func least(all []possession) possession {
	l := all[0]
	for _, p := range all[1:] {
		l.descriptors, l.threads, l.mappings = min(l.descriptors, p.descriptors), min(l.threads, p.threads),
			min(l.mappings, p.mappings)
		l.memory, l.shared = min(l.memory, p.memory), min(l.shared, p.shared)
	}
	return l
}
