package loop

import (
	"encoding/binary"
	"slices"

	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/tensor"
)

// EncodeShares appends the encoded shares to b.
func EncodeShares(b []byte, all []member.Share) []byte {
	size := 0
	for _, s := range all {
		size += len(s.Kind) + 1<<10
		for i := range s.Dict.Len() {
			name, t := s.Dict.Entry(i)
			size += len(name) + 1<<7 + len(t.Bytes())
		}
	}
	b = slices.Grow(b, size) // once, because each growth copies b
	for _, s := range all {
		b = append(b, byte(len(s.Kind)))
		b = append(b, s.Kind...)
		for _, n := range []int{s.Lo, s.Hi, 0} {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		begin := len(b)
		b = tensor.Encode(b, s.Dict)
		binary.LittleEndian.PutUint64(b[begin-8:], uint64(len(b)-begin))
	}
	return b
}

func decodeShares(b []byte) ([]member.Share, error) {
	var all []member.Share
	for len(b) > 0 {
		n := int(b[0])
		s := member.Share{Kind: string(b[1 : 1+n])}
		b = b[1+n:]
		s.Lo, s.Hi = int(binary.LittleEndian.Uint64(b)), int(binary.LittleEndian.Uint64(b[8:]))
		size := int(binary.LittleEndian.Uint64(b[16:]))
		var err error
		if s.Dict, err = tensor.Decode(b[24 : 24+size]); err != nil {
			return nil, err
		}
		b = b[24+size:]
		all = append(all, s)
	}
	return all, nil
}

// JoinShares joins shares with the encoded shares of other ranks. The states of the n environments are ordered by
// index. JoinShares omits a tensor that only some environments have, because a resumed run expects each tensor from all
// environments. The result may share memory with shares.
func JoinShares(shares []member.Share, ranks [][]byte, n int) (member.State, error) {
	var st member.State
	for _, b := range ranks {
		theirs, err := decodeShares(b)
		if err != nil {
			return st, err
		}
		shares = append(shares, theirs...)
	}
	var envs []member.Share
	var found tensor.Dict // by name, for all environments
	rows := map[string]int{}
	for _, s := range shares {
		switch s.Kind {
		case "model":
			st.Model = s.Dict
		case "trainer":
			for i := range s.Dict.Len() {
				st.Trainer.Set(s.Dict.Entry(i))
			}
		case "rollout":
			st.Rollout = s.Dict
		default:
			envs = append(envs, s)
		}
	}
	slices.SortStableFunc(envs, func(a, b member.Share) int { return a.Lo - b.Lo })
	for _, s := range envs {
		for i := range s.Dict.Len() {
			name, t := s.Dict.Entry(i)
			rows[name] += s.Hi - s.Lo
			if s.Hi-s.Lo == n {
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
			whole.Slice(s.Lo, s.Hi).CopyFrom(t)
		}
	}
	for i := range found.Len() {
		if name, t := found.Entry(i); rows[name] == n {
			st.Envs.Set(name, t)
		}
	}
	return st, nil
}
