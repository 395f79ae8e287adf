package env_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

func TestEpisodes(t *testing.T) {
	v := newCounter(env.DefaultConfig(), 2)
	out := begin(t, v, 1, 1, 2)
	e := env.NewEpisodes(v.Spec(), 10, 2, true)
	for _, a := range [][]float32{{1, 2}, {60, 100}, {3, 4}, {100, 5}, {6, 7}, {7, 60}, {1, 1}} {
		step(t, v, out, actions(1, a...), 1, 2)
		e.Observe(out)
	}
	want := []env.Episode{
		{Env: 11, Len: 2, Return: 102, SuccessOnce: true, SuccessAtEnd: true},
		{Env: 10, Len: 4, Return: 164, SuccessOnce: true, SuccessAtEnd: true},
		{Env: 11, Len: 5, Return: 77, SuccessOnce: true, SuccessAtEnd: false}, // truncated
	}
	got := slices.Clone(e.Take())
	if !same(got, want) {
		t.Errorf("finished\n%+v, want\n%+v", got, want)
	}
	if again := e.Take(); len(again) != 0 {
		t.Errorf("taken twice: %+v", again)
	}

	got[1].WrongObject, got[2].Aborted = true, true
	rows := env.AppendRows(nil, got)
	back, err := env.FromRows(rows, 0)
	if err != nil || !same(back, got) {
		t.Errorf("there and back: %+v, %v", back, err)
	}
	if _, err := env.FromRows(rows[1:], 0); err == nil {
		t.Error("a part of a row gave no error")
	}
}

// same reports whether two values are equal; nil is equal to an empty slice.
func same(a, b any) bool { return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) }

// TestEpisodesWrongObject: a wrong object counts for its whole episode, and for no other.
func TestEpisodesWrongObject(t *testing.T) {
	spec := env.Spec{Info: []string{"wrong_object", "success"}}
	out, e := spec.NewStep(2, 1), env.NewEpisodes(spec, 0, 2, true)
	for k := range 4 {
		copy(out.Info.F32(), []float32{0, 0, 0, 0})
		if k == 0 {
			out.Info.F32()[2] = 1
		}
		end := byte(k % 2)
		copy(out.Terminated.U8(), []byte{end, end})
		e.Observe(out)
	}
	var wrong []bool
	for _, ep := range e.Take() {
		wrong = append(wrong, ep.WrongObject)
	}
	if want := []bool{false, true, false, false}; !slices.Equal(wrong, want) {
		t.Errorf("wrong object in %v, want %v", wrong, want)
	}
}

// TestEpisodesInfo: figures that the package does not interpret are averaged over an episode, and then over episodes. A
// saved episode can be resumed.
func TestEpisodesInfo(t *testing.T) {
	spec := env.Spec{Info: []string{"drag", "success", "lift"}}
	out := spec.NewStep(2, 1)
	e := env.NewEpisodes(spec, 0, 2, true)
	for k, info := range [][]float32{{1, 0, 10, 5, 0, 50}, {3, 1, 20, 7, 0, 70}, {8, 0, 40, 9, 1, 90}} {
		copy(out.Info.F32(), info)
		copy(out.Terminated.U8(), []byte{byte(k % 2), byte(k / 2)}) // episodes of 2 and of 3 steps
		if k == 2 {
			state := test.Must(e.Save())(t)
			again := env.NewEpisodes(spec, 0, 2, true)
			test.OK(t, again.Load(state))
			again.Observe(out)
			if got, want := again.Take()[0].Info, []float64{7, 70}; !slices.Equal(got, want) {
				t.Errorf("resumed: %v, want %v", got, want)
			}
		}
		e.Observe(out)
	}
	rows := env.AppendRows(nil, e.Take())
	episodes, err := env.FromRows(rows, 2)
	if err != nil || len(episodes) != 2 || !slices.Equal(episodes[0].Info, []float64{2, 15}) ||
		!slices.Equal(episodes[1].Info, []float64{7, 70}) {
		t.Fatalf("%+v, %v", episodes, err)
	}
	test.EqualSlices(t, env.Summarize(episodes).Info, []float64{4.5, 42.5}, "means")
	test.EqualSlices(t, spec.Figures(), []string{"drag", "lift"}, "figures")
}

// TestEpisodesTasks: successes are counted for each task of a suite, and told objects over all tasks. A resumed episode
// keeps both.
func TestEpisodesTasks(t *testing.T) {
	spec := env.Spec{Info: []string{env.Success, env.TaskNumber, env.ToldObject},
		Tasks: []string{"reach", "push", "pick"}}
	out, e := spec.NewStep(3, 1), env.NewEpisodes(spec, 0, 3, true)
	copy(out.Info.F32(), []float32{1, 0, 0, 0, 2, 1, 0, 2, 0})
	e.Observe(out)
	state := test.Must(e.Save())(t)
	again := env.NewEpisodes(spec, 0, 3, true)
	test.OK(t, again.Load(state))
	copy(out.Info.F32(), []float32{0, 0, 0, 0, 2, 0, 1, 2, 0})
	copy(out.Terminated.U8(), []byte{1, 1, 1})
	again.Observe(out)
	episodes := test.Must(env.FromRows(env.AppendRows(nil, again.Take()), 0))(t)
	sum := env.Summarize(episodes)
	if want := []env.OfTask{{1, 1}, {}, {2, 0.5}}; !slices.Equal(sum.ByTask, want) || sum.ToldObject != 1.0/3 {
		t.Errorf("%+v, told %v, want %+v and 1/3", sum.ByTask, sum.ToldObject, want)
	}
	if got := spec.Figures(); got != nil {
		t.Errorf("figures %v", got)
	}
}

func TestEpisodesIdle(t *testing.T) {
	v := newCounter(env.DefaultConfig(), 2)
	out := begin(t, v, 1, 1, 2)
	e := env.NewEpisodes(v.Spec(), 0, 2, false)
	for _, a := range [][]float32{{100, 1}, {60, 1}, {60, 1}} {
		step(t, v, out, actions(1, a...))
		e.Observe(out)
	}
	want := []env.Episode{{Env: 0, Len: 1, Return: 100, SuccessOnce: true, SuccessAtEnd: true}}
	if got := e.Take(); !same(got, want) {
		t.Errorf("finished %+v, want %+v", got, want)
	}
	test.OK(t, v.Reset(nil, []uint64{1, 2}, out))
	e.Started(nil)
	step(t, v, out, actions(1, 100, 100))
	e.Observe(out)
	want = []env.Episode{
		{Env: 0, Len: 1, Return: 100, SuccessOnce: true, SuccessAtEnd: true},
		{Env: 1, Len: 1, Return: 100, SuccessOnce: true, SuccessAtEnd: true}, // the three steps before were dropped
	}
	if got := e.Take(); !same(got, want) {
		t.Errorf("after a reset: %+v, want %+v", got, want)
	}
}

// TestEpisodesLost: an aborted episode counts as lost and in no mean, even if its first step failed. While the
// simulator is gone there are no further episodes.
func TestEpisodesLost(t *testing.T) {
	spec := env.Spec{Info: []string{"drag"}}
	const lost, none = env.Aborted, env.NoEpisode
	const end = 9 // time limit of an episode
	for _, auto := range []bool{true, false} {
		out, e := spec.NewStep(3, 1), env.NewEpisodes(spec, 10, 3, auto)
		for _, step := range [][]byte{{0, 0, lost}, {end, lost, none}, {0, lost, none}, {0, 0, none}, {0, lost, none}} {
			for n, x := range step {
				out.Truncated.U8()[n], out.Status.U8()[n] = min(x, 1), x%end
			}
			e.Observe(out)
		}
		var got []int
		for _, ep := range e.Take() {
			if got = append(got, ep.Env); ep.Aborted != (ep.Env != 10) {
				t.Errorf("auto reset %v: %+v", auto, ep)
			}
		}
		want := []int{12, 10, 11}
		if auto {
			want = append(want, 11, 11)
		}
		test.EqualSlices(t, got, want, "auto reset %v: episodes of environments", auto)
		e.Started(nil)
		e.Observe(out)
		if again := e.Take(); len(again) != 2 || !again[0].Aborted || !again[1].Aborted {
			t.Errorf("auto reset %v, begun anew: %+v", auto, again)
		}
	}
}

// TestEpisodesProgress: Progress returns the sums of a running episode so far. After its end, Progress returns the
// final sums until the next episode begins.
func TestEpisodesProgress(t *testing.T) {
	v := newCounter(env.DefaultConfig(), 2)
	out := begin(t, v, 1, 1, 2)
	e := env.NewEpisodes(v.Spec(), 10, 2, false)
	tell := func() (said [4]float64) {
		for n := range 2 {
			steps, ret := e.Progress(n)
			said[2*n], said[2*n+1] = float64(steps), ret
		}
		return said
	}
	for k, want := range [][4]float64{{0, 0, 0, 0}, {1, 1, 1, 2}, {2, 101, 2, 4}, {2, 101, 3, 6}} {
		if k > 0 {
			step(t, v, out, actions(1, []float32{0, 1, 100, 9}[k], 2))
			e.Observe(out)
		}
		if got := tell(); got != want {
			t.Errorf("after %d steps %v, want %v", k, got, want)
		}
	}
	e.Started(nil)
	if got := tell(); got != [4]float64{} {
		t.Errorf("begun anew: %v", got)
	}
}

// TestEpisodesChunk: the length is the number of steps taken. The return is the task's own even if rewards are scaled.
func TestEpisodesChunk(t *testing.T) {
	v := env.NewRewardScale(newCounter(env.DefaultConfig(), 1), 0.1, 0, false)
	out := begin(t, v, 4, 1)
	e := env.NewEpisodes(v.Spec(), 0, 1, true)
	step(t, v, out, actions(4, 1, 60, 100, 9), 1)
	e.Observe(out)
	want := env.Episode{Env: 0, Len: 3, Return: 161, SuccessOnce: true, SuccessAtEnd: true}
	if got := e.Take(); len(got) != 1 || !same(got[0], want) {
		t.Errorf("finished %+v, want %+v", got, want)
	}
}

func TestEpisodesSave(t *testing.T) {
	v := newCounter(env.DefaultConfig(), 2)
	out := begin(t, v, 1, 1, 2)
	e := env.NewEpisodes(v.Spec(), 0, 2, true)
	step(t, v, out, actions(1, 60, 0.1), 1, 2)
	e.Observe(out)
	state := test.Must(e.Save())(t)
	again := env.NewEpisodes(v.Spec(), 0, 2, true)
	test.OK(t, again.Load(state))
	for range 4 {
		step(t, v, out, actions(1, 1, 0.2), 1, 2)
		e.Observe(out)
		again.Observe(out)
	}
	if got, want := again.Take(), e.Take(); len(want) != 2 || !same(got, want) {
		t.Errorf("loaded %+v, saved %+v", got, want)
	}
}

func TestSummarize(t *testing.T) {
	a := env.Episode{Env: 0, Len: 2, Return: 4, SuccessOnce: true, SuccessAtEnd: true, WrongObject: true}
	b := env.Episode{Env: 1, Len: 4, Return: 2, SuccessOnce: true}
	c := env.Episode{Env: 1, Len: 6, Return: 12}
	want := env.Summary{NumTrajectories: 3, NumLost: 1, Return: 6, ReturnStd: math.Sqrt(28), ReturnMin: 2,
		EpisodeLen: 4, Reward: 4.5 / 3, SuccessOnce: 2.0 / 3, SuccessAtEnd: 1.0 / 3, WrongObject: 1.0 / 3,
		SuccessNoIntervened: 2.0 / 3}
	lost := env.Episode{Env: 1, Len: 9, Return: 9, SuccessOnce: true, Aborted: true, Info: []float64{9}}
	for _, order := range [][]env.Episode{{a, lost, b, c}, {b, a, c, lost}, {lost, b, c, a}} {
		if got := env.Summarize(order); !same(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if got := env.Summarize(nil); !same(got, env.Summary{}) {
		t.Errorf("no episodes: %+v", got)
	}
	// The result is the same to the last bit for any order of the ranks.
	var eps []env.Episode
	for i := range 100 {
		eps = append(eps, env.Episode{Env: i, Len: 1 + i%7, Return: math.Exp(float64(i % 13))})
	}
	first := env.Summarize(slices.Clone(eps))
	slices.Reverse(eps)
	if again := env.Summarize(eps); !same(again, first) {
		t.Errorf("in another order %+v, want %+v", again, first)
	}
}

func TestEpisodesAllocations(t *testing.T) {
	v := newCounter(env.DefaultConfig(), 4)
	out := begin(t, v, 1, 1, 2, 3, 4)
	e, s := env.NewEpisodes(v.Spec(), 0, 4, true), env.NewSeeder(env.DefaultConfig(), env.Train, 0, 4)
	act := actions(1, 100, 1, 100, 1)
	test.NoAllocs(t, 50, func() {
		test.OK(t, v.Step(act, s.Next(), out))
		e.Observe(out)
		s.Observe(out)
		e.Take()
	})
}

// Episodes count the steps in which a person acted, up to the end of the episode, in figures that survive a save.
func TestIntervenedEpisodes(t *testing.T) {
	spec := env.Spec{Name: "arm", Intervene: true, Info: []string{env.Success},
		Action: env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}}}
	out := spec.NewStep(2, 3)
	e := env.NewEpisodes(spec, 0, 2, true)
	copy(out.Intervened.U8(), []byte{0, env.Acted, env.Clipped, 0, 0, env.Acted})
	e.Observe(out)
	again := env.NewEpisodes(spec, 0, 2, true)
	test.OK(t, again.Load(test.Must(e.Save())(t)))
	out.Terminated.U8()[1], out.Terminated.U8()[4] = 1, 1
	out.Info.F32()[4] = 1 // the last step of environment 1 is a success
	copy(out.Intervened.U8(), []byte{env.Clipped, 0, env.Acted, 0, 0, env.Acted})
	again.Observe(out)
	first := again.Take()
	if len(first) != 2 || first[0].Intervened != 3 || first[0].Clipped != 2 || first[1].Intervened != 1 ||
		first[1].Clipped != 0 || !first[1].SuccessOnce {
		t.Fatalf("%+v", first)
	}
	rows := env.AppendRows(nil, first)
	out.Intervened.Zero()
	again.Observe(out)
	rows = env.AppendRows(rows, again.Take())
	s := env.Summarize(test.Must(env.FromRows(rows, 0))(t))
	if s.IntervenedOnce != 0.5 || s.IntervenedSteps != 1 || s.ClippedSteps != 0.5 || s.SuccessOnce != 0.5 ||
		s.SuccessNoIntervened != 0.25 {
		t.Errorf("%+v", s)
	}
}
