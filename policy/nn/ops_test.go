package nn_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/nntest"
)

// TestCalls: the number of calls does not depend on the batch, and arguments have the lengths that Ops wants.
func TestCalls(t *testing.T) {
	growing := map[string]string{ // calls that depend on the batch, after "case call", with their reason
		"pointing": "each image has a product of its own words",
		"Conv":     "the first convolution turns the bytes of a few images at a time into numbers",
	}
	for _, c := range layerCases() {
		t.Run(c.name, func(t *testing.T) {
			few := test.Must(nntest.Calls(c.layer, sources, 2))(t)
			many := test.Must(nntest.Calls(c.layer, sources, 40))(t)
			for call, n := range few {
				name, _, _ := strings.Cut(c.name, " ")
				if n != many[call] && growing[name] == "" && growing[strings.TrimSuffix(call, "Grad")] == "" {
					t.Errorf("%d calls of %s, but %d in a larger batch", n, call, many[call])
				}
			}
		})
	}
}

// TestOwnWork lists what layers compute without Ops.
func TestOwnWork(t *testing.T) {
	const noKernel = "a loop of a few operations for each element; package kernel has no function for it"
	state, camera := nn.Input("state"), nn.Input("camera")
	for _, c := range []struct {
		name   string
		layer  nn.Layer
		reason string // why the layer computes by itself; empty if it asks Ops
	}{
		{"dense", nn.Sequence(state, nn.Dense(3)), ""},
		{"activation", nn.Sequence(state, nn.Activate(nn.Tanh)), ""},
		{"convolution", nn.Sequence(camera, nn.Conv(3, 3, 2, 1)), ""},
		{"film", nn.Sequence(camera, nn.Conv(3, 3, 2, 1), nn.FiLM(nn.Sentence("sentence", 4))), ""},
		{"spatial softmax", nn.Sequence(camera, nn.SpatialSoftmax(1)), ""},
		{"spatial embedding", nn.Sequence(camera, nn.SpatialEmbed(2)), ""},
		{"pointing", nn.Sequence(camera, nn.Point("sentence", 1)), ""},
		{"embedding", nn.Embed("words", 4), ""},
		{"gru", nn.Sequence(state, nn.GRU(3)), ""},
		{"lstm", nn.Sequence(state, nn.LSTM(3)), ""},
		{"concatenation", nn.Concat(state, nn.Input("goal")), ""},
		{"image", camera, "bytes become numbers by a table"},
		{"pool", nn.Sequence(camera, nn.MaxPool()), noKernel},
		{"coordinates", nn.Sequence(camera, nn.Conv(3, 3, 2, 1), nn.Coordinates()), noKernel},
		{"norm", nn.Sequence(state, nn.Norm()), noKernel},
		{"batch norm", nn.Sequence(state, nn.BatchNorm()), noKernel},
		{"batch norm 2d", nn.Sequence(camera, nn.BatchNorm2D()), noKernel},
		{"group norm", nn.Sequence(camera, nn.GroupNorm(2)), noKernel},
		{"sentence", nn.Sentence("sentence", 4), noKernel},
	} {
		own, err := nntest.Own(c.layer, sources)
		if err != nil || own != (c.reason != "") {
			t.Errorf("%s computes by itself: %v, %v; the reason is %q", c.name, own, err, c.reason)
		}
	}
}

// kernelPlaces are the places outside the implementations of Ops that call package kernel, with their reason.
var kernelPlaces = map[string]string{
	"policy/lm/head.go SumExp":        "the engine draws tokens from logits of the host; Ops.CrossEntropy shares it",
	"policy/lm/lora.go Scale":         "Merged makes a weight for a file",
	"policy/lm/lora.go NewMultiplier": "Merged makes a weight for a file",
}

// TestKernelPlaces compares the calls of package kernel in the sources with the list.
func TestKernelPlaces(t *testing.T) {
	found := map[string]bool{}
	for _, dir := range []string{"policy", "algo"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
			name, _ := filepath.Rel("../..", path)
			switch {
			case err != nil:
				return err
			case d.IsDir() && name == "policy/nn/kernel":
				return filepath.SkipDir
			case d.IsDir(), !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"):
				return nil
			case strings.HasPrefix(d.Name(), "cpu"):
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if s, ok := call.Fun.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "kernel" {
						found[filepath.ToSlash(name)+" "+s.Sel.Name] = true
					}
				}
				return true
			})
			return nil
		})
		test.OK(t, err)
	}
	for place := range found {
		if kernelPlaces[place] == "" {
			t.Errorf("%s: a call of package kernel outside Ops, without a reason", place)
		}
	}
	for place := range kernelPlaces {
		if !found[place] {
			t.Errorf("%s: no such call", place)
		}
	}
}
