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

	"github.com/rlinf/rlinf/internal/moves"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
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
		test.OK(t, err)
	}
	provenance := filepath.Join(logs, "sweep/lr=1/seed_2/provenance.json")
	writeFile(t, provenance, `[{"iterations": 9}]`)
	now := time.Now()
	for i, run := range []string{"a", "sweep/lr=1/seed_3", "sweep/lr=1/seed_2"} { // the last is the newest
		at := now.Add(time.Duration(i-9) * time.Minute)
		for _, name := range []string{"config.yaml", "STATUS", "metrics.jsonl"} {
			test.OK(t, os.Chtimes(filepath.Join(logs, run, name), now, at))
		}
	}
	return logs
}

// TestStatusOfAFolder: for a folder the command lists all runs, also those of sweeps, the newest first. It lists no
// checkpoints and no runs that were set aside.
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

// TestStatusOfADamagedRun: a STATUS that cannot be read does not hide the other runs.
func TestStatusOfADamagedRun(t *testing.T) {
	logs := folderOfRuns(t)
	test.OK(t, os.Truncate(filepath.Join(logs, "a", "STATUS"), 2<<20))
	code, out, errs := run(t, "status", logs)
	if code != loop.ExitOK || errs != "" || strings.Count(out, "\n") != 4 ||
		!regexp.MustCompile(regexp.QuoteMeta(logs)+`/a +unreadable +0 `).MatchString(out) {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
	code, out, errs = run(t, "status", filepath.Join(logs, "a"))
	if code != loop.ExitConfig || out != "" || !strings.HasSuffix(errs, "STATUS: more than 1 MiB\n") {
		t.Errorf("of the run alone: code %d\n%s%s", code, out, errs)
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
	test.OK(t, os.Rename(logs, "logs"))
	if _, out, _ := run(t, "status"); !strings.Contains(out, "\nlogs/a ") {
		t.Errorf("without an argument: %s", out)
	}
}

// TestStatusOfNoRun: a folder without runs is an error, and so is a missing folder.
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

// TestStatusOfARunThatMoved: status shows the present placement and the newest move, with times from the metrics. A run
// that was started anew has the placement of its configuration.
func TestStatusOfARunThatMoved(t *testing.T) {
	dir := placedRunFolder(t, runfolder.Done)
	writeFile(t, filepath.Join(dir, "metrics.jsonl"), `{"step":1,"time/step":0.5}`+"\n"+
		`{"step":2,"time/step":0.25}`+"\n"+`{"step":3,"time/step":2}`+"\n")
	before := func(s int) time.Time { return time.Date(2026, 3, 4, 5, 6, s, 0, time.UTC) } // the start is at 30 s
	if _, out, _ := run(t, "status", dir); strings.Contains(out, "placement") || strings.Contains(out, "moved") {
		t.Errorf("before any move\n%s", out)
	}
	for i, m := range []moves.Move{
		{Step: 1, Time: before(20), Reason: "earlier\x1b", After: "{actor: 0-1, env: 0, rollout: 0}"},
		{Step: 2, Time: before(40), Reason: "asked for by rlinf scale",
			Before: "{actor: 0-1, env: 2, rollout: 3}", After: "{actor: 0-1, env: 3, rollout: 2}",
			Seconds: 0.2, Bytes: 3 << 20, Members: 2, Predicted: 1.5},
	} {
		test.OK(t, moves.Append(dir, m))
		want := []string{`placement   {actor: 0-1, env: 2, rollout: 3}
moved       after step 1, LOCAL: → {actor: 0-1, env: 0, rollout: 0}
            earlier\x1b; 0 s, 0 members, 0 B sent
            500 ms an iteration before, 1.12 s after
`, `placement   {actor: 0-1, env: 3, rollout: 2}
moved       after step 2, LOCAL: env 2 → 3, rollout 3 → 2
            asked for by rlinf scale; 200 ms, 2 members, 3 MiB sent
            250 ms an iteration before, 2 s after, 1.5 s predicted, 2 moves in all
`}[i]
		want = strings.ReplaceAll(want, "LOCAL", m.Time.Local().Format("2006-01-02 15:04:05"))
		if code, out, errs := run(t, "status", dir); code != 0 || !strings.HasSuffix(out, want) || errs != "" {
			t.Errorf("code %d\n%s%s\nwant\n%s", code, out, errs, want)
		}
	}
	var all []results.Standing
	_, out, _ := run(t, "status", "--json", dir)
	if err := json.Unmarshal([]byte(out), &all); err != nil || all[0].Moves != 2 || all[0].LastMove.Step != 2 ||
		all[0].Placement != "{actor: 0-1, env: 3, rollout: 2}" {
		t.Errorf("%v, %s", err, out)
	}
}
