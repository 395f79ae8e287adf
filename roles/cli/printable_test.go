package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/cli/manual"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/urfave/cli/v2"
)

// evil clears a terminal, sets its title, turns the direction of the text, and begins a line of its own. Its letters
// are harmless.
const evil = "é加\x1b[2J\x1b]0;title\a\r\u009b31m\u202e\x7f\xff\nFORGED"

// evilRun writes the folder of a run whose name, keys, values, metrics, moves and status are hostile and long.
func evilRun(t *testing.T, logs string) (dir string) {
	t.Helper()
	dir = filepath.Join(logs, evil)
	long := evil + strings.Repeat("long", 1<<14)
	quoted := func(text string) string {
		b := test.Must(json.Marshal(text))(t)
		return string(b)
	}
	text := test.Must(os.ReadFile(rolestest.Cartpole))(t)
	settings := strings.Replace(string(text), "runner:",
		"runner:\n  "+quoted(long)+": 1\n  task_type: "+quoted(long), 1)
	settings += "\n" + quoted(evil) + ": {" + quoted(long) + ": " + quoted(long) + "}\n"
	for name, text := range map[string]string{
		"config.yaml": settings, "STATUS": long + "\n",
		"metrics.jsonl": `{"step": 1, "env/return": 2, "eval/return": 3, ` + quoted("eval/"+long) + ": 4}\n",
		"moves.jsonl": `{"step":1,"time":"2026-01-01T00:00:00Z","reason":` + quoted(long) + `,"before":` +
			quoted(long) + `,"after":` + quoted(long) + `,"seconds":2,"bytes":7,"members":1}` + "\n",
		"provenance.json":    `[{"iterations": 3, "launcher": ` + quoted(long) + `, "hosts": [` + quoted(long) + `]}]`,
		"logs/rank-0000.log": "warning: " + long + "\n",
	} {
		test.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
		writeFile(t, filepath.Join(dir, name), text)
	}
	return dir
}

// goodRun writes the folder of a run that has a hostile name and status, and a valid configuration.
func goodRun(t *testing.T, logs string) (dir string) {
	t.Helper()
	dir = filepath.Join(logs, "good"+evil)
	evaluated(t, dir, 1, 5)
	text := test.Must(os.ReadFile(rolestest.Cartpole))(t)
	writeFile(t, filepath.Join(dir, "config.yaml"), string(text))
	writeFile(t, filepath.Join(dir, "STATUS"), evil)
	return dir
}

// TestPrintable: no command passes control characters, forged lines or lines of megabytes from the name of a folder,
// the files in it, keys, values and flags on to a terminal.
func TestPrintable(t *testing.T) {
	logs := t.TempDir()
	dir := evilRun(t, logs)
	good := goodRun(t, logs)
	valid := test.Must(filepath.Abs(rolestest.Cartpole))(t)
	t.Chdir(t.TempDir()) // some commands write files there
	tried, seen := 0, map[string]bool{}
	check := func(words ...string) {
		t.Helper()
		tried++
		_, out, errs := run(t, words...)
		for _, text := range []string{out, errs} {
			if safe := printable.Text(text); safe != text {
				at := 0
				for at < len(text) && text[at] == safe[at] {
					at++
				}
				t.Errorf("rlinf %.200q shows %.100q", words, text[max(0, at-50):])
			}
			for line := range strings.Lines(text) {
				if len(line) > 8<<10 {
					t.Errorf("rlinf %.200q shows a line of %d bytes: %.300s", words, len(line), line)
				}
				if strings.HasPrefix(line, "FORGED") {
					t.Errorf("rlinf %.200q shows a forged line:\n%.1000s", words, text)
				}
			}
		}
	}
	walk := func(path string, flags []cli.Flag) {
		words := strings.Fields(path)
		takes := func(more ...string) { check(append(slices.Clone(words), more...)...) }
		if args.TakesValue(flags, "config") {
			takes("-c", filepath.Join(dir, "config.yaml"))
			takes("-c", filepath.Join(logs, evil, evil))
			takes("-c", valid, evil+"="+evil, "actor.model.model_type="+evil, "actor.optim.lr="+evil,
				"cluster.component_placement="+evil, "env.train.env_type="+evil)
		} else {
			for _, more := range [][]string{{dir}, {good}, {dir, good}, {logs}, {dir, evil}} {
				takes(more...)
			}
		}
		if path != "watch" { // it waits 30 s for a run to begin
			takes(evil)
		}
		for _, f := range flags {
			if name := f.Names()[0]; args.TakesValue(flags, name) && !seen[name] {
				seen[name] = true // commands of one family share flags
				takes("--"+name, evil, good)
			}
		}
		takes("--"+evil, dir)
	}
	app := newApp(rolestest.Registries(), tasks(), session.UserProgram{}, nil, new(int))
	walk("", app.Flags)
	manual.Each(app.Commands, func(path string, c *cli.Command) { walk(path, c.Flags) })
	for _, key := range []string{"runner.ckpt_path", "runner.resume_dir", "comm.table", "actor.model.model_path"} {
		check("check", "-c", valid, key+"="+evil)
		check("-c", valid, "runner.max_steps=1", "runner.logger.log_path="+logs, key+"="+evil)
	}
	check("eval", "-c", valid, "--checkpoint", evil)
	check("-c", valid, "--resume", evil)
	check("-c", valid, "runner.max_steps=1", "runner.logger.log_path="+logs,
		"runner.logger.experiment_name=trained"+evil)
	if tried < 250 {
		t.Errorf("%d commands were tried", tried)
	}
}

// TestStatusOfEvil: status shows a hostile run in a table, and commands that a shell can run.
func TestStatusOfEvil(t *testing.T) {
	logs := t.TempDir()
	dir := goodRun(t, logs)
	for _, name := range []string{dir, logs} {
		code, out, errs := run(t, "status", name)
		if code != 0 || errs != "" || !strings.Contains(out, `goodé加\x1b[2J\x1b]0;title\x07\x0d\u009b31m\u202e`) {
			t.Errorf("code %d\n%s%s", code, out, errs)
		}
		if name == dir && !strings.Contains(out, "compare "+printable.Quote(dir)+"\n") {
			t.Errorf("no command for %s:\n%s", printable.Quote(dir), out)
		}
	}
}
