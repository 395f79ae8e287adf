package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/planner"
)

// TestOutputs: a command replaces a file that it wrote itself and an empty file. It refuses to replace any other file
// without --force, and a folder always, before it begins its work.
func TestOutputs(t *testing.T) {
	dir := recorded(t)
	evaluated(t, dir, 1, 5)
	texts := filepath.Join(t.TempDir(), "texts")
	test.OK(t, os.WriteFile(texts, []byte("some words\n"), 0o666))
	const demos = "demos -c ../../configs/pendulum_bc.yaml --episodes 1 --all env.eval.total_num_envs=1 " +
		"env.eval.max_steps_per_rollout_epoch=2 "
	const refusal = ": this command did not write the file that is there: expected another name, or --force to " +
		"replace it\n"
	const bench = "bench --np 2 -n 1 -w 0 --sizes 8 "
	for file, command := range map[string]string{
		dir + "/trace.json": "trace " + dir, "t.json": "trace " + dir + " --out OUT",
		dir + "/report.html": "report " + dir, "r.html": "report " + dir + " --out OUT",
		"c.svg": "compare " + dir + " --out OUT", "k.csv": "compare " + dir + " --keep OUT",
		"d.safetensors": demos + "--out OUT", "f.png": demos + "--out OUT.safetensors --film OUT",
		"i.png": "render -c ../../configs/cartpole_ppo.yaml --out OUT",
		"b.txt": bench + "--out OUT --out OUT.csv --out OUT.json --plot OUT.svg --tune OUT.tune",

		"data/train.jsonl":                  "data countdown --train 1 --test 1 --out DIR",
		"data/test.jsonl":                   "data countdown --train 1 --test 1 --out DIR",
		"tok/tokenizer.json":                "tokenizer train --vocab-size 257 --out DIR " + texts,
		"w/tokenizer/tokenizer_config.json": "data countdown --train 1 --test 1 --out DIR/..",
	} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			path, command := placeOutput(t, file, command)
			for _, c := range []struct {
				name, content, flag string
				code                int
			}{
				{"a file of the user", "my notes\n", "", loop.ExitConfig},
				{"an empty file", "", "", loop.ExitOK},
				{"its own file", "its own", "", loop.ExitOK},
				{"a file of the user, by force", "my notes\n", " --force", loop.ExitOK},
			} {
				if c.content != "its own" {
					test.OK(t, os.WriteFile(path, []byte(c.content), 0o666))
				}
				code, out, errs := run(t, strings.Fields(command+c.flag)...)
				text, err := os.ReadFile(path)
				if code != c.code || err != nil || (string(text) == c.content) != (code == loop.ExitConfig) {
					t.Fatalf("%s: code %d, want %d; %v, %d bytes\n%s%s", c.name, code, c.code, err, len(text),
						out, errs)
				}
				if code == loop.ExitConfig && !strings.HasSuffix(errs, path+refusal) {
					t.Errorf("%s:\n%swant …%s", c.name, errs, refusal)
				}
			}
		})
	}
	for _, command := range []string{"trace " + dir + " --out no/t.json", "report " + dir + " --out no/r.html",
		"compare " + dir + " --out no/c.svg", "compare " + dir + " --keep no/k.csv", bench + "--plot no/b.svg",
		"init --out no/job.yaml CartPole-v1"} {
		const want = ": expected a file in a folder that can be written: write in no: no such file or directory\n"
		if code, out, errs := run(t, strings.Fields(command)...); code != loop.ExitConfig || out != "" ||
			!strings.HasSuffix(errs, want) {
			t.Errorf("%s: code %d: %s%swant …%s", command, code, out, errs, want)
		}
	}
	for file, command := range map[string]string{
		"b.csv": bench + "--out OUT", "b.json": bench + "--out OUT",
		"b.svg": bench + "--plot OUT", "tune.json": bench + "--tune OUT", "e.csv": "bench env --out OUT",
		"film.gif": demos + "--film OUT", "p.json": "plan -c ../../configs/cartpole_one_rank.yaml --save-profile OUT",
	} {
		path, command := placeOutput(t, file, command)
		test.OK(t, os.WriteFile(path, []byte("my notes\n"), 0o666))
		code, _, errs := run(t, strings.Fields(command)...)
		text, err := os.ReadFile(path)
		if err != nil || string(text) != "my notes\n" || code != loop.ExitConfig {
			t.Errorf("%s: code %d: %s%d bytes are left, %v", command, code, errs, len(text), err)
		}
		test.OK(t, errors.Join(os.Remove(path), os.Mkdir(path, 0o777)))
		code, _, errs = run(t, strings.Fields(command+" --force")...)
		if want := path + ": there is a folder: expected the name of a file\n"; code != loop.ExitConfig ||
			!strings.HasSuffix(errs, want) {
			t.Errorf("%s: code %d: %swant …%s", command, code, errs, want)
		}
	}
}

// placeOutput returns the path of an output in a temporary folder, and the command with this path.
func placeOutput(t *testing.T, file, command string) (string, string) {
	if !filepath.IsAbs(file) {
		file = filepath.Join(t.TempDir(), file)
	}
	test.OK(t, os.MkdirAll(filepath.Dir(file), 0o777))
	return file, strings.NewReplacer("OUT", file, "DIR", filepath.Dir(file)).Replace(command)
}

// TestIsProfile: plan knows its own files.
func TestIsProfile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.json")
	for _, f := range []struct {
		machine *planner.Machine
		profile *planner.Profile
	}{{new(planner.Machine), nil}, {nil, new(planner.Profile)}} {
		test.OK(t, planner.Write(path, f.machine, f.profile))
		if head, err := durable.Head(path); err != nil || !isProfile(head) {
			t.Errorf("%.100q, %v", head, err)
		}
	}
}
