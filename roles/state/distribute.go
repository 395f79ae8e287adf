package state

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/tensor"
)

// A StateFile is a file with tensors of a state. Only rank 0 has the Reader.
type StateFile struct {
	File   string // its name in a checkpoint
	Fields []tensor.Field
	Reader *tensor.SafetensorsReader `json:"-"`
}

// fits returns an error unless there are the tensors of all parts.
func (g Given) fits(parts []Part) error {
	for _, p := range parts {
		f, ok := g.Find(p.File, p.Field.Name)
		if !ok && !p.Optional {
			return fmt.Errorf("%s: no %s (%v%v) in it", p.File, p.Field.Name, p.Field.DType, p.Field.Shape)
		}
		if ok && (f.DType != p.Field.DType || !slices.Equal(f.Shape, p.Field.Shape)) {
			return fmt.Errorf("%s: %s is %v%v, expected %v%v", p.File, f.Name, f.DType, f.Shape, p.Field.DType,
				p.Field.Shape)
		}
	}
	return nil
}

// Distribute fills the parts of all ranks from files that rank 0 reads. Several parts may be of the same tensor. All
// ranks pass the same sources, except that only rank 0 has readers. Every member of g must call it.
func Distribute(ctx context.Context, g *collectives.Group, sources []StateFile, list []Part) error {
	return distribute(ctx, g, sources, list, PieceBytes)
}

func distribute(ctx context.Context, g *collectives.Group, sources []StateFile, list []Part, piece int) error {
	given := Given{}
	for _, s := range sources {
		given[s.File] = s.Fields
	}
	for _, f := range given[EnvFile] {
		if len(f.Shape) == 0 {
			return fmt.Errorf("%s: %s is %v%v, expected a row for each environment", EnvFile, f.Name, f.DType, f.Shape)
		}
	}
	parts, after := wanted(list, given)
	if err := given.fits(parts); err != nil {
		return err
	}
	var buf []byte
	for _, s := range sources {
		into := map[string][]*Part{}
		for i := range parts {
			if p := &parts[i]; p.File == s.File {
				into[p.Field.Name] = append(into[p.Field.Name], p)
			}
		}
		for i, f := range s.Fields {
			for lo := 0; lo < f.Bytes(); lo += piece {
				b := grown(&buf, min(piece, f.Bytes()-lo))
				if g.Rank() == 0 {
					if err := s.Reader.ReadTensor(i, b, lo); err != nil {
						return fmt.Errorf("%s: %w", s.File, err)
					}
				}
				if err := g.Broadcast(ctx, b, 0); err != nil {
					return fmt.Errorf("%s: tensor %q: %w", s.File, f.Name, err)
				}
				for _, p := range into[f.Name] {
					p.within(lo, lo+len(b), func(at, here, n int) { copy(p.Memory[here:here+n], b[at-lo:]) })
				}
			}
		}
	}
	return finish(after)
}

// finish calls the functions that Part.Fill has returned.
func finish(after []func() error) error {
	for _, f := range after {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}
