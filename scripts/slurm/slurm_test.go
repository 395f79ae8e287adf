package slurm

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Everything that a job says is in its script, where it belongs.
func TestScriptForAnotherJob(t *testing.T) {
	got := Script("hetjob", Job{
		Name: "my run/1", Time: "1-00", Config: "a b.yaml", Overrides: []string{"x=1", "y=[1, 2]"},
		Parts: []Part{{Nodes: 3, TasksPerNode: 4, CPUsPerTask: 5, GPUsPerNode: 6}, {Nodes: 7, TasksPerNode: 8, CPUsPerTask: 9}},
	})
	var lines []string
	for line := range strings.Lines(got) {
		if strings.HasPrefix(line, "#SBATCH") || strings.HasPrefix(line, "CONFIG") || strings.HasPrefix(line, "OVERRIDES") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	want := []string{
		"#SBATCH --job-name=my-run-1", "#SBATCH --output=%x-%j.out",
		"#SBATCH --nodes=3", "#SBATCH --ntasks-per-node=4", "#SBATCH --cpus-per-task=5", "#SBATCH --gpus-per-node=6", "#SBATCH --time=1-00",
		"#SBATCH --signal=B:USR1@120", "#SBATCH --no-requeue", "#SBATCH hetjob",
		"#SBATCH --nodes=7", "#SBATCH --ntasks-per-node=8", "#SBATCH --cpus-per-task=9", "#SBATCH --time=1-00",
		"CONFIG=${CONFIG:-'a b.yaml'}", "OVERRIDES=(x=1 'y=[1, 2]')                       # key=value, over those of CONFIG",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// The shell reads back what was quoted, in both places where it stands.
func TestQuote(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal("these are scripts for bash: ", err)
	}
	words := []string{"a=1", "", "two words", "it's", `"$HOME" \ $(false)`, "a}b", "a)b", "l=[1, 2]", "ü*?~#;&|<>", "line\nbreak"}
	script := "set -eu\nOVERRIDES=(" + quoteAll(words) + ")\nprintf '%s\\0' \"${OVERRIDES[@]}\"\n"
	for _, w := range words {
		script += "unset X; X=${X:-" + quote(w) + "}; printf '%s\\0' \"$X\"\n"
	}
	out, err := exec.Command(bash, "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, script)
	}
	got := strings.Split(string(out), "\x00")
	if want := slices.Concat(words, words, []string{""}); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// The scripts are for reading: short, and with the same knobs in the same words.
func TestScriptsAreShort(t *testing.T) {
	said := map[string]string{} // by knob, its comment
	for _, name := range Names() {
		text := read(name)
		if n := strings.Count(text, "\n"); n > 40 {
			t.Errorf("%s has %d lines, want 40 at most", name, n)
		}
		for line := range strings.Lines(text) {
			m := knob.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
			if m == nil || m[1] == "PMI" {
				continue
			}
			if before, ok := said[m[1]]; ok && before != m[2] {
				t.Errorf("%s says of %s %q, another script %q", name, m[1], m[2], before)
			}
			said[m[1]] = m[2]
		}
	}
	for _, k := range []string{"CONFIG", "OVERRIDES", "RLINF", "LAUNCHER"} {
		if _, ok := said[k]; !ok {
			t.Errorf("no script has the knob %s: %s", k, fmt.Sprint(said))
		}
	}
}
