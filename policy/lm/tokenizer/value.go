package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rlinf/rlinf/internal/durable"
)

// A reader keeps the first error in a file.
type reader struct{ err error }

// A value is a JSON value and its path in the file, such as "model.merges[3]". If the reader has an error, methods
// return zero values.
type value struct {
	reader *reader
	at     string
	raw    json.RawMessage // nil if the file lacks the value
}

// An object is a JSON object, with its fields.
type object struct {
	value
	fields map[string]json.RawMessage
}

func readValue(r *reader, text []byte) value {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) && syntax.Offset > 0 {
			err = fmt.Errorf("at byte %d: %w", syntax.Offset, err)
		}
		r.err = err
	}
	return value{r, "", durable.WholeNumbers(text)}
}

// fail sets the error of the reader, unless the reader already has one.
func (v value) fail(want string) {
	if v.reader.err == nil {
		at := v.at
		if at != "" {
			at += ": "
		}
		v.reader.err = fmt.Errorf("%s%s: expected %s", at, short(string(v.raw)), want)
	}
}

// unsupported sets the error for a valid value that this package does not support.
func (v value) unsupported(known ...string) {
	v.fail(strings.Join(known, ", ") + " (others are not supported)")
}

// short shortens s for an error message.
func short(s string) string {
	const limit = 160
	if s == "" {
		return "missing"
	}
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= limit {
		return strings.ToValidUTF8(s, "\ufffd")
	}
	n := limit
	for !utf8.RuneStart(s[n]) && n > 0 {
		n--
	}
	return strings.ToValidUTF8(s[:n], "\ufffd") + "…"
}

// isNull reports whether the value is null or missing, or the reader has an error.
func (v value) isNull() bool { return v.reader.err != nil || v.raw == nil || string(v.raw) == "null" }

// decode unmarshals the value into dst. If this fails, decode sets an error and returns false.
func (v value) decode(dst any, want string) bool {
	if v.reader.err != nil {
		return false
	}
	if v.raw == nil || string(v.raw) == "null" || json.Unmarshal(v.raw, dst) != nil {
		v.fail(want)
		return false
	}
	return true
}

func (v value) object() object {
	o := object{value: v}
	v.decode(&o.fields, "an object")
	return o
}

func (v value) list() []value {
	var raw []json.RawMessage
	v.decode(&raw, "a list")
	list := make([]value, len(raw))
	for i := range raw {
		list[i] = v.item(i, "")
		list[i].raw = raw[i]
	}
	return list
}

// item returns item i of a list. raw is the JSON of the item.
func (v value) item(i int, raw string) value {
	return value{v.reader, v.at + "[" + strconv.Itoa(i) + "]", []byte(raw)}
}

func (v value) text() (s string) {
	v.decode(&s, "a text")
	return s
}

func (v value) id() (id int32) {
	if v.decode(&id, "a token id") && (id < 0 || id > maxID) {
		v.fail("a token id from 0 to " + strconv.Itoa(maxID))
		return 0
	}
	return id
}

// maxID limits the memory that a file can make Load use, because tables have an entry for each id.
const maxID = 1<<22 - 1

// get returns a field. A missing field is null.
func (o object) get(key string) value {
	at := key
	if o.at != "" {
		at = o.at + "." + key
	}
	return value{o.reader, at, o.fields[key]}
}

// flag returns a boolean field. If the field is null, flag returns fallback.
func (o object) flag(key string, fallback bool) bool {
	if v := o.get(key); !v.isNull() {
		v.decode(&fallback, "true or false")
	}
	return fallback
}

// textOr returns a text field. If the field is null, textOr returns fallback.
func (o object) textOr(key, fallback string) string {
	if v := o.get(key); !v.isNull() {
		return v.text()
	}
	return fallback
}

// oneOf returns a text field. The text must be one of texts. If the field is null, oneOf returns texts[0].
func (o object) oneOf(key string, texts ...string) string {
	v := o.get(key)
	if v.isNull() {
		return texts[0]
	}
	s := v.text()
	if v.reader.err == nil && !slices.Contains(texts, s) {
		v.unsupported(texts...)
	}
	return s
}

// mustBe sets an error unless a field is null or has the allowed value.
func (o object) mustBe(key, allowed string) {
	if v := o.get(key); !v.isNull() && string(v.raw) != allowed {
		v.unsupported("null", allowed)
	}
}
