package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A benchReport has the parts of a report that these tests read.
type benchReport struct {
	Complete bool `json:"complete"`
	Rows     []struct {
		Op      string             `json:"op"`
		Algo    string             `json:"algo"`
		N       int                `json:"n"`
		Samples []float64          `json:"samples_us"`
		Wrong   int64              `json:"wrong"`
		Figures map[string]float64 `json:"figures"`
	} `json:"rows"`
}

func readBench(t *testing.T, path string) (r benchReport) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%.2000s", path, err, text)
	}
	return r
}

// TestBenchOnMPI runs the benchmarks on MPI ranks, with the library's own calls for comparison.
func TestBenchOnMPI(t *testing.T) {
	t.Parallel()
	for _, p := range platforms[1:] {
		t.Run(p.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, c := range []struct {
				args string
				rows int
			}{
				{"bench --baseline --algo auto,mpi --op barrier,broadcast,allreduce --sizes 100 --np-sweep " +
					"2,3", 3 * 4 * 2},
				{"bench --mem arena,go --place both --sizes 3K -d f32,bf16 --root rotate --op reduce,gather",
					2 * 2 * 4},
				{"bench p2p --sizes 0,70K --window 5 --pair 2,1 --op latency,bandwidth,bibandwidth,message_rate", 8},
				{"bench channel --sizes 5000 --window 4 --consume 10us", 3},
				{"bench overlap --sizes 8K", 1},
				{"bench weights --sizes 8K", 3},
				{"bench env --name Pendulum-v1", 1},
			} {
				args, want := c.args, c.rows
				r := p.ok(t, dir, 3, append(strings.Fields(args), "-n", "6", "--out", "out.json")...)
				rep := readBench(t, filepath.Join(dir, "out.json"))
				if len(rep.Rows) != want || !rep.Complete {
					t.Errorf("%s: %d rows, want %d\n%s%s", args, len(rep.Rows), want, r.stdout, r.stderr)
				}
				for _, row := range rep.Rows {
					if row.Wrong != 0 || len(row.Samples) != 6 {
						t.Errorf("%s: %s by %s: %d wrong, %d samples", args, row.Op, row.Algo, row.Wrong,
							len(row.Samples))
					}
					if _, ok := row.Figures["ratio_x"]; ok != strings.Contains(args, "--baseline") {
						t.Errorf("%s: %s by %s has figures %v", args, row.Op, row.Algo, row.Figures)
					}
				}
			}
		})
	}
}

// TestBenchInterrupted interrupts a benchmark that would take an hour. The results so far are written.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	for _, p := range platforms {
		t.Run(p.name, func(t *testing.T) {
			// Open MPI's launcher kills ranks after so many seconds; the default is one.
			patient := []string{"env", "OMPI_MCA_odls_base_sigkill_timeout=5"}
			dir := t.TempDir()
			j := p.startBelow(t, patient, p.program(t, "."), dir, 2,
				strings.Fields("bench --sizes 8,64 -n 16777216 --max-time 1h --out out.txt --out out.json")...)
			for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
				text, _ := os.ReadFile(filepath.Join(dir, "out.txt"))
				if bytes.Contains(text, []byte("#wrong")) { // the head of the table: the first row is being measured
					break
				}
				if time.Since(start) > hung || j.over() {
					j.kill()
					t.Fatalf("no header: %s", text)
				}
			}
			time.Sleep(50 * time.Millisecond) // in the middle of the benchmark
			j.signal(syscall.SIGINT)
			code := j.wait()
			// The exit code of MPICH's launcher is not reliable here.
			if p == local && code != 130 || p == openmpi && code == 0 {
				t.Errorf("exit code %d, want 130, or not 0 from a launcher\n%s", code, &j.stderr)
			}
			rep := readBench(t, filepath.Join(dir, "out.json"))
			if rep.Complete || len(rep.Rows) != 1 || len(rep.Rows[0].Samples) == 0 {
				t.Errorf("complete %v, %d rows\n%s%s", rep.Complete, len(rep.Rows), &j.stdout, &j.stderr)
			}
			if !strings.Contains(j.stdout.String(), "interrupted: this is what was measured until then") {
				t.Errorf("%s", &j.stdout)
			}
		})
	}
}

// TestBenchScale runs jobs on several numbers of ranks.
func TestBenchScale(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", strings.Replace(good, "actor: 0-1\n    env: 0\n    rollout: 1\n",
		"actor,env,rollout: all\n", 1))
	r := local.ok(t, dir, 0,
		strings.Fields("bench scale -c job.yaml --np-sweep 1,2 --steps 3 --skip 1 --out out.json")...)
	rep := readBench(t, filepath.Join(dir, "out.json"))
	if len(rep.Rows) != 2 || rep.Rows[1].N != 2 || len(rep.Rows[1].Samples) != 2 ||
		!(rep.Rows[1].Figures["efficiency_pct"] > 0) {
		t.Errorf("%+v\n%s", rep.Rows, r.stdout)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("files are left: %v", entries)
	}
}
