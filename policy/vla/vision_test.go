package vla

import (
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/nn/nntest"
	"github.com/rlinf/rlinf/tensor"
)

// TestVision: the network of images and numbers has the gradients of central differences, and as many tokens as it says.
func TestVision(t *testing.T) {
	spec := env.Spec{Obs: []env.Field{
		{Name: "image", Space: env.Space{Kind: env.Box, DType: tensor.U8, Shape: []int{2, 9, 12, 3}}},
		{Name: "proprio", Space: env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{3}}},
	}}
	for _, c := range []struct {
		grid, keypoints, want int
		kind                  string
	}{{4, 0, 3*3 + 1, Conv}, {2, 3, 2*2 + 1, Conv}, {11, 0, 5*6 + 1, Conv}, {4, 0, 3*4 + 1, Patches}, {5, 2, 4*5 + 1, Patches},
		{0, 2, 1, Conv}} {
		own := Defaults()
		own.Vision = c.kind
		own.VisionGrid, own.Keypoints, own.VisionWidth = c.grid, c.keypoints, 3
		s, err := newSenses(spec, &own)
		if err != nil {
			t.Fatal(err)
		}
		layer, err := s.network(&own, 4)
		if err != nil {
			t.Fatal(err)
		}
		if s.tokens != c.want {
			t.Errorf("%s, grid %d: %d tokens, want %d", c.kind, c.grid, s.tokens, c.want)
		}
		r, err := nntest.Layer(layer, s.sources())
		if err != nil || r.Checked == 0 {
			t.Errorf("grid %d: %v (%d compared)", c.grid, err, r.Checked)
		}
	}
	own := Defaults()
	own.Vision, own.VisionGrid = Patches, 2
	s, err := newSenses(spec, &own)
	if err != nil {
		t.Fatal(err)
	}
	const want = "patches of 6×6 pixels do not cover 9×12: expected another vision_grid, 2"
	if _, err := s.network(&own, 4); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v: want %q", err, want)
	}
}
