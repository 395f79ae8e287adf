// Package envtest tests whether a Vec meets the contract of package env.
//
//	envtest.Run(t, func(n int) (env.Vec, error) { return NewMine(cfg, n) }, envtest.Options{})
//
// Keep the episodes short, for example with a time limit: several of them must end during the tests.
package envtest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// Options are permitted deviations from the contract.
type Options struct {
	// If ChunkFrames is true, observations may depend on how steps are grouped in chunks, as with stacked frames.
	ChunkFrames bool
}

const (
	envs  = 5
	steps = 120
)

// Run tests the Vecs that newVec makes for n environments.
func Run(t *testing.T, newVec func(n int) (env.Vec, error), opt Options) {
	s := suite{make: newVec, opt: opt}
	t.Run("spec", s.spec)
	t.Run("seeds", s.seeds)
	t.Run("rows", s.rows)
	t.Run("auto reset", s.autoReset)
	t.Run("done", s.done)
	t.Run("limit", s.limit)
	t.Run("goals", s.goals)
	t.Run("chunks", s.chunks)
	t.Run("save", s.save)
	t.Run("bad input", s.badInput)
	t.Run("allocations", s.allocations)
}

type suite struct {
	make func(n int) (env.Vec, error)
	opt  Options
}

// spec tests that the Spec is complete.
func (s suite) spec(t *testing.T) {
	r := s.open(t, 2, 1)
	spec := r.spec
	if spec.Name == "" || len(spec.Obs) == 0 || r.vec.Len() != 2 {
		t.Errorf("name %q, %d observations, Len %d of 2", spec.Name, len(spec.Obs), r.vec.Len())
	}
	for _, f := range spec.Obs {
		checkSpace(t, f.Name, f.Space)
	}
	checkSpace(t, "action", spec.Action)
}

func checkSpace(t *testing.T, name string, space env.Space) {
	t.Helper()
	switch space.Kind {
	case env.Box:
		if len(space.Low) != space.Dim() || len(space.High) != space.Dim() {
			t.Errorf("%s: %d and %d bounds, want %d", name, len(space.Low), len(space.High), space.Dim())
			return
		}
		for i := range space.Low {
			if !(space.Low[i] <= space.High[i]) {
				t.Errorf("%s[%d]: bounds %v, %v", name, i, space.Low[i], space.High[i])
			}
		}
	case env.Discrete, env.MultiDiscrete:
		if space.DType != tensor.I32 || len(space.Nvec) != space.Dim() {
			t.Errorf("%s: %v, %d choices, want I32, %d", name, space.DType, len(space.Nvec), space.Dim())
		}
	default:
		t.Errorf("%s: kind %d", name, space.Kind)
	}
}

// seeds tests that equal seeds give equal states in all environments, and that Reset changes only environments in the
// mask.
func (s suite) seeds(t *testing.T) {
	a, b := s.open(t, envs, 1), s.open(t, envs, 1)
	same := []uint64{7, 8, 7, 9, 7}
	a.reset(nil, same)
	b.reset(nil, same)
	a.equal("equal seeds", a.obs(), b.obs())
	for n, seed := range same {
		if equal := bytes.Equal(row(a.obs(), n), row(a.obs(), 0)); equal != (seed == 7) {
			t.Errorf("environments 0 and %d with seeds 7 and %d: equal observations: %v", n, seed, equal)
		}
	}
	before := clone(a.obs())
	for _, o := range a.obs() {
		for i := range o.Bytes() {
			o.Bytes()[i] = 0x5A
		}
	}
	kept := clone(a.obs())
	a.reset([]bool{false, true, false, true, false}, []uint64{0, 7, 0, 8, 0})
	for n, want := range [][]byte{row(kept, 0), row(before, 0), row(kept, 2), row(before, 1), row(kept, 4)} {
		if !bytes.Equal(row(a.obs(), n), want) {
			t.Errorf("masked reset: Obs of environment %d is not what its seed says, or not kept", n)
		}
	}
}

// rows tests that an environment behaves the same in a Vec of 1 and in a Vec of several environments.
func (s suite) rows(t *testing.T) {
	all := s.open(t, envs, 1)
	all.resetAll()
	var alone [envs]*rollout
	for n := range alone {
		alone[n] = s.open(t, 1, 1)
		alone[n].first = n
		alone[n].resetAll()
	}
	for k := range steps {
		all.step(k, true)
		for n, r := range alone {
			r.step(k, true)
			all.equalRow("alone and among others", n, r, 0)
		}
	}
	all.wantEnds()
}

// autoReset tests that two ways to begin the next episodes give equal results. One is a step with seeds. The other is a
// step without seeds, followed by a Reset of the environments whose episode ended.
func (s suite) autoReset(t *testing.T) {
	auto, manual := s.open(t, envs, 1), s.open(t, envs, 1)
	auto.resetAll()
	manual.resetAll()
	for k := range steps {
		kept := clone(finals(auto.out.FinalObs))
		auto.step(k, true)
		manual.step(k, false)
		auto.equalOutcome("with and without seeds", manual)
		for n, ended := range auto.ended {
			want := kept
			if ended {
				want = finals(manual.out.Obs)
			}
			if !bytes.Equal(row(finals(auto.out.FinalObs), n), row(want, n)) {
				t.Fatalf("step %d: FinalObs of environment %d, whose episode ended: %v", k, n, ended)
			}
		}
		manual.reset(manual.ended, manual.seeds())
		auto.equal("Obs after the reset", auto.obs(), manual.obs())
	}
	auto.wantEnds()
}

// done tests that an environment whose episode ended does not change in steps without seeds.
func (s suite) done(t *testing.T) {
	r := s.open(t, envs, 1)
	r.resetAll()
	for k := range steps {
		before, over := clone(r.obs()), slices.Clone(r.over)
		flags := clone([]tensor.Tensor{r.out.Terminated, r.out.Truncated})
		said := r.last()
		r.step(k, false)
		for n, info := range r.last() {
			if over[n] && !slices.Equal(info, said[n]) {
				t.Fatalf("step %d: environment %d is done, and its Info is %v, expected still %v", k, n, info, said[n])
			}
			still := bytes.Equal(row(r.obs(), n), row(before, n)) && r.out.Reward.F32()[n] == 0 &&
				bytes.Equal(row([]tensor.Tensor{r.out.Terminated, r.out.Truncated}, n), row(flags, n))
			if over[n] && !still {
				t.Fatalf("step %d: environment %d is done, but it moved, had a reward or other flags", k, n)
			}
		}
	}
	r.wantEnds()
}

// last returns, for each environment, the Info of its last step without TaskReward.
func (r *rollout) last() [][]float32 {
	last, width := make([][]float32, r.vec.Len()), len(r.spec.Info)
	for n := range last {
		info := r.out.InfoOf(n)
		last[n] = slices.Clone(info[len(info)-min(width, len(info)):])
		if i := r.spec.InfoIndex(env.TaskReward); i >= 0 && len(info) > 0 {
			last[n][i] = 0
		}
	}
	return last
}

// limit tests that every episode ends after at most MaxSteps, and is truncated only then.
func (s suite) limit(t *testing.T) {
	r := s.open(t, envs, 1)
	if r.spec.MaxSteps == 0 {
		t.Skip("no time limit")
	}
	r.resetAll()
	var length [envs]int
	for k := range steps {
		r.step(k, true)
		for n := range length {
			length[n]++
			truncated, last := r.out.Truncated.U8()[n] != 0, length[n] == r.spec.MaxSteps
			if truncated && !last || last && !r.ended[n] {
				t.Fatalf("step %d: environment %d after %d of %d steps: truncated %v, ended %v", k, n, length[n],
					r.spec.MaxSteps, truncated, r.ended[n])
			}
			if r.ended[n] {
				length[n] = 0
			}
		}
	}
}

// goals tests environments with goals. The rewards and terminations of a step must be those that the goal's rule gives
// for the goals after the step. goals tests only the rules of package env.
func (s suite) goals(t *testing.T) {
	r := s.open(t, envs, 1)
	goal := r.spec.Goal
	if goal == nil {
		return
	}
	if err := r.spec.CheckGoal(); err != nil {
		t.Fatal(err)
	}
	rule, err := env.NewRegistry().GoalRule(*goal)
	if err != nil {
		return
	}
	r.resetAll()
	for k := range steps {
		r.step(k, true)
		for n, ended := range r.ended {
			after := r.out.Obs
			if ended {
				after = r.out.FinalObs
			}
			reward, reached := rule(after.Must(env.AchievedGoal).At(n).F32(), after.Must(env.DesiredGoal).At(n).F32())
			got, terminated := r.out.Reward.F32()[n], r.out.Terminated.U8()[n] != 0
			if got != reward || reached && terminated != goal.Terminates {
				t.Fatalf("step %d: environment %d reached its goal: %v; reward %v, terminated %v, expected %v and %v",
					k, n, reached, got, terminated, reward, reached && goal.Terminates)
			}
		}
	}
}

// chunks tests that a Step with several or repeated actions gives the same results and the same Episodes as single
// steps.
func (s suite) chunks(t *testing.T) {
	for _, c := range []struct{ actions, times int }{{3, 1}, {10, 1}, {1, 3}, {2, 3}} {
		t.Run(fmt.Sprintf("%d of %d", c.actions, c.times), func(t *testing.T) { s.chunk(t, c.actions, c.times) })
	}
}

func (s suite) chunk(t *testing.T, chunk, times int) {
	repeating := s
	if times > 1 {
		repeating.make = func(n int) (env.Vec, error) {
			v, err := s.make(n)
			if err != nil {
				return nil, err
			}
			return env.NewActionRepeat(v, times), nil
		}
	}
	r, single := repeating.open(t, envs, chunk), s.open(t, envs, 1)
	single.times = times
	r.resetAll()
	single.resetAll()
	got, want := env.NewEpisodes(r.spec, 0, envs, true), env.NewEpisodes(single.spec, 0, envs, false)
	for k := range steps / (chunk * times) {
		r.step(k, true)
		got.Observe(r.out)
		sum := sums{reward: make([]float64, envs*chunk), flags: make([][2]byte, envs*chunk),
			info: make([][]float32, envs), ended: make([]bool, envs)}
		for j := range chunk * times {
			single.step(k*chunk*times+j, false)
			want.Observe(single.out)
			sum.add(single.out, chunk, j/times)
		}
		r.equalSums(k, sum)
		if !s.opt.ChunkFrames {
			for n, ended := range sum.ended {
				if ended && !bytes.Equal(row(finals(r.out.FinalObs), n), row(finals(single.out.Obs), n)) {
					t.Fatalf("step %d: FinalObs of environment %d", k, n)
				}
			}
		}
		single.reset(sum.ended, single.seeds())
		want.Started(sum.ended)
		if !s.opt.ChunkFrames {
			r.equal("after a chunk", r.obs(), single.obs())
		}
	}
	equalEpisodes(t, got.Take(), want.Take(), times == 1)
}

// sums are the results that a chunk of repeated actions must report. They are added up from single steps.
type sums struct {
	reward []float64   // [N,K]
	flags  [][2]byte   // [N,K]: Terminated and Truncated
	info   [][]float32 // [N]: the rows of Info until the end of the episode
	ended  []bool      // [N]: the episode has ended
}

// add adds the results of a single step to action k of the chunk. It skips environments whose episode has ended.
func (s *sums) add(single *env.Step, chunk, k int) {
	for n := range s.ended {
		if s.ended[n] {
			continue
		}
		i := n*chunk + k
		s.reward[i] += float64(single.Reward.F32()[n])
		s.flags[i] = [2]byte{single.Terminated.U8()[n], single.Truncated.U8()[n]}
		s.info[n] = append(s.info[n], single.InfoOf(n)...)
		_, s.ended[n] = single.Took(n)
	}
}

// equalSums compares the results of chunk k with want, the sums of single steps.
func (r *rollout) equalSums(k int, want sums) {
	r.t.Helper()
	for i := range want.reward {
		n, at := i/r.chunk, i%r.chunk
		if got, want := r.out.Reward.F32()[i], float32(want.reward[i]); got != want {
			r.t.Fatalf("step %d: environment %d: reward %d is %v, want %v", k, n, at, got, want)
		}
		if got := [2]byte{r.out.Terminated.U8()[i], r.out.Truncated.U8()[i]}; got != want.flags[i] {
			r.t.Fatalf("step %d: environment %d: flags %d are %v, want %v", k, n, at, got, want.flags[i])
		}
	}
	width := r.chunk * r.spec.Repeats() * len(r.spec.Info)
	for n, info := range want.info {
		if got := r.out.InfoOf(n); !slices.Equal(got, info) {
			r.t.Fatalf("step %d: Info of environment %d is %v, want %v", k, n, got, info)
		}
		rest := r.out.Info.F32()[n*width : (n+1)*width][len(info):]
		if slices.ContainsFunc(rest, func(x float32) bool { return x != 0 }) {
			r.t.Fatalf("step %d: environment %d has Info behind its end: %v", k, n, rest)
		}
	}
}

// equalEpisodes compares episodes. It compares Len only if lengths is true, because Len does not
// count repetitions of an action.
func equalEpisodes(t *testing.T, got, want []env.Episode, lengths bool) {
	t.Helper()
	if len(got) == 0 || len(got) != len(want) {
		t.Fatalf("%d episodes ended, of single steps %d", len(got), len(want))
	}
	byEnv := func(a, b env.Episode) int { return cmp.Compare(a.Env, b.Env) }
	slices.SortStableFunc(got, byEnv)
	slices.SortStableFunc(want, byEnv)
	for i, g := range got {
		w := want[i]
		if math.Abs(g.Return-w.Return) > 1e-5*(1+math.Abs(w.Return)) { // float32 sums of an action's rewards
			t.Errorf("return of environment %d is %v, want %v", g.Env, g.Return, w.Return)
		}
		if w.Return = g.Return; !lengths {
			w.Len = g.Len
		}
		if !reflect.DeepEqual(g, w) {
			t.Errorf("episode %+v, want %+v", g, w)
		}
	}
}

// save loads the state of a Vec, or rows of this state, into other Vecs. The other Vecs must continue like the saved
// one. save also tests that the saved state is a copy.
func (s suite) save(t *testing.T) {
	r := s.open(t, envs, 1)
	r.resetAll()
	k := 0
	for ; k < steps/2; k++ {
		r.step(k, k%8 != 0) // some episodes stay ended
	}
	state, err := env.Save(r.vec)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	again, whole, part := s.open(t, envs, 1), s.open(t, envs, 1), s.open(t, 2, 1)
	again.follow(r, 0)
	whole.follow(r, 0)
	part.follow(r, 2)
	if err := env.Load(part.vec, state); err == nil {
		t.Error("2 environments loaded the state of 5")
	}
	for range 3 { // must not change the saved state
		r.step(k, true)
		k++
	}
	for _, load := range []struct {
		into  *rollout
		state tensor.Dict
	}{{again, state}, {whole, state}, {part, state.Slice(2, 4)}} {
		if err := env.Load(load.into.vec, load.state); err != nil {
			t.Fatal(err)
		}
	}
	for k = steps / 2; k < steps; k++ {
		again.step(k, true)
		whole.step(k, true)
		part.step(k, true)
		again.equal("loaded twice", again.obs(), whole.obs())
		for n := range 2 {
			whole.equalRow("loaded rows", n+2, part, n)
		}
		if k == steps/2+2 {
			whole.equal("saved and gone on", whole.obs(), r.obs())
			whole.equalOutcome("saved and gone on", r)
		}
	}
}

// badInput tests that a step with an invalid action returns an error that names the environment, and changes nothing.
func (s suite) badInput(t *testing.T) {
	r, untouched := s.open(t, envs, 1), s.open(t, envs, 1)
	r.act(0)
	if err := r.vec.Step(r.action, nil, r.out); err == nil {
		t.Error("a step before the first reset gave no error")
	}
	r.resetAll()
	untouched.resetAll()
	r.step(0, true)
	untouched.step(0, true)
	a := r.action.Must("action")
	at := 3 * r.spec.Action.Dim()
	switch a.DType() {
	case tensor.F32:
		good := a.F32()[at]
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
			a.F32()[at] = bad
			r.wantError("3")
		}
		a.F32()[at] = good
	case tensor.I32:
		good := a.I32()[at]
		for _, bad := range []int32{-1, int32(r.spec.Action.Nvec[0])} {
			a.I32()[at] = bad
			r.wantError("3")
		}
		a.I32()[at] = good
	}
	if err := r.vec.Step(tensor.Dict{}, r.seeds(), r.out); err == nil {
		t.Error("a step without an action gave no error")
	}
	if err := r.vec.Step(r.action, []uint64{1}, r.out); err == nil {
		t.Error("a step with one seed for five environments gave no error")
	}
	narrow := r.spec.NewStep(envs-1, 1)
	if err := r.vec.Step(r.action, r.seeds(), narrow); err == nil {
		t.Error("a step into buffers for fewer environments gave no error")
	}
	if err := r.vec.Reset(nil, r.seeds(), narrow); err == nil {
		t.Error("a reset into buffers for fewer environments gave no error")
	}
	r.step(1, true)
	untouched.step(1, true)
	r.equal("after bad input", r.obs(), untouched.obs())
	r.equalOutcome("after bad input", untouched)
}

func (r *rollout) wantError(naming string) {
	r.t.Helper()
	err := r.vec.Step(r.action, r.seeds(), r.out)
	if err == nil || !strings.Contains(err.Error(), naming) {
		r.t.Errorf("bad action of environment %s: error %v", naming, err)
	}
}

// allocations tests that a step allocates nothing, even if environments reset themselves.
func (s suite) allocations(t *testing.T) {
	for _, chunk := range []int{1, 2} {
		r := s.open(t, envs, chunk)
		r.resetAll()
		r.step(0, true)
		seeds := r.seeds()
		if n := testing.AllocsPerRun(steps, func() {
			if err := r.vec.Step(r.action, seeds, r.out); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v allocations per step with chunks of %d", n, chunk)
		}
	}
}

// A rollout steps a Vec with actions and seeds that depend only on the environment and the number of the step.
type rollout struct {
	t       *testing.T
	vec     env.Vec
	spec    env.Spec
	first   int // environment n gets the actions and seeds of environment first+n
	chunk   int
	times   int // number of steps that each drawn action lasts
	action  tensor.Dict
	out     *env.Step
	guards  [][]byte
	episode []uint64 // number of each environment's next episode
	over    []bool   // the environment's episode has ended, and the environment was not reset since
	ended   []bool   // the environment's episode ended in the last step
	ends    int      // number of ended episodes
}

func (s suite) open(t *testing.T, n, chunk int) *rollout {
	t.Helper()
	vec, err := s.make(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := vec.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &rollout{t: t, vec: vec, spec: vec.Spec(), chunk: chunk, times: 1, episode: make([]uint64, n),
		over: make([]bool, n), ended: make([]bool, n)}
	r.action.Set("action", tensor.New(r.spec.Action.DType, n, chunk, r.spec.Action.Dim()))
	r.out = r.spec.NewStep(n, chunk)
	for _, d := range []tensor.Dict{r.out.Obs, r.out.FinalObs} {
		for i := range d.Len() {
			name, t := d.Entry(i)
			d.Set(name, r.guard(t))
		}
	}
	r.out.Reward, r.out.Terminated, r.out.Truncated = r.guard(r.out.Reward), r.guard(r.out.Terminated),
		r.guard(r.out.Truncated)
	r.out.Status = r.guard(r.out.Status)
	if len(r.spec.Info) > 0 {
		r.out.Info = r.guard(r.out.Info)
	}
	if r.spec.Repeats() > 1 {
		r.out.Steps = r.guard(r.out.Steps)
	}
	return r
}

// guard returns a tensor like t, with a guard area before and after its memory. The method checkGuards reports writes
// to these areas.
func (r *rollout) guard(t tensor.Tensor) tensor.Tensor {
	const strip, fill = tensor.Align, 0xA5
	size := t.Len() * t.DType().Size()
	mem := tensor.New(tensor.U8, size+2*strip).Bytes()
	for _, g := range [][]byte{mem[:strip], mem[strip+size:]} {
		for i := range g {
			g[i] = fill
		}
		r.guards = append(r.guards, g)
	}
	return tensor.Of(mem[strip:strip+size], t.DType(), t.Shape()...)
}

func (r *rollout) checkGuards() {
	r.t.Helper()
	for _, g := range r.guards {
		for _, b := range g {
			if b != 0xA5 {
				r.t.Fatal("wrote outside the buffers")
			}
		}
	}
}

// follow makes environment n of r continue like environment offset+n of source.
func (r *rollout) follow(source *rollout, offset int) {
	r.first = source.first + offset
	copy(r.episode, source.episode[offset:])
	copy(r.over, source.over[offset:])
}

func (r *rollout) seeds() []uint64 {
	seeds := make([]uint64, len(r.episode))
	for n, e := range r.episode {
		seeds[n] = uint64(r.first+n)<<32 | e
	}
	return seeds
}

func (r *rollout) reset(mask []bool, seeds []uint64) {
	r.t.Helper()
	if err := r.vec.Reset(mask, seeds, r.out); err != nil {
		r.t.Fatal(err)
	}
	r.checkGuards()
	for n := range r.episode {
		if mask == nil || mask[n] {
			r.episode[n]++
			r.over[n] = false
		}
	}
}

func (r *rollout) resetAll() { r.t.Helper(); r.reset(nil, r.seeds()) }

// act draws the actions of call k of Step, for the steps k·chunk to (k+1)·chunk-1.
func (r *rollout) act(k int) {
	a, dim := r.action.Must("action"), r.spec.Action.Dim()
	for n := range r.vec.Len() {
		for j := range r.chunk {
			s := philox.New(1, philox.Action, uint64(r.first+n), uint64((k*r.chunk+j)/r.times))
			for i := range dim {
				at := (n*r.chunk+j)*dim + i
				if a.DType() == tensor.I32 {
					a.I32()[at] = int32(s.IntN(r.spec.Action.Nvec[i]))
				} else {
					lo, hi := max(r.spec.Action.Low[i], -10), min(r.spec.Action.High[i], 10)
					a.F32()[at] = float32(1.2 * s.Uniform(float64(lo), float64(hi))) // some are out of bounds
				}
			}
		}
	}
}

func (r *rollout) step(k int, auto bool) {
	r.t.Helper()
	r.act(k)
	var seeds []uint64
	if auto {
		seeds = r.seeds()
	}
	if err := r.vec.Step(r.action, seeds, r.out); err != nil {
		r.t.Fatal(err)
	}
	r.checkGuards()
	for n := range r.ended {
		_, ended := r.out.Took(n)
		r.ended[n] = ended && !r.over[n]
		if r.ended[n] {
			r.ends++
			r.over[n] = !auto
			if auto {
				r.episode[n]++
			}
		}
	}
	for _, t := range append(r.obs(), r.out.Reward) {
		if t.DType() == tensor.F32 {
			for i, x := range t.F32() {
				if x-x != 0 {
					r.t.Fatalf("step %d: element %d of %v is %v", k, i, t, x)
				}
			}
		}
	}
}

func (r *rollout) wantEnds() {
	r.t.Helper()
	if r.ends < 2 {
		r.t.Errorf("%d episodes ended in %d steps of %d environments: too few to check their ends", r.ends, steps, envs)
	}
}

func (r *rollout) obs() []tensor.Tensor { return dictOf(r.out.Obs) }

func (r *rollout) outcome() []tensor.Tensor {
	ts := []tensor.Tensor{r.out.Reward, r.out.Terminated, r.out.Truncated, r.out.Status}
	if len(r.spec.Info) > 0 {
		ts = append(ts, r.out.Info)
	}
	if r.spec.Repeats() > 1 {
		ts = append(ts, r.out.Steps)
	}
	return ts
}

func (r *rollout) equal(what string, got, want []tensor.Tensor) {
	r.t.Helper()
	for i := range got {
		if !bytes.Equal(got[i].Bytes(), want[i].Bytes()) {
			r.t.Fatalf("%s: %v differ", what, got[i])
		}
	}
}

func (r *rollout) equalOutcome(what string, other *rollout) {
	r.t.Helper()
	r.equal(what, r.outcome(), other.outcome())
}

func (r *rollout) equalRow(what string, n int, other *rollout, m int) {
	r.t.Helper()
	if !bytes.Equal(row(r.obs(), n), row(other.obs(), m)) ||
		!bytes.Equal(row(r.outcome(), n), row(other.outcome(), m)) {
		r.t.Fatalf("%s: environment %d differs", what, n)
	}
	if r.ended[n] && !bytes.Equal(row(dictOf(r.out.FinalObs), n), row(dictOf(other.out.FinalObs), m)) {
		r.t.Fatalf("%s: FinalObs of environment %d differs", what, n)
	}
}

func dictOf(d tensor.Dict) []tensor.Tensor {
	var ts []tensor.Tensor
	for i := range d.Len() {
		_, t := d.Entry(i)
		ts = append(ts, t)
	}
	return ts
}

// finals returns all observations of d except the expert's action, which Labels never writes to FinalObs.
func finals(d tensor.Dict) []tensor.Tensor {
	var ts []tensor.Tensor
	for i := range d.Len() {
		if name, t := d.Entry(i); name != env.ExpertAction {
			ts = append(ts, t)
		}
	}
	return ts
}

func clone(ts []tensor.Tensor) []tensor.Tensor {
	c := make([]tensor.Tensor, len(ts))
	for i, t := range ts {
		c[i] = t.Clone()
	}
	return c
}

// row returns the bytes of environment n in all tensors of ts.
func row(ts []tensor.Tensor, n int) []byte {
	var b []byte
	for _, t := range ts {
		b = append(b, t.Slice(n, n+1).Bytes()...)
	}
	return b
}
