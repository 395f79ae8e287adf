package roles_test

import (
	"bytes"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

const module = "github.com/rlinf/rlinf/"

// TestFacade: every type that a user of package roles meets has a name that the user can write. A type of the packages
// behind it needs an alias here, and roles itself defines none.
func TestFacade(t *testing.T) {
	api := load(t, module+"roles")
	aliased := map[*types.TypeName]bool{}
	for _, name := range api.Scope().Names() {
		o := api.Scope().Lookup(name)
		switch o := o.(type) {
		case *types.TypeName:
			if !o.IsAlias() {
				t.Errorf("roles.%s is a type of its own: want an alias", name)
			}
			if n, ok := types.Unalias(o.Type()).(*types.Named); ok {
				aliased[n.Obj()] = true
			}
		case *types.Var:
			t.Errorf("roles.%s is a variable: want none", name)
		}
	}
	for _, v := range unnamed(api, aliased) {
		t.Error(v)
	}
}

// TestFacadeBites: the test finds a type without an alias, in a function and in a method of an alias.
func TestFacadeBites(t *testing.T) {
	api := load(t, module+"roles")
	found := unnamed(api, map[*types.TypeName]bool{})
	for _, want := range []string{"roles.Launch: ", "roles.NewEmbodiedRunner: "} {
		if !slices.ContainsFunc(found, func(v string) bool { return strings.HasPrefix(v, want) }) {
			t.Errorf("without aliases: %q, want one of %s", found, want)
		}
	}
}

// unnamed returns the exported names of api whose signatures use types of the packages behind api that have no alias.
// Methods count, but fields do not: a user writes the types of parameters and results.
func unnamed(api *types.Package, aliased map[*types.TypeName]bool) (found []string) {
	for _, name := range api.Scope().Names() {
		o := api.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		report := func(where string, t types.Type) {
			for _, n := range behind(t, nil) {
				if !aliased[n] {
					found = append(found, fmt.Sprintf("%s: %s.%s has no alias in roles", where, n.Pkg().Path(),
						n.Name()))
				}
			}
		}
		if f, ok := o.(*types.Func); ok {
			report("roles."+name, f.Type())
		}
		if _, ok := o.(*types.TypeName); !ok {
			continue
		}
		methods := types.NewMethodSet(types.NewPointer(types.Unalias(o.Type())))
		for i := range methods.Len() {
			if f := methods.At(i).Obj(); f.Exported() {
				report("roles."+name+"."+f.Name(), f.Type())
			}
		}
		if s, ok := types.Unalias(o.Type()).Underlying().(*types.Signature); ok {
			report("roles."+name, s)
		}
	}
	return found
}

// behind returns the named types in t that are defined in packages below roles, or in internal ones.
func behind(t types.Type, seen []*types.TypeName) []*types.TypeName {
	switch t := t.(type) {
	case *types.Alias:
		return behind(types.Unalias(t), seen)
	case *types.Named:
		n := t.Obj()
		if n.Pkg() != nil && (strings.HasPrefix(n.Pkg().Path(), module+"roles/") ||
			strings.Contains(n.Pkg().Path(), "/internal/")) {
			seen = append(seen, n)
		}
		for i := range t.TypeArgs().Len() {
			seen = behind(t.TypeArgs().At(i), seen)
		}
	case interface{ Elem() types.Type }: // pointers, slices, arrays, maps, channels
		seen = behind(t.Elem(), seen)
		if m, ok := t.(*types.Map); ok {
			seen = behind(m.Key(), seen)
		}
	case *types.Signature:
		for _, tuple := range []*types.Tuple{t.Params(), t.Results()} {
			for i := range tuple.Len() {
				seen = behind(tuple.At(i).Type(), seen)
			}
		}
	case *types.Struct:
		for i := range t.NumFields() {
			seen = behind(t.Field(i).Type(), seen)
		}
	}
	return seen
}

// load returns a package from the compiler's export data.
func load(t *testing.T, path string) *types.Package {
	t.Helper()
	list := exec.Command("go", "list", "-tags=", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", path)
	list.Env = append(os.Environ(), "CGO_ENABLED=0") // tags of this build may need cgo
	list.Stderr = t.Output()
	text, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	files := map[string]string{}
	for line := range bytes.Lines(text) {
		if name, file, ok := strings.Cut(strings.TrimSpace(string(line)), " "); ok {
			files[name] = file
		}
	}
	p := test.Must(importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) {
		return os.Open(files[name])
	}).Import(path))(t)
	return p
}
