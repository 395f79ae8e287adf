package reward

import (
	"fmt"
	"math"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/resnet"
	"github.com/rlinf/rlinf/tensor"
)

// ResNet is the model_type of a classifier of images.
const ResNet = "resnet"

// Images are the keys of reward.model for the model_type resnet.
type Images struct {
	resnet.Config   `yaml:",inline"`
	RewardThreshold float32 `yaml:"reward_threshold" doc:"A score that is not above it counts as 0."`
}

// DefaultImages returns the keys of reward.model for the model_type resnet, with their defaults.
func DefaultImages() params.Own { return params.New(Images{Config: resnet.DefaultConfig()}) }

// Check validates the values; see Config.Check.
func (m Images) Check(want func(ok bool, key string, value any, want string)) {
	m.Config.Check(want)
	want(m.RewardThreshold >= 0 && m.RewardThreshold < 1, "reward_threshold", m.RewardThreshold,
		"a probability in [0, 1)")
}

// Images returns the keys of a classifier of images. ok is false if c has another model.
func (c *Config) Images() (m Images, ok bool) {
	if c.Model.ModelType != ResNet {
		return m, false
	}
	m, err := params.Get(c.Model.Own, Images{Config: resnet.DefaultConfig()})
	m.Config = m.Config.Sized(c.Model.ImageSize)
	return m, err == nil
}

// mainImages is the observation that a classifier sees, as in RLinf.
const mainImages = "main_images"

// A ClassifierInput is the observation that a classifier sees. A row of it has one or more images of U8, the newest
// last.
type ClassifierInput struct {
	Name   string
	Frames int
	Image  nn.Image
}

// ClassifierInputOf returns main_images, or else the only observation of colour images.
func ClassifierInputOf(s env.Spec) (ClassifierInput, error) {
	var all []ClassifierInput
	var names []string
	for _, f := range s.Obs {
		dims, frames := f.Shape, 1
		if len(dims) == 4 {
			frames, dims = dims[0], dims[1:]
		}
		if f.DType != tensor.U8 || len(dims) != 3 || dims[2] != 3 {
			continue
		}
		c := ClassifierInput{f.Name, frames, nn.Image{H: dims[0], W: dims[1], C: 3}}
		if f.Name == mainImages {
			return c, nil
		}
		all, names = append(all, c), append(names, f.Name)
	}
	if len(all) == 1 {
		return all[0], nil
	}
	has := "none"
	if len(all) > 0 {
		has = strings.Join(names, ", ")
	}
	return ClassifierInput{}, fmt.Errorf("model.model_type: %s: expected an observation %s, or only one, of images "+
		"[H W 3] of U8; %s has %s", ResNet, mainImages, s.Name, has)
}

// NewClassifier makes the classifier of c for the images of camera, with parameters of 0. The method Images of c must
// return true.
func (c *Config) NewClassifier(camera ClassifierInput, alloc tensor.Allocator) (*resnet.Classifier, error) {
	m, _ := c.Images()
	net, err := resnet.NewClassifier(m.Config, c.Model.HiddenDim, camera.Image, alloc)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return net, nil
}

// A Scorer computes the scores of images: the probability of success, or 0 if it is not above the threshold.
type Scorer struct {
	Camera    ClassifierInput
	threshold float32
	net       *resnet.Classifier
	work      *resnet.ClassifierWork
	images    []byte // [rows,H,W,3]
}

// NewScorer returns a Scorer for calls with at most the given number of rows.
func NewScorer(c *Config, net *resnet.Classifier, camera ClassifierInput, rows int) *Scorer {
	m, _ := c.Images()
	return &Scorer{Camera: camera, threshold: m.RewardThreshold, net: net, work: net.NewWork(rows),
		images: make([]byte, rows*camera.Image.Len())}
}

// Score writes the score of each row of images, [n,frames,H,W,3], to score. If ends is not nil, it computes only the
// scores of rows i for which ends(i) is true. The other scores are 0.
func (s *Scorer) Score(score []float32, images tensor.Tensor, ends func(i int) bool) {
	each, row, n := s.Camera.Image.Len(), images.Len()/len(score), 0
	for i := range score {
		if ends == nil || ends(i) {
			copy(s.images[n*each:(n+1)*each], images.U8()[(i+1)*row-each:(i+1)*row])
			n++
		}
	}
	clear(score)
	if n == 0 {
		return
	}
	logits := s.net.Logits(s.work, s.images, n)
	for i := range score {
		if ends != nil && !ends(i) {
			continue
		}
		if p := float32(1 / (1 + math.Exp(-float64(logits[0])))); p > s.threshold {
			score[i] = p
		}
		logits = logits[1:]
	}
}

// rule returns a Rule with the scores of s. If terminal is true, it computes only the scores of last steps.
func (s *Scorer) rule(terminal bool) Rule {
	return func(score []float32, b *Batch) error {
		var ends func(i int) bool
		if terminal {
			ends = func(i int) bool { return b.Terminated[i]|b.Truncated[i] != 0 }
		}
		s.Score(score, b.Next.Must(s.Camera.Name), ends)
		return nil
	}
}

// Judge returns the judge of environments with standalone_realworld. If terminations are ignored, it ends no episode.
func (s *Scorer) Judge(c *Config, ignoreTerminations bool) env.Judge {
	j := env.Judge{Camera: s.Camera.Name, Threshold: s.threshold, Hold: c.SuccessHoldSteps,
		Terminal: c.RewardMode == Terminal, Weight: c.RewardWeight, EnvWeight: c.EnvRewardWeight,
		Score: func(score []float32, images tensor.Tensor) { s.Score(score, images, nil) }}
	if j.Threshold == 0 {
		j.Threshold = 0.5
	}
	if ignoreTerminations {
		j.Hold = 0
	}
	return j
}
