package trace

import "sync"

// A tally divides the time of a rank among the workers that are working. Workers that work at the same time share that
// time.
type tally struct {
	mu      sync.Mutex
	kinds   []workKind
	present []int64   // workers that work at present, by kind
	all     int64     // workers that work at present, of all kinds
	last    int64     // time of the last change
	spent   []float64 // nanoseconds of the present iteration, by kind
	before  []float64 // nanoseconds of the previous iteration, by kind
}

// A workKind is a kind of work of a component's workers.
type workKind struct{ component, name string }

// idle is the kind of all spans that are not work.
const idle = -1

// kind returns the index of a kind of work. It adds the kind if it is new.
func (t *tally) kind(k workKind) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.kinds {
		if t.kinds[i] == k {
			return i
		}
	}
	t.kinds, t.present = append(t.kinds, k), append(t.present, 0)
	t.spent, t.before = append(t.spent, 0), append(t.before, 0)
	return len(t.kinds) - 1
}

// change records that a worker ends one kind of work and begins another.
func (t *tally) change(from, to int, now int64) {
	if from == to {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(now)
	if from != idle {
		t.present[from]--
		t.all--
	}
	if to != idle {
		t.present[to]++
		t.all++
	}
}

// advance divides the time since the last change among the workers that are working.
func (t *tally) advance(now int64) {
	if now <= t.last { // another worker read the clock later, but took the lock first
		return
	}
	if t.all > 0 {
		each := float64(now-t.last) / float64(t.all)
		for i, n := range t.present {
			t.spent[i] += each * float64(n)
		}
	}
	t.last = now
}

// cut ends an iteration.
func (t *tally) cut(now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(now)
	t.spent, t.before = t.before, t.spent
	clear(t.spent)
}

// seconds returns the time spent on a kind of work in the previous iteration.
func (t *tally) seconds(k workKind) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.kinds {
		if t.kinds[i] == k {
			return t.before[i] / 1e9
		}
	}
	return 0
}
