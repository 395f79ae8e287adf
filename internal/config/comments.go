package config

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// A Comment is the comment of a struct field. It documents the field's key.
type Comment struct {
	Text string // on one line; field names are replaced by keys
	Ours bool   // marked (+): RLinf does not have this key
}

// Comments holds the comments of struct fields, read from source files. The zero Comments is empty.
type Comments struct {
	of     map[string]map[string]Comment // by package path and type, then by field
	keys   map[string]map[string]string  // by struct: the key of each field
	common map[string]string             // by field: its key, if the field has the same key in all structs
}

// Read adds the comments in the Go files of a package. path is the import path of the package. A field without a
// comment takes the comment of the field on the previous line, if there is one.
func (c *Comments) Read(path string, files fs.FS) error {
	if c.of == nil {
		c.of, c.keys = map[string]map[string]Comment{}, map[string]map[string]string{}
		c.common = map[string]string{}
	}
	names, err := fs.Glob(files, "*.go")
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, text, parser.ParseComments)
		if err != nil {
			return fmt.Errorf("comments of %s: %w", path, err)
		}
		for _, d := range f.Decls {
			if types, ok := d.(*ast.GenDecl); ok && types.Tok == token.TYPE {
				for _, s := range types.Specs {
					s := s.(*ast.TypeSpec)
					c.addStruct(set, path+"."+s.Name.Name, s.Type)
				}
			}
		}
	}
	return nil
}

// addStruct adds the fields of t, if it is a struct.
func (c *Comments) addStruct(set *token.FileSet, name string, t ast.Expr) {
	fields, ok := t.(*ast.StructType)
	if !ok {
		return
	}
	comments, keys := map[string]Comment{}, map[string]string{}
	c.of[name], c.keys[name] = comments, keys
	var last Comment
	line := 0 // last line of the previous field
	for _, f := range fields.Fields.List {
		raw := f.Doc.Text() + f.Comment.Text()
		comment := Comment{Text: strings.Join(strings.Fields(strings.ReplaceAll(raw, "(+)", "")), " "),
			Ours: strings.Contains(raw, "(+)")}
		if raw == "" && set.Position(f.Pos()).Line == line+1 {
			comment = last
		}
		last, line = comment, set.Position(f.End()).Line
		key := keyOf(f.Tag)
		for _, n := range f.Names {
			comments[n.Name] = comment
			if key == "" {
				continue
			}
			keys[n.Name] = key
			if other, ok := c.common[n.Name]; ok && other != key {
				key = "" // the key differs between structs
			}
			c.common[n.Name] = key
		}
	}
}

// keyOf returns the key in a field's yaml tag, or "".
func keyOf(tag *ast.BasicLit) string {
	if tag == nil {
		return ""
	}
	text, err := strconv.Unquote(tag.Value)
	if err != nil {
		return ""
	}
	key, _, _ := strings.Cut(reflect.StructTag(text).Get("yaml"), ",")
	return strings.TrimPrefix(key, "-")
}

// capital matches a word that begins with a capital letter. Such a word may be the name of a field.
var capital = regexp.MustCompile(`\b[A-Z][A-Za-z0-9]*\b`)

// camel matches a capital letter after a small letter. A word with this pattern is the name of a field.
var camel = regexp.MustCompile(`[a-z][A-Z]`)

// Of returns the comment of a field of the struct owner. ok is false if no comment was read.
func (c *Comments) Of(owner reflect.Type, field string) (comment Comment, ok bool) {
	name := owner.PkgPath() + "." + owner.Name()
	comment, ok = c.of[name][field]
	comment.Text = capital.ReplaceAllStringFunc(comment.Text, func(word string) string {
		if key := c.keys[name][word]; key != "" {
			return key
		}
		if key := c.common[word]; key != "" && camel.MatchString(word) {
			return key
		}
		return word
	})
	return comment, ok && comment.Text != ""
}
