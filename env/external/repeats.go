package external

import (
	"errors"
	"regexp"
	"sync"
)

// repeats counts how often simulators report the same error in a row. It is safe for concurrent use.
type repeats struct {
	mu    sync.Mutex
	text  string // the last error, without numbers
	times int
	ended int // episodes that ended without a failure since the last error
}

// calm is the number of episodes without a failure after which an error counts as new.
const calm = 100

var digits = regexp.MustCompile(`[0-9]+`)

// add counts err, and returns how many times in a row simulators have reported it. It returns 0 if
// err is no ERROR of a simulator.
func (r *repeats) add(err error) int {
	var said complaint
	if !errors.As(err, &said) {
		return 0
	}
	return r.count(string(said))
}

// count counts the text of an error, ignoring its numbers. It returns how many times in a row the error has occurred.
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

// end counts an episode that ended without a failure.
func (r *repeats) end() {
	r.mu.Lock()
	r.ended++
	r.mu.Unlock()
}
