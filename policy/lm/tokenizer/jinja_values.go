package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// A list holds the items of a list in a template. Unlike gonja's own lists, a list with one item supports the index -1.
type list []any

// GetItem returns the item at an index. A negative index counts from the end.
func (l list) GetItem(key any) (*exec.Value, bool) {
	i, ok := key.(int)
	if ok && i < 0 {
		i += len(l)
	}
	if !ok || i < 0 || i >= len(l) {
		return exec.AsValue(nil), false
	}
	return exec.ToValue(l[i]), true
}

// none is the value of a JSON null. gonja treats it as nil, like an undefined value. The test
// "defined" and the filter "default" distinguish none from undefined values.
var none = (*struct{ null bool })(nil)

func isNone(v *exec.Value) bool { return v.IsNil() && v.Interface() == any(none) }

// A bigNumber is a whole number that does not fit into an int. Templates can only print it.
type bigNumber struct{ digits string }

func (n bigNumber) String() string { return n.digits }

// fromJSON converts a JSON text to a value for templates. Objects keep the order of their keys.
func fromJSON(text []byte) (any, error) {
	if len(text) == 0 {
		return none, nil
	}
	if !json.Valid(text) {
		return nil, fmt.Errorf("%s: not JSON", short(string(text)))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := nextJSON(d)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return v, err
}

func nextJSON(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '[' {
			l := list{}
			for d.More() {
				item, err := nextJSON(d)
				if err != nil {
					return nil, err
				}
				l = append(l, item)
			}
			_, err = d.Token()
			return l, err
		}
		return nextObject(d)
	case json.Number:
		if n, err := strconv.Atoi(token.String()); err == nil {
			return n, nil
		}
		if !strings.ContainsAny(token.String(), ".eE") {
			return bigNumber{token.String()}, nil
		}
		return token.Float64()
	case nil:
		return none, nil
	}
	return token, nil
}

// nextObject reads an object after its opening brace. An empty object becomes a map, because gonja
// treats every Dict as true.
func nextObject(d *json.Decoder) (any, error) {
	dict := exec.NewDict()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		value, err := nextJSON(d)
		if err != nil {
			return nil, err
		}
		pair := &exec.Pair{Key: exec.AsValue(key), Value: exec.ToValue(value)}
		if i := slices.IndexFunc(dict.Pairs, func(p *exec.Pair) bool { return p.Key.String() == key }); i >= 0 {
			dict.Pairs[i] = pair
		} else {
			dict.Pairs = append(dict.Pairs, pair)
		}
	}
	_, err := d.Token()
	if len(dict.Pairs) == 0 {
		return map[string]any{}, err
	}
	return dict, err
}

// A jsonStyle is a layout of JSON. Its fields are options of Python's json.dumps.
type jsonStyle struct {
	item, key string // separators of items, and of a key and its value
	indent    string // indentation per level, if lines is true
	lines     bool   // each item is on a line of its own
	sort      bool   // sort keys
	ascii     bool   // write characters that are not ASCII as \uXXXX
}

// maxLevels is the maximum depth of nested values. A template can put a value into itself.
const maxLevels = 100

func (s *jsonStyle) write(b *strings.Builder, v *exec.Value, level int) error {
	if level > maxLevels {
		return errors.New("tojson: a value nested too deep")
	}
	switch {
	case v.IsNil():
		b.WriteString("null")
	case v.IsBool():
		b.WriteString(strconv.FormatBool(v.Bool()))
	case v.IsInteger():
		b.WriteString(strconv.Itoa(v.Integer()))
	case v.IsFloat():
		b.WriteString(pythonFloat(v.Float()))
	case v.IsString():
		s.quote(b, v.String())
	case v.IsDict():
		return s.object(b, v, level)
	case v.IsList():
		return s.list(b, v, level)
	default:
		if n, ok := v.Interface().(bigNumber); ok {
			b.WriteString(n.digits)
			return nil
		}
		return fmt.Errorf("tojson: a value that has no JSON: %s", short(v.String()))
	}
	return nil
}

func (s *jsonStyle) list(b *strings.Builder, v *exec.Value, level int) (err error) {
	b.WriteByte('[')
	n := 0
	v.Iterate(func(i, _ int, item, _ *exec.Value) bool {
		s.separate(b, i, level+1)
		n++
		err = s.write(b, item, level+1)
		return err == nil
	}, func() {})
	s.close(b, n, level, ']')
	return err
}

func (s *jsonStyle) object(b *strings.Builder, v *exec.Value, level int) (err error) {
	b.WriteByte('{')
	n := 0
	v.IterateOrder(func(i, _ int, key, value *exec.Value) bool {
		s.separate(b, i, level+1)
		n++
		s.quote(b, key.String())
		b.WriteString(s.key)
		err = s.write(b, value, level+1)
		return err == nil
	}, func() {}, false, s.sort, true)
	s.close(b, n, level, '}')
	return err
}

func (s *jsonStyle) separate(b *strings.Builder, i, level int) {
	if i > 0 {
		b.WriteString(s.item)
	}
	if s.lines {
		b.WriteString("\n" + strings.Repeat(s.indent, level))
	}
}

func (s *jsonStyle) close(b *strings.Builder, items, level int, end byte) {
	if s.lines && items > 0 {
		b.WriteString("\n" + strings.Repeat(s.indent, level))
	}
	b.WriteByte(end)
}

func (s *jsonStyle) quote(b *strings.Builder, text string) {
	b.WriteByte('"')
	for _, r := range text {
		switch i := strings.IndexRune("\"\\\n\r\t\b\f", r); {
		case i >= 0:
			b.WriteString(`\` + `"\nrtbf`[i:i+1])
		case r < ' ' || s.ascii && 0x7f <= r && r < 0x10000:
			fmt.Fprintf(b, `\u%04x`, r)
		case s.ascii && r >= 0x10000:
			fmt.Fprintf(b, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}

// pythonFloat formats a number like Python.
func pythonFloat(f float64) string {
	e := strconv.FormatFloat(f, 'e', -1, 64)
	if exponent, err := strconv.Atoi(e[strings.IndexByte(e, 'e')+1:]); err != nil || exponent < -4 || exponent >= 16 {
		return e
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// strftime formats a time like C's strftime, with the directives that templates use for dates.
func strftime(t time.Time, format string) (string, error) {
	layouts := map[byte]string{
		'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'm': "01", 'd': "02", 'e': "_2", 'j': "002",
		'y': "06", 'Y': "2006", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM",
		'F': "2006-01-02", 'T': "15:04:05", 'Z': "MST", 'z': "-0700",
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		i++
		trim := i < len(format) && format[i] == '-'
		if trim {
			i++
		}
		switch {
		case i == len(format):
			return "", fmt.Errorf("strftime_now: %q ends in a %%", format)
		case format[i] == '%':
			b.WriteByte('%')
			continue
		}
		layout, ok := layouts[format[i]]
		if !ok {
			return "", fmt.Errorf("strftime_now: %q: %%%c is not supported", format, format[i])
		}
		text := t.Format(layout)
		if trim {
			text = strings.TrimLeft(text, "0 ")
		}
		b.WriteString(text)
	}
	return b.String(), nil
}
