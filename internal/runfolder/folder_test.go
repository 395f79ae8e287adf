package runfolder_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/runfolder"
)

func TestPathBelowAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(file, "run")
	if _, err := runfolder.Open(below, ""); err == nil || !strings.Contains(err.Error(), below+": ") ||
		!strings.Contains(err.Error(), "not a directory") {
		t.Errorf("got %v", err)
	}
}

func TestStatus(t *testing.T) {
	f := open(t, t.TempDir())
	if s, err := runfolder.ReadStatus(f.Path()); s != "" || err != nil {
		t.Errorf("before any: %q, %v", s, err)
	}
	for _, want := range []runfolder.Status{runfolder.Running, runfolder.Checkpointed, runfolder.Running,
		runfolder.Done} {
		if err := f.SetStatus(want); err != nil {
			t.Fatal(err)
		}
		if got, err := runfolder.ReadStatus(f.Path()); got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		if b, err := os.ReadFile(filepath.Join(f.Path(), "STATUS")); err != nil || string(b) != string(want)+"\n" {
			t.Errorf("STATUS holds %q (%v), want the word alone", b, err)
		}
	}
}

func TestFinished(t *testing.T) {
	f := open(t, t.TempDir())
	if err := f.WriteConfig([]byte("a: 1\n")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status runfolder.Status
		config string
		want   bool
	}{{runfolder.Running, "a: 1\n", false}, {runfolder.Done, "a: 2\n", false}, {runfolder.Done, "a: 1\n", true}} {
		if err := f.SetStatus(c.status); err != nil {
			t.Fatal(err)
		}
		if got := runfolder.Finished(f.Path(), func(b []byte) bool { return string(b) == c.config }); got != c.want {
			t.Errorf("%s, %q: %v", c.status, c.config, got)
		}
	}
	if runfolder.Finished(t.TempDir(), func([]byte) bool { return true }) {
		t.Error("an empty folder counts as finished")
	}
}

func TestSetAside(t *testing.T) {
	f := open(t, t.TempDir())
	if to, err := f.SetAside(); to != "" || err != nil {
		t.Errorf("of an empty folder: %q, %v", to, err)
	}
	for i, want := range []string{"earlier-1", "earlier-2"} {
		if err := f.WriteConfig([]byte{byte('a' + i)}); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(f.Checkpoints(), "global_step_5"), 0o777); err != nil {
			t.Fatal(err)
		}
		to, err := f.SetAside()
		if err != nil || to != filepath.Join(f.Path(), want) {
			t.Fatalf("got %q, %v, want %s", to, err, want)
		}
		if b, err := os.ReadFile(filepath.Join(to, "config.yaml")); err != nil ||
			string(b) != string([]byte{byte('a' + i)}) {
			t.Errorf("%s: config.yaml holds %q (%v)", want, b, err)
		}
		if _, err := os.Stat(filepath.Join(to, "checkpoints", "global_step_5")); err != nil {
			t.Error(err)
		}
	}
	if got := names(t, f.Path()); !slices.Equal(got, []string{"earlier-1", "earlier-2", "lock"}) {
		t.Errorf("left in the folder: %v", got)
	}
}

func TestWriteRanks(t *testing.T) {
	f := open(t, t.TempDir())
	if err := f.WriteRanks([]runfolder.Rank{{0, 17, "node0", []string{"actor", "env"}},
		{1, 18, "node1", []string{"rollout"}}}); err != nil {
		t.Fatal(err)
	}
	const want = `{"rank":0,"pid":17,"host":"node0","components":["actor","env"]}
{"rank":1,"pid":18,"host":"node1","components":["rollout"]}
`
	if got, err := os.ReadFile(filepath.Join(f.Path(), "ranks.jsonl")); err != nil || string(got) != want {
		t.Errorf("got %s (%v), want %s", got, err, want)
	}
}

func TestProvenanceOfEveryStart(t *testing.T) {
	t.Setenv("OMPI_MCA_btl", "tcp,self")
	t.Setenv("UCX_TLS", "sm")
	t.Setenv("SLURM_JWT", "secret")
	t.Setenv("HOME_OF_NOBODY", "x")
	f := open(t, t.TempDir())
	for _, job := range []string{"1", "2"} {
		p := runfolder.Describe(job)
		p.Library, p.Hosts, p.Binding = "Open MPI v4.1.4", []string{"node0", "node1"},
			[]string{runfolder.Binding(), "1"}
		if err := f.AddProvenance(p); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(f.Path(), "provenance.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got []runfolder.Provenance
	if err := json.Unmarshal(data, &got); err != nil || len(got) != 2 {
		t.Fatalf("%d entries (%v) in %s", len(got), err, data)
	}
	for i, p := range got {
		if p.Job != []string{"1", "2"}[i] || p.Library != "Open MPI v4.1.4" || p.Build.Go != runtime.Version() ||
			len(p.Args) == 0 || p.MaxProcs < 1 {
			t.Errorf("entry %d: %+v", i, p)
		}
		if p.Env["OMPI_MCA_btl"] != "tcp,self" || p.Env["UCX_TLS"] != "sm" {
			t.Errorf("entry %d: environment %v", i, p.Env)
		}
		for _, name := range []string{"SLURM_JWT", "HOME_OF_NOBODY"} {
			if _, ok := p.Env[name]; ok {
				t.Errorf("entry %d tells %s", i, name)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(f.Path(), "provenance.json"), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := f.AddProvenance(runfolder.Describe("3")); err == nil ||
		!strings.Contains(err.Error(), "provenance.json") {
		t.Errorf("added to a file that is no JSON: %v", err)
	}
}

func TestRankLog(t *testing.T) {
	if got := runfolder.RankLog("/r", 7); got != "/r/logs/rank-0007.log" {
		t.Errorf("got %s", got)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
