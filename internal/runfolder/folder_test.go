package runfolder_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
)

func TestPathBelowAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	test.OK(t, os.WriteFile(file, nil, 0o666))
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
		test.OK(t, f.SetStatus(want))
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
	test.OK(t, f.WriteConfig([]byte("a: 1\n")))
	for _, c := range []struct {
		status runfolder.Status
		config string
		want   bool
	}{{runfolder.Running, "a: 1\n", false}, {runfolder.Done, "a: 2\n", false}, {runfolder.Done, "a: 1\n", true}} {
		test.OK(t, f.SetStatus(c.status))
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
		test.OK(t, f.WriteConfig([]byte{byte('a' + i)}))
		test.OK(t, os.MkdirAll(filepath.Join(f.Checkpoints(), "global_step_5"), 0o777))
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
	if got := names(t, f.Path()); !slices.Equal(got, []string{".rlinf-run", "earlier-1", "earlier-2", "lock"}) {
		t.Errorf("left in the folder: %v", got)
	}
}

// A new run moves only what a run writes. A user's files stay, also beside the files of a run.
func TestSetAsideLeavesOtherFiles(t *testing.T) {
	f := open(t, t.TempDir())
	runs := []string{"config.yaml", "provenance.json", "ranks.jsonl", "STATUS", "STATUS.4711", "metrics.jsonl",
		".writing-config.yaml", "answers.txt", "generation.jsonl", "live.json", "plan.json", "trace.json",
		"moves.jsonl", "move-request.json", "move-request.json.ABC", "move-request.taken", "move-answers.jsonl",
		"tensorboard/events.out.tfevents.1700000000.node7.0", "checkpoints/global_step_5/model.safetensors",
		"checkpoints/superseded_global_step_7/model.safetensors", "trace/node-0000.bin", "trace/rank-0001.bin",
		"trace/phases.bin", "videos/global_step_5.png", "logs/rank-0000.log"}
	others := []string{"boat.py", "slurm-17.out", "notes/a.md", "logs/slurm-18.out", "videos/boat.mp4", "STATUS.txt",
		"checkpoints/keep/model.safetensors", "earlier-notes.md", "earlier-7/config.yaml", "config.yaml.orig"}
	for _, name := range slices.Concat(runs, others) {
		path := filepath.Join(f.Path(), name)
		test.OK(t, os.MkdirAll(filepath.Dir(path), 0o777))
		put(t, path, name, 0)
	}
	test.OK(t, os.Symlink("global_step_5", filepath.Join(f.Checkpoints(), "latest")))
	to, err := f.SetAside()
	if err != nil || filepath.Base(to) != "earlier-8" {
		t.Fatalf("%q, %v, expected earlier-8", to, err)
	}
	for dir, names := range map[string][]string{to: append(runs, "checkpoints/latest/model.safetensors"),
		f.Path(): others} {
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || string(text) != name && !strings.HasPrefix(name, "checkpoints/latest") {
				t.Errorf("%q, %v", text, err)
			}
		}
	}
	want := []string{".rlinf-run", "STATUS.txt", "boat.py", "checkpoints", "config.yaml.orig", "earlier-7", "earlier-8",
		"earlier-notes.md", "lock", "logs", "notes", "slurm-17.out", "videos"}
	test.EqualSlices(t, names(t, f.Path()), want, "left in the folder")
	if to, err := f.SetAside(); to != "" || err != nil {
		t.Errorf("of a folder with only other files: %q, %v", to, err)
	}
}

// A user may keep the checkpoints on another disk, by a symbolic link.
func TestSetAsideMovesLinkedFolders(t *testing.T) {
	f, disk := open(t, t.TempDir()), t.TempDir()
	test.OK(t, os.Symlink(disk, f.Checkpoints()))
	put(t, filepath.Join(disk, "global_step_1"), "", 0)
	to, err := f.SetAside()
	test.OK(t, err)
	if at, err := os.Readlink(filepath.Join(to, "checkpoints")); at != disk || err != nil {
		t.Errorf("checkpoints of the earlier run: %q, %v, expected a link to %s", at, err, disk)
	}
	test.EqualSlices(t, names(t, disk), []string{"global_step_1"}, "on the disk")
	// The disk may be gone.
	test.OK(t, os.Symlink(filepath.Join(disk, "gone"), f.Checkpoints()))
	if to, err = f.SetAside(); err != nil || !slices.Equal(names(t, to), []string{"checkpoints"}) {
		t.Errorf("a link to nothing: %q, %v, expected it in a new folder", to, err)
	}
}

// A folder that is no run's, and holds files, is refused before anything is written.
func TestForeignFolder(t *testing.T) {
	for _, c := range []struct {
		files []string // NAME, NAME=TEXT, or FOLDER/
		says  string   // "" if the folder may be used
	}{
		{nil, ""},
		{[]string{"lock", ".clock-12"}, ""}, // a start that was killed
		{[]string{".rlinf-run", "boat.py"}, ""},
		{[]string{"videos/eval/", "tensorboard/"}, ""},
		{[]string{"config.yaml", "STATUS", "slurm-1.out"}, ""}, // of version 0.1.0
		{[]string{"checkpoints/global_step_5/manifest.json", "notes.txt"}, ""},
		{[]string{"boat.yaml", "boat.py"}, `("boat.py", "boat.yaml")`},
		{[]string{"config.yaml"}, `("config.yaml")`},
		{[]string{"STATUS", "b", "c", "d\x1b[2J", "e"}, `("STATUS", "b", "c", 2 more)`},
		{[]string{"d\x1b[2J"}, `("d\x1b[2J")`},
		{[]string{"checkpoints/best.pt", "lock"}, `("checkpoints")`},
		{[]string{"lock=of my door", "lock.claim=mine"}, `("lock", "lock.claim")`},
		{[]string{"lock={\"host\":\"a\"}"}, ""},
	} {
		path := t.TempDir()
		for _, name := range c.files {
			dir, _ := filepath.Split(name)
			test.OK(t, os.MkdirAll(filepath.Join(path, dir), 0o777))
			if name, text, _ := strings.Cut(name, "="); !strings.HasSuffix(name, "/") {
				put(t, filepath.Join(path, name), text, time.Hour)
			}
		}
		before := names(t, path)
		f, err := runfolder.Open(path, "")
		if c.says == "" {
			if err != nil {
				t.Errorf("%q: %v", c.files, err)
				continue
			}
			f.Close()
			if got := names(t, path); !slices.Contains(got, ".rlinf-run") {
				t.Errorf("%q: not marked: %q", c.files, got)
			}
			continue
		}
		want := "run folder " + path + ": holds other files " + c.says + ", expected the folder of a run, or an " +
			"empty one; choose another runner.logger.experiment_name or runner.logger.log_path"
		if err == nil || err.Error() != want {
			t.Errorf("%q: got %v, expected %s", c.files, err, want)
		}
		if got := names(t, path); !slices.Equal(got, before) {
			t.Errorf("%q: changed to %q", before, got)
		}
	}
}

func TestWriteRanks(t *testing.T) {
	f := open(t, t.TempDir())
	test.OK(t, f.WriteRanks([]runfolder.Rank{{0, 17, "node0", []string{"actor", "env"}},
		{1, 18, "node1", []string{"rollout"}}}))
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
		test.OK(t, f.AddProvenance(p))
	}
	data := test.Must(os.ReadFile(filepath.Join(f.Path(), "provenance.json")))(t)
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
	test.OK(t, os.WriteFile(filepath.Join(f.Path(), "provenance.json"), []byte("{"), 0o666))
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
	entries := test.Must(os.ReadDir(dir))(t)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
