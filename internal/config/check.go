package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/printable"
)

// A FieldError is one mistake in the configuration. errors.Join combines all mistakes. The text of a mistake is
// "origin: key: value: want":
//
//	ppo.yaml:41: actor.global_batch_size: 500: expected a multiple of 256 (micro_batch_size 64 × 4 actor ranks)
//	command line: algorithm.gamma: 1.5: expected a number in [0, 1]
//	ppo.yaml:12: algorithm.clip_ratoi_high: unknown key, did you mean clip_ratio_high?
type FieldError struct {
	Origin string // file:line, "command line", or the file alone for a missing key
	Key    string // dotted, from the root
	Value  string // as written; empty if the key itself is wrong
	Want   string // description of the valid values
}

func (e *FieldError) Error() string {
	parts := []string{printable.Line(e.Origin), printable.Line(e.Key), printable.Line(e.Value), printable.Lines(e.Want)}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
}

// FieldErrors returns the FieldErrors in err, in order, or nil if err has no FieldError.
func FieldErrors(err error) []*FieldError {
	switch e := err.(type) {
	case nil:
		return nil
	case *FieldError:
		return []*FieldError{e}
	case interface{ Unwrap() []error }:
		var all []*FieldError
		for _, one := range e.Unwrap() {
			all = append(all, FieldErrors(one)...)
		}
		return all
	default:
		return FieldErrors(errors.Unwrap(err))
	}
}

// A Check collects the mistakes in the values of a Tree. A Check and all Checks made by its method At share one
// collection.
type Check struct {
	tree   *Tree
	prefix string
	found  *findings
}

// findings are the collection that several Checks share.
type findings struct {
	errs []error
	bad  map[string]bool // keys that have an error
	idle []Ignored       // keys that have no effect
}

// At returns a Check for the keys below key.
func (c *Check) At(key string) *Check {
	return &Check{tree: c.tree, prefix: join(c.prefix, key), found: c.found}
}

// Fork returns a copy of c with the mistakes found so far. Later mistakes in the copy do not appear in c, and later
// mistakes in c do not appear in the copy.
func (c *Check) Fork() *Check {
	return &Check{tree: c.tree, prefix: c.prefix, found: &findings{
		errs: slices.Clone(c.found.errs), bad: maps.Clone(c.found.bad),
		idle: slices.Clone(c.found.idle),
	}}
}

// Has reports whether key was given.
func (c *Check) Has(key string) bool { return c.tree.has(join(c.prefix, key)) }

// Overridden reports whether key was given on the command line.
func (c *Check) Overridden(key string) bool { return c.tree.Overridden(join(c.prefix, key)) }

// Reported reports whether one of the keys, or a key below one of them, has a mistake so far. In this case, callers
// skip the checks that depend on these keys.
func (c *Check) Reported(keys ...string) bool {
	for bad := range c.found.bad {
		for _, key := range keys {
			rest, below := strings.CutPrefix(bad, join(c.prefix, key))
			if below && (rest == "" || rest[0] == '.') {
				return true
			}
		}
	}
	return false
}

// ReportedBeside reports whether a section has a mistake so far, at its own key or at a key below it. It does not count
// mistakes at the given keys.
func (c *Check) ReportedBeside(section string, keys ...string) bool {
	for bad := range c.found.bad {
		rest, below := strings.CutPrefix(bad, join(c.prefix, section)+".")
		if below && !slices.Contains(keys, rest) || bad == join(c.prefix, section) {
			return true
		}
	}
	return false
}

// Want reports a mistake in key unless ok is true. value is the key's value, or nil to leave it out of the message.
// description names the valid values, such as "a number > 0". Only the first mistake of a key is reported, because
// later mistakes may follow from it.
func (c *Check) Want(ok bool, key string, value any, description string) {
	if !ok {
		c.report(c.tree.problem(join(c.prefix, key), value, description))
	}
}

// Mistake returns a mistake in key, without reporting it; see Want.
func (c *Check) Mistake(key string, value any, description string) error {
	return c.tree.problem(join(c.prefix, key), value, description)
}

// Problem reports a mistake in key; see Want.
func (c *Check) Problem(key string, value any, description string) {
	c.Want(false, key, value, description)
}

// Err returns all reported mistakes as one error, or nil.
func (c *Check) Err() error { return errors.Join(c.found.errs...) }

func (c *Check) report(e *FieldError) {
	if c.found.bad[e.Key] {
		return
	}
	c.found.bad[e.Key] = true
	c.found.errs = append(c.found.errs, e)
}

// show formats a value for an error message: on one line, shortened if it is long, and quoted if it is empty or has
// white space at its ends.
func show(v any) string {
	if list, is := v.([]string); is {
		v = Words(list)
	}
	s := fmt.Sprint(v)
	if s == "" || strings.TrimSpace(s) != s || strings.ContainsAny(s, "\n\r\t") {
		s = fmt.Sprintf("%q", s)
	}
	if r := []rune(s); len(r) > 80 {
		s = string(r[:77]) + "..."
	}
	return s
}

// join joins a prefix and a key by a dot. Either may be empty.
func join(prefix, key string) string {
	if prefix == "" || key == "" {
		return prefix + key
	}
	return prefix + "." + key
}
