package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/exec"
)

// methods returns the methods that Python has for texts and mappings, without methods that change a value.
func methods() exec.Methods {
	m := builtins.Methods
	m.Str = exec.NewMethodSet(textMethods())
	m.Dict = exec.NewMethodSet(map[string]exec.Method[map[string]any]{
		"items": func(_ map[string]any, self *exec.Value, _ *exec.VarArgs) (any, error) { return items(self), nil },
		"keys":  func(_ map[string]any, self *exec.Value, _ *exec.VarArgs) (any, error) { return column(self, 0), nil },
		"values": func(_ map[string]any, self *exec.Value, _ *exec.VarArgs) (any, error) {
			return column(self, 1), nil
		},
		"get": func(_ map[string]any, self *exec.Value, args *exec.VarArgs) (any, error) {
			if len(args.Args) > 0 {
				if v, ok := self.GetItem(args.Args[0].String()); ok {
					return v.Interface(), nil
				}
			}
			if len(args.Args) > 1 {
				return args.Args[1].Interface(), nil
			}
			return none, nil
		},
	})
	m.List = exec.NewMethodSet(map[string]exec.Method[[]any]{})
	return m
}

// column returns the keys (i = 0) or the values (i = 1) of a mapping.
func column(v *exec.Value, i int) list {
	l := items(v)
	for j, pair := range l {
		l[j] = pair.(list)[i]
	}
	return l
}

func textMethods() map[string]exec.Method[string] {
	set := map[string]exec.Method[string]{}
	for _, name := range []string{
		"format", "isalnum", "isalpha", "isdigit", "islower", "isnumeric", "isspace", "isupper",
	} {
		set[name], _ = builtins.Methods.Str.Get(name)
	}
	plain := func(name string, f func(string) any) {
		set[name] = func(s string, _ *exec.Value, args *exec.VarArgs) (any, error) {
			if len(args.Args)+len(args.KwArgs) > 0 {
				return nil, fmt.Errorf("%s takes no arguments", name)
			}
			return f(s), nil
		}
	}
	plain("upper", func(s string) any { return strings.ToUpper(s) })
	plain("lower", func(s string) any { return strings.ToLower(s) })
	plain("title", func(s string) any { return title(s) })
	plain("capitalize", func(s string) any {
		r, n := utf8.DecodeRuneInString(s)
		if n == 0 {
			return s
		}
		return string(unicode.ToTitle(r)) + strings.ToLower(s[n:])
	})
	stripping := func(name string, left, right bool) {
		set[name] = func(s string, _ *exec.Value, args *exec.VarArgs) (any, error) {
			return strip(s, argument(args, 0, "chars"), left, right), nil
		}
	}
	stripping("strip", true, true)
	stripping("lstrip", true, false)
	stripping("rstrip", false, true)
	set["split"] = func(s string, _ *exec.Value, args *exec.VarArgs) (any, error) { return split(s, args, false) }
	set["rsplit"] = func(s string, _ *exec.Value, args *exec.VarArgs) (any, error) { return split(s, args, true) }
	set["splitlines"] = splitLines
	set["replace"] = func(s string, _ *exec.Value, args *exec.VarArgs) (any, error) {
		if len(args.Args) < 2 {
			return nil, fmt.Errorf("replace: expected an old text and a new one")
		}
		n := -1
		if v := argument(args, 2, "count"); v != nil {
			n = v.Integer()
		}
		return strings.Replace(s, args.Args[0].String(), args.Args[1].String(), n), nil
	}
	with := func(name string, f func(s, text string) any) {
		set[name] = func(s string, _ *exec.Value, args *exec.VarArgs) (any, error) {
			if len(args.Args) != 1 || !args.Args[0].IsString() {
				return nil, fmt.Errorf("%s: expected one text", name)
			}
			return f(s, args.Args[0].String()), nil
		}
	}
	with("find", func(s, text string) any { return runeIndex(s, strings.Index(s, text)) })
	with("rfind", func(s, text string) any { return runeIndex(s, strings.LastIndex(s, text)) })
	with("count", func(s, text string) any { return strings.Count(s, text) })
	with("removeprefix", func(s, text string) any { return strings.TrimPrefix(s, text) })
	with("removesuffix", func(s, text string) any { return strings.TrimSuffix(s, text) })
	ends := func(name string, has func(s, text string) bool) {
		set[name] = func(s string, _ *exec.Value, args *exec.VarArgs) (any, error) {
			if len(args.Args) != 1 {
				return nil, fmt.Errorf("%s: expected one text, or a list of them", name)
			}
			found := args.Args[0].IsString() && has(s, args.Args[0].String())
			if args.Args[0].IsList() {
				args.Args[0].Iterate(func(_, _ int, text, _ *exec.Value) bool {
					found = has(s, text.String())
					return !found
				}, func() {})
			}
			return found, nil
		}
	}
	ends("startswith", strings.HasPrefix)
	ends("endswith", strings.HasSuffix)
	set["join"] = func(s string, _ *exec.Value, args *exec.VarArgs) (any, error) {
		var texts []string
		if v := argument(args, 0, "iterable"); v != nil {
			v.Iterate(func(_, _ int, text, _ *exec.Value) bool {
				texts = append(texts, text.String())
				return true
			}, func() {})
		}
		return strings.Join(texts, s), nil
	}
	return set
}

// runeIndex converts an index in bytes to an index in characters.
func runeIndex(s string, i int) int {
	if i < 0 {
		return i
	}
	return utf8.RuneCountInString(s[:i])
}

// split is Python's split(sep, maxsplit), or Python's rsplit if fromRight is true. Without a separator
// it splits at runs of white space.
func split(s string, args *exec.VarArgs, fromRight bool) (any, error) {
	sep, maxSplit := argument(args, 0, "sep"), -1
	if v := argument(args, 1, "maxsplit"); v != nil {
		maxSplit = v.Integer()
	}
	if sep != nil && sep.String() == "" {
		return nil, fmt.Errorf("split: an empty separator")
	}
	cut := func(s string) (before, after string, ok bool) { // cut at the next separator
		if sep == nil {
			s = strip(s, nil, !fromRight, fromRight)
			i, n := spaceIndex(s, fromRight)
			if i < 0 {
				return s, s, false
			}
			return s[:i], s[i+n:], true
		}
		i := strings.Index(s, sep.String())
		if fromRight {
			i = strings.LastIndex(s, sep.String())
		}
		if i < 0 {
			return s, s, false
		}
		return s[:i], s[i+len(sep.String()):], true
	}
	var parts []string
	for maxSplit < 0 || len(parts) < maxSplit {
		before, after, ok := cut(s)
		if !ok {
			break
		}
		if fromRight {
			parts, s = append(parts, after), before
		} else {
			parts, s = append(parts, before), after
		}
	}
	if sep == nil {
		s = strip(s, nil, !fromRight, fromRight)
	}
	if s != "" || sep != nil {
		parts = append(parts, s)
	}
	l := make(list, len(parts))
	for i, part := range parts {
		if fromRight {
			l[len(parts)-1-i] = part
		} else {
			l[i] = part
		}
	}
	return l, nil
}

// spaceIndex returns the index and the length of the first white space character, or of the last one if
// last is true.
func spaceIndex(s string, last bool) (i, size int) {
	space := func(r rune) bool { return strip(string(r), nil, true, false) == "" }
	if i = strings.IndexFunc(s, space); last {
		i = strings.LastIndexFunc(s, space)
	}
	if i >= 0 {
		_, size = utf8.DecodeRuneInString(s[i:])
	}
	return i, size
}

// splitLines is Python's splitlines(keepends).
func splitLines(s string, _ *exec.Value, args *exec.VarArgs) (any, error) {
	keep := false
	if v := argument(args, 0, "keepends"); v != nil {
		keep = v.IsTrue()
	}
	l := list{}
	for s != "" {
		i := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if i < 0 {
			l = append(l, s)
			break
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			n = 2
		}
		if keep {
			l = append(l, s[:i+n])
		} else {
			l = append(l, s[:i])
		}
		s = s[i+n:]
	}
	return l, nil
}
