package frames

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// recording has six episodes of three steps. Every second one succeeds and terminates in its last step, which pays 1;
// the step before pays 1, too. The frame after step i has the colour i+1 everywhere, and a stack has an older frame.
func recording() (d tensor.Dict) {
	const n = 18
	before, then := tensor.New(tensor.U8, n, 2, 2, 2, 3), tensor.New(tensor.U8, n, 2, 2, 2, 3)
	reward, terminated := tensor.New(tensor.F32, n), tensor.New(tensor.U8, n)
	success, length := tensor.New(tensor.U8, 6), tensor.New(tensor.I64, 6)
	for i := range n {
		for k := 12; k < 24; k++ {
			before.At(i).U8()[k], then.At(i).U8()[k] = byte(100+i), byte(i+1)
		}
		if k := i / 3; k%2 == 0 && i%3 > 0 {
			reward.F32()[i] = 1
			terminated.U8()[i] = byte(i%3) / 2
			success.U8()[k] = 1
		}
		length.I64()[i/3] = 3
	}
	for name, t := range map[string]tensor.Tensor{"observation.wrist": before, "next_observation.wrist": then,
		"reward": reward, "terminated": terminated, "episode.success": success, "episode.length": length,
		"observation.state": tensor.New(tensor.F32, n, 4)} {
		d.Set(name, t)
	}
	return d
}

func TestEpisodes(t *testing.T) {
	t.Parallel()
	one := 1.
	for _, c := range []struct {
		source SuccessRule
		labels string
	}{{SuccessRule{}, "\x00\x00\x00\x01"}, {SuccessRule{Camera: "wrist", Reward: &one}, "\x00\x00\x01\x01"}} {
		episodes, shape, err := c.source.episodes(recording())
		test.OK(t, err)
		test.EqualSlices(t, shape, []int{2, 2, 3})
		test.Equal(t, len(episodes), 6)
		for k, e := range episodes {
			want := c.labels
			if k%2 == 1 {
				want = "\x00\x00\x00\x00"
			}
			test.Equal(t, string(e.labels), want)
			for i, image := range e.images { // the first frame, then those after steps
				colour := byte(3*k + i)
				if i == 0 {
					colour = byte(100 + 3*k)
				}
				if len(image) != 12 || image[0] != colour || image[11] != colour {
					t.Errorf("episode %d, frame %d: %v, want %d", k, i, image, colour)
				}
			}
		}
	}
}

// All frames of an episode are on one side, and both sides have successes. The files have what Split has divided.
func TestSplit(t *testing.T) {
	t.Parallel()
	episodes, shape, err := SuccessRule{}.episodes(recording())
	test.OK(t, err)
	train, valid, err := Split(episodes, shape, 0.3, 1)
	test.OK(t, err)
	test.Equal(t, train.Len(), 16)
	test.Equal(t, valid.Len(), 8)
	test.Equal(t, train.Successes(), 2)
	side := map[byte]int{}
	for i, s := range []*Set{train, valid} {
		for k := range s.Len() {
			colour := s.Images.At(k).U8()[0]
			episode := (colour - 1) / 3
			if colour >= 100 {
				episode = (colour - 100) / 3
			}
			if at, ok := side[episode]; ok && at != i {
				t.Errorf("episode %d is on both sides", episode)
			}
			side[episode] = i
		}
	}
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.safetensors"), filepath.Join(dir, "b.safetensors")
	test.OK(t, train.Write(a, nil))
	test.OK(t, valid.Write(b, nil))
	all, err := Read([]string{a, b})
	test.OK(t, err)
	test.Equal(t, all.Len(), 24)
	test.EqualSlices(t, all.Images.Slice(16, 24).U8(), valid.Images.U8())
	test.EqualSlices(t, all.Labels[16:], valid.Labels)
	test.Fails(t, test.Err(first(Split(episodes, shape, 0, 1))), "0 of 0 frames of validation show success")
}

func first[A, B any](a A, _ B, err error) (A, error) { return a, err }

func TestMistakes(t *testing.T) {
	t.Parallel()
	d := recording()
	fails := func(s SuccessRule, d tensor.Dict, want string) {
		t.Helper()
		test.Fails(t, test.Err(first(s.episodes(d))), want)
	}
	fails(SuccessRule{Camera: "front"}, d,
		`camera "front": expected an observation of images [H W 3] of U8: there are 1: wrist`)
	var short tensor.Dict
	for i := range d.Len() {
		if name, x := d.Entry(i); name != "next_observation.wrist" {
			short.Set(name, x)
		}
	}
	fails(SuccessRule{}, short, "no next_observation.wrist, the frames after steps")
	d.Set("episode.success", tensor.New(tensor.F32, 6))
	fails(SuccessRule{}, d, "no episode.success of U8")

	path := filepath.Join(t.TempDir(), "x.safetensors")
	s := Set{Images: tensor.New(tensor.U8, 2, 2, 2, 3), Labels: []byte{0, 2}}
	test.OK(t, s.Write(path, nil))
	test.Fails(t, test.Err(Read([]string{path})), path+": labels: 2 of image 1: expected 0 or 1")
	test.OK(t, os.WriteFile(path, []byte("text"), 0o600))
	test.Fails(t, test.Err(Read([]string{path})), "expected a safetensors file of images and labels")
	s.Labels = s.Labels[:1]
	test.OK(t, s.Write(path, nil))
	test.Fails(t, test.Err(Read([]string{path})), "labels: U8[1]: expected U8 [2]")
}
