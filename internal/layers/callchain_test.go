package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// chainPackages are the folders of the packages that the call chain of docs/architecture.md names.
var chainPackages = map[string]string{
	"main": ".", "roles": "roles", "cli": "roles/cli", "args": "roles/cli/args", "session": "roles/session",
	"loop":     "roles/loop",
	"embodied": "roles/embodied", "worker": "roles/embodied/worker", "member": "roles/member", "algo": "algo",
}

// TestCallChain: each function of the call chain in docs/architecture.md exists.
func TestCallChain(t *testing.T) {
	page := test.Must(os.ReadFile("../../docs/architecture.md"))(t)
	_, chain, found := strings.Cut(string(page), "## From main to the first update")
	chain, _, ends := strings.Cut(chain, "\n## ")
	names := regexp.MustCompile("`([a-z]+)\\.([A-Za-z.]+)`").FindAllStringSubmatch(chain, -1)
	if !found || !ends || len(names) < 15 {
		t.Fatalf("%d functions in the chain, want 15 at least", len(names))
	}
	for _, n := range names {
		dir, known := chainPackages[n[1]]
		if !known {
			t.Errorf("%s.%s: no folder of the package %s", n[1], n[2], n[1])
		} else if !functions(t, "../../"+dir)[n[2]] {
			t.Errorf("%s has no %s", dir, n[2])
		}
	}
}

// functions returns the functions and methods of a package, as Func and Type.Method.
func functions(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files := test.Must(filepath.Glob(dir + "/*.go"))(t)
	found := map[string]bool{}
	for _, file := range files {
		f := test.Must(parser.ParseFile(token.NewFileSet(), file, nil, 0))(t)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := fn.Name.Name
			if fn.Recv != nil {
				of := fn.Recv.List[0].Type
				if p, ok := of.(*ast.StarExpr); ok {
					of = p.X
				}
				if id, ok := of.(*ast.Ident); ok {
					name = id.Name + "." + name
				}
			}
			found[name] = true
		}
	}
	return found
}
