package play

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// The spaces of the fake environments: chunks of two actions, with a log-prob each.
var fakeSpec = env.Spec{
	Name: "fake",
	Obs: []env.Field{
		{Name: "state", Space: env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{2}}},
		{Name: "image", Space: env.Space{Kind: env.Box, DType: tensor.U8, Shape: []int{3}}},
	},
	Action: env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{2}, Low: []float32{-9, -9}, High: []float32{9, 9}},
}

const (
	fakeChunk    = 2
	fakeLogProbs = 2
)

// A fakePolicy returns actions and values that encode the row of the observation, and the noise.
type fakePolicy struct {
	policy.Policy // the rest is not used
	critic        bool
}

// fakeWork is overwritten in every call, so a test sees if results are used after the next call.
type fakeWork struct{ action, logProb, value tensor.Tensor }

func (p *fakePolicy) Spaces() ([]env.Field, env.Space) { return fakeSpec.Obs, fakeSpec.Action }

func (p *fakePolicy) NewWork(n int) policy.Work {
	return &fakeWork{tensor.New(tensor.F32, n, fakeChunk, 2), tensor.New(tensor.F32, n, fakeLogProbs),
		tensor.New(tensor.F32, n, 1)}
}

func (p *fakePolicy) Forward(wk policy.Work, obs tensor.Dict, mode policy.Mode, noise policy.Noise) (policy.Act,
	error) {
	w, n := wk.(*fakeWork), len(noise.Env)
	act := policy.Act{Action: w.action.Slice(0, n), LogProb: w.logProb.Slice(0, n)}
	for i := range n {
		for j := range 2 * fakeChunk {
			act.Action.F32()[i*2*fakeChunk+j] = fakeAction(noise, obs, i, j)
		}
		for j := range fakeLogProbs {
			act.LogProb.F32()[i*fakeLogProbs+j] = -fakeAction(noise, obs, i, j)
		}
	}
	if !p.critic {
		return act, nil
	}
	var err error
	act.Value, err = p.Value(w, obs)
	return act, err
}

func (p *fakePolicy) Value(wk policy.Work, obs tensor.Dict) (tensor.Tensor, error) {
	if !p.critic {
		return tensor.Tensor{}, fmt.Errorf("no critic")
	}
	w, n := wk.(*fakeWork), obs.Must("state").Dim(0)
	for i := range w.value.F32() {
		w.value.F32()[i] = float32(math.NaN())
	}
	for i := range n {
		v := fakeValue(obs, i)
		if v != v {
			return tensor.Tensor{}, fmt.Errorf("row %d was never observed", i)
		}
		w.value.F32()[i] = v
	}
	return w.value.Slice(0, n), nil
}

// fakeValue is the value of row i of obs.
func fakeValue(obs tensor.Dict, i int) float32 {
	x := obs.Must("state").F32()[2*i:]
	return 3*x[0] - x[1] + float32(obs.Must("image").U8()[3*i+2])
}

// fakeAction is element j of the action on row i of obs.
func fakeAction(noise policy.Noise, obs tensor.Dict, i, j int) float32 {
	return float32(noise.Seed+100*noise.Env[i]+noise.Step[i]) + fakeValue(obs, i) + float32(j)/8
}

// A script has the observations and results of n environments over some epochs.
type script struct {
	n, epochs, steps int
	auto             bool          // environments reset themselves
	shown            []tensor.Dict // observations on which the policy acts at time t
	returned         []*env.Step   // results of these actions
}

// newScript makes a random script. Rows of a final observation that must not be read are NaN.
func newScript(seed uint64, n, epochs, steps int, auto bool) *script {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &script{n: n, epochs: epochs, steps: steps, auto: auto}
	show := func(d tensor.Dict, i int) {
		for k := range 2 {
			d.Must("state").F32()[2*i+k] = float32(r.NormFloat64())
		}
		for k := range 3 {
			d.Must("image").U8()[3*i+k] = byte(r.Uint32())
		}
	}
	now := fakeSpec.NewStep(n, fakeChunk).Obs
	over := make([]int, n) // flags of an episode that has ended and idles: 1 terminated, 2 truncated
	for t := range epochs * steps {
		if t == 0 || t%steps == 0 && !auto {
			now = fakeSpec.NewStep(n, fakeChunk).Obs
			for i := range n {
				over[i] = 0
				show(now, i)
			}
		}
		out := fakeSpec.NewStep(n, fakeChunk)
		for i := range n {
			copy(out.FinalObs.Must("state").F32()[2*i:2*i+2], []float32{float32(math.NaN()), 0})
			flags, at := over[i], 0
			if flags == 0 {
				if flags = []int{0, 0, 0, 0, 0, 1, 2, 3}[r.IntN(8)]; flags != 0 {
					at = r.IntN(fakeChunk)
				}
				show(out.Obs, i)
				if auto && flags != 0 {
					show(out.FinalObs, i)
				}
				for k := range fakeChunk {
					if flags == 0 || k <= at {
						out.Reward.F32()[i*fakeChunk+k] = float32(r.NormFloat64())
					}
				}
			} else { // idle
				for f := range now.Len() {
					name, from := now.Entry(f)
					copy(out.Obs.Must(name).At(i).Bytes(), from.At(i).Bytes())
				}
			}
			out.Terminated.U8()[i*fakeChunk+at] = byte(flags & 1)
			out.Truncated.U8()[i*fakeChunk+at] = byte(flags >> 1)
			if !auto {
				over[i] = flags
			}
		}
		s.shown, s.returned = append(s.shown, now), append(s.returned, out)
		now = out.Obs
	}
	return s
}

// play records s in trajectories cut at the given rows.
func (s *script) play(rec *RolloutBuilder, dicts []tensor.Dict, step uint64) error {
	rec.Begin(dicts, step)
	return s.playOn(rec)
}

func (s *script) playOn(rec *RolloutBuilder) error {
	rec.Idles = !s.auto
	for t := range s.epochs * s.steps {
		if _, err := rec.Act(t, s.shown[t], t%s.steps == 0); err != nil {
			return fmt.Errorf("act at %d: %w", t, err)
		}
		if err := rec.Observe(t, s.returned[t]); err != nil {
			return fmt.Errorf("observe at %d: %w", t, err)
		}
		if (t+1)%s.steps == 0 {
			if err := rec.Finish(t, s.returned[t].Obs, !s.auto); err != nil {
				return fmt.Errorf("finish at %d: %w", t, err)
			}
		}
	}
	return nil
}

// trajectories returns memory for s, cut at the given rows. The memory is not zero.
func (s *script) trajectories(cuts []int) []tensor.Dict {
	var dicts []tensor.Dict
	for i := 1; i < len(cuts); i++ {
		layout := tensor.NewLayout(TrajectoryFields(fakeSpec, fakeChunk, fakeLogProbs, 1, 0, 0, s.epochs*s.steps,
			cuts[i]-cuts[i-1], !s.auto)...)
		mem := tensor.New(tensor.U8, layout.Size()).Bytes()
		for i := range mem {
			mem[i] = 0xff
		}
		dicts = append(dicts, layout.Bind(mem))
	}
	return dicts
}

// scripts are the scripts for all tests of the rollout builder.
func scripts(t *testing.T, f func(t *testing.T, s *script)) {
	for _, auto := range []bool{true, false} {
		for _, epochs := range []int{1, 2} {
			for _, n := range []int{1, 7} {
				t.Run(fmt.Sprintf("auto_reset %v, %d epochs, %d environments", auto, epochs, n), func(t *testing.T) {
					for seed := range uint64(20) {
						f(t, newScript(seed, n, epochs, 9, auto))
					}
				})
			}
		}
	}
}

// The trajectories have the observations, actions and rewards of the steps, and the values that GAE needs.
func TestRecorder(t *testing.T) {
	for _, always := range []bool{false, true} {
		scripts(t, func(t *testing.T, s *script) {
			const seed, first, step = 5, 40, 1000
			rec := NewRolloutBuilder(&fakePolicy{critic: true}, seed, first, s.n, []int{0, s.n}, always)
			d := s.trajectories([]int{0, s.n})[0]
			test.OK(t, s.play(rec, []tensor.Dict{d}, step))
			for e := range s.n {
				over := false // the environment idles, because auto_reset is off
				for at := range s.epochs * s.steps {
					if at%s.steps == 0 {
						over = false
					}
					over = checkStep(t, s, d, at, e, policy.Noise{Seed: seed, Env: []uint64{first + uint64(e)},
						Step: []uint64{step + uint64(at)}}, always, over)
				}
			}
		})
	}
}

// checkStep compares time t of environment e, and reports whether the environment idles after it.
func checkStep(t *testing.T, s *script, d tensor.Dict, at, e int, noise policy.Noise, always, over bool) bool {
	t.Helper()
	i := at*s.n + e
	shown, out := s.shown[at], s.returned[at]
	for _, name := range []string{"state", "image"} {
		if got, want := d.Must("observation."+name).At(at).At(e).Bytes(),
			shown.Must(name).At(e).Bytes(); !bytes.Equal(got, want) {
			t.Errorf("step %d, environment %d: observation.%s is %v, want %v", at, e, name, got, want)
		}
	}
	row := func(name string) []float32 { return d.Must(name).At(at).At(e).F32() }
	for j, got := range row("action") {
		if want := fakeAction(policy.Noise{Seed: noise.Seed, Env: spread(noise.Env[0], e),
			Step: spread(noise.Step[0], e)}, shown, e, j); got != want {
			t.Errorf("step %d, environment %d: action %d is %v, want %v", at, e, j, got, want)
		}
	}
	if a, lp := row("action"), row("sample_log_prob"); lp[0] != -a[0] || lp[1] != -a[1] {
		t.Errorf("step %d, environment %d: log-probs %v of the actions %v", at, e, lp, a)
	}
	if got, want := row("value")[0], fakeValue(shown, e); got != want {
		t.Errorf("step %d, environment %d: value %v, want %v", at, e, got, want)
	}
	k := e * fakeChunk
	if got, want := d.Must("reward").F32()[i], out.Reward.F32()[k]+out.Reward.F32()[k+1]; got != want {
		t.Errorf("step %d, environment %d: reward %v, want %v", at, e, got, want)
	}

	terminated, truncated := out.Terminated.U8()[k]|out.Terminated.U8()[k+1],
		out.Truncated.U8()[k]|out.Truncated.U8()[k+1]
	ended, cut := terminated|truncated != 0, !s.auto && (at+1)%s.steps == 0
	after, idle := out.Obs, over
	if ended && s.auto {
		after = out.FinalObs
	}
	if cut && terminated == 0 {
		truncated = 1
	}
	test.Equal(t, d.Must("terminated").U8()[i], terminated, "step %d, environment %d: terminated", at, e)
	test.Equal(t, d.Must("truncated").U8()[i], truncated, "step %d, environment %d: truncated", at, e)
	next := d.Must("next_value").F32()[i]
	if needed := terminated == 0 || truncated != 0 || always; needed && !idle && next != fakeValue(after, e) {
		t.Errorf("step %d, environment %d (terminated %d, truncated %d): next value %v, want %v", at, e, terminated,
			truncated, next, fakeValue(after, e))
	}
	if next-next != 0 || idle && next != 0 {
		t.Errorf("step %d, environment %d, idle %v: next value %v", at, e, idle, next)
	}
	if mask, ok := d.Get("mask"); ok == s.auto {
		t.Errorf("mask: %v, with auto_reset %v", ok, s.auto)
	} else if ok && (mask.U8()[i] == 0) != idle {
		t.Errorf("step %d, environment %d: mask %d, idle %v", at, e, mask.U8()[i], idle)
	}
	return over || ended && !s.auto
}

// spread returns a slice whose element i is v.
func spread(v uint64, i int) []uint64 { return slices.Repeat([]uint64{v}, i+1) }

// If the rows of a route go to several actors, each actor gets its rows of the whole.
func TestRecorderPartsAreColumnsOfTheWhole(t *testing.T) {
	scripts(t, func(t *testing.T, s *script) {
		whole := s.trajectories([]int{0, s.n})
		test.OK(t, s.play(NewRolloutBuilder(&fakePolicy{critic: true}, 5, 40, s.n, []int{0, s.n}, true), whole,
			3))
		cuts := []int{0, 3, 4, 7}
		if s.n == 1 {
			cuts = []int{0, 1}
		}
		parts := s.trajectories(cuts)
		test.OK(t, s.play(NewRolloutBuilder(&fakePolicy{critic: true}, 5, 40, s.n, cuts, true), parts, 3))
		for f := range whole[0].Len() {
			name, w := whole[0].Entry(f)
			if name == "advantage" || name == "return" {
				continue
			}
			for i, d := range parts {
				for at := range w.Dim(0) {
					if got, want := d.Must(name).At(at), w.At(at).Slice(cuts[i], cuts[i+1]); !bytes.Equal(got.Bytes(),
						want.Bytes()) {
						t.Errorf("rows %d-%d of %s differ at step %d", cuts[i], cuts[i+1]-1, name, at)
					}
				}
			}
		}
	})
}

// Without a critic the recorded values are 0.
func TestRecorderWithoutCritic(t *testing.T) {
	scripts(t, func(t *testing.T, s *script) {
		d := s.trajectories([]int{0, s.n})
		test.OK(t, s.play(NewRolloutBuilder(&fakePolicy{}, 5, 0, s.n, []int{0, s.n}, false), d, 0))
		for _, name := range []string{"value", "next_value"} {
			for i, v := range d[0].Must(name).F32() {
				if v != 0 {
					t.Fatalf("element %d of %s is %v, want 0", i, name, v)
				}
			}
		}
	})
}

// TestRecorderLostEpisode: the mask excludes all steps of an episode that its simulator has lost, and no other steps.
func TestRecorderLostEpisode(t *testing.T) {
	s := newScript(3, 2, 1, 6, true)
	for _, step := range s.returned {
		step.Terminated.Zero()
		step.Truncated.Zero()
		step.FinalObs.CopyFrom(step.Obs)
	}
	s.returned[1].Terminated.U8()[0] = 1 // environment 0: an episode of 2 steps,
	s.returned[4].Truncated.U8()[0] = 1  // one of 3 that is aborted, and the next
	s.returned[4].Status.U8()[0] = env.Aborted
	layout := tensor.NewLayout(TrajectoryFields(fakeSpec, fakeChunk, fakeLogProbs, 1, 0, 0, 6, 2, true)...)
	d := layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())
	test.OK(t, s.play(NewRolloutBuilder(&fakePolicy{critic: true}, 5, 0, 2, []int{0, 2}, false), []tensor.Dict{d},
		0))
	if got, want := d.Must("mask").U8(), []byte{1, 1, 1, 1, 0, 1, 0, 1, 0, 1, 1, 1}; !bytes.Equal(got, want) {
		t.Errorf("mask %v, want %v", got, want)
	}
	if got := d.Must("truncated").U8()[2*4]; got != 1 {
		t.Errorf("truncated %d at the end of the lost episode, want 1", got)
	}
	layout = tensor.NewLayout(TransitionFields(fakeSpec, fakeChunk, 6, 2, true)...)
	d = layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())
	test.OK(t, s.play(NewRolloutBuilder(&fakePolicy{critic: true}, 5, 0, 2, []int{0, 2}, false), []tensor.Dict{d},
		0))
	want := make([]byte, 12)
	want[2*4] = env.Aborted
	if got := d.Must("status").U8(); !bytes.Equal(got, want) {
		t.Errorf("status in transitions %v, want %v", got, want)
	}
}

func TestRecorderDoesNotAllocate(t *testing.T) {
	for _, auto := range []bool{true, false} {
		s := newScript(3, 7, 2, 50, auto)
		rec := NewRolloutBuilder(&fakePolicy{critic: true}, 5, 0, s.n, []int{0, 2, s.n}, true)
		rec.Begin(s.trajectories([]int{0, 2, s.n}), 0)
		test.NoAllocs(t, 10, func() {
			if err := s.playOn(rec); err != nil {
				t.Error(err)
			}
		}, "auto_reset %v", auto)
	}
}
