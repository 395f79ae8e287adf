package frames

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// Names of tensors in files of demonstrations and recordings.
const (
	observation = "observation."
	after       = "next_observation."
)

// A LabelledEpisode has the frames of an episode, in their order, with their labels.
type LabelledEpisode struct {
	images [][]byte // each [H,W,3]
	labels []byte
}

// succeeds reports whether the episode has a frame of success.
func (e *LabelledEpisode) succeeds() bool { return slices.Contains(e.labels, 1) }

// A SuccessRule says which frames show success, in files of demonstrations and recordings.
type SuccessRule struct {
	Camera string // name of the observation; "" if only one has colour images
	// Reward, if it is not nil, is the smallest reward of a step whose frame shows success. Without it, only the last
	// frame of an episode shows success, if the episode succeeded and terminated.
	Reward *float64
}

// Read reads the episodes of a file. An episode has its first frame, and the frame after each step. shape is [H,W,3].
func (s SuccessRule) Read(path string) (episodes []LabelledEpisode, shape []int, err error) {
	b, err := durable.ReadFile(path, durable.NoSize)
	if err != nil {
		return nil, nil, err
	}
	d, _, err := tensor.ReadSafetensors(b)
	if err == nil {
		episodes, shape, err = s.episodes(d)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return episodes, shape, err
}

func (s SuccessRule) episodes(d tensor.Dict) (episodes []LabelledEpisode, shape []int, err error) {
	camera, err := s.camera(d)
	if err != nil {
		return nil, nil, err
	}
	before := d.Must(observation + camera)
	then, _ := d.Get(after + camera)
	if !then.SameShape(before) {
		return nil, nil, fmt.Errorf("no %s%s, the frames after steps: expected a recording with next observations, as "+
			"for SAC", after, camera)
	}
	var length, success, terminated, reward tensor.Tensor
	for _, want := range []struct {
		t     *tensor.Tensor
		name  string
		dtype tensor.DType
	}{{&length, "episode.length", tensor.I64}, {&success, "episode.success", tensor.U8},
		{&terminated, "terminated", tensor.U8}, {&reward, "reward", tensor.F32}} {
		t, ok := d.Get(want.name)
		if !ok && s.Reward != nil && want.t == &success { // the rewards say which steps succeed
			continue
		}
		if !ok || t.DType() != want.dtype {
			return nil, nil, fmt.Errorf("no %s of %v: expected a file of rlinf demos, or of data_collection", want.name,
				want.dtype)
		}
		*want.t = t
	}
	shape = before.Shape()[before.Rank()-3:]
	each := shape[0] * shape[1] * 3
	newest := func(t tensor.Tensor, i int) []byte {
		row := t.At(i).U8()
		return row[len(row)-each:]
	}
	at := 0
	for k, n := range length.I64() {
		e := LabelledEpisode{images: [][]byte{newest(before, at)}, labels: []byte{0}}
		for i := at; i < at+int(n); i++ {
			label := byte(0)
			last := i == at+int(n)-1
			won := s.Reward == nil && last && success.U8()[k] != 0 && slices.Contains(terminated.At(i).U8(), 1)
			if won || s.Reward != nil && float64(sum(reward.At(i).F32())) >= *s.Reward {
				label = 1
			}
			e.images, e.labels = append(e.images, newest(then, i)), append(e.labels, label)
		}
		at += int(n)
		episodes = append(episodes, e)
	}
	return episodes, shape, nil
}

// sum returns the reward of a step, or of a chunk of steps.
func sum(x []float32) (all float32) {
	for _, r := range x {
		all += r
	}
	return all
}

// camera returns the name of the observation that has the frames.
func (s SuccessRule) camera(d tensor.Dict) (string, error) {
	var names []string
	for i := range d.Len() {
		name, t := d.Entry(i)
		rest, ok := strings.CutPrefix(name, observation)
		if ok && t.DType() == tensor.U8 && t.Rank() >= 4 && t.Dim(t.Rank()-1) == 3 {
			names = append(names, rest)
		}
	}
	if slices.Contains(names, s.Camera) {
		return s.Camera, nil
	}
	if s.Camera == "" && len(names) == 1 {
		return names[0], nil
	}
	return "", fmt.Errorf("camera %q: expected an observation of images [H W 3] of U8: there are %d: %s", s.Camera,
		len(names), strings.Join(names, ", "))
}

// Split divides whole episodes into training and validation. The argument share is the share of episodes that go to
// validation. It applies to episodes with success, and separately to episodes without success. Numbers are rounded to
// the nearest integer. The choice depends on seed.
func Split(episodes []LabelledEpisode, shape []int, share float64, seed uint64) (train, valid *Set, err error) {
	var sides [2][]*LabelledEpisode // of training and of validation
	for k := range 2 {
		var class []*LabelledEpisode
		for i := range episodes {
			if e := &episodes[i]; e.succeeds() == (k == 1) {
				class = append(class, e)
			}
		}
		s := philox.New(seed, philox.Permutation, uint64(k), 0)
		for i := len(class) - 1; i > 0; i-- {
			j := s.IntN(i + 1)
			class[i], class[j] = class[j], class[i]
		}
		n := int(share*float64(len(class)) + 0.5)
		sides[1], sides[0] = append(sides[1], class[:n]...), append(sides[0], class[n:]...)
	}
	sets := [2]*Set{}
	for i, side := range sides {
		var pixels, labels []byte
		for _, e := range side {
			for k, image := range e.images {
				pixels, labels = append(pixels, image...), append(labels, e.labels[k])
			}
		}
		sets[i] = &Set{Labels: labels}
		n := sets[i].Successes()
		if n == 0 || n == len(labels) {
			return nil, nil, fmt.Errorf("%d of %d frames of %s show success: expected some of both, of more episodes "+
				"or another share of validation", n, len(labels), []string{"training", "validation"}[i])
		}
		sets[i].Images = tensor.FromU8(pixels, append([]int{len(labels)}, shape...)...)
	}
	return sets[0], sets[1], nil
}
