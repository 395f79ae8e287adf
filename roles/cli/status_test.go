package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/roles/loop"
)

// folderOfRuns writes a folder with runs in it: a, which is done, with a checkpoint and a run that was set aside, and
// two of a sweep, of which seed_2 is the newest and seed_3 has no record yet.
func folderOfRuns(t *testing.T) (logs string) {
	t.Helper()
	logs = t.TempDir()
	for dir, files := range map[string][2]string{
		"a":                           {"done", `{"step":7}`},
		"a/checkpoints/global_step_7": {},
		"a/earlier-1":                 {"failed", `{"step":1}`},
		"sweep/lr=1/seed_2": {"running", `{"step":2,"env/return":4.5,"time/step":9}` + "\n" +
			`{"step":3,"time/env_steps_per_second":250,"env/return":null}`},
		"sweep/lr=1/seed_3": {"running", ""},
	} {
		dir = filepath.Join(logs, dir)
		config := filepath.Join(dir, "config.yaml")
		err := errors.Join(os.MkdirAll(dir, 0o777), os.WriteFile(config, []byte("{}"), 0o666))
		if files[0] != "" {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, "STATUS"), []byte(files[0]+"\n"), 0o666),
				os.WriteFile(filepath.Join(dir, "metrics.jsonl"), []byte(files[1]+"\n"), 0o666))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	provenance := filepath.Join(logs, "sweep/lr=1/seed_2/provenance.json")
	if err := os.WriteFile(provenance, []byte(`[{"iterations": 9}]`), 0o666); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for i, run := range []string{"a", "sweep/lr=1/seed_3", "sweep/lr=1/seed_2"} { // the last is the newest
		at := now.Add(time.Duration(i-9) * time.Minute)
		for _, name := range []string{"config.yaml", "STATUS", "metrics.jsonl"} {
			if err := os.Chtimes(filepath.Join(logs, run, name), now, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	return logs
}

// TestStatusOfAFolder: of a folder with runs in it the command lists each, those of sweeps too, the newest first, and
// neither checkpoints nor runs that were set aside.
func TestStatusOfAFolder(t *testing.T) {
	logs := folderOfRuns(t)
	code, out, errs := run(t, "status", logs)
	want := strings.ReplaceAll(`LOGS/sweep/lr=1/seed_2 dead 3/9 return 4.5 250 env steps/s
LOGS/sweep/lr=1/seed_3 dead 0
LOGS/a done 7
`, "LOGS", logs)
	narrow := regexp.MustCompile(` +`).ReplaceAllString(out, " ")
	head, rest, _ := strings.Cut(regexp.MustCompile(`(?m) +$`).ReplaceAllString(narrow, ""), "\n")
	if code != loop.ExitOK || head != "run status step training rate time left" || rest != want || errs != "" {
		t.Errorf("code %d\n%s%s\nwant\n%s", code, out, errs, want)
	}
}

// TestStatusAsJSON: with --json each run is an object with all that is known of it.
func TestStatusAsJSON(t *testing.T) {
	logs := folderOfRuns(t)
	var all []map[string]any
	code, out, errs := run(t, "status", "--json", logs)
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != loop.ExitOK || len(all) != 3 {
		t.Fatalf("code %d, %v\n%s%s", code, err, out, errs)
	}
	delete(all[0], "updated")
	want := map[string]any{"run": filepath.Join(logs, "sweep/lr=1/seed_2"), "status": "dead", "step": 3.0, "steps": 9.0,
		"metric": "env/return", "value": 4.5, "rate": 250.0, "rate_unit": "env steps/s"}
	if !reflect.DeepEqual(all[0], want) {
		t.Errorf("got %v, want %v", all[0], want)
	}
}

// TestStatusWithoutAFolder: without an argument the command looks into logs.
func TestStatusWithoutAFolder(t *testing.T) {
	logs := folderOfRuns(t)
	t.Chdir(filepath.Dir(logs))
	if err := os.Rename(logs, "logs"); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := run(t, "status"); !strings.Contains(out, "\nlogs/a ") {
		t.Errorf("without an argument: %s", out)
	}
}

// TestStatusOfNoRun: a folder without runs, or one that is not there, is an error.
func TestStatusOfNoRun(t *testing.T) {
	empty := t.TempDir()
	for dir, want := range map[string]string{
		empty:                      "status: " + empty + ": expected the folder of a run, or one with runs in it\n",
		filepath.Join(empty, "no"): "status: " + filepath.Join(empty, "no") + ": no such folder\n",
	} {
		if code, out, errs := run(t, "status", dir); code != loop.ExitConfig || out != "" || errs != want {
			t.Errorf("%s: code %d\n%s%s\nwant %s", dir, code, out, errs, want)
		}
	}
}
