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

// Options configure Load and Decode.
type Options struct {
	// Text is the text of the file (see ReadOnce). If it is nil, Load reads the file.
	Text []byte
	// SearchPath lists folders of presets. Load first searches the folder of the file, and the folders in the file's
	// hydra.searchpath.
	SearchPath []string
	// Synonyms maps names of keys in other programs to dotted keys with the same meaning. Corrections suggest them.
	Synonyms map[string]string
	// Aliases are old names of keys.
	Aliases []Alias
	// Known lists the keys that have a meaning only in other programs.
	Known []Known
	// Defaults is a struct with the default values. Interpolations may refer to them. If Defaults is nil,
	// interpolations may refer only to given values.
	Defaults any
	// Rewrite, unless nil, is called after the file and the command line were read. It may translate other programs'
	// keys.
	Rewrite func(t *Tree)
	// Choose, unless nil, is called before Defaults are read. It adds the keys of users' own parts to Defaults. It
	// calls value to get the user's value at a key, such as the choice of a part. It returns the Known keys of the
	// chosen parts.
	Choose func(value func(key string) (string, bool)) []Known
	// Overriding, unless nil, is called before the command line sets a dotted key. It may call Remove for keys in files
	// that would take precedence over this key.
	Overriding func(t *Tree, key string)
	// Grouped is a section whose keys are lists of names, such as "actor, env". If several keys list the same name, the
	// last one counts. The order is presets, then the file, then overrides.
	Grouped string
	// Owner, unless nil, returns the part that owns a key without a field in Defaults. If the key may belong to a part
	// whose name is unknown, Owner returns an empty part and true.
	Owner func(key string) (part string, ok bool)
}

// A Tree is a complete configuration. The file takes precedence over presets, and overrides take precedence over both.
// Interpolations are replaced by their values.
type Tree struct {
	file     string
	root     *node
	defaults *node
	options  Options
	notes    []string      // warnings about old names
	repeated []string      // keys that repeat the value of another key; see Tree.Said
	problems []*FieldError // mistakes found while reading; Decode reports them too
	leftOut  string        // for errors about missing presets: the left-out folders of hydra.searchpath
}

// Load reads the file at path with its presets, and applies the overrides, which use Hydra's grammar. It returns a
// FieldError if it cannot continue, for example because the file is missing. Decode reports all other mistakes.
func Load(path string, overrides []string, options Options) (*Tree, error) {
	t := &Tree{file: path, options: options, root: &node{origin: path, kind: dict}}
	text := options.Text
	if text == nil {
		var err error
		if text, err = ReadOnce(path); err != nil {
			return nil, err
		}
	}
	main, err := t.parseFile(path, text)
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

// Parse reads a configuration from text, without presets. name is the name of the file in origins.
func Parse(name string, text []byte, options Options) (*Tree, error) {
	t := &Tree{file: name, options: options, root: &node{origin: name, kind: dict}}
	main, err := t.parseFile(name, text)
	if err != nil {
		return nil, err
	}
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

// Given returns the scalar that was given at key, with its interpolations replaced, or false if there is none.
func (t *Tree) Given(key string) (string, bool) {
	n := t.root.find(key)
	if n == nil || n.kind != scalar || n.isNull() {
		return "", false
	}
	n, err := newInterpolation(t).expand(n.clone(), key)
	if err != nil || n.kind != scalar {
		return "", false // interpolate reports it later
	}
	return n.value, true
}

// Overridden reports whether the command line gave the value at key.
func (t *Tree) Overridden(key string) bool {
	n := t.root.find(key)
	return n != nil && n.origin == commandLine
}

// Null reports whether key was given as null.
func (t *Tree) Null(key string) bool {
	n := t.root.find(key)
	return n != nil && n.isNull()
}

// Stand copies the scalar at the source key to the target key, unless the target has a different value. The source then
// no longer counts as a key without effect.
func (t *Tree) Stand(target, source string) {
	text, ok := t.Given(source)
	if !ok {
		return
	}
	is, given := t.Given(target)
	if !given && t.root.find(target) != nil && !t.Null(target) || given && is != "" && is != text {
		return
	}
	t.repeated = append(t.repeated, source)
	n := plain(text, t.origin(source))
	section, name := target[:max(strings.LastIndexByte(target, '.'), 0)], target[strings.LastIndexByte(target, '.')+1:]
	if at := t.root.find(section); given && is == text {
		return
	} else if at != nil && at.kind == dict {
		at.set(name, n)
		return
	}
	t.root = t.root.merge(nest(target, n))
}

// Section copies the section at the source key to the target key, unless the target was given.
func (t *Tree) Section(target, source string) {
	n := t.root.find(source)
	if n == nil || n.kind != dict || t.root.find(target) != nil {
		return
	}
	t.root = t.root.merge(nest(target, n.clone()))
	for _, name := range n.keys {
		t.repeated = append(t.repeated, join(source, name))
	}
}

// Said marks key as a repetition of another key. Such a key does not count as a key without effect.
func (t *Tree) Said(key string) { t.repeated = append(t.repeated, key) }

// Set changes the value of a given key to text, parsed as YAML.
func (t *Tree) Set(key, text string) {
	if n := t.root.find(key); n != nil {
		*n = *plain(text, n.origin)
	}
}

// Spread replaces the scalar at key by a map in which each of the given names has this scalar. It does not change other
// kinds of values.
func (t *Tree) Spread(key string, names ...string) {
	n := t.root.find(key)
	if n == nil || n.kind != scalar {
		return
	}
	value := *n
	*n = node{origin: n.origin, kind: dict}
	for _, name := range names {
		each := value
		n.keys, n.items = append(n.keys, name), append(n.items, &each)
	}
}

// Remove removes key, so that its default applies. A key that was not given is ignored.
func (t *Tree) Remove(key string) { t.root.take(key) }

// has reports whether the dotted key was given.
func (t *Tree) has(key string) bool { return t.root.find(key) != nil }

// origin returns the origin of key. If key was not given, it returns the origin of the nearest section above key, or
// the file.
func (t *Tree) origin(key string) string {
	for key != "" {
		if n := t.root.find(key); n != nil {
			return n.origin
		}
		key = key[:max(strings.LastIndexByte(key, '.'), 0)]
	}
	return t.file
}

// problem returns a FieldError about key. It omits the value if value is nil.
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

// mostText is the maximum size of a file, in bytes.
const mostText = 16 << 20

// ReadOnce reads the text of a configuration from path, which may be a pipe.
func ReadOnce(path string) ([]byte, error) {
	text, err := durable.ReadOnce(path, mostText)
	if err != nil {
		return nil, &FieldError{Origin: path, Want: readError(err)}
	}
	return text, nil
}

// parseFile parses the text of the file at path.
func (t *Tree) parseFile(path string, text []byte) (*node, error) {
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
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return "cannot be read: " + err.Error()
}

// searchPath removes the section "hydra" from the main file and returns the folders to search for presets.
func (t *Tree) searchPath(main *node) []string {
	folders := []string{filepath.Dir(t.file)}
	if hydra := main.remove("hydra"); hydra != nil {
		if paths := hydra.child("searchpath"); paths != nil {
			for _, p := range paths.items {
				// Leave out a path whose variable is not set: it is for another machine. If a preset is missing because
				// of this, the error names the path.
				if n, err := newInterpolation(t).expand(p, ""); err == nil {
					folders = append(folders, strings.TrimPrefix(n.value, "file://"))
				} else {
					t.leftOut += "; hydra.searchpath names " + p.value + ", too, whose variable is not set"
				}
			}
		}
	}
	return append(folders, t.options.SearchPath...)
}

// include merges a file into the tree at the key mount, or at the root if mount is "". It first merges the presets in
// the file's defaults list, and then the file itself. If the list has an entry _self_, the file is merged at the place
// of this entry.
func (t *Tree) include(file *node, path, mount string, folders, stack []string) error {
	stack = append(stack, path)
	self := func() { t.lay(nest(mount, file)) }
	defaults := file.remove("defaults")
	if defaults == nil {
		self()
		return nil
	}
	if defaults.kind != list {
		return &FieldError{Origin: defaults.origin, Key: "defaults", Value: defaults.describe(),
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

// lay replaces old names in source, and merges source into the tree. source is a dict that begins at the root.
func (t *Tree) lay(source *node) {
	t.rename(source)
	if group := source.find(t.options.Grouped); group != nil {
		t.root.find(t.options.Grouped).takeNames(group.keys)
	}
	t.root = t.root.merge(source)
}

// takeNames removes the names in keys from the other keys of n, which is a section like Options.Grouped. If all names
// of a new key are in one old key, the new key gets a copy of the old value. Then merge merges a new map into the old
// map.
func (n *node) takeNames(keys []string) {
	if n == nil || n.kind != dict {
		return
	}
	var taken []string
	for _, key := range keys {
		taken = append(taken, Names(key)...)
	}
	before := n.clone()
	for i, old := range before.keys {
		names := Names(old)
		left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(taken, name) })
		if slices.Contains(keys, old) || len(left) == len(names) {
			continue
		}
		if n.keys[slices.Index(n.keys, old)] = strings.Join(left, ","); len(left) == 0 {
			n.remove("")
		}
		for _, key := range keys {
			if before.child(key) == nil && !slices.ContainsFunc(Names(key), func(name string) bool {
				return !slices.Contains(names, name)
			}) {
				n.set(key, before.items[i].clone())
			}
		}
	}
}

// Names returns the names in a key of Options.Grouped.
func Names(key string) []string {
	names := strings.Split(key, ",")
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
	}
	return names
}

// A preset is one entry of a defaults list. The zero preset includes nothing.
type preset struct {
	path     string // without .yaml; a leading / means that only the search path is searched
	mount    string
	self     bool
	optional bool
}

// parsePreset parses an entry in Hydra's forms: group/name@mount, group@mount: name, group/name (mounted at group), or
// _self_.
func parsePreset(item *node, mount string) (preset, error) {
	var p preset
	wrong := func(value string) error {
		return &FieldError{Origin: item.origin, Key: "defaults", Value: value,
			Want: "expected a preset, as env/cartpole@env.train"}
	}
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
		return p, wrong(item.describe())
	}
	if rest, ok := strings.CutPrefix(text, "optional "); ok {
		p.optional, text = true, rest
	}
	if text == "_self_" {
		p.self = true
		return p, nil
	}
	if rest, ok := strings.CutPrefix(text, "override "); ok || strings.HasPrefix(rest, "hydra/") {
		return p, nil // hydra's logging and launcher, which are not needed
	}
	path, at, mounted := strings.Cut(text, "@")
	p.path = strings.TrimSuffix(path, ".yaml")
	if p.path == "" {
		return p, wrong(text)
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

// preset includes p. It searches the folder of the file that names p, then the search path.
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
		text, err := durable.ReadFile(path, mostText)
		if err != nil {
			return &FieldError{Origin: path, Want: readError(err)}
		}
		file, err := t.parseFile(path, text)
		if err != nil {
			return err
		}
		return t.include(file, path, p.mount, folders, stack)
	}
	if p.optional {
		return nil
	}
	t.problems = append(t.problems, &FieldError{Origin: origin, Key: "defaults", Value: p.path,
		Want: fmt.Sprintf("no such preset, looked for %s%s", strings.Join(looked, ", "), t.leftOut)})
	return nil
}
