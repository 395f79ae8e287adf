package algo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// sharedFunctions are functions of both texts and environments, each with a file of texts and one of
// environments that call it.
var sharedFunctions = map[string][2]string{
	"Loss":          {"text_ppo.go", "ppo.go"},
	"clip":          {"text_ppo.go", "ppo.go"},
	"KLLoss":        {"text_ppo.go", "ppo.go"},
	"EntropyLoss":   {"text_ppo.go", "ppo.go"},
	"ValueLoss":     {"text_critic.go", "ppo.go"},
	"Aggregate":     {"text_training.go", "aggregate.go"},
	"CountSamples":  {"text_training.go", "aggregate.go"},
	"addRollout":    {"text_training.go", "ppo.go"},
	"estimator":     {"text_training.go", "advantages.go"},
	"standardise":   {"text_ppo.go", "advantages.go"},
	"replaceGroups": {"text_ppo.go", "dynamic.go"},
	"klEstimate":    {"text_ppo.go", "kl.go"},
	"GAE":           {"gae.go", "gae.go"},
	"Reinforce":     {"reinforce.go", "reinforce.go"},
	"permute":       {"text_training.go", "sequences.go"},
}

// TestSharedFunctions: texts and environments use the same surrogate, KL, aggregation, advantages and losses.
// Files of texts compute no exponential, root or logarithm of their own.
func TestSharedFunctions(t *testing.T) {
	files := test.Must(filepath.Glob("*.go"))(t)
	c := &callReader{calls: map[[2]string]bool{}, declared: map[string]int{}}
	for _, name := range files {
		if !strings.HasSuffix(name, "_test.go") {
			c.read(t, name)
		}
	}
	for f, callers := range sharedFunctions {
		for _, file := range callers {
			if !c.calls[[2]string{f, file}] {
				t.Errorf("%s does not call %s", file, f)
			}
		}
		method := slices.Contains([]string{"Loss", "clip", "addRollout", "estimator"}, f)
		if n := c.declared[f]; n > 1 || n == 0 && !method {
			t.Errorf("%d functions %s", n, f)
		}
	}
}

// A callReader collects what the files of a package declare and call.
type callReader struct {
	calls    map[[2]string]bool // of a function in a file
	declared map[string]int     // functions, not methods
}

func (c *callReader) read(t *testing.T, name string) {
	t.Helper()
	file := test.Must(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if f.Recv == nil {
			c.declared[f.Name.Name]++
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch x := call.Fun.(type) {
			case *ast.Ident:
				c.calls[[2]string{x.Name, name}] = true
			case *ast.SelectorExpr:
				c.calls[[2]string{x.Sel.Name, name}] = true
				if of, ok := x.X.(*ast.Ident); ok && of.Name == "math" && strings.HasPrefix(name, "text_") &&
					f.Name.Name != "ImportanceWeights" &&
					slices.Contains([]string{"Exp", "Log", "Sqrt", "Expm1", "Pow"}, x.Sel.Name) {
					t.Errorf("%s: %s calls math.%s: want the functions of environments", name, f.Name.Name, x.Sel.Name)
				}
			}
			return true
		})
	}
}
