package weights

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/policy/nn"
)

// A member is a worker that has a part of the network.
type member struct {
	component   string
	index, rank int
	part        *part
}

// A flow carries one part of the network to its readers, from all actors that have this part.
type flow struct {
	part    *part
	held    *part    // the part that the sources have: the flow's part, or a larger one
	sources []member // all actors that have this held part
	readers []reading
	sent    []bool // for each field, whether it is sent to places without a source: see hasSource
	all     bool   // all fields are sent to places without a source
}

// A reading is a reader of a flow, with the fields that it copies. fields is nil if the reader has the flow's part.
type reading struct {
	member
	fields []int
}

// hasSource reports whether f has a source at a place. A place is a node, or a rank if ranks share no memory. places[r]
// is the place of rank r.
func (f *flow) hasSource(place int, places []int) bool {
	return slices.ContainsFunc(f.sources, func(s member) bool { return places[s.rank] == place })
}

// add makes m a reader of these fields of f.
func (f *flow) add(m member, fields ...int) {
	i := slices.IndexFunc(f.readers, func(r reading) bool { return r.member == m })
	if i < 0 {
		i = len(f.readers)
		f.readers = append(f.readers, reading{member: m})
	}
	f.readers[i].fields = append(f.readers[i].fields, fields...)
}

// send marks the fields whose slices are not nil. The marked fields are sent to the places without a source of f.
func (f *flow) send(fields []*nn.Slice) {
	if f.sent == nil {
		f.sent = make([]bool, len(fields))
	}
	for i, s := range fields {
		f.sent[i] = f.sent[i] || s != nil
	}
}

// A portion is the slice of a tensor that a reader copies from one field of a flow's part.
type portion struct {
	by    member // the reader
	from  *flow
	field int
	slice nn.Slice
}

// A need collects all portions of one flow that a place needs. The place has no source of this flow.
type need struct {
	from     *flow
	slices   []*nn.Slice // for each field of the flow's part, the smallest slice that covers all portions, or nil
	portions []portion
}

// newFlows returns the flows from actors to readers. Every rank gets the same flows. If an actor has a reader's part,
// the reader gets this part whole. Otherwise it gets each element of its part from the nearest actor with this element.
// A place without a source gets a part once, or only the piece that its readers need. places[r] is the place of rank r:
// see hasSource.
func newFlows(actors, readers []member, places []int) ([]*flow, error) {
	var flows []*flow
	for _, a := range actors {
		i := slices.IndexFunc(flows, func(f *flow) bool { return f.part == a.part })
		if i < 0 {
			i = len(flows)
			flows = append(flows, &flow{part: a.part, held: a.part})
		}
		flows[i].sources = append(flows[i].sources, a)
	}
	var needs []*need
	for _, r := range readers {
		place := places[r.rank]
		if i := slices.IndexFunc(flows, func(f *flow) bool { return f.part == r.part }); i >= 0 {
			flows[i].add(r)
			flows[i].all = flows[i].all || !flows[i].hasSource(place, places)
			continue
		}
		portions, err := portionsOf(r, nearestFirst(flows, place, places))
		if err != nil {
			return nil, err
		}
		for _, t := range portions {
			if t.from.hasSource(place, places) {
				t.from.add(r, t.field)
				continue
			}
			i := slices.IndexFunc(needs, func(n *need) bool {
				return n.from == t.from && places[n.portions[0].by.rank] == place
			})
			if i < 0 {
				i = len(needs)
				needs = append(needs, &need{from: t.from, slices: make([]*nn.Slice, len(t.from.part.fields))})
			}
			needs[i].add(t)
		}
	}
	for _, n := range needs {
		to := n.from
		if n.wholeFields() {
			to.send(n.slices)
		} else {
			piece := n.from.part.piece(n.slices)
			i := slices.IndexFunc(flows, func(f *flow) bool { return f.held == n.from.part && f.part.equal(piece) })
			if i < 0 {
				i = len(flows)
				flows = append(flows, &flow{part: piece, held: n.from.part, sources: n.from.sources, all: true})
			}
			to = flows[i]
		}
		for _, t := range n.portions {
			to.add(t.by, to.part.find(n.from.part.fields[t.field].Name))
		}
	}
	return flows, nil
}

// nearestFirst sorts flows: those with a source at this place come first.
func nearestFirst(flows []*flow, place int, places []int) []*flow {
	var near, far []*flow
	for _, f := range flows {
		if f.hasSource(place, places) {
			near = append(near, f)
		} else {
			far = append(far, f)
		}
	}
	return append(near, far...)
}

// portionsOf returns the portions that fill the part of reader r. It prefers the flows that come first. It returns an
// error if some bytes are in no flow.
func portionsOf(r member, flows []*flow) (portions []portion, err error) {
	for i, f := range r.part.fields {
		mine, before, missing := r.part.slices[i], len(portions), f.Bytes()
		for _, from := range flows {
			k := from.part.find(f.Name)
			if k < 0 {
				continue
			}
			common, any := mine.Common(from.part.slices[k])
			seen := slices.ContainsFunc(portions[before:], func(t portion) bool {
				_, both := t.slice.Common(common)
				return both
			})
			if !any || seen {
				continue
			}
			portions = append(portions, portion{r, from, k, common})
			nn.Overlap(from.part.block(k), r.part.block(i), func(_, _, n int) { missing -= n })
		}
		if missing != 0 {
			return nil, fmt.Errorf("%s %d: the actors lack %d of the %d bytes of %s", r.component, r.index, missing,
				f.Bytes(), f.Name)
		}
	}
	return portions, nil
}

// add adds a portion, and extends the slice of its field to cover the portion.
func (n *need) add(t portion) {
	switch s := n.slices[t.field]; {
	case s == nil:
		n.slices[t.field] = &t.slice
	case t.slice.Whole == 0:
		*s = nn.Slice{}
	case s.Whole > 0:
		if s.From, s.To = min(s.From, t.slice.From), max(s.To, t.slice.To); s.All() {
			*s = nn.Slice{}
		}
	}
	n.portions = append(n.portions, t)
}

// wholeFields reports whether n needs only whole fields, and no slices of them.
func (n *need) wholeFields() bool {
	for i, s := range n.slices {
		if s != nil && *s != n.from.part.slices[i] {
			return false
		}
	}
	return true
}
