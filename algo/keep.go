package algo

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// keepsMaps reports whether rollouts hold feature maps instead of the images that the policy sees; see policy.Keeper.
func (s *Setup) keepsMaps() bool {
	return policy.Kept(s.Policy) != nil && slices.ContainsFunc(s.Rollout, func(f tensor.Field) bool {
		return f.Name == Observations+"."+policy.Cameras(s.Policy)[0].Name && f.DType == tensor.F32
	})
}

// keepMaps replaces the images of s.Demos with feature maps, if rollouts hold feature maps.
func (s *Setup) keepMaps() error {
	if !s.keepsMaps() {
		return nil
	}
	keeper, kept := policy.NewKeeper(s.Policy, 1), policy.Kept(s.Policy)
	seen, _ := s.Policy.Spaces()
	m := s.Demos.Must(FieldAction).Dim(0)
	demos, pictures := s.Demos.Slice(0, m), maps.Clone(s.Pictures)
	row, pixels := tensor.Dict{}, tensor.Dict{}
	sides := []string{Observations, NextObservations}
	if _, ok := s.Demos.Get(NextObservations + "." + seen[0].Name); !ok { // behaviour cloning has no next observations
		sides = sides[:1]
	}
	for _, side := range sides {
		for i, f := range seen {
			if name := side + "." + f.Name; kept[i].DType != f.DType {
				demos.Set(name, tensor.New(kept[i].DType, append([]int{m}, kept[i].Shape...)...))
				pixels.Set(f.Name, tensor.New(f.DType, append([]int{1}, f.Shape...)...))
				delete(pictures, name)
			}
		}
	}
	for t := range m {
		for _, side := range sides { // a next image is often the image of the next step: the Keeper computes it once
			for _, f := range seen {
				name := side + "." + f.Name
				if p := s.Pictures[name]; p != nil {
					x := pixels.Must(f.Name)
					if err := p.Decode(x.Bytes(), int(s.Demos.Must(name).I32()[t])); err != nil {
						return fmt.Errorf("%s of transition %d: %w", name, t, err)
					}
					row.Set(f.Name, x)
				} else {
					row.Set(f.Name, s.Demos.Must(name).Slice(t, t+1))
				}
			}
			all, err := keeper.Keep(row, nil)
			if err != nil {
				return err
			}
			for i, f := range seen {
				if kept[i].DType != f.DType {
					demos.Must(side+"."+f.Name).Slice(t, t+1).CopyFrom(all.Must(f.Name))
				}
			}
		}
	}
	s.Demos, s.Pictures = demos, pictures
	return nil
}
