// Package squares implements a small vision-language-action task without a simulator. An image
// shows two coloured squares and a hand. A sentence names the target, one of the squares. The hand
// must move to the target and close there. Only the image shows the places of the squares, and only
// the sentence names the target.
package squares

import (
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

const (
	side      = 16   // width and height of the image, in pixels
	stride    = 0.25 // maximum move of the hand in a step, along each axis
	reach     = 0.3  // a hand nearer than this is at the square
	width     = 4    // side length of a square, in pixels
	sentences = 24   // length of a sentence, in bytes
)

var colors = []struct {
	name string
	rgb  [3]uint8
}{{"red", [3]uint8{230, 30, 30}}, {"green", [3]uint8{30, 200, 30}}, {"blue", [3]uint8{40, 60, 240}},
	{"yellow", [3]uint8{230, 220, 40}}}

// A scene holds the positions of the hand, the target and the other square, in [-1, 1], and the
// colours of the target and the other square.
type scene struct {
	at    [3][2]float64
	color [2]int
}

type squares []scene

var (
	_ env.Simulator = squares(nil)
	_ env.Expert    = squares(nil)
	_ env.Saver     = squares(nil)
)

// New makes n environments of Squares-v0. An action has three numbers within ±1: the move of the
// hand along each axis, and a number that closes the hand if it is positive. Closing the hand at
// the target is a success with a reward of 1. Closing it at the other square is a failure. Success
// and failure end the episode, which has at most 12 steps.
func New(cfg env.Config, n int) (env.Vec, error) { return env.NewEpisodic(make(squares, n), cfg), nil }

// NewSwapped is like New, but the sentences name the other square. Closing the hand at the other square is still a
// failure.
func NewSwapped(cfg env.Config, n int) (env.Vec, error) {
	return env.NewEpisodic(swapped{make(squares, n)}, cfg), nil
}

type swapped struct{ squares }

// Observe is like the Observe of squares, but the sentence names the other square.
func (s swapped) Observe(mask []bool, obs tensor.Dict) {
	s.squares.Observe(mask, obs)
	for n, c := range s.squares {
		if mask == nil || mask[n] {
			say(obs.Must("text").U8()[n*sentences:][:sentences], c.color[1])
		}
	}
}

// NewReach is like New, but the only task is to move the hand to the target. The target's place is the goal, which
// hindsight can replace. The third number of an action has no effect, and the policy sees no images.
func NewReach(cfg env.Config, n int) (env.Vec, error) {
	return env.NewEpisodic(reaches{make(squares, n)}, cfg), nil
}

type reaches struct{ squares }

var goal = &env.Goal{Threshold: reach, Reward: env.SparseGoal, Terminates: true}

// Spec describes one environment.
func (r reaches) Spec() env.Spec {
	s := r.squares.Spec()
	s.Obs = nil
	for _, name := range []string{env.Observation, env.AchievedGoal, env.DesiredGoal} {
		s.Obs = append(s.Obs, env.Field{Name: name, Space: box(tensor.F32, -1, 1, 2)})
	}
	s.Info, s.Goal = []string{env.Success}, goal
	return s
}

// Step moves the hands, and compares their places with the goals.
func (r reaches) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte,
	info []float32) error {
	for n := range r.squares {
		if turn[n] == env.Idle {
			continue
		}
		c := &r.squares[n]
		c.move(action.F32()[3*n:])
		hand, target := single(c.at[0]), single(c.at[1])
		r, reached := goal.Sparse(hand[:], target[:])
		reward[n], terminated[n], info[n] = r, 0, 0
		if reached {
			terminated[n], info[n] = 1, 1
		}
	}
	return nil
}

// single converts a place to float32, the type of observations.
func single(at [2]float64) [2]float32 { return [2]float32{float32(at[0]), float32(at[1])} }

// Observe writes the places of the hand and of the target.
func (r reaches) Observe(mask []bool, obs tensor.Dict) {
	for n, c := range r.squares {
		if mask == nil || mask[n] {
			hand, target := single(c.at[0]), single(c.at[1])
			copy(obs.Must(env.Observation).F32()[2*n:], hand[:])
			copy(obs.Must(env.AchievedGoal).F32()[2*n:], hand[:])
			copy(obs.Must(env.DesiredGoal).F32()[2*n:], target[:])
		}
	}
}

// say writes the sentence that names the square of the given colour.
func say(text []uint8, color int) {
	clear(text)
	at := copy(text, "reach the ")
	at += copy(text[at:], colors[color].name)
	copy(text[at:], " square")
}

func box(dtype tensor.DType, low, high float32, shape ...int) env.Space {
	s := env.Space{Kind: env.Box, DType: dtype, Shape: shape}
	for range s.Dim() {
		s.Low, s.High = append(s.Low, low), append(s.High, high)
	}
	return s
}

// Spec describes one environment.
func (s squares) Spec() env.Spec {
	return env.Spec{
		Name: "Squares-v0",
		Obs: []env.Field{
			{Name: "image", Space: box(tensor.U8, 0, 255, side, side, 3)},
			{Name: "text", Space: box(tensor.U8, 0, 255, sentences), Text: true},
			{Name: "proprio", Space: box(tensor.F32, -1, 1, 2)},
		},
		Action: box(tensor.F32, -1, 1, 3), MaxSteps: 12, Info: []string{env.Success, env.WrongObject},
	}
}

// Len returns the number of environments.
func (s squares) Len() int { return len(s) }

// Reset draws a scene in which the squares and the hand are far apart.
func (s squares) Reset(n int, seed uint64) error {
	r := philox.New(seed, philox.Reset, 0, 0)
	c := &s[n]
	for {
		for i := range c.at {
			c.at[i] = [2]float64{r.Uniform(-0.75, 0.75), r.Uniform(-0.75, 0.75)}
		}
		if min(far(c.at[0], c.at[1]), far(c.at[0], c.at[2]), far(c.at[1], c.at[2])) > 2*reach {
			break
		}
	}
	c.color[0] = r.IntN(len(colors))
	c.color[1] = (c.color[0] + 1 + r.IntN(len(colors)-1)) % len(colors)
	return nil
}

// far returns the maximum of the distances along the two axes.
func far(a, b [2]float64) float64 { return max(math.Abs(a[0]-b[0]), math.Abs(a[1]-b[1])) }

// Step moves the hands.
func (s squares) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte,
	info []float32) error {
	for n := range s {
		if turn[n] == env.Idle {
			continue
		}
		c, a := &s[n], action.F32()[3*n:]
		c.move(a)
		reward[n], terminated[n], info[2*n], info[2*n+1] = 0, 0, 0, 0
		if a[2] <= 0 {
			continue
		}
		if far(c.at[0], c.at[1]) < reach {
			reward[n], terminated[n], info[2*n] = 1, 1, 1
		} else if far(c.at[0], c.at[2]) < reach {
			terminated[n], info[2*n+1] = 1, 1
		}
	}
	return nil
}

// move moves the hand along both axes.
func (c *scene) move(action []float32) {
	for k := range 2 {
		way := float64(stride * float64(min(max(action[k], -1), 1)))
		c.at[0][k] = min(max(c.at[0][k]+way, -1), 1)
	}
}

// Act moves the hand to the target, and closes it there.
func (s squares) Act(action tensor.Tensor) error {
	for n := range s {
		c, a := &s[n], action.F32()[3*n:]
		a[2] = 1
		for k := range 2 {
			way := (c.at[1][k] - c.at[0][k]) / stride
			a[k] = float32(min(max(way, -1), 1))
			if math.Abs(way) > 1.5 {
				a[2] = -1
			}
		}
	}
	return nil
}

// Observe draws the scenes and writes the sentences.
func (s squares) Observe(mask []bool, obs tensor.Dict) {
	for n := range s {
		if mask != nil && !mask[n] {
			continue
		}
		c := &s[n]
		image := obs.Must("image").U8()[n*side*side*3:][:side*side*3]
		for i := range image {
			image[i] = 90
		}
		paint(image, c.at[1], width, colors[c.color[0]].rgb)
		paint(image, c.at[2], width, colors[c.color[1]].rgb)
		paint(image, c.at[0], width/2, [3]uint8{250, 250, 250})
		say(obs.Must("text").U8()[n*sentences:][:sentences], c.color[0])
		for k := range 2 {
			obs.Must("proprio").F32()[2*n+k] = float32(c.at[0][k])
		}
	}
}

// paint fills a square of size × size pixels. The coordinates of its centre are in [-1, 1].
func paint(image []uint8, centre [2]float64, size int, rgb [3]uint8) {
	place := func(x float64) int { return int((x+1)/2*(side-1)+0.5) - size/2 }
	for y := range size {
		for x := range size {
			row, column := place(centre[1])+y, place(centre[0])+x
			if row >= 0 && row < side && column >= 0 && column < side {
				copy(image[(row*side+column)*3:], rgb[:])
			}
		}
	}
}

// Save returns the scenes.
func (s squares) Save() (tensor.Dict, error) {
	at := tensor.New(tensor.F64, len(s), 8)
	for n, c := range s {
		row := at.F64()[8*n:]
		for i := range c.at {
			copy(row[2*i:], c.at[i][:])
		}
		row[6], row[7] = float64(c.color[0]), float64(c.color[1])
	}
	var d tensor.Dict
	d.Set("scene", at)
	return d, nil
}

// Load restores the scenes that Save returned.
func (s squares) Load(d tensor.Dict) error {
	for n := range s {
		row := d.Must("scene").F64()[8*n:]
		for i := range s[n].at {
			copy(s[n].at[i][:], row[2*i:])
		}
		s[n].color = [2]int{int(row[6]), int(row[7])}
	}
	return nil
}

// Close does nothing.
func (s squares) Close() error { return nil }
