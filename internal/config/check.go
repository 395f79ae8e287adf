package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A FieldError is one thing wrong in the configuration; all of them are reported in one
// errors.Join. Its text is "origin: key: value: want":
//
//	configs/ppo.yaml:41: actor.global_batch_size: 500: want a multiple of 256 (micro_batch_size 64 × 4 actor ranks)
//	command line: algorithm.gamma: 1.5: want a number in [0, 1]
//	configs/ppo.yaml:12: algorithm.clip_ratoi_high: unknown key, did you mean clip_ratio_high?
type FieldError struct {
	Origin string // file:line, "command line", or the file alone for a key that stands nowhere
	Key    string // dotted, from the root
	Value  string // as written; empty where the key itself is wrong
	Want   string // what would be valid
}

func (e *FieldError) Error() string {
	var parts []string
	for _, part := range []string{e.Origin, e.Key, e.Value, e.Want} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// FieldErrors returns the FieldErrors in err, in order; none when err is of another kind.
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

// A Check collects what is wrong with the values of a Tree. The Checks that At returns report to
// the one it was called on.
type Check struct {
	tree   *Tree
	prefix string
	found  *findings
}

type findings struct {
	errs []error
	bad  map[string]bool // keys that have an error
	idle []Ignored       // known keys without effect
}

// At returns a Check for the keys below key.
func (c *Check) At(key string) *Check {
	return &Check{tree: c.tree, prefix: join(c.prefix, key), found: c.found}
}

// Fork returns a Check that has found the same so far. What either finds from then on the other
// does not know of.
func (c *Check) Fork() *Check {
	return &Check{tree: c.tree, prefix: c.prefix, found: &findings{
		errs: slices.Clone(c.found.errs), bad: maps.Clone(c.found.bad),
		idle: slices.Clone(c.found.idle),
	}}
}

// Has tells whether key was given.
func (c *Check) Has(key string) bool { return c.tree.has(join(c.prefix, key)) }

// Overridden tells whether key was given on the command line.
func (c *Check) Overridden(key string) bool { return c.tree.Overridden(join(c.prefix, key)) }

// Reported tells whether anything is wrong so far with one of the keys, or below one: for what
// cannot be judged then.
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

// ReportedBeside tells whether anything is wrong so far with a key below section, other than those
// keys of it.
func (c *Check) ReportedBeside(section string, keys ...string) bool {
	for bad := range c.found.bad {
		rest, below := strings.CutPrefix(bad, join(c.prefix, section)+".")
		if below && !slices.Contains(keys, rest) || bad == join(c.prefix, section) {
			return true
		}
	}
	return false
}

// Want reports key unless ok: value is what it has, want what would be valid ("a number > 0"). With
// a nil value the line does without. A key is reported once: what follows from a value that could
// not be read is not said.
func (c *Check) Want(ok bool, key string, value any, want string) {
	if !ok {
		c.report(c.tree.problem(join(c.prefix, key), value, want))
	}
}

// Problem reports that key, dotted, has a wrong value, as Want does for a condition that does not hold.
func (c *Check) Problem(key string, value any, want string) { c.Want(false, key, value, want) }

// Err returns everything reported so far as one error, or nil.
func (c *Check) Err() error { return errors.Join(c.found.errs...) }

func (c *Check) report(e *FieldError) {
	if c.found.bad[e.Key] {
		return
	}
	c.found.bad[e.Key] = true
	c.found.errs = append(c.found.errs, e)
}

// show prints a value for an error line: on one line, quoted where it would be invisible otherwise,
// cut where it is long.
func show(v any) string {
	s := fmt.Sprint(v)
	if s == "" || strings.TrimSpace(s) != s || strings.ContainsAny(s, "\n\r\t") {
		s = fmt.Sprintf("%q", s)
	}
	if r := []rune(s); len(r) > 80 {
		s = string(r[:77]) + "..."
	}
	return s
}

// join puts a key below a prefix; either may be empty.
func join(prefix, key string) string {
	if prefix == "" || key == "" {
		return prefix + key
	}
	return prefix + "." + key
}
