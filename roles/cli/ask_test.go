package cli

import (
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/tensor"
)

// contents describes all files of a folder: names, times, and contents.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	test.OK(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info := test.Must(d.Info())(t)
		sum := uint32(0)
		if d.Type().IsRegular() {
			sum = crc32.ChecksumIEEE(test.Must(os.ReadFile(path))(t))
		}
		fmt.Fprintln(&all, path, info.Mode(), info.ModTime(), sum)
		return nil
	}))
	return all.String()
}

// TestAsk asks a run without write permission: replay, verify and diff answer or refuse, in a line, and change nothing
// in the folder of the run.
func TestAsk(t *testing.T) {
	dir := t.TempDir()
	code, _, errs := run(t, append(momentary(dir), "runner.save_interval=2", "runner.keep_checkpoints=0")...)
	test.Equal(t, code, loop.ExitOK, "%s", errs)
	t.Chdir(dir)
	asked := filepath.Join(dir, "grid")
	copied := func(name string, change func(dir string)) string {
		to := filepath.Join(dir, name)
		test.OK(t, os.CopyFS(to, os.DirFS(asked)))
		change(to)
		return to
	}
	replace := func(dir, file, old, with string) {
		path := filepath.Join(dir, file)
		text := string(test.Must(os.ReadFile(path))(t))
		if !strings.Contains(text, old) {
			t.Fatalf("%s has no %q", path, old)
		}
		test.OK(t, os.WriteFile(path, []byte(strings.Replace(text, old, with, 1)), 0o666))
	}
	other := copied("other", func(dir string) { replace(dir, "metrics.jsonl", `"env/return":`, `"env/return":1`) })
	future := copied("future", func(dir string) {
		replace(dir, "checkpoints/global_step_2/manifest.json", `"format"`, `"form"`)
	})
	foreign := copied("foreign", func(dir string) { replace(dir, "config.yaml", "CartPole-v1", "Unheard-v7") })
	waiting := copied("waiting", func(dir string) { replace(dir, "config.yaml", "async: false", "async: true") })
	test.OK(t, os.WriteFile("notes.txt", []byte("notes\n"), 0o666))
	test.OK(t, filepath.WalkDir(asked, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			t.Cleanup(func() { os.Chmod(path, 0o777) })
			err = os.Chmod(path, 0o555)
		}
		return err
	}))
	before := contents(t, asked)
	for _, tc := range []struct {
		words []string
		code  int
		want  string
	}{
		{[]string{"replay", asked, "--step", "3"}, 0, "repeating 1 step, which took "},
		{[]string{"replay", asked, "--step", "4", "--env", "31", "--out", "seen"}, 0, "kept seen/environment_31.csv"},
		{[]string{"replay", asked, "--step", "4", "--evaluation"}, 0, "environment  return"},
		{[]string{"replay", asked, "--step", "4", "--out", "seen"}, 2, "--out seen: expected a new folder"},
		{[]string{"replay", asked, "--step", "5"}, 2, "step 5: expected a step of run "},
		{[]string{"replay", asked, "--step", "0"}, 2, "--step 0: expected "},
		{[]string{"replay", asked, "--step", "3", "--env", "32"}, 2, "--env 32: expected an environment of "},
		{[]string{"replay", asked, "--step", "3", "--prompt", "0"}, 2, "expected --prompt for a language model"},
		{[]string{"replay", asked, "--step", "3", "--env", "0", "--evaluation"}, 2, "expected --evaluation, or --env"},
		{[]string{"replay", dir, "--step", "3"}, 2, "expected the folder of a run, such as "},
		{[]string{"replay", "nowhere", "--step", "3"}, 2, "no such f"},
		{[]string{"replay", foreign, "--step", "3"}, 2, "Unheard-v7"},
		{[]string{"replay", waiting, "--step", "3"}, 2, "runner.async: true: the run depends on the clock"},
		{[]string{"replay", future, "--step", "3"}, 0, "note: not used: checkpoint "},
		{[]string{"replay", other, "--step", "2"}, 3, ": env/return: 1"},
		{[]string{"verify", asked, "--sample", "1"}, 0, "equal in 1 of 2 parts; receipt.json has the hashes"},
		{[]string{"verify", "--receipt", "receipt.json", asked}, 0, "the run is that of the receipt, as far as step 4"},
		{[]string{"verify", "--receipt", "receipt.json", other}, 3, "env/return: changed"},
		{[]string{"verify", "--receipt", "notes.txt", asked}, 2, "notes.txt: expected a receipt"},
		{[]string{"verify", asked, "--out", "notes.txt"}, 2, "notes.txt: this command did not write the file"},
		{[]string{"verify", future, "--all", "--out", "none.json"}, 3, "manifest.json"},
		{[]string{"verify", other, "--all", "--out", "none.json"}, 3, ": env/return: 1"},
		{[]string{"diff", asked, asked}, 0, "equal, as far as step 4"},
		{[]string{"diff", asked}, 2, "expected the folders of two runs"},
		{[]string{"diff", asked, other, "--step", "9"}, 2, "step 9: expected a step of run "},
		{[]string{"diff", asked, other}, 3, ": equal when this program repeats it in both"},
		{[]string{"diff", asked, "notes.txt"}, 2, "no such folder"},
	} {
		code, out, errs := run(t, tc.words...)
		if code != tc.code || !strings.Contains(out+errs, tc.want) || code == loop.ExitConfig &&
			strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: code %d, want %d and %s\n%s%s", tc.words, code, tc.code, tc.want, out, errs)
		}
		if now := contents(t, asked); now != before {
			t.Fatalf("%q changed the run:\n%s\nbefore\n%s", tc.words, now, before)
		}
	}
	rows := test.Must(os.ReadFile(filepath.Join("seen", "environment_31.csv")))(t)
	d, _, err := tensor.ReadSafetensors(test.Must(os.ReadFile(filepath.Join("seen", "environment_31.safetensors")))(t))
	if err != nil || strings.Count(string(rows), "\n") != 17 || d.Must("observation.state").Dim(0) != 16 {
		t.Errorf("%v\n%s", err, rows)
	}
}

// A restless environment has other rewards in every process.
type restless struct {
	env.Vec
	reward float32
}

func (r restless) Step(action tensor.Dict, seeds []uint64, out *env.Step) error {
	err := r.Vec.Step(action, seeds, out)
	out.Reward.F32()[0] += r.reward
	return err
}

// TestAskRestless: if an environment does not repeat its episodes, replay names the metric that differs.
func TestAskRestless(t *testing.T) {
	dir := t.TempDir()
	reg, made := rolestest.Registries(), float32(0)
	reg.Envs.Add("Restless-v0", func(cfg env.Config, n int) (env.Vec, error) {
		inner := cfg
		inner.EnvType, inner.InitParams.ID = "CartPole-v1", "CartPole-v1"
		vec, err := rolestest.Registries().Envs.New(inner, n)
		made++
		return restless{vec, made}, err
	})
	code, _, errs := runWith(t, reg, append(momentary(dir), "env.train.init_params.id=Restless-v0",
		"runner.val_check_interval=-1")...)
	test.Equal(t, code, loop.ExitOK, "%s", errs)
	code, out, errs := runWith(t, reg, "replay", filepath.Join(dir, "grid"), "--step", "1")
	if code != loop.ExitCheck || !strings.Contains(out, "the repeated metrics are not those of the run: ") ||
		!strings.Contains(out, "  step 1: ") {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
}
