package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestNames: each Go name that a page has in code, as pkg.Name, Type.Method or pkg.Type.Method, is declared, and so is
// the subject of each go doc. Each file that a page names exists.
func TestNames(t *testing.T) {
	root := os.DirFS("../..")
	tree, names, files := declarations(t, root), 0, 0
	for page, text := range test.Pages(t, root) {
		if path.Base(page) == "CHANGELOG.md" { // tells what was there, too
			continue
		}
		for _, span := range test.CodeSpans(text) {
			wrong, is := tree.missing(span)
			if is {
				names++
			}
			if wrong != "" {
				t.Errorf("%s: `%s`: %s", page, span, wrong)
			}
		}
		for _, name := range filesNamed(root, text) {
			files++
			if found, err := filepath.Glob("../../" + name); err != nil || len(found) == 0 {
				t.Errorf("%s: no file %s", page, name)
			}
		}
	}
	if names < 100 || files < 200 {
		t.Errorf("%d names of Go and %d files looked at", names, files)
	}
}

// TestTypeNames: docs/architecture.md has each name of exported types that stands in two packages or more, and no
// other.
func TestTypeNames(t *testing.T) {
	folders := map[string]map[string]bool{}
	walk(t, os.DirFS("../.."), func(name string, text []byte) {
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return
		}
		f := test.Must(parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution))(t)
		ast.Inspect(f, func(n ast.Node) bool {
			if s, is := n.(*ast.TypeSpec); is && s.Name.IsExported() && !s.Assign.IsValid() {
				if folders[s.Name.Name] == nil {
					folders[s.Name.Name] = map[string]bool{}
				}
				folders[s.Name.Name][path.Dir(name)] = true
			}
			_, is := n.(*ast.FuncDecl)
			return !is
		})
	})
	page := test.Must(os.ReadFile("../../docs/architecture.md"))(t)
	_, table, _ := strings.Cut(string(page), "| names | reason |")
	table, _, _ = strings.Cut(table, "\n\n")
	var want, got []string
	for _, m := range regexp.MustCompile("`([A-Z][A-Za-z]*)`").FindAllStringSubmatch(table, -1) {
		want = append(want, m[1])
	}
	for name, in := range folders {
		if len(in) > 1 {
			got = append(got, name)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	test.EqualSlices(t, got, want)
}

// A tree has what the packages of the module declare.
type tree struct {
	folders  map[string][]string        // folders of a package, by its name
	packages map[string]bool            // folders
	names    map[string]bool            // "folder.Name"
	types    map[string][]string        // folders that declare a type
	members  map[string]map[string]bool // methods and fields of "folder.Type"
	embedded map[string][]string        // names of types that "folder.Type" embeds
}

// declarations reads all Go files of the module, tests too.
func declarations(t *testing.T, root fs.FS) *tree {
	t.Helper()
	d := &tree{folders: map[string][]string{}, packages: map[string]bool{}, names: map[string]bool{},
		types: map[string][]string{}, members: map[string]map[string]bool{}, embedded: map[string][]string{}}
	walk(t, root, func(name string, text []byte) {
		if path.Ext(name) != ".go" {
			return
		}
		f := test.Must(parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution))(t)
		dir := path.Dir(name)
		d.packages[dir] = true
		if of := f.Name.Name; !slices.Contains(d.folders[of], dir) {
			d.folders[of] = append(d.folders[of], dir)
		}
		for _, decl := range f.Decls {
			d.add(dir, decl)
		}
	})
	return d
}

func (d *tree) add(dir string, decl ast.Decl) {
	switch x := decl.(type) {
	case *ast.FuncDecl:
		if x.Recv == nil {
			d.names[dir+"."+x.Name.Name] = true
		} else {
			d.member(dir+"."+typeOf(x.Recv.List[0].Type), x.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range x.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					d.names[dir+"."+n.Name] = true
				}
			case *ast.TypeSpec:
				d.names[dir+"."+s.Name.Name] = true
				d.types[s.Name.Name] = append(d.types[s.Name.Name], dir)
				d.fields(dir+"."+s.Name.Name, s.Type)
			}
		}
	}
}

func (d *tree) member(of, name string) {
	if d.members[of] == nil {
		d.members[of] = map[string]bool{}
	}
	d.members[of][name] = true
}

// fields adds the fields of a struct, the methods of an interface, and what they embed.
func (d *tree) fields(of string, x ast.Expr) {
	var list *ast.FieldList
	switch x := x.(type) {
	case *ast.StructType:
		list = x.Fields
	case *ast.InterfaceType:
		list = x.Methods
	default: // type A = B, type A B
		if name := typeOf(x); name != "" {
			d.embedded[of] = append(d.embedded[of], name)
		}
		return
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			d.member(of, n.Name)
		}
		if name := typeOf(f.Type); len(f.Names) == 0 && name != "" {
			d.embedded[of] = append(d.embedded[of], name)
			d.member(of, name)
		}
	}
}

// typeOf returns the name of a named type, without its package.
func typeOf(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.IndexListExpr:
		return typeOf(x.X)
	case *ast.StarExpr:
		return typeOf(x.X)
	case *ast.IndexExpr:
		return typeOf(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// has reports whether a type called name, of one of the folders, has a method or a field.
func (d *tree) has(folders []string, name, member string, depth int) bool {
	for _, dir := range folders {
		of := dir + "." + name
		if d.members[of][member] {
			return true
		}
		for _, e := range d.embedded[of] {
			if depth < 4 && d.has(d.types[e], e, member, depth+1) {
				return true
			}
		}
	}
	return false
}

var (
	goName = regexp.MustCompile(`^&?(?:([a-z][a-z0-9]*)\.)?([A-Za-z]\w*)(?:\.([A-Za-z]\w*))?(?:\[.*\])?(?:\(.*\))?$`)
	goDoc  = regexp.MustCompile(`^go doc (?:-\w+ )*\./([\w/]+)(?: ([\w.]+))?$`)
)

// missing reports what a span of code names that the tree does not have, and whether it names something of Go at all.
func (d *tree) missing(span string) (wrong string, is bool) {
	if m := goDoc.FindStringSubmatch(span); m != nil {
		name, member, _ := strings.Cut(m[2], ".")
		switch {
		case !d.packages[m[1]]:
			return "no package " + m[1], true
		case m[2] != "" && !d.names[m[1]+"."+name], member != "" && !d.has([]string{m[1]}, name, member, 0):
			return m[1] + " declares no " + m[2], true
		}
		return "", true
	}
	m := goName.FindStringSubmatch(span)
	if m == nil {
		return "", false
	}
	in, name, member := m[1], m[2], m[3]
	switch {
	case in == "" && strings.ToUpper(name) == name: // stands for another name
		return "", false
	case in != "" && ast.IsExported(name):
		folders := d.folders[in]
		if folders == nil { // of another language, or of another module
			return "", false
		}
		i := slices.IndexFunc(folders, func(dir string) bool { return d.names[dir+"."+name] })
		if i < 0 {
			return "package " + in + " declares no " + name, true
		}
		if member != "" && !d.has(folders, name, member, 0) {
			return in + "." + name + " has no " + member, true
		}
		return "", true
	case in == "" && ast.IsExported(name) && member != "":
		if folders := d.types[name]; folders == nil || !d.has(folders, name, member, 0) {
			return "no type " + name + " has a method or field " + member, true
		}
		return "", true
	}
	return "", false
}

// fileNamed matches a path, placeholder a word in it that stands for another, and written the files that commands of
// pages write.
var (
	fileNamed   = regexp.MustCompile("(?:^|[\\s`(\"'=])((?:[A-Za-z_.*-]+[\\w.*-]*/)+[\\w.*-]*\\w)")
	ending      = regexp.MustCompile(`\.[a-z]\w*$`)
	placeholder = regexp.MustCompile(`[A-Z]{4}`)
	written     = regexp.MustCompile(`^(policy/policy\.|logs/|data/)`)
)

// filesNamed returns the files that a page names by a path from the root of the tree, with * for any characters.
func filesNamed(root fs.FS, text string) (all []string) {
	for _, m := range fileNamed.FindAllStringSubmatch(text, -1) {
		name := strings.TrimPrefix(m[1], "./")
		top, _, _ := strings.Cut(name, "/")
		info, err := fs.Stat(root, top)
		isFile := ending.MatchString(name) ||
			slices.Contains([]string{"configs", "scripts", "internal"}, top)
		if err == nil && info.IsDir() && isFile && !written.MatchString(name) &&
			(!placeholder.MatchString(name) || strings.HasSuffix(name, ".md")) {
			all = append(all, strings.TrimSuffix(name, "/..."))
		}
	}
	return all
}
