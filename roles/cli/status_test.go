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

// TestStatusOfAFolder: of a folder with runs in it the command lists each, those of sweeps too, and neither checkpoints
// nor runs that were set aside.
func TestStatusOfAFolder(t *testing.T) {
	logs := t.TempDir()
	for dir, files := range map[string][2]string{
		"a":                           {"done", `{"step":7}`},
		"a/checkpoints/global_step_7": {},
		"a/earlier-1":                 {"failed", `{"step":1}`},
		"sweep/lr=1/seed_2": {"running", `{"step":2,"env/return":4.5,"time/step":9}` + "\n" +
			`{"step":3,"time/env_steps_per_second":250,"env/return":null}`},
		"sweep/lr=1/seed_3": {"running", ""},
	} {
		dir = filepath.Join(logs, dir)
		err := errors.Join(os.MkdirAll(dir, 0o777), os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("{}"),
			0o666))
		if files[0] != "" {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, "STATUS"), []byte(files[0]+"\n"), 0o666),
				os.WriteFile(filepath.Join(dir, "metrics.jsonl"), []byte(files[1]+"\n"), 0o666))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(logs, "sweep/lr=1/seed_2/provenance.json"), []byte(`[{"iterations": 9}]`),
		0o666); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for i, run := range []string{"a", "sweep/lr=1/seed_3", "sweep/lr=1/seed_2"} { // the last is the newest
		for _, name := range []string{"config.yaml", "STATUS", "metrics.jsonl"} {
			if err := os.Chtimes(filepath.Join(logs, run, name), now,
				now.Add(time.Duration(i-9)*time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
	}
	code, out, errs := run(t, "status", logs)
	want := strings.ReplaceAll(`LOGS/sweep/lr=1/seed_2 dead 3/9 return 4.5 250 env steps/s
LOGS/sweep/lr=1/seed_3 dead 0
LOGS/a done 7
`, "LOGS", logs)
	head, rest, _ := strings.Cut(
		regexp.MustCompile(`(?m) +$`).ReplaceAllString(regexp.MustCompile(` +`).ReplaceAllString(out, " "), ""), "\n")
	if code != loop.ExitOK || head != "run status step training rate time left" || rest != want || errs != "" {
		t.Errorf("code %d\n%s%s\nwant\n%s", code, out, errs, want)
	}
	var all []map[string]any
	code, out, errs = run(t, "status", "--json", logs)
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != loop.ExitOK || len(all) != 3 {
		t.Fatalf("code %d, %v\n%s%s", code, err, out, errs)
	}
	delete(all[0], "updated")
	if want := map[string]any{"run": filepath.Join(logs, "sweep/lr=1/seed_2"), "status": "dead", "step": 3.0,
		"steps": 9.0, "metric": "env/return", "value": 4.5,
		"rate": 250.0, "rate_unit": "env steps/s"}; !reflect.DeepEqual(all[0], want) {
		t.Errorf("got %v, want %v", all[0], want)
	}
	t.Chdir(filepath.Dir(logs))
	if err := os.Rename(logs, "logs"); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := run(t, "status"); !strings.Contains(out, "\nlogs/a ") {
		t.Errorf("without an argument: %s", out)
	}
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
