package algo

import (
	"errors"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A shift moves the images of a batch by up to mostShifted whole pixels along both axes, and repeats their edges (DrQ,
// Kostrikov et al. 2021, arXiv:2004.13649). Each sample, each camera, and each side of the steps (before, after) has
// its own random shift. All frames of an image move together.
//
// The shifts depend only on seed, sample and update, so all passes over a batch see the same images.
type shift struct {
	seed    uint64
	cameras []policy.Camera
	frame   []uint8
}

// mostShifted is the largest shift, in pixels.
const mostShifted = 4

// newShift returns the shift of the images that p sees. It returns an error if there are none.
func newShift(seed uint64, p policy.Policy) (*shift, error) {
	s := &shift{seed: seed, cameras: policy.Cameras(p)}
	if len(s.cameras) == 0 {
		return nil, errors.New("actor.enable_drq: true: expected a policy that sees images (cnn_policy)")
	}
	for _, c := range s.cameras {
		if n := c.Image.Len(); n > len(s.frame) {
			s.frame = make([]uint8, n)
		}
	}
	return s, nil
}

// apply shifts the images of b. first is the index of b's first sample among the samples of all replicas.
func (s *shift) apply(b *Transitions, first int, update uint64) {
	for side, obs := range [2]tensor.Dict{b.Obs, b.Next} {
		for k, c := range s.cameras {
			t, ok := obs.Get(c.Name)
			if !ok { // behaviour cloning has no next observations
				continue
			}
			pixels, each := t.U8(), c.Image.Len()
			for i := range t.Dim(0) {
				key := ((first+i)*2+side)*len(s.cameras) + k
				random := philox.New(s.seed, philox.Shift, uint64(key), update)
				down, right := random.IntN(2*mostShifted+1)-mostShifted, random.IntN(2*mostShifted+1)-mostShifted
				for f := range c.Frames {
					at := ((i*c.Frames+f)*c.Views + c.View) * each
					s.move(pixels[at:at+each], c, down, right)
				}
			}
		}
	}
}

// move shifts one frame.
func (s *shift) move(pixels []uint8, c policy.Camera, down, right int) {
	from, row := s.frame[:len(pixels)], c.W*c.C
	copy(from, pixels)
	left := min(max(right, 0), c.W)
	end := left + max(c.W-max(right, -right), 0)
	for y := range c.H {
		src, dst := from[min(max(y-down, 0), c.H-1)*row:][:row], pixels[y*row:][:row]
		if left < end {
			copy(dst[left*c.C:end*c.C], src[(left-right)*c.C:])
		}
		for x := range left {
			copy(dst[x*c.C:], src[:c.C])
		}
		for x := end; x < c.W; x++ {
			copy(dst[x*c.C:], src[row-c.C:])
		}
	}
}
