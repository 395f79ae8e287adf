package algo

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A filmed describes environments with two cameras, of which the first is stacked, and a number.
type filmed struct{ stack, envs int }

const (
	frontSize, sideSize = 6, 4 // bytes of a frame
	filmedActions       = 2    // of a chunk
)

func (f filmed) stacks() Stacks { return Stacks{"front": f.stack, "side": 1} }

// fields returns the fields of rollouts. A single frame has no dimension of its own.
func (f filmed) fields(steps int) (fields []tensor.Field) {
	front := []int{steps, f.envs, f.stack, 2, 3}
	if f.stack == 1 {
		front = slices.Delete(front, 2, 3)
	}
	for _, prefix := range []string{Observations, NextObservations} {
		fields = append(fields, tensor.Field{Name: prefix + ".front", DType: tensor.U8, Shape: front},
			tensor.Field{Name: prefix + ".state", DType: tensor.F32, Shape: []int{steps, f.envs, 1}},
			tensor.Field{Name: prefix + ".side", DType: tensor.U8, Shape: []int{steps, f.envs, 2, 2}})
	}
	return append(fields,
		tensor.Field{Name: "action", DType: tensor.F32, Shape: []int{steps, f.envs, filmedActions, 1}},
		tensor.Field{Name: "reward", DType: tensor.F32, Shape: []int{steps, f.envs}},
		tensor.Field{Name: "terminated", DType: tensor.U8, Shape: []int{steps, f.envs}},
		tensor.Field{Name: "truncated", DType: tensor.U8, Shape: []int{steps, f.envs}},
		tensor.Field{Name: "status", DType: tensor.U8, Shape: []int{steps, f.envs}})
}

// A seen is what an environment shows at one time.
type seen struct {
	front, side []byte
	state       float32
}

// A plainStep is a step as a plain replay buffer has it.
type plainStep struct {
	obs, next             seen
	action                [filmedActions]float32
	reward                float32
	terminated, truncated bool
	aborted               bool
	frame, begun          int // numbers of the newest frame before the step, and of the first frame of its episode
}

// A film makes random rollouts of filmed environments, and keeps all of their steps.
type film struct {
	filmed
	random *rand.Rand
	mean   int // length of episodes
	// frames and stacks are unrelated, and have few values
	unrelated bool
	now       []seen // of each environment; front is nil where an episode must begin
	steps     [][]plainStep
	frames    []int  // number of the newest frame of each environment
	begun     []int  // number of the first frame of the episode
	acts      []bool // a person acts in the environment
}

func newFilm(f filmed, mean int, unrelated bool, seed uint64) *film {
	m := &film{filmed: f, random: rand.New(rand.NewPCG(seed, 1)), mean: mean, unrelated: unrelated,
		now: make([]seen, f.envs), steps: make([][]plainStep, f.envs), frames: make([]int, f.envs),
		begun: make([]int, f.envs)}
	for e := range m.frames {
		m.frames[e] = -1
	}
	return m
}

func (m *film) frame(size int) []byte {
	b := make([]byte, size)
	if m.unrelated {
		b[0] = byte(m.random.IntN(2))
		return b
	}
	for i := range b {
		b[i] = byte(m.random.Uint32())
	}
	return b
}

// after returns what is seen after s; if s is zero, what is seen first.
func (m *film) after(s seen) seen {
	next := seen{side: m.frame(sideSize), state: m.random.Float32()}
	switch frame := m.frame(frontSize); {
	case m.unrelated:
		for range m.stack {
			next.front = append(next.front, m.frame(frontSize)...)
		}
	case s.front == nil:
		next.front = bytes.Repeat(frame, m.stack)
	default:
		next.front = append(slices.Clone(s.front[frontSize:]), frame...)
	}
	return next
}

// rollout returns the next steps of all environments.
func (m *film) rollout(steps int) tensor.Dict {
	layout := tensor.NewLayout(m.fields(steps)...)
	d := layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())
	for t := range steps {
		for e := range m.envs {
			if m.now[e].front == nil || m.unrelated && m.random.IntN(2) == 0 {
				m.now[e] = m.after(seen{})
				m.frames[e]++
				m.begun[e] = m.frames[e]
			}
			s := plainStep{obs: m.now[e], reward: m.random.Float32()}
			s.action = [filmedActions]float32{m.random.Float32(), m.random.Float32()}
			s.next, s.frame, s.begun = m.after(s.obs), m.frames[e], m.begun[e]
			m.frames[e]++
			m.now[e] = s.next
			if m.random.IntN(m.mean) == 0 {
				m.now[e] = seen{}
				switch m.random.IntN(5) {
				case 0:
					s.truncated, s.aborted = true, true
				case 1:
					s.truncated = true
				case 2:
					s.terminated, s.truncated = true, true
				default:
					s.terminated = true
				}
			}
			m.steps[e] = append(m.steps[e], s)
			i := t*m.envs + e
			for prefix, x := range map[string]seen{Observations: s.obs, NextObservations: s.next} {
				copy(d.Must(prefix + ".front").Bytes()[i*m.stack*frontSize:], x.front)
				copy(d.Must(prefix + ".side").Bytes()[i*sideSize:], x.side)
				d.Must(prefix + ".state").F32()[i] = x.state
			}
			copy(d.Must("action").F32()[i*filmedActions:], s.action[:])
			d.Must("reward").F32()[i] = s.reward
			for name, yes := range map[string]bool{"terminated": s.terminated, "truncated": s.truncated,
				"status": s.aborted} {
				if yes {
					d.Must(name).U8()[i] = 1
				}
			}
		}
	}
	return d
}

// interrupt ends all episodes.
func (m *film) interrupt() {
	for e := range m.envs {
		m.now[e] = seen{}
		if n := len(m.steps[e]); n > 0 && !m.steps[e][n-1].terminated {
			m.steps[e][n-1].truncated = true
		}
	}
}

// ended returns whether the last steps of all aborted episodes are known, and marks all of their steps as truncated.
func (m *film) markAborted() {
	for e := range m.envs {
		for t := len(m.steps[e]) - 1; t >= 0; t-- {
			if !m.steps[e][t].aborted {
				continue
			}
			for s := t - 1; s >= 0 && !m.steps[e][s].terminated && !m.steps[e][s].truncated; s-- {
				m.steps[e][s].truncated, m.steps[e][s].aborted = true, true
			}
		}
	}
}

// fits returns the number of the newest steps, at most capacity, whose frames fit into the rings of r.
func (m *film) fits(capacity int, r *Replay) (size int) {
	for size < min(capacity, len(m.steps[0])) {
		for _, steps := range m.steps {
			oldest, newest := steps[len(steps)-1-size], steps[len(steps)-1].frame+1
			for _, f := range r.frames {
				if newest-max(oldest.frame-f.stack+1, oldest.begun) >= f.room {
					return size
				}
			}
		}
		size++
	}
	return size
}

// check compares all transitions of r with those of the plain steps.
func (m *film) check(r *Replay, b *Transitions, nStep int, always bool) error {
	const gamma = 0.5
	for k := range m.envs * r.Size() {
		at := k % (len(b.Reward) - 1) // in a batch of several
		if err := r.Gather(b.slice(at, at+1), []int32{int32(k)}, nStep, gamma, always); err != nil {
			return err
		}
		steps := m.steps[k/r.Size()]
		steps = steps[len(steps)-r.Size():][k%r.Size():]
		s, sum, discount := steps[0], float32(0), float32(1)
		last := s
		for _, last = range steps[:min(nStep, len(steps))] {
			sum, discount = sum+discount*last.reward, discount*gamma
			if last.terminated || last.truncated {
				break
			}
		}
		if last.terminated && !always {
			discount = 0
		}
		for name, side := range map[string]struct {
			got  tensor.Dict
			want seen
		}{"before": {b.Obs, s.obs}, "after": {b.Next, last.next}} {
			for camera, want := range map[string][]byte{"front": side.want.front, "side": side.want.side} {
				if got := side.got.Must(camera).At(at).Bytes(); !bytes.Equal(got, want) {
					return fmt.Errorf("transition %d: %s %s: %v, want %v", k, camera, name, got, want)
				}
			}
			if got := side.got.Must("state").F32()[at]; got != side.want.state {
				return fmt.Errorf("transition %d: state %s: %v, want %v", k, name, got, side.want.state)
			}
		}
		if got := b.Action.At(at).F32(); b.Reward[at] != sum || b.Discount[at] != discount ||
			!slices.Equal(got, s.action[:]) {
			return fmt.Errorf("transition %d: reward %v, discount %v, action %v, want %v, %v, %v", k, b.Reward[at],
				b.Discount[at], got, sum, discount, s.action)
		}
	}
	return nil
}

// packed returns a copy of the saved state of r, as a checkpoint has it.
func packed(r *Replay) tensor.Dict {
	var d tensor.Dict
	r.save(&d)
	packRings(&d, r.used(d, r.extra()))
	return d.Clone()
}

// TestFramesComeBack: batches of a Replay with frames have the bytes that a plain replay buffer has, also after a
// checkpoint, whatever the episodes. The Replay has as many steps as the frames of episodes leave room for.
func TestFramesComeBack(t *testing.T) {
	t.Parallel()
	for stack := 1; stack <= 4; stack++ {
		for _, c := range []struct {
			mean      int
			unrelated bool
		}{{40, false}, {4, false}, {1, false}, {6, true}} {
			for _, capacity := range []int{1, 9, 60} {
				name := fmt.Sprintf("stack %d, episodes of %d, %d steps, unrelated %v", stack, c.mean, capacity,
					c.unrelated)
				m := newFilm(filmed{stack, 2}, c.mean, c.unrelated, uint64(stack*1000+capacity))
				r := test.Must(NewReplay(m.fields(1), m.stacks(), m.envs, capacity, tensor.Heap))(t)
				b := r.NewBatch(3)
				for i := range 40 {
					if m.random.IntN(8) == 0 {
						r.interrupt()
						m.interrupt()
					}
					test.OK(t, r.Add(m.rollout(1+m.random.IntN(min(capacity, 7)))), name)
					m.markAborted()
					if want := m.fits(capacity, r); !c.unrelated && r.Size() != want ||
						r.Size() == 0 || r.Size() > capacity {
						t.Fatalf("%s, rollout %d: %d steps of %d, want %d", name, i, r.Size(), capacity, want)
					}
					test.OK(t, m.check(r, b, 1+i%4, i%3 == 0), "%s, rollout %d", name, i)
					if i%10 != 3 {
						continue
					}
					loaded := test.Must(NewReplay(m.fields(1), m.stacks(), m.envs, capacity, tensor.Heap))(t)
					test.OK(t, loaded.load(packed(r)), name)
					if loaded.Size() != r.Size() {
						t.Fatalf("%s: %d steps after a load, want %d", name, loaded.Size(), r.Size())
					}
					r = loaded // and the run goes on with it
				}
			}
		}
	}
}

// TestFramesOfOldCheckpoints: a Replay with frames loads the rings of whole observations that checkpoints had before,
// packed or not, with aborted episodes, and goes on from there.
func TestFramesOfOldCheckpoints(t *testing.T) {
	t.Parallel()
	const capacity = 30
	for stack := 1; stack <= 4; stack++ {
		for _, steps := range []int{0, 17, 30, 47} {
			m := newFilm(filmed{stack, 2}, 40, false, uint64(steps))
			old := test.Must(NewReplay(m.fields(1), nil, m.envs, capacity, tensor.Heap))(t)
			for range steps {
				test.OK(t, old.Add(m.rollout(1)))
			}
			m.markAborted()
			var rings tensor.Dict
			old.save(&rings)
			for i, saved := range []tensor.Dict{rings, packed(old)} {
				name := []string{"rings", "packed"}[i]
				r := test.Must(NewReplay(m.fields(1), m.stacks(), m.envs, capacity, tensor.Heap))(t)
				test.OK(t, r.load(saved), name)
				if r.Size() != min(steps, capacity) {
					t.Errorf("%s of %d steps: %d can be drawn", name, steps, r.Size())
				}
				b := r.NewBatch(3)
				test.OK(t, m.check(r, b, 3, false), name)
				if name == "packed" && steps > 0 { // the run goes on, until the loaded steps are gone
					for range 8 {
						test.OK(t, r.Add(m.rollout(5)))
						m.markAborted()
						test.OK(t, m.check(r, b, 3, false), "after a load")
					}
				}
			}
		}
	}
	m := newFilm(filmed{3, 2}, 40, false, 1)
	r := test.Must(NewReplay(m.fields(1), m.stacks(), m.envs, capacity, tensor.Heap))(t)
	test.OK(t, r.Add(m.rollout(5)))
	for name, spoil := range map[string]func(d *tensor.Dict){
		"no rings":      func(d *tensor.Dict) { *d = d.Sub("none") },
		"other frames":  func(d *tensor.Dict) { d.Set("env.replay.frames.front", tensor.New(tensor.U8, 2, 5, 7)) },
		"other stacks":  func(d *tensor.Dict) { d.Set("env.replay.stacks.front", tensor.New(tensor.I64, 2, 4, 2, 2)) },
		"below 0":       func(d *tensor.Dict) { d.Must("env.replay.stacks.side").I64()[0] = -1 },
		"above newest":  func(d *tensor.Dict) { d.Must("env.replay.stacks.side").I64()[2] = 1 << 40 },
		"only the obs.": func(d *tensor.Dict) { *d = withoutFrames(*d) },
	} {
		d := packed(r)
		cursor := d.Must("replay.cursor")
		spoil(&d)
		d.Set("replay.cursor", cursor)
		if err := test.Must(NewReplay(m.fields(1), m.stacks(), m.envs, capacity, tensor.Heap))(t).load(d); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// withoutFrames returns d with an observation in place of the rings of frames of front.
func withoutFrames(d tensor.Dict) (without tensor.Dict) {
	for i := range d.Len() {
		if name, x := d.Entry(i); name != "env.replay.frames.front" {
			without.Set(name, x)
		}
	}
	without.Set("env.replay.observation.front", tensor.New(tensor.U8, 2, 5, 3, 2, 3))
	return without
}

// TestReplayBytes: the memory of a Replay is as predicted. 50,000 transitions with stacks of 3 frames take at most 1.05
// frames each.
func TestReplayBytes(t *testing.T) {
	t.Parallel()
	for stack := 1; stack <= 3; stack++ {
		f := filmed{stack, 3}
		for _, stacks := range []Stacks{nil, f.stacks()} {
			allocated := 0
			_, err := NewReplay(f.fields(4), stacks, f.envs, 70, func(n int) ([]byte, error) {
				allocated = n
				return tensor.Heap(n)
			})
			test.OK(t, err)
			if got := ReplayBytes(f.fields(4), stacks, f.envs, 70); got != allocated {
				t.Errorf("%v: %d bytes, but %d are allocated", stacks, got, allocated)
			}
		}
	}
	const envs, transitions, frame = 8, 50_000, 84 * 84 * 3
	fields := append(transitionsOf(1), tensor.Field{Name: "observation.image", DType: tensor.U8,
		Shape: []int{1, envs, 3, 84, 84, 3}}, tensor.Field{Name: "next_observation.image", DType: tensor.U8,
		Shape: []int{1, envs, 3, 84, 84, 3}})
	got := ReplayBytes(fields, Stacks{"image": 3}, envs, transitions/envs)
	if frames := float64(got) / transitions / frame; frames > 1.05 || frames < 1 {
		t.Errorf("%.3f frames for each transition", frames)
	}
	if got := ReplayBytes(fields, Stacks{"image": 3}, envs, 1<<62); got != 1<<63-1 {
		t.Errorf("%d bytes, want the largest number", got)
	}
}

// transitionsOf returns the fields of rollouts without observations.
func transitionsOf(steps int) []tensor.Field { return transitions(1, steps, 8)[2:] }

// shown has observations.
type shown []env.Field

func (s shown) Spaces() ([]env.Field, env.Space) { return s, env.Space{} }

// TestStacksOf: images are stored as frames, and numbers are not, with and without FrameStack.
func TestStacksOf(t *testing.T) {
	t.Parallel()
	box := func(frames int, shape ...int) env.Field {
		return env.Field{Name: fmt.Sprint(frames, shape), Frames: frames,
			Space: env.Space{Kind: env.Box, DType: tensor.U8, Shape: shape}}
	}
	var p policy.Spaced = shown{box(0, 4), box(3, 3, 4), box(0, 8, 8), box(0, 8, 8, 3), box(0, 2, 8, 8, 3),
		box(3, 3, 8, 8), box(3, 3, 8, 8, 3), box(1, 1, 8, 8)}
	want := Stacks{"0 [8 8]": 1, "0 [8 8 3]": 1, "0 [2 8 8 3]": 1, "3 [3 8 8]": 3, "3 [3 8 8 3]": 3, "1 [1 8 8]": 1}
	if got := StacksOf(p); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestFramesAllocateNothing(t *testing.T) {
	m := newFilm(filmed{3, 2}, 10, false, 1)
	r := test.Must(NewReplay(m.fields(1), m.stacks(), m.envs, 8, tensor.Heap))(t)
	rollout, b, rows := m.rollout(4), r.NewBatch(4), make([]int32, 4)
	test.NoAllocs(t, 10, func() {
		test.OK(t, r.Add(rollout))
		test.OK(t, r.Gather(b, rows, 3, 0.9, false))
	})
}

// TestReplicasCountFrames: all replicas save rings of the same length, with room for the frames of any of them, and
// report the transitions that all of them can draw.
func TestReplicasCountFrames(t *testing.T) {
	t.Parallel()
	f := filmed{2, 2}
	team := NewTeam(2)
	all := make([]*offPolicy, len(team))
	var done sync.WaitGroup
	for i, mean := range []int{2, 1000} { // lengths of episodes
		all[i] = &offPolicy{replay: test.Must(NewReplay(f.fields(1), f.stacks(), f.envs, 15, tensor.Heap))(t),
			replicas: team[i], count: len(team)}
		rollout := newFilm(f, mean, false, 1).rollout(15)
		done.Go(func() { test.Check(t, all[i].Prepare(&rollout)) })
	}
	done.Wait()
	a, usedA := all[0].SaveInPlace()
	loaded := &offPolicy{replay: test.Must(NewReplay(f.fields(1), f.stacks(), f.envs, 15, tensor.Heap))(t)}
	test.OK(t, loaded.Load(a))
	if _, used := loaded.SaveInPlace(); fmt.Sprint(used) != fmt.Sprint(usedA) {
		t.Errorf("used %v after a load, want %v", used, usedA)
	}
	_, usedB := all[1].SaveInPlace()
	extra := all[0].replay.extra()
	if fmt.Sprint(usedA) != fmt.Sprint(usedB) || extra <= all[1].replay.extra() || all[0].held != all[1].held {
		t.Errorf("used %v and %v, %d and %d more frames than steps, held %v and %v", usedA, usedB, extra,
			all[1].replay.extra(), all[0].held, all[1].held)
	}
	if used := usedA["env.replay.frames.front"]; used < 15+extra && used != a.Must("env.replay.frames.front").Dim(1) {
		t.Errorf("%d frames are saved, want %d", used, 15+extra)
	}
	if got, want := all[0].held[0], float64(2*(all[0].replay.Size()+all[1].replay.Size())); got != want ||
		all[0].replay.Size() == 15 {
		t.Errorf("%v transitions, want %v, fewer than 60", got, want)
	}
}

// BenchmarkReplay measures rollouts of 100 steps that enter a buffer of 2,000 steps, and batches of 256, with stacks of
// 3 frames of 84 × 84 × 3: stored as frames, and stored whole.
func BenchmarkReplay(b *testing.B) {
	const steps, stack, frame = 100, 3, 84 * 84 * 3
	fields := []tensor.Field{
		{Name: "observation.image", DType: tensor.U8, Shape: []int{steps, 1, stack, 84, 84, 3}},
		{Name: "next_observation.image", DType: tensor.U8, Shape: []int{steps, 1, stack, 84, 84, 3}},
	}
	fields = append(fields, transitions(1, steps, 1)[2:]...)
	layout := tensor.NewLayout(fields...)
	rollout := layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())
	film := make([]byte, (steps+stack)*frame) // of one episode
	for i := range film {
		film[i] = byte(i * i >> 8)
	}
	for i, name := range []string{"observation.image", "next_observation.image"} {
		for t := range steps {
			copy(rollout.Must(name).At(t).Bytes(), film[(i+t)*frame:])
		}
	}
	rollout.Must("truncated").U8()[steps-1] = 1
	for name, stacks := range map[string]Stacks{"frames": {"image": stack}, "whole": nil} {
		r := test.Must(NewReplay(fields, stacks, 1, 20*steps, tensor.Heap))(b)
		for range 21 {
			test.OK(b, r.Add(rollout))
		}
		b.Run(name+"/add", func(b *testing.B) {
			for b.Loop() {
				test.OK(b, r.Add(rollout))
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*steps), "µs/step")
		})
		b.Run(name+"/gather", func(b *testing.B) {
			batch, rows, s := r.NewBatch(256), make([]int32, 256), philox.New(1, philox.Replay, 0, 0)
			r.Draw(rows, &s)
			for b.Loop() {
				test.OK(b, r.Gather(batch, rows, 1, 0.9, false))
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(rows)), "µs/transition")
		})
	}
}
