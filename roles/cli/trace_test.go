package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/roles/loop"
)

// recorded is the folder of a run of which an iteration was recorded.
func recorded(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(folderOfRuns(t), "a")
	log := trace.NewLog(trace.Options{Run: dir, Attempt: 1, Ranks: 1, Host: "node-a"})
	r := log.Recorder("env", 0)
	log.Start()
	r.Begin(r.Site(trace.Site{Op: trace.Work, Name: "simulate", Cause: trace.Working}))
	r.End(0, 0)
	log.Cut(1)
	test.OK(t, log.Write())
	return dir
}

// TestTrace: the trace of a run is written into its folder, or to the file of --out.
func TestTrace(t *testing.T) {
	dir := recorded(t)
	elsewhere := filepath.Join(t.TempDir(), "x.json")
	for path, args := range map[string][]string{
		filepath.Join(dir, "trace.json"): {"trace", dir}, elsewhere: {"trace", dir, "--out", elsewhere},
	} {
		code, out, errs := run(t, args...)
		want := path + ": 1 iterations; open it in ui.perfetto.dev\n"
		if code != loop.ExitOK || out != want || errs != "" {
			t.Errorf("code %d\n%s%s\nwant\n%s", code, out, errs, want)
		}
		text, err := os.ReadFile(path)
		if err != nil || !json.Valid(text) || !strings.Contains(string(text), `"simulate"`) {
			t.Errorf("%v:\n%s", err, text)
		}
	}
}

// TestTraceOfNone: a folder that is no run is a mistake; a run without a trace is an error.
func TestTraceOfNone(t *testing.T) {
	logs, empty := folderOfRuns(t), t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, loop.ExitConfig, "trace: expected the folder of one run; rlinf status lists runs\n"},
		{[]string{empty}, loop.ExitConfig, "trace: " + empty + ": expected the folder of a run\n"},
		{[]string{logs + "/a"}, loop.ExitFailed,
			"trace: " + logs + "/a/trace: no iteration of this run was recorded\n"},
	} {
		code, out, errs := run(t, append([]string{"trace"}, c.args...)...)
		if code != c.code || out != "" || errs != c.want {
			t.Errorf("%q: code %d\n%s%s\nwant %d, %s", c.args, code, out, errs, c.code, c.want)
		}
	}
}

// TestWatch: without a terminal, watch writes the state of a run that has ended, and ends. A folder without a run is a
// mistake, and so is one with several.
func TestWatch(t *testing.T) {
	logs, foreign := folderOfRuns(t), t.TempDir()
	writeFile(t, filepath.Join(foreign, "notes"), "") // an empty folder may become that of a run
	if code, out, errs := run(t, "watch", logs+"/a"); code != loop.ExitOK || out != "done · step 7\n" || errs != "" {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
	newest := logs + "/sweep/lr=1/seed_2"
	if code, out, _ := run(t, "watch", newest); code != loop.ExitOK ||
		out != "dead · step 3/9 · return 4.5 · 250 env steps/s\n" {
		t.Errorf("code %d\n%s", code, out)
	}
	for dir, want := range map[string]string{
		foreign: "watch: " + foreign + ": expected the folder of a run, or one with runs in it\n",
		logs:    "watch: " + logs + ": expected the folder of a run, such as " + newest + ", the newest in it\n",
	} {
		if code, out, errs := run(t, "watch", dir); code != loop.ExitConfig || out != "" || errs != want {
			t.Errorf("code %d\n%s%s\nwant\n%s", code, out, errs, want)
		}
	}
}
