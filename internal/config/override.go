package config

import "strings"

const commandLine = "command line"

// override applies one override of the command line. It supports Hydra's forms:
//
//	key=value     sets a dotted key: a word, a number, null, "quoted", [a, list], {a: map}
//	key=          sets it to the empty string
//	+key=value    adds the key, which must not exist yet; ++key=value means key=value
//	~key          removes the key, so that its default applies; ~key=value requires that the key has this value
func (t *Tree) override(text string) *FieldError {
	wrong := func(key, value, want string) *FieldError {
		return &FieldError{Origin: commandLine, Key: key, Value: value, Want: want}
	}
	left, value, hasValue := strings.Cut(text, "=")
	key := strings.TrimSpace(strings.TrimLeft(left, "+~"))
	mark := left[:len(left)-len(strings.TrimLeft(left, "+~"))]
	if !validKey(key) {
		return wrong("", show(text), "expected key=value with a dotted key, as runner.max_epochs=10")
	}
	if name, grouped := strings.CutPrefix(t.currentName(key), t.options.Grouped+"."); grouped {
		name, _, _ = strings.Cut(name, ".")
		t.root.find(t.options.Grouped).takeNames([]string{name})
	}
	there := t.root.find(t.currentName(key))
	switch mark {
	case "~":
		if there == nil {
			return wrong(key, "", "cannot be removed: it was not given")
		}
		if hasValue && there.value != strings.TrimSpace(value) {
			return wrong(key, there.describe(), "not removed: its value is not "+value)
		}
		t.root.take(t.currentName(key))
		return nil
	case "+":
		if there != nil {
			return wrong(key, value, "already given at "+there.origin+"; leave out the + to replace it")
		}
	case "", "++":
	default:
		return wrong("", show(text), "expected key=value, +key=value, ++key=value or ~key")
	}
	if !hasValue {
		return wrong(key, "", "expected a value, as "+key+"=10")
	}
	v, err := overrideValue(value)
	if err != nil {
		err.Key = key
		return err
	}
	if t.options.Overriding != nil {
		t.options.Overriding(t, t.currentName(key))
	}
	t.lay(nest(key, v))
	return nil
}

// overrideValue parses the text after the sign =. A text that begins with a bracket, a brace or a quote is parsed as
// YAML. Any other text is one scalar.
func overrideValue(text string) (*node, *FieldError) {
	text = strings.TrimSpace(text)
	if text == "" {
		return &node{origin: commandLine, tag: strTag}, nil
	}
	if !strings.ContainsRune(`[{'"`, rune(text[0])) {
		n := plain(text, commandLine)
		n.decimal = true
		return n, nil
	}
	doc, err := document([]byte(text))
	if err != nil {
		return nil, &FieldError{Origin: commandLine, Value: show(text),
			Want: "not a value: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	r := &reader{at: func(int) string { return commandLine }, decimal: true}
	n, err := r.node(doc, "", 0)
	if err != nil {
		return nil, err.(*FieldError)
	}
	if len(r.problems) > 0 {
		return nil, r.problems[0]
	}
	return n, nil
}

func validKey(key string) bool {
	for name := range strings.SplitSeq(key, ".") {
		if strings.TrimSpace(name) == "" || strings.ContainsAny(name, "\n\r\t\x00") {
			return false
		}
	}
	return true
}
