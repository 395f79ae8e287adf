package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// imported are the packages that the README's Go may use, by the names it calls them.
var imported = map[string]string{
	"fmt": "fmt", "math": "math", "rand": "math/rand/v2", "testing": "testing", "algo": "github.com/rlinf/rlinf/algo",
	"env": "github.com/rlinf/rlinf/env", "envtest": "github.com/rlinf/rlinf/env/envtest", "nn": "github.com/rlinf/rlinf/policy/nn",
	"policy": "github.com/rlinf/rlinf/policy", "reward": "github.com/rlinf/rlinf/reward", "tensor": "github.com/rlinf/rlinf/tensor",
}

// TestReadme builds the program that each README tells to write, tests it as told there, and trains what it is said to learn.
func TestReadme(t *testing.T) {
	for _, name := range []string{"README.md", "README.zh-CN.md"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			var overlay struct{ Replace map[string]string }
			overlay.Replace = map[string]string{}
			module, err := filepath.Abs(root)
			if err != nil {
				t.Fatal(err)
			}
			for i, code := range blocks(string(text), "go") {
				file := fmt.Sprintf("part%d.go", i)
				if strings.Contains(code, "testing.T") {
					file = fmt.Sprintf("part%d_test.go", i)
				}
				if !strings.HasPrefix(code, "package main") {
					code = "package main\n\nimport (\n" + imports(code) + ")\n\n" + code
				}
				overlay.Replace[filepath.Join(module, "examples", "readme", file)] = writeFile(t, dir, file, code)
			}
			list, err := json.Marshal(overlay)
			if err != nil {
				t.Fatal(err)
			}
			over := "-overlay=" + writeFile(t, dir, "overlay.json", string(list))
			program := filepath.Join(dir, "mine")
			for _, args := range [][]string{{"build", over, "-o", program, "./examples/readme"}, {"test", "-c", "-vet=off", over, "-o", program + ".test", "./examples/readme"}} {
				c := exec.Command("go", args...)
				c.Dir, c.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
				if out, err := c.CombinedOutput(); err != nil {
					t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
				}
			}
			if out, err := exec.Command(program + ".test").CombinedOutput(); err != nil {
				t.Errorf("its tests: %v\n%s", err, out)
			}
			for _, text := range blocks(string(text), "yaml") {
				if strings.Contains(text, "Corridor-v0") {
					writeFile(t, dir, "job.yaml", text)
				}
			}
			j := local.startProgram(t, program, dir, 0, "-c", "job.yaml")
			if code := j.wait(); code != 0 {
				t.Fatalf("exit code %d\n%s%s", code, &j.stdout, &j.stderr)
			}
			m := readMetrics(t, filepath.Join(dir, "logs", "default"))
			got, ok := m[len(m)-1]["eval/return"].(json.Number)
			if x, err := got.Float64(); !ok || err != nil || x < -7 {
				t.Errorf("eval/return %v, want nearly the best, -5.5", got)
			}
		})
	}
}

// blocks returns the parts of a page of Markdown that are in that language.
func blocks(page, language string) (all []string) {
	for _, b := range regexp.MustCompile("(?s)\n```"+language+"\n(.*?\n)```").FindAllStringSubmatch(page, -1) {
		all = append(all, b[1])
	}
	return all
}

// imports returns the lines that import what code calls.
func imports(code string) (lines string) {
	for name, path := range imported {
		if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(code) {
			lines += fmt.Sprintf("\t%q\n", path)
		}
	}
	return lines
}
