package export

import (
	"os"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/graph"
	"github.com/rlinf/rlinf/tensor"
)

// described is a policy with another graph.
type described struct {
	policy.Policy
	node graph.Node
}

func (d described) Graph() graph.Node { return d.node }

// TestRefusals: what cannot be exported is an error that names it, and no file is written.
func TestRefusals(t *testing.T) {
	made := func(name string) *TrainedPolicy {
		box := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{-1}, High: []float32{1}}
		spec := env.Spec{Name: "Test-v0", Obs: []env.Field{{Name: name, Space: box}}, Action: box}
		return &TrainedPolicy{Policy: test.Must(policy.NewMLP(policy.DefaultConfig(), spec, 1, tensor.Heap))(t),
			Spec: spec}
	}
	strange := made("state")
	node := test.Must(strange.graph())(t)
	node.Parts[1].Parts = append([]graph.Node{{Op: "wavelet", Name: "actor.0"}}, node.Parts[1].Parts...)
	strange.Policy = described{strange.Policy, node}
	silent := made("state")
	silent.Policy = struct{ policy.Policy }{silent.Policy}
	other := made("state")
	other.Spec.Obs[0].Name = "speed"
	for want, p := range map[string]*TrainedPolicy{
		"operation wavelet actor.0: it has no translation":         strange,
		"does not describe its layers":                             silent,
		`observation "action": the export has an input or output`:  made("action"),
		`observation "state": the simulator has none of that name`: other,
	} {
		dir := t.TempDir()
		for _, write := range []func(string) ([]string, error){p.WriteC, p.WriteONNX} {
			if _, err := write(dir); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		if files := test.Must(os.ReadDir(dir))(t); len(files) > 0 {
			t.Errorf("%v is there", files)
		}
	}
}

// TestNamesInC: names and texts of a user do not break C or Fortran.
func TestNamesInC(t *testing.T) {
	long := strings.Repeat("x", 64)
	args := argumentsOf(&Manifest{Inputs: []Binding{{Name: "a.b"}, {Name: "A-b"}, {Name: long}, {Name: beginName},
		{Name: "memory"}}, Outputs: []Binding{{Name: "memory.next"}}})
	var got []string
	for _, a := range args {
		got = append(got, a.id)
	}
	if want := "obs_a_b obs_A_b_2 obs_" + long[:46]; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	if got := comment("a */ b\nc"); got != "a * / b c" {
		t.Errorf("%q", got)
	}
}
