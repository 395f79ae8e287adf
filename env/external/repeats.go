package external

import (
	"errors"
	"regexp"
	"sync"
)

// repeats counts how often simulators report the same error in a row. Several goroutines may use it.
type repeats struct {
	mu    sync.Mutex
	text  string // the last error, without numbers
	times int
	ended int // well-ended episodes since then
}

// calm is the number of well-ended episodes after which an error counts as new.
const calm = 100

var digits = regexp.MustCompile(`[0-9]+`)

// add counts err, and returns how many times in a row simulators have reported it. It returns 0 if
// no simulator reported err.
func (r *repeats) add(err error) int {
	var said complaint
	if !errors.As(err, &said) {
		return 0
	}
	return r.count(string(said))
}

// count is add for the text of an error.
func (r *repeats) count(text string) int {
	text = digits.ReplaceAllString(text, "#")
	r.mu.Lock()
	defer r.mu.Unlock()
	if text != r.text || r.ended >= calm {
		r.text, r.times = text, 0
	}
	r.times++
	r.ended = 0
	return r.times
}

// end counts an episode that ended well.
func (r *repeats) end() {
	r.mu.Lock()
	r.ended++
	r.mu.Unlock()
}
