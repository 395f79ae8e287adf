package dataset

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
)

// TestMinari: tables of DuckDB in Minari's layout become the transitions that make.mjs says.
func TestMinari(t *testing.T) {
	dir, path := "testdata/minari", filepath.Join(t.TempDir(), "demos.safetensors")
	if modules := test.NodeModules("@duckdb/node-api"); modules != "" { // made anew
		dir = t.TempDir()
		cmd := exec.Command("node", "testdata/minari/make.mjs", dir)
		cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	test.OK(t, Import(dir, path, map[string]string{"observation.states": "observations.achieved"}))
	d, err := algo.OpenDemos(path)
	test.OK(t, err)
	defer d.Close()
	if got, want := fmt.Sprint(d.Env, d.Episodes), "reach/test-v0[{2 1.5 false } {3 33.75 false }]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	read := func(name string, at int) []float64 {
		for i, f := range d.Fields {
			if f.Name == name {
				b := make([]byte, f.Bytes())
				test.OK(t, d.Read(i, at, b))
				return numbersIn(b, f.DType)
			}
		}
		t.Fatalf("no %s", name)
		return nil
	}
	gray := make([]float64, 32*32*3)
	for i := range gray {
		gray[i] = 128
	}
	at := 0
	for e := range 2 {
		for i := range e + 2 {
			x, episode, last := float64(i), float64(e), i == e+1
			for name, want := range map[string][]float64{
				"observation.states":          {episode + x/4, -x},
				"next_observation.states":     {episode + (x+1)/4, -x - 1},
				"observation.task.phase":      {float64(i % 3)},
				"next_observation.task.phase": {float64((i + 1) % 3)},
				"observation.task.grid":       {x, 200, 0, 1},
				"observation.view":            gray,
				"next_observation.view":       gray,
				"action":                      {x / 2, episode, 7},
				"reward":                      {x + 10*episode + 0.25},
				"terminated":                  {float64(flag(last && e == 0))},
				"truncated":                   {float64(flag(last && e == 1))},
			} {
				if got := read(name, at); !slices.Equal(got, want) {
					t.Errorf("%s of step %d of episode %d is %v, want %v", name, i, e, got, want)
				}
			}
			at++
		}
	}
}

// TestMinariRefused: other formats, other spaces and episodes that are missing are refused by name.
func TestMinariRefused(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"parquet"`, `"arrow"`, `data_format is "arrow": expected parquet`},
		{`"total_episodes":2`, `"total_episodes":3`, "data/2: 0 files .parquet: expected one"},
		{`\"shape\":[3]`, `\"shape\":[4]`, "data/0/part-0.parquet:1: column actions has 3 numbers: expected 4"},
		{`\"type\":\"Discrete\"`, `\"type\":\"Text\"`, "observation_space: Text: expected Box"},
		{`\"shape\":[2]`, `\"shape\":[900000,900000]`, "expected 1 to 268435456 numbers"},
	} {
		dir := filepath.Join(t.TempDir(), "folder")
		test.OK(t, os.CopyFS(dir, os.DirFS("testdata/minari")))
		file := filepath.Join(dir, "data/metadata.json")
		b, err := os.ReadFile(file)
		test.OK(t, err)
		changed := strings.Replace(string(b), c.old, c.new, 1)
		test.OK(t, os.WriteFile(file, []byte(changed), 0o666))
		err = Import(dir, filepath.Join(t.TempDir(), "x"), nil)
		if changed == string(b) || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %s", c.new, err, c.want)
		}
	}
}
