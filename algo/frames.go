package algo

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// Stacks names the observations that a Replay stores as frames, without a prefix. It maps each name to the number of
// frames in the observation, which is at least 1.
type Stacks map[string]int

// StacksOf returns the observations of an environment or of a policy that a Replay stores as frames: those whose frames
// have at least two dimensions, such as images.
func StacksOf(to policy.Spaced) Stacks {
	stacks := Stacks{}
	obs, _ := to.Spaces()
	for _, f := range obs {
		dims := len(f.Shape)
		if f.Frames > 0 {
			dims--
		}
		if dims >= 2 {
			stacks[f.Name] = max(f.Frames, 1)
		}
	}
	return stacks
}

// of returns the name of an observation of rollouts without its prefix, and the number of its frames. The number is 0
// if a Replay does not store the tensor as frames.
func (s Stacks) of(field string) (name string, stack int) {
	for _, prefix := range []string{Observations, NextObservations} {
		if name, ok := strings.CutPrefix(field, prefix+"."); ok {
			return name, s[name]
		}
	}
	return "", 0
}

// frames stores one observation of the steps of a Replay, before and after each step. An observation is a stack of
// frames, the oldest first. Each frame is stored once, in a ring of each environment:
//
//   - The observation after a step usually shares all frames but its newest with the observation before the step. It
//     then adds only the newest frame. The next step begins with this observation, so it adds nothing.
//   - Any other observation adds all of its frames, as at the beginning of an episode. Equal frames at the beginning of
//     the stack are added once, because environments repeat the first frame of an episode.
//
// The code compares bytes to tell these cases apart. So observations come back as they were, even if the flags of the
// steps are wrong.
//
// The ring has room for one frame per step, and for one more in every frameSlack steps: the last observation of an
// episode. If episodes are shorter than frameSlack, the oldest steps of the Replay lose their frames and can no longer
// be drawn; see held.
type frames struct {
	name      string // of the observation, without a prefix
	obs, next string // names of the observation in rollouts, before and after a step
	stack     int    // number of frames in an observation
	size      int    // bytes of a frame
	room      int    // frames in the ring of an environment
	capacity  int    // steps in the ring of an environment
	data      tensor.Tensor
	// I64 [envs, capacity, 2, 2]: for each step, the frameStack before it and the frameStack after it; see stackOf. The
	// frames of an environment are numbered in the order in which they were added. Frame k is in place k%room of the
	// ring.
	stacks tensor.Tensor
}

// frameSlack is the length of episodes for which a full Replay has room for all frames. Longer episodes need less room.
const frameSlack = 25

// Names of the tensors of frames begin with these prefixes.
const (
	framesPrefix = "frames."
	stacksPrefix = "stacks."
)

// frameFields returns the tensors of frames for the observation f of rollouts, [T,N,...].
func frameFields(f tensor.Field, name string, stack, envs, capacity int) []tensor.Field {
	shape := f.Shape[2:]
	if stack > 1 {
		shape = shape[1:]
	}
	room := capacity + capacity/frameSlack + 2*stack // 2*stack: a step can add two whole stacks
	return []tensor.Field{
		{Name: framesPrefix + name, DType: f.DType, Shape: append([]int{envs, room}, shape...)},
		{Name: stacksPrefix + name, DType: tensor.I64, Shape: []int{envs, capacity, 2, 2}},
	}
}

// newFrames returns the frames of an observation. all has the tensors of frameFields.
func newFrames(name string, stack int, all tensor.Dict) *frames {
	f := &frames{name: name, obs: Observations + "." + name, next: NextObservations + "." + name, stack: stack,
		data: all.Must(framesPrefix + name), stacks: all.Must(stacksPrefix + name)}
	f.room, f.capacity = f.data.Dim(1), f.stacks.Dim(1)
	f.size = len(f.data.Bytes()) / (f.data.Dim(0) * f.room)
	return f
}

// A frameStack names the frames of an observation by their numbers, first to newest. If there are more numbers than
// frames in the observation, the newest numbers count. If there are fewer, the frame with number first is repeated at
// the beginning.
type frameStack struct{ first, newest int64 }

// at returns the number of frame i of the observation s.
func (f *frames) at(s frameStack, i int) int64 { return max(s.newest-int64(f.stack-1-i), s.first) }

// stackOf returns the frameStack before or after the step in the given place.
func (f *frames) stackOf(place int, after bool) frameStack {
	x := f.stacks.I64()[4*place:][:4]
	if after {
		return frameStack{x[2], x[3]}
	}
	return frameStack{x[0], x[1]}
}

// place returns the place of an environment's step in the rings. step is at least -capacity. Steps that differ by
// capacity share a place.
func (f *frames) place(env, step int) int { return env*f.capacity + (step+f.capacity)%f.capacity }

// frame returns the memory of the frame with the given number.
func (f *frames) frame(env int, number int64) []byte {
	return f.data.Bytes()[(env*f.room+int(number%int64(f.room)))*f.size:][:f.size]
}

// of returns frame i of an observation.
func (f *frames) of(obs []byte, i int) []byte { return obs[i*f.size:][:f.size] }

// add stores the observations before and after a step. goesOn is true if the ring holds the step before it.
func (f *frames) add(env, step int, goesOn bool, obs, next []byte) {
	after := frameStack{newest: -1}
	if goesOn {
		after = f.stackOf(f.place(env, step-1), true)
	}
	before := after
	if !goesOn || !f.equal(env, before, obs) {
		before = f.begin(env, after.newest+1, obs)
	}
	after = frameStack{before.first, before.newest + 1}
	if f.equal(env, after, next[:len(next)-f.size]) {
		copy(f.frame(env, after.newest), f.of(next, f.stack-1))
	} else {
		after = f.begin(env, before.newest+1, next)
	}
	copy(f.stacks.I64()[4*f.place(env, step):], []int64{before.first, before.newest, after.first, after.newest})
}

// equal reports whether the frames in obs equal those of s. obs may have only the oldest frames of an observation.
func (f *frames) equal(env int, s frameStack, obs []byte) bool {
	for i := range len(obs) / f.size {
		if !bytes.Equal(f.of(obs, i), f.frame(env, f.at(s, i))) {
			return false
		}
	}
	return true
}

// begin adds all frames of an observation, and returns their frameStack. The first frame gets the given number.
func (f *frames) begin(env int, number int64, obs []byte) frameStack {
	i := 0
	for i < f.stack-1 && bytes.Equal(f.of(obs, i), f.of(obs, i+1)) {
		i++
	}
	s := frameStack{number, number - 1}
	for ; i < f.stack; i++ {
		s.newest++
		copy(f.frame(env, s.newest), f.of(obs, i))
	}
	return s
}

// gather sets dst to the observation before the step in the given place, or after it.
func (f *frames) gather(dst []byte, place int, after bool) {
	s := f.stackOf(place, after)
	for i := range f.stack {
		copy(f.of(dst, i), f.frame(place/f.capacity, f.at(s, i)))
	}
}

// held returns how many of the newest steps still have all of their frames, in every environment. It returns at most
// size. next is the number of the step that follows them.
func (f *frames) held(size, next int) int {
	for env := range f.data.Dim(0) {
		for size > 0 {
			oldest, newest := f.stackOf(f.place(env, next-size), false), f.stackOf(f.place(env, next-1), true)
			if f.at(oldest, 0) > newest.newest-int64(f.room) {
				break
			}
			size--
		}
	}
	return size
}

// used returns the number of places of the ring that were ever filled: the maximum over the environments. next is the
// number of the step that follows the newest step.
func (f *frames) used(next int) (n int) {
	for env := range f.data.Dim(0) {
		n = max(n, int(min(f.stackOf(f.place(env, next-1), true).newest+1, int64(f.room))))
	}
	return n
}

// load restores the frames of size steps. next is the number of the step that follows them. d has the rings of frames.
// In an older saved state, d has instead the whole observations before and after each step.
func (f *frames) load(d tensor.Dict, size, next int) error {
	if all, ok := d.Get(replayPrefix + framesPrefix + f.name); ok {
		if all.Rank() < 2 || all.Dim(1) > f.room {
			return fmt.Errorf("%s%s is %v, expected %v", replayPrefix, framesPrefix+f.name, all, f.data)
		}
		if err := loadRings(d, framesPrefix+f.name, f.data, all.Dim(1)); err != nil {
			return err
		}
		if err := loadRings(d, stacksPrefix+f.name, f.stacks, size); err != nil {
			return err
		}
		for i := range f.data.Dim(0) * size {
			at := f.place(i/size, next-1-i%size)
			before, after := f.stackOf(at, false), f.stackOf(at, true)
			if min(before.first, after.first, before.newest-before.first, after.newest-after.first) < 0 {
				return fmt.Errorf("%s%s has the frames %v of a step, expected none below 0", replayPrefix,
					stacksPrefix+f.name, []frameStack{before, after})
			}
		}
		return nil
	}
	var sides [2]tensor.Tensor
	for i, name := range []string{replayPrefix + f.obs, replayPrefix + f.next} {
		t, ok := d.Get(name)
		if !ok || t.DType() != f.data.DType() || t.Rank() < 2 || t.Dim(1) != f.capacity && t.Dim(1) != size ||
			len(t.Bytes()) != f.data.Dim(0)*t.Dim(1)*f.stack*f.size {
			return fmt.Errorf("%s is %v, expected %d steps with %d frames like those of %v", name, t, size, f.stack,
				f.data)
		}
		sides[i] = t
	}
	for env := range f.data.Dim(0) {
		for step := next - size; step < next; step++ {
			at := f.place(env, step) - env*f.capacity
			f.add(env, step, step > next-size, sides[0].At(env).At(at).Bytes(), sides[1].At(env).At(at).Bytes())
		}
	}
	return nil
}
