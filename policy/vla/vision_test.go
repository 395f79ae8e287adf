package vla

import (
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn/nntest"
	"github.com/rlinf/rlinf/tensor"
)

// The gradients of the network of images and numbers agree with central differences, and its number of tokens is right.
func TestVision(t *testing.T) {
	for _, c := range []struct {
		vision                  string
		grid, keypoints, tokens int
	}{
		{Conv, 4, 0, 3*3 + 1}, {Conv, 2, 3, 2*2 + 1}, {Conv, 11, 0, 5*6 + 1}, {Conv, 0, 2, 1},
		{Patches, 4, 0, 3*4 + 1}, {Patches, 5, 2, 4*5 + 1},
	} {
		s, own := seen(t, c.vision, c.grid, c.keypoints)
		layer, err := s.network(own, 4)
		test.OK(t, err)
		test.Equal(t, s.tokens, c.tokens, "%s, grid %d: tokens", c.vision, c.grid)
		r, err := nntest.Layer(layer, s.sources())
		if err != nil || r.Checked == 0 {
			t.Errorf("%s, grid %d: %v (%d compared)", c.vision, c.grid, err, r.Checked)
		}
	}
}

func TestPatchesMustCover(t *testing.T) {
	s, own := seen(t, Patches, 2, 0)
	const want = "patches of 6×6 pixels do not cover 9×12: expected another vision_grid, 2"
	test.Fails(t, test.Err(s.network(own, 4)), want)
}

// seen returns observations of two frames of 9×12 pixels and three numbers.
func seen(t *testing.T, vision string, grid, keypoints int) (*observations, *Config) {
	t.Helper()
	own := Defaults()
	own.Vision, own.VisionGrid, own.Keypoints, own.VisionWidth = vision, grid, keypoints, 3
	s := test.Must(newObservations(env.Spec{Obs: []env.Field{
		{Name: "image", Space: env.Space{Kind: env.Box, DType: tensor.U8, Shape: []int{2, 9, 12, 3}}},
		{Name: "proprio", Space: env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{3}}},
	}}, &own))(t)
	return s, &own
}
