package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestOwnKeys builds examples/own_keys, which docs/extending.md shows completely, in a module with the go.mod of the
// page. The keys of its parts are set, checked and shown like rlinf's own keys.
func TestOwnKeys(t *testing.T) {
	t.Parallel()
	files := shownFiles(t, readFile(t, filepath.Join(root, "docs", "extending.md")))
	dir, module := t.TempDir(), t.TempDir()
	have := test.Must(filepath.Glob(filepath.Join(root, "examples", "own_keys", "*")))(t)
	if len(have)+1 != len(files) { // only the page has go.mod
		t.Errorf("%d files in examples/own_keys, %d on the page, go.mod among them", len(have), len(files))
	}
	for _, file := range have {
		name, text := filepath.Base(file), readFile(t, file)
		if strings.TrimSpace(files[name]) != strings.TrimSpace(text) {
			t.Errorf("docs/extending.md does not show %s as it is", name)
		}
		writeFile(t, module, name, text)
	}
	program := filepath.Join(dir, "own_keys")
	buildModule(t, module, program, ".")
	if out, err := inModule(module, "test", "-v", "-run", "TestFeatures",
		".").CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestFeatures") {
		t.Errorf("go test in another module: %v\n%s", err, out)
	}

	work := t.TempDir()
	job := readFile(t, filepath.Join(module, "job.yaml"))
	writeFile(t, work, "job.yaml", job)
	refusedProgram(t, local, program, work, 0,
		"job.yaml:7: env.train.init_params.wind: a key of env_type Sail-v0, which is not chosen\n"+
			"command line: algorithm.action_price: free: expected a number\ncommand line: reward.near_widht: unknown "+
			"key, did you mean near_width?\n"+
			"command line: actor.model.my_width: 0: expected a width from 1 to 1024", "-c", "job.yaml",
		"env.train.env_type=CartPole-v1", "+reward.near_widht=1",
		"actor.model.my_width=0", "algorithm.action_price=free")
	if r := local.startProgram(t, program, work, 0, "-c", "job.yaml").result(); r.code != 0 {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	m := readMetrics(t, filepath.Join(work, "logs", "job"))
	got, ok := m[len(m)-1]["eval/return"].(json.Number)
	if x, err := got.Float64(); !ok || err != nil || x < -3 {
		t.Errorf("eval/return %v, want some -0.1 (-421 at first)", got)
	}
	r := local.startProgram(t, program, work, 0, "check", "-c", "job.yaml", "reward.near_width=0.5").result()
	shownKeys, verdict, _ := strings.Cut(r.stdout, "verdict: ")
	lines := strings.Split(strings.TrimSpace(shownKeys), "\n")
	if verdict != "runs\n" {
		t.Errorf("check ends with %q, want a verdict", verdict)
	}
	for i, key := range []string{"algorithm.action_price 0.02", "env.train.init_params.wind 0.2",
		"env.eval.init_params.wind 0.2", "actor.model.my_width 32", "reward.near_width 0.5"} {
		at := max(len(lines)-5, 0) + i
		if at >= len(lines) || !strings.HasPrefix(strings.Join(strings.Fields(lines[at]), " "), key) {
			t.Errorf("check ends with\n%s\nwant a line for %s", r.stdout, key)
		}
	}
}

// TestOwnParts builds examples/own_parts, whose algorithm docs/extending.md shows, in another module. It runs the tests
// of the example, and trains to the best return.
func TestOwnParts(t *testing.T) {
	t.Parallel()
	page, module := readFile(t, filepath.Join(root, "docs", "extending.md")), t.TempDir()
	test.OK(t, os.CopyFS(module, os.DirFS(filepath.Join(root, "examples", "own_parts"))))
	if !slices.Contains(test.Blocks(page, "go"), readFile(t, filepath.Join(module, "reinforce.go"))) {
		t.Error("docs/extending.md does not show reinforce.go as it is")
	}
	buildModule(t, module, "mine", ".")
	if out, err := inModule(module, "test", "-vet=off", ".").CombinedOutput(); err != nil {
		t.Errorf("go test in another module: %v\n%s", err, out)
	}
	j := local.startProgram(t, filepath.Join(module, "mine"), module, 0, "-c", "job.yaml")
	if code := j.wait(); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, &j.stdout, &j.stderr)
	}
	m := readMetrics(t, filepath.Join(module, "logs", "job"))
	got, ok := m[len(m)-1]["eval/return"].(json.Number)
	if x, err := got.Float64(); !ok || err != nil || x < -7 {
		t.Errorf("eval/return %v, want nearly the best, -5.5", got)
	}
}

// buildModule builds packages of the folder module to out, with the go.mod of docs/extending.md, which expects a clone
// of this module beside it. It resolves them as a user does. Then it compiles them in a workspace with the clone, whose
// packages are in Go's cache. A full run compiles without a workspace.
func buildModule(t *testing.T, module, out, packages string) {
	t.Helper()
	top := test.Must(filepath.Abs(root))(t)
	mod := shownFiles(t, readFile(t, filepath.Join(root, "docs", "extending.md")))["go.mod"]
	here := strings.Replace(mod, "=> ../rlinf", "=> "+top, 1)
	if here == mod {
		t.Fatalf("the page shows no go.mod beside a clone:\n%s", mod)
	}
	writeFile(t, module, "go.mod", here)
	writeFile(t, module, "go.sum", readFile(t, filepath.Join(root, "go.sum")))
	commands := [][]string{{"list", "-mod=mod", "-test", "-deps", packages}, {"build", "-o", out, packages}}
	if !full {
		commands = slices.Insert(commands, 1, []string{"work", "init", ".", top})
	}
	for _, args := range commands {
		if text, err := inModule(module, args...).CombinedOutput(); err != nil {
			t.Fatalf("go %s in another module: %v\n%s", args[0], err, text)
		}
	}
}

// inModule is the go command in the folder of a module, without the network.
func inModule(module string, args ...string) *exec.Cmd {
	c := exec.Command("go", args...)
	c.Dir, c.Env = module, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOPROXY=off", "GOWORK=")
	return c
}
