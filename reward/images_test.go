package reward

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/resnet"
	"github.com/rlinf/rlinf/tensor"
)

func field(name string, shape ...int) env.Field {
	return env.Field{Name: name, Space: env.Space{Kind: env.Box, DType: tensor.U8, Shape: shape}}
}

func TestCameraOf(t *testing.T) {
	t.Parallel()
	of := func(fields ...env.Field) env.Spec { return env.Spec{Name: "Robot", Obs: fields} }
	c := test.Must(ClassifierInputOf(of(field("wrist", 8, 9, 3), field("main_images", 6, 7, 3))))(t)
	test.Equal(t, c.Name, "main_images")
	c = test.Must(ClassifierInputOf(of(field("text", 9), field("wrist", 2, 8, 9, 3), field("depth", 8, 9, 1))))(t)
	test.Equal(t, c, ClassifierInput{"wrist", 2, c.Image})
	test.Equal(t, c.Image.W, 9)
	test.Fails(t, test.Err(ClassifierInputOf(of(field("left", 8, 9, 3), field("right", 8, 9, 3)))),
		"Robot has left, right")
	test.Fails(t, test.Err(ClassifierInputOf(of(field("depth", 8, 9, 1)))), "Robot has none")
}

// scorer returns a Scorer with random parameters whose score is above ½ for some images, and images of two frames.
func scorer(t *testing.T, threshold float32) (*Scorer, tensor.Tensor) {
	t.Helper()
	c := DefaultConfig()
	c.Model.ModelType = ResNet
	c.Model.Own = DefaultImages()
	m := c.Model.Own.Values().(*Images)
	c.Model.ImageSize, m.RewardThreshold = []int{3, 32, 32}, threshold
	camera := test.Must(ClassifierInputOf(env.Spec{Obs: []env.Field{field("wrist", 2, 8, 8, 3)}}))(t)
	net := test.Must(c.NewClassifier(camera, tensor.Heap))(t)
	net.Init(1)
	images := tensor.New(tensor.U8, 6, 2, 8, 8, 3)
	for i := range images.U8() {
		images.U8()[i] = byte(i * i / 77 * (1 + i/384))
	}
	return NewScorer(&c, net, camera, 6), images
}

func TestScorer(t *testing.T) {
	s, images := scorer(t, 0)
	t.Run("rule", func(t *testing.T) { scoresOfRule(t, s, images) })
	t.Run("scores", func(t *testing.T) { scores(t, s, images) })
}

// The score of a row is that of its newest frame, in any batch. Scores that are not above the threshold are 0.
func scores(t *testing.T, s *Scorer, images tensor.Tensor) {
	all, some := make([]float32, 6), make([]float32, 6)
	s.Score(all, images, nil)
	sorted := slices.Sorted(slices.Values(all))
	if sorted[0] == sorted[5] || sorted[0] <= 0 || sorted[5] >= 1 {
		t.Fatalf("scores %v", all)
	}
	s.Score(some, images, func(i int) bool { return i%2 == 1 })
	for i, x := range some {
		if want := all[i] * float32(i%2); x != want {
			t.Errorf("score %d of some: %v, want %v", i, x, want)
		}
	}
	for i := range 6 { // older frames do not count
		clear(images.At(i).U8()[:8*8*3])
	}
	s.Score(some, images, nil)
	test.EqualSlices(t, some, all)
	limited := NewScorer(&Config{Model: modelOf(sorted[2])}, s.net, s.Camera, 6)
	limited.Score(some, images, nil)
	for i, x := range some {
		if want := all[i]; want <= sorted[2] && x != 0 || want > sorted[2] && x != want {
			t.Errorf("score %v with the threshold %v: %v", want, sorted[2], x)
		}
	}
	test.NoAllocs(t, 3, func() { s.Score(some, images, nil) })
}

func modelOf(threshold float32) (m ModelConfig) {
	m.ModelType, m.Own = ResNet, DefaultImages()
	m.Own.Values().(*Images).RewardThreshold = threshold
	return m
}

// In the mode terminal the rule scores last steps, and no others.
func scoresOfRule(t *testing.T, s *Scorer, images tensor.Tensor) {
	all, got := make([]float32, 6), make([]float32, 6)
	s.Score(all, images, nil)
	b := &Batch{Reward: make([]float32, 6), Terminated: []byte{0, 1, 0, 0, 0, 0}, Truncated: []byte{0, 0, 0, 1, 0, 0}}
	b.Next.Set("wrist", images)
	for _, mode := range []string{PerStep, Terminal} {
		c := DefaultConfig()
		c.UseRewardModel, c.RewardMode = true, mode
		rule := test.Must(Builtin().New(Setup{Config: c, Scorer: s, Rows: 6}))(t)
		test.OK(t, rule(got, b))
		for i, x := range got {
			want := all[i]
			if mode == Terminal && i != 1 && i != 3 {
				want = 0
			}
			if x != want {
				t.Errorf("%s: reward %d: %v, want %v", mode, i, x, want)
			}
		}
	}
}

func TestImagesMistakes(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config, *Images){
		"model.model_path: : expected a file":     func(c *Config, m *Images) { c.Model.ModelPath = "" },
		"model.arch: resnet50: expected resnet18": func(c *Config, m *Images) { m.Arch = "resnet50" },
		"model.arch: resnet10: expected resnet18": func(c *Config, m *Images) { m.Arch = "resnet10" },
		"model.image_size: [3 16 64]: expected": func(c *Config, m *Images) {
			c.Model.ImageSize = []int{3, 16, 64}
		},
		"model.reward_threshold: 1: expected":          func(c *Config, m *Images) { m.RewardThreshold = 1 },
		"success_hold_steps: 0: expected a number ≥ 1": func(c *Config, m *Images) { c.SuccessHoldSteps = 0 },
	} {
		c := DefaultConfig()
		c.UseRewardModel, c.Model.ModelPath, c.Model.ModelType = true, "x", ResNet
		m := Images{Config: resnet.DefaultConfig()}
		change(&c, &m)
		c.Model.Own = DefaultImages()
		*c.Model.Own.Values().(*Images) = m
		var got []string
		c.Check(func(ok bool, key string, value any, want string) {
			if !ok {
				got = append(got, fmt.Sprintf("%s: %v: expected %s", key, value, want))
			}
		})
		if len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("got %q, want %s", got, want)
		}
	}
}
