package trace

import (
	"bytes"
	"io"
	"slices"
)

// Limits of what Read keeps in memory.
const (
	mostSpans    = 4 << 20 // spans and marks, 56 bytes each
	mostTimes    = 8 << 20 // times in sums, and of ranks in phases, 8 bytes each
	mostProblems = 100
)

// A sample chooses the iterations whose data is kept, so that the size of the data is limited. All ranks keep the same
// iterations, whatever the order in which they are read.
type sample struct {
	every      uint64 // about one in this many iterations is kept; a power of two
	size, most int
}

// add reports whether data of an iteration is kept, and adds the size of that data.
func (s *sample) add(iteration int64, size int) bool {
	if !s.has(iteration) {
		return false
	}
	s.size += size
	return true
}

// has reports whether data of an iteration is kept. A sample with a larger s.every keeps a subset of these iterations.
func (s *sample) has(iteration int64) bool {
	spread := uint64(iteration) * 0x9e3779b97f4a7c15 // by the golden ratio, so that no period of iterations matters
	return (spread>>32)%s.every == 0
}

// shrink halves the sample while it is too large. The function remove removes the data of iterations that are no longer
// in the sample, and returns the size of the rest.
func (s *sample) shrink(remove func() (size int)) {
	for s.size > s.most && s.every < 1<<32 {
		s.every *= 2
		s.size = remove()
	}
}

func (r *reader) thinSpans() {
	r.spans.shrink(func() (size int) {
		for _, a := range r.attempts {
			for _, w := range a.workers {
				for i, t := range w.tracks {
					if !r.spans.has(i) {
						delete(w.tracks, i)
						continue
					}
					size += len(t.Spans) + len(t.Marks)
				}
			}
			for i := range a.windows {
				if !r.spans.has(i) {
					delete(a.windows, i)
				}
			}
		}
		return size
	})
}

func (r *reader) thinSums() {
	r.sums.shrink(func() (size int) {
		for _, a := range r.attempts {
			for _, w := range a.workers {
				w.sums = slices.Clip(slices.DeleteFunc(w.sums, func(s Sum) bool { return !r.sums.has(s.Iteration) }))
				for _, s := range w.sums {
					size += len(s.Times) + 6
				}
			}
		}
		return size
	})
}

func (r *reader) thinPhases() {
	r.phases.shrink(func() (size int) {
		for _, a := range r.attempts {
			for i, p := range a.phases {
				if !r.phases.has(i) {
					delete(a.phases, i)
					continue
				}
				size += len(p.Ranks) + len(p.Slowest) + 10
			}
		}
		return size
	})
}

// pieces reads pieces of a file.
type pieces struct {
	in   io.ReaderAt
	size int64
	buf  []byte
	err  error // the first error
}

// at returns n bytes from an offset, or fewer at the end of the file. They are valid until the next call.
func (p *pieces) at(offset, n int64) []byte {
	n = max(min(n, p.size-offset), 0)
	if int64(cap(p.buf)) < n {
		p.buf = make([]byte, n)
	}
	p.buf = p.buf[:n]
	if _, err := p.in.ReadAt(p.buf, offset); err != nil && err != io.EOF && p.err == nil {
		p.err = err
	}
	return p.buf
}

// find returns the offset of the next magic word at or after the given offset, or the size of the file.
func (p *pieces) find(offset int64) int64 {
	const block = 1 << 20
	for ; offset < p.size && p.err == nil; offset += block {
		if i := bytes.Index(p.at(offset, int64(block+len(magic)-1)), []byte(magic)); i >= 0 {
			return offset + int64(i)
		}
	}
	return p.size
}
