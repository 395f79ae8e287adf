package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/roles/runner"
)

// TestStatusOfAFolder: of a folder with runs in it the command lists each, those of sweeps too, and neither checkpoints nor runs that were set aside.
func TestStatusOfAFolder(t *testing.T) {
	logs := t.TempDir()
	for dir, files := range map[string][2]string{
		"a":                           {"done", `{"step":7}`},
		"a/checkpoints/global_step_7": {},
		"a/earlier-1":                 {"failed", `{"step":1}`},
		"sweep/lr=1/seed_2":           {"running", `{"step":3}`},
		"sweep/lr=1/seed_3":           {"running", ""},
	} {
		dir = filepath.Join(logs, dir)
		err := errors.Join(os.MkdirAll(dir, 0o777), os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("{}"), 0o666))
		if files[0] != "" {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, "STATUS"), []byte(files[0]+"\n"), 0o666),
				os.WriteFile(filepath.Join(dir, "metrics.jsonl"), []byte(files[1]+"\n"), 0o666))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := run(t, "status", logs)
	want := strings.ReplaceAll(`run         LOGS/a: done after step 7
run         LOGS/sweep/lr=1/seed_2: dead after step 3
run         LOGS/sweep/lr=1/seed_3: dead
`, "LOGS", logs)
	if code != runner.ExitOK || out != want || errs != "" {
		t.Errorf("code %d\n%s%s\nwant\n%s", code, out, errs, want)
	}
	empty := t.TempDir()
	for dir, want := range map[string]string{
		empty:                      "status: " + empty + ": expected the folder of a run, or one with runs in it\n",
		filepath.Join(empty, "no"): "status: " + filepath.Join(empty, "no") + ": no such folder\n",
	} {
		if code, out, errs := run(t, "status", dir); code != runner.ExitConfig || out != "" || errs != want {
			t.Errorf("%s: code %d\n%s%s\nwant %s", dir, code, out, errs, want)
		}
	}
}
