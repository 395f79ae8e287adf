package tokenizer

import "strings"

// A cut is a step of the pre-tokenizer. It splits or changes a piece of text.
type cut struct {
	kind     cutKind
	rule     rule     // for byRule
	single   bool     // for atNumbers: each numeric character is a piece; otherwise each run of numeric characters
	text     string   // for atText: the separator; for blanksTo: the letter
	behavior behavior // for atText: where the separator goes
	prepend  string   // for blanksTo: put the letter before each piece (always), only the first (first) or none (never)
}

type cutKind uint8

const (
	byRule      cutKind = iota + 1 // split by a known regular expression
	atNumbers                      // split between numbers and other text
	atText                         // split at a separator
	prefixBlank                    // no split: add a space before a piece that begins without a space
	blanksTo                       // no split: replace spaces by a letter
)

// A behavior selects where the separator goes when a piece is split.
type behavior string

const (
	isolated           behavior = "Isolated"
	removed            behavior = "Removed"
	mergedWithPrevious behavior = "MergedWithPrevious"
	mergedWithNext     behavior = "MergedWithNext"
	contiguous         behavior = "Contiguous"
)

// cut applies step i and all later steps to a piece at a position, and appends the ids of the results to dst.
func (e *Encoding) cut(dst []int32, i int, piece string, at position) []int32 {
	if piece == "" {
		return dst
	}
	if i == len(e.t.cuts) {
		return e.piece(dst, piece)
	}
	step := &e.t.cuts[i]
	switch step.kind {
	case prefixBlank:
		if piece[0] != ' ' && at != continuing {
			piece = " " + piece
		}
		return e.cut(dst, i+1, piece, at)
	case blanksTo:
		piece = strings.ReplaceAll(piece, " ", step.text)
		if !strings.HasPrefix(piece, step.text) &&
			(step.prepend == "always" && at != continuing || step.prepend == "first" && at == atStart) {
			piece = step.text + piece
		}
		return e.cut(dst, i+1, piece, at)
	case atText:
		return e.cutAtText(dst, i, piece, at)
	}
	last := i+1 == len(e.t.cuts)
	for piece != "" {
		n := 0
		if step.kind == byRule {
			n = e.t.classes.next(piece, step.rule)
		} else {
			n = e.t.classes.numbers(piece, step.single)
		}
		if last {
			dst = e.piece(dst, piece[:n])
		} else {
			dst = e.cut(dst, i+1, piece[:n], at)
		}
		piece, at = piece[n:], inside
	}
	return dst
}

// cutAtText splits a piece at the separator of step i.
func (e *Encoding) cutAtText(dst []int32, i int, piece string, at position) []int32 {
	step := &e.t.cuts[i]
	from, match := 0, false // start of the next piece; whether the previous part is the separator
	for k := 0; k < len(piece); {
		was, end := match, k
		if match = strings.HasPrefix(piece[k:], step.text); match {
			end += len(step.text)
		} else if n := strings.Index(piece[k:], step.text); n >= 0 {
			end += n
		} else {
			end = len(piece)
		}
		if k > 0 && step.behavior.cuts(was, match) {
			if !was || step.behavior != removed {
				dst = e.cut(dst, i+1, piece[from:k], at)
			}
			from, at = k, inside
		}
		k = end
	}
	if match && step.behavior == removed {
		return dst
	}
	return e.cut(dst, i+1, piece[from:], at)
}

// cuts reports whether to split between two adjacent parts. left and right are true if the part on that side is a
// separator.
func (b behavior) cuts(left, right bool) bool {
	switch b {
	case mergedWithPrevious:
		return left || !right
	case mergedWithNext:
		return !left || right
	case contiguous:
		return left != right
	}
	return true
}

// numbers returns the length in bytes of the first piece of s: a run of numeric characters or a run of other
// characters. If single is true, each numeric character is a piece by itself.
func (c *classes) numbers(s string, single bool) int {
	k, n := c.first(s)
	switch {
	case k == number && single:
		return n
	case k == number:
		return c.run(s, n, number)
	}
	for n < len(s) {
		k, size := c.first(s[n:])
		if k == number {
			break
		}
		n += size
	}
	return n
}
