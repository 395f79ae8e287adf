package weights

import (
	"slices"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A part describes the tensors that a member has of a network. Each field is a tensor, or a slice of one.
type part struct {
	layout *tensor.Layout
	fields []tensor.Field
	index  map[string]int // the index of each field, by its name
	slices []nn.Slice
	frozen []bool
}

func newPart(p *nn.Params[float32]) *part {
	l := p.Layout()
	of := &part{layout: l, fields: l.Fields(), index: indexOf(l.Fields())}
	for i, f := range of.fields {
		frozen := i < len(p.Fields) && slices.ContainsFunc(p.Groups, func(g nn.ParamGroup) bool {
			return !g.Trainable && g.Lo <= p.Fields[i].Off && p.Fields[i].Off < g.Hi
		})
		s := p.SliceOf(f.Name)
		if s.All() {
			s = nn.Slice{}
		}
		of.slices, of.frozen = append(of.slices, s), append(of.frozen, frozen)
	}
	return of
}

// find returns the index of the field with this name, or -1.
func (p *part) find(name string) int {
	if i, ok := p.index[name]; ok {
		return i
	}
	return -1
}

// indexOf returns the index of each field, by its name.
func indexOf(fields []tensor.Field) map[string]int {
	index := make(map[string]int, len(fields))
	for i, f := range fields {
		index[f.Name] = i
	}
	return index
}

// piece returns the part with slice cuts[i] of each field i of p. It omits the fields whose slice is nil.
func (p *part) piece(cuts []*nn.Slice) *part {
	q := new(part)
	for i, s := range cuts {
		if s == nil {
			continue
		}
		f := p.fields[i]
		if f.Shape = slices.Clone(f.Shape); s.Whole > 0 {
			f.Shape[s.Axis] = s.To - s.From
		}
		q.fields, q.slices, q.frozen = append(q.fields, f), append(q.slices, *s), append(q.frozen, p.frozen[i])
	}
	q.layout, q.index = tensor.NewLayout(q.fields...), indexOf(q.fields)
	return q
}

// equal reports whether p and q have the same slices of the same tensors.
func (p *part) equal(q *part) bool {
	return slices.Equal(p.slices, q.slices) && slices.EqualFunc(p.fields, q.fields, func(a, b tensor.Field) bool {
		return a.Name == b.Name
	})
}

// block returns the position of a field's bytes, both in the whole tensor and in the state of p.
func (p *part) block(field int) nn.Block {
	f := p.fields[field]
	whole := p.slices[field].WholeShape(f.Shape)
	return p.slices[field].Block(whole).Times(f.DType.Size()).Moved(0, p.layout.Offset(field))
}

// An overlap has the blocks of the same tensor in two parts. The parts share the elements that are in both blocks.
type overlap struct{ from, to nn.Block }

// overlaps returns the overlap of each of these fields of p with the field of q that has its name.
func overlaps(p *part, fields []int, q *part) (common []overlap) {
	for _, i := range fields {
		common = append(common, overlap{p.block(i), q.block(q.find(p.fields[i].Name))})
	}
	return common
}

// copyOverlaps copies the elements that two parts share, from the state src to the state dst.
func copyOverlaps(dst, src []byte, common []overlap) {
	for _, o := range common {
		nn.Overlap(o.from, o.to, func(a, b, n int) { copy(dst[b:b+n], src[a:a+n]) })
	}
}
