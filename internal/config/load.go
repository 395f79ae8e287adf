package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/rlinf/rlinf/internal/durable"
)

// Options describe the keys that Load and Decode know beforehand.
type Options struct {
	// Text is what ReadOnce has read; nil: Load reads the file.
	Text []byte
	// SearchPath lists folders in which presets are looked for, after the folder of the file and
	// those of its hydra.searchpath.
	SearchPath []string
	// Aliases are old names of keys.
	Aliases []Alias
	// Known are keys of another program that mean nothing here.
	Known []Known
	// Defaults is a value whose YAML holds the defaults, which interpolations may name; nil: they
	// see only what files and overrides give.
	Defaults any
	// Rewrite, if it is not nil, is called when the file and the command line are read, to write what
	// another program says in other words as it is here.
	Rewrite func(t *Tree)
	// Choose, if it is not nil, is called before Defaults are read, to give them the keys of a
	// user's own parts: which parts there are, the values say that were given under other keys. It
	// returns further Known keys, which depend on these values too.
	Choose func(given func(key string) (string, bool)) []Known
	// Overriding, if it is not nil, is called before the command line sets key, a dotted one. It
	// may Remove what files say under other keys, which would count more than what key gets.
	Overriding func(t *Tree, key string)
	// Owner, if it is not nil, says to which part a key belongs that Defaults have no field for; ""
	// with true: to one that may have been chosen under a name that is not known.
	Owner func(key string) (part string, ok bool)
}

// A Tree is a configuration read whole: the file over its presets, overrides over both,
// interpolations replaced.
type Tree struct {
	file     string
	root     *node
	defaults *node
	options  Options
	notes    []string      // old names that were used
	said     []string      // keys that another one says, too
	problems []*FieldError // found while reading; Decode reports them with its own
}

// Load reads the file at path with its presets and lays overrides over it (Hydra's grammar, see
// override). The error, a FieldError, is for what cannot be read at all: no such file, not YAML.
// All else that is wrong comes from Decode.
func Load(path string, overrides []string, options Options) (*Tree, error) {
	t := &Tree{file: path, options: options, root: &node{origin: path, kind: dict}}
	text, err := options.Text, error(nil)
	if text == nil {
		text, err = ReadOnce(path)
	}
	if err != nil {
		return nil, err
	}
	main, err := t.parsed(path, text)
	if err != nil {
		return nil, err
	}
	if err := t.include(main, path, "", t.searchPath(main), nil); err != nil {
		return nil, err
	}
	for _, o := range overrides {
		if problem := t.override(o); problem != nil {
			t.problems = append(t.problems, problem)
		}
	}
	return t, t.finish()
}

// Parse reads a configuration from text, which is whole: without presets. name stands for the file
// in origins.
func Parse(name string, text []byte, options Options) (*Tree, error) {
	t := &Tree{file: name, options: options, root: &node{origin: name, kind: dict}}
	main, problems, err := parse(name, text)
	if err != nil {
		return nil, err
	}
	t.problems = problems
	t.lay(main)
	return t, t.finish()
}

func (t *Tree) finish() error {
	if t.options.Rewrite != nil {
		t.options.Rewrite(t)
	}
	if t.options.Choose != nil {
		t.options.Known = append(slices.Clip(t.options.Known), t.options.Choose(t.Given)...)
	}
	if t.options.Defaults != nil {
		text, err := Marshal(t.options.Defaults)
		if err != nil {
			return err
		}
		if t.defaults, _, err = parse("default", text); err != nil {
			return err
		}
	}
	t.interpolate()
	return nil
}

// Given returns the scalar at key, if there is one, with its interpolations replaced by what is
// given.
func (t *Tree) Given(key string) (string, bool) {
	n := t.root.find(key)
	if n == nil || n.kind != scalar || n.isNull() {
		return "", false
	}
	n, err := newInterpolation(t).text(n.clone(), key)
	if err != nil || n.kind != scalar {
		return "", false // which is reported when all are replaced
	}
	return n.value, true
}

// Overridden reports whether the command line gave the value at key.
func (t *Tree) Overridden(key string) bool {
	n := t.root.find(key)
	return n != nil && n.origin == commandLine
}

// Null reports whether key was given and has no value.
func (t *Tree) Null(key string) bool {
	n := t.root.find(key)
	return n != nil && n.isNull()
}

// Stand lets the scalar at from, if there is one, stand for key to: to gets its value if it has none. If
// both have the same value, from is not reported as a key without effect.
func (t *Tree) Stand(to, from string) {
	text, ok := t.Given(from)
	if !ok {
		return
	}
	is, given := t.Given(to)
	if !given && t.root.find(to) != nil && !t.Null(to) || given && is != "" && is != text {
		return
	}
	t.said = append(t.said, from)
	n := plain(text, t.origin(from))
	section, name := to[:max(strings.LastIndexByte(to, '.'), 0)], to[strings.LastIndexByte(to, '.')+1:]
	if at := t.root.find(section); given && is == text {
		return
	} else if at != nil && at.kind == dict {
		at.set(name, n)
		return
	}
	t.root = t.root.merge(nest(to, n))
}

// Section lets the keys at from stand for those at to, where there is nothing.
func (t *Tree) Section(to, from string) {
	n := t.root.find(from)
	if n == nil || n.kind != dict || t.root.find(to) != nil {
		return
	}
	t.root = t.root.merge(nest(to, n.clone()))
	for _, name := range n.keys {
		t.said = append(t.said, join(from, name))
	}
}

// Said lets key be no key without effect: another one says the same.
func (t *Tree) Said(key string) { t.said = append(t.said, key) }

// Set gives key, which was given, the value that text is in YAML.
func (t *Tree) Set(key, text string) {
	if n := t.root.find(key); n != nil {
		*n = *plain(text, n.origin)
	}
}

// Remove takes key away, so that its default counts. A key that was not given stays so.
func (t *Tree) Remove(key string) { t.root.take(key) }

// has tells whether key, dotted, was given.
func (t *Tree) has(key string) bool { return t.root.find(key) != nil }

// origin says where key was given; where it was not, the section that it belongs to, or the file.
func (t *Tree) origin(key string) string {
	for key != "" {
		if n := t.root.find(key); n != nil {
			return n.origin
		}
		key = key[:max(strings.LastIndexByte(key, '.'), 0)]
	}
	return t.file
}

// problem returns a FieldError about the value of key; for nil it does not say the value.
func (t *Tree) problem(key string, value any, want string) *FieldError {
	e := &FieldError{Origin: t.origin(key), Key: key, Want: "expected " + want}
	switch {
	case value == nil:
	case t.has(key):
		e.Value = show(value)
	case reflect.ValueOf(value).IsZero():
		e.Value = "not set"
	default:
		e.Value = show(value) + " (the default)"
	}
	return e
}

// mostText is the greatest size of a file, in bytes.
const mostText = 16 << 20

// ReadOnce reads the text of a configuration from path, which may be a pipe.
func ReadOnce(path string) ([]byte, error) {
	text, err := durable.ReadOnce(path, mostText)
	if err != nil {
		return nil, &FieldError{Origin: path, Want: readError(err)}
	}
	return text, nil
}

// parsed returns what text says, which was read from path.
func (t *Tree) parsed(path string, text []byte) (*node, error) {
	root, problems, err := parse(path, text)
	t.problems = append(t.problems, problems...)
	return root, err
}

func readError(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file"
	case errors.Is(err, syscall.EISDIR):
		return "is a folder, expected a YAML file"
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return "cannot be read: " + err.Error()
}

// searchPath takes hydra's own section out of the main file and returns the folders in which
// presets are looked for.
func (t *Tree) searchPath(main *node) []string {
	folders := []string{filepath.Dir(t.file)}
	if hydra := main.remove("hydra"); hydra != nil {
		if paths := hydra.child("searchpath"); paths != nil {
			for _, p := range paths.items {
				// One that names a variable which is not set is of another machine: what it should
				// give is missed by name.
				if n, err := newInterpolation(t).text(p, ""); err == nil {
					folders = append(folders, strings.TrimPrefix(n.value, "file://"))
				}
			}
		}
	}
	return append(folders, t.options.SearchPath...)
}

// include lays a file over the tree at the key mount ("" for the root): first the presets of its
// defaults list, then itself, or in the list's order where that names _self_.
func (t *Tree) include(file *node, path, mount string, folders, stack []string) error {
	stack = append(stack, path)
	self := func() { t.lay(nest(mount, file)) }
	defaults := file.remove("defaults")
	if defaults == nil {
		self()
		return nil
	}
	if defaults.kind != list {
		return &FieldError{Origin: defaults.origin, Key: "defaults", Value: defaults.what(),
			Want: "expected a list of presets, as env/cartpole@env.train"}
	}
	done := false
	for _, item := range defaults.items {
		p, err := parsePreset(item, mount)
		if err != nil {
			return err
		}
		switch {
		case p.self:
			self()
			done = true
		case p.path != "":
			if err := t.preset(p, item.origin, filepath.Dir(path), folders, stack); err != nil {
				return err
			}
		}
	}
	if !done {
		self()
	}
	return nil
}

// lay merges source, a dict from the root, over the tree, under today's names.
func (t *Tree) lay(source *node) {
	t.rename(source)
	t.root = t.root.merge(source)
}

// A preset is one entry of a defaults list. The zero preset asks for nothing.
type preset struct {
	path     string // without .yaml; a leading / starts from the search path alone
	mount    string
	self     bool
	optional bool
}

// parsePreset reads an entry in Hydra's forms: group/name@mount, group@mount: name, group/name
// (mounted at group), _self_.
func parsePreset(item *node, mount string) (preset, error) {
	var p preset
	text := item.value
	if item.kind == dict && len(item.keys) == 1 && item.items[0].kind == scalar {
		name := item.items[0]
		group, at, mounted := strings.Cut(item.keys[0], "@")
		text = group + "/" + name.value
		if mounted {
			text += "@" + at
		}
		if name.isNull() {
			return p, nil
		}
	} else if item.kind != scalar || item.tag != strTag {
		return p, &FieldError{Origin: item.origin, Key: "defaults", Value: item.what(),
			Want: "expected a preset, as env/cartpole@env.train"}
	}
	if rest, ok := strings.CutPrefix(text, "optional "); ok {
		p.optional, text = true, rest
	}
	if text == "_self_" {
		p.self = true
		return p, nil
	}
	if rest, ok := strings.CutPrefix(text, "override "); ok || strings.HasPrefix(rest, "hydra/") {
		return p, nil // hydra's logging and launching, which the job does without
	}
	path, at, mounted := strings.Cut(text, "@")
	p.path = strings.TrimSuffix(path, ".yaml")
	if p.path == "" {
		return p, &FieldError{Origin: item.origin, Key: "defaults", Value: text,
			Want: "expected a preset, as env/cartpole@env.train"}
	}
	switch {
	case at == "_global_":
	case mounted:
		p.mount = join(mount, at)
	default:
		if i := strings.LastIndex(p.path, "/"); i >= 0 {
			group := strings.Trim(strings.ReplaceAll(p.path[:i], "..", ""), "/")
			mount = join(mount, strings.ReplaceAll(group, "/", "."))
		}
		p.mount = mount
	}
	return p, nil
}

// preset finds p in the folder of the file that names it or on the search path, and includes it.
func (t *Tree) preset(p preset, origin, folder string, folders, stack []string) error {
	if !strings.HasPrefix(p.path, "/") {
		folders = append([]string{folder}, folders...)
	}
	var looked []string
	for _, folder := range folders {
		path := filepath.Join(folder, p.path+".yaml")
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			if !slices.Contains(looked, path) {
				looked = append(looked, path)
			}
			continue
		}
		if slices.Contains(stack, path) {
			return &FieldError{Origin: origin, Key: "defaults", Value: p.path,
				Want: "includes itself: " + strings.Join(append(stack, path), " → ")}
		}
		text, err := durable.ReadFile(path)
		if err != nil {
			return &FieldError{Origin: path, Want: readError(err)}
		}
		file, err := t.parsed(path, text)
		if err != nil {
			return err
		}
		return t.include(file, path, p.mount, folders, stack)
	}
	if p.optional {
		return nil
	}
	t.problems = append(t.problems, &FieldError{Origin: origin, Key: "defaults", Value: p.path,
		Want: fmt.Sprintf("no such preset, looked for %s", strings.Join(looked, ", "))})
	return nil
}
