package roles

import (
	"encoding/binary"
	"slices"

	"github.com/rlinf/rlinf/tensor"
)

// encodeShares appends shares to b.
func encodeShares(b []byte, all []share) []byte {
	size := 0
	for _, s := range all {
		size += len(s.kind) + 1<<10
		for i := range s.dict.Len() {
			name, t := s.dict.Entry(i)
			size += len(name) + 1<<7 + len(t.Bytes())
		}
	}
	b = slices.Grow(b, size) // once: what is moved to grow is there twice
	for _, s := range all {
		b = append(b, byte(len(s.kind)))
		b = append(b, s.kind...)
		for _, n := range []int{s.lo, s.hi, 0} {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		begin := len(b)
		b = tensor.Encode(b, s.dict)
		binary.LittleEndian.PutUint64(b[begin-8:], uint64(len(b)-begin))
	}
	return b
}

func decodeShares(b []byte) ([]share, error) {
	var all []share
	for len(b) > 0 {
		n := int(b[0])
		s := share{kind: string(b[1 : 1+n])}
		b = b[1+n:]
		s.lo, s.hi = int(binary.LittleEndian.Uint64(b)), int(binary.LittleEndian.Uint64(b[8:]))
		size := int(binary.LittleEndian.Uint64(b[16:]))
		var err error
		if s.dict, err = tensor.Decode(b[24 : 24+size]); err != nil {
			return nil, err
		}
		b = b[24+size:]
		all = append(all, s)
	}
	return all, nil
}

// join puts shares and those that other ranks have encoded together: those of environments side by
// side, in the order of their indices, n in all. What only some of them said is left out: a run
// that goes on would take the rest for said, too. The state may be made of the tensors in shares.
func join(shares []share, ranks [][]byte, n int) (state, error) {
	var st state
	for _, b := range ranks {
		theirs, err := decodeShares(b)
		if err != nil {
			return st, err
		}
		shares = append(shares, theirs...)
	}
	var envs []share
	var found tensor.Dict // by name, of all environments
	rows := map[string]int{}
	for _, s := range shares {
		switch s.kind {
		case "model":
			st.model = s.dict
		case "trainer":
			st.trainer = s.dict
		case "rollout":
			st.rollout = s.dict
		default:
			envs = append(envs, s)
		}
	}
	slices.SortStableFunc(envs, func(a, b share) int { return a.lo - b.lo })
	for _, s := range envs {
		for i := range s.dict.Len() {
			name, t := s.dict.Entry(i)
			rows[name] += s.hi - s.lo
			if s.hi-s.lo == n {
				found.Set(name, t)
				continue
			}
			whole, ok := found.Get(name)
			if !ok {
				shape := t.Shape()
				shape[0] = n
				whole = tensor.New(t.DType(), shape...)
				found.Set(name, whole)
			}
			whole.Slice(s.lo, s.hi).CopyFrom(t)
		}
	}
	for i := range found.Len() {
		if name, t := found.Entry(i); rows[name] == n {
			st.envs.Set(name, t)
		}
	}
	return st, nil
}
