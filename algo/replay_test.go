package algo

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// counted returns a rollout of steps first, first+1, … in n environments, whose numbers name their step: environment e
// at step t observes 100e + t before and 100e + t + ½ after the step, and gets the reward 100e + t.
func counted(first, steps, n int, ends func(e, t int) (terminated, truncated byte)) tensor.Dict {
	d := tensor.NewLayout(transitions(1, steps, n)...)
	r := d.Bind(tensor.New(tensor.U8, d.Size()).Bytes())
	for t := range steps {
		for e := range n {
			i, x := t*n+e, float32(100*e+first+t)
			r.Must("observation.state").F32()[i], r.Must("next_observation.state").F32()[i] = x, x+0.5
			r.Must("action").F32()[i], r.Must("reward").F32()[i] = -x, x
			if ends != nil {
				r.Must("terminated").U8()[i], r.Must("truncated").U8()[i] = ends(e, first+t)
			}
		}
	}
	return r
}

// transitions are the fields of rollouts with observations of one tensor.
func transitions(width, steps, n int) []tensor.Field {
	return []tensor.Field{
		{Name: "observation.state", DType: tensor.F32, Shape: []int{steps, n, width}},
		{Name: "next_observation.state", DType: tensor.F32, Shape: []int{steps, n, width}},
		{Name: "action", DType: tensor.F32, Shape: []int{steps, n, 1, 1}},
		{Name: "reward", DType: tensor.F32, Shape: []int{steps, n}},
		{Name: "terminated", DType: tensor.U8, Shape: []int{steps, n}},
		{Name: "truncated", DType: tensor.U8, Shape: []int{steps, n}},
	}
}

func mustReplay(t *testing.T, envs, capacity int) *Replay {
	t.Helper()
	r := test.Must(NewReplay(transitions(1, 1, 1), nil, envs, capacity, tensor.Heap))(t)
	return r
}

// TestReplayHoldsTheNewest: the buffer has the newest steps of every environment, each with all of its tensors.
func TestReplayHoldsTheNewest(t *testing.T) {
	const envs, capacity = 3, 7
	r := mustReplay(t, envs, capacity)
	b := r.NewBatch(1)
	for first := 0; first < 20; first += 3 {
		test.OK(t, r.Add(counted(first, 3, envs, nil)))
		size := min(first+3, capacity)
		if r.Size() != size || r.Total() != int64(first+3) {
			t.Fatalf("after %d steps: size %d, total %d", first+3, r.Size(), r.Total())
		}
		for k := range envs * size {
			r.Gather(b, []int32{int32(k)}, 1, 0.5, false)
			want := float32(100*(k/size) + first + 3 - size + k%size)
			if x, next := b.Obs.Must("state").F32()[0], b.Next.Must("state").F32()[0]; x != want || next != want+0.5 ||
				b.Action.F32()[0] != -want || b.Reward[0] != want || b.Discount[0] != 0.5 {
				t.Fatalf("after %d steps, row %d: %v → %v, action %v, reward %v, discount %v, want those of %v",
					first+3, k, x, next, b.Action.F32()[0], b.Reward[0], b.Discount[0], want)
			}
		}
	}
	if err := r.Add(counted(0, 1, envs+1, nil)); err == nil {
		t.Error("a rollout of other environments: no error")
	}
}

// TestReplayNStep compares returns of several steps with returns by hand. Environment 0 terminates after step 3,
// environment 1 is cut off there.
func TestReplayNStep(t *testing.T) {
	r := mustReplay(t, 2, 6)
	test.OK(t, r.Add(counted(1, 6, 2, func(e, t int) (terminated, truncated byte) {
		if t == 3 {
			return byte(1 - e), byte(e)
		}
		return 0, 0
	})))
	for _, c := range []struct {
		name             string
		row              int32
		always           bool
		reward, discount float32
		next             float32
	}{
		{"three steps, to a termination", 0, false, 1 + 0.5*2 + 0.25*3, 0, 3.5},
		{"the same, and still bootstrapped", 0, true, 1 + 0.5*2 + 0.25*3, 0.125, 3.5},
		{"two steps, to a termination", 1, false, 2 + 0.5*3, 0, 3.5},
		{"behind it", 3, false, 4 + 0.5*5 + 0.25*6, 0.125, 6.5},
		{"as far as there is something", 4, false, 5 + 0.5*6, 0.25, 6.5},
		{"the last step", 5, false, 6, 0.5, 6.5},
		{"two steps, to a time limit", 6 + 1, false, 102 + 0.5*103, 0.25, 103.5},
	} {
		b := r.NewBatch(1)
		r.Gather(b, []int32{c.row}, 3, 0.5, c.always)
		next := b.Next.Must("state").F32()[0]
		if b.Reward[0] != c.reward || b.Discount[0] != c.discount || next != c.next {
			t.Errorf("%s: reward %v, discount %v, next %v, want %v, %v, %v", c.name, b.Reward[0], b.Discount[0], next,
				c.reward, c.discount, c.next)
		}
	}
}

// TestReplayDrawsUniformly: of many draws, each transition gets its share within five deviations.
func TestReplayDrawsUniformly(t *testing.T) {
	r := mustReplay(t, 2, 6)
	test.OK(t, r.Add(counted(0, 5, 2, nil)))
	const draws = 10000
	s := philox.New(1, philox.Replay, 0, 0)
	rows, seen := make([]int32, draws), make([]int, 10)
	r.Draw(rows, &s)
	for _, k := range rows {
		seen[k]++
	}
	for k, n := range seen {
		if n < 850 || n > 1150 { // 1000 ± 5·30
			t.Errorf("transition %d was drawn %d times of %d", k, n, draws)
		}
	}
}

// withStatus are transitions with the status of each step, of two environments.
func withStatus(steps int) []tensor.Field {
	return append(transitions(1, steps, 2), tensor.Field{Name: "status", DType: tensor.U8, Shape: []int{steps, 2}})
}

// withLostEpisode returns a replay buffer of 8 steps of two environments, filled from four rollouts. Environment 0 has
// three episodes: steps 0 and 1, steps 2 to 5, which were lost, and the steps that follow.
func withLostEpisode(t *testing.T) *Replay {
	t.Helper()
	r := test.Must(NewReplay(withStatus(1), nil, 2, 8, tensor.Heap))(t)
	ends := func(e, t int) (terminated, truncated byte) {
		switch {
		case e == 0 && t == 1:
			return 1, 0
		case e == 0 && t == 5:
			return 0, 1
		}
		return 0, 0
	}
	for first := 0; first < 8; first += 2 {
		rollout := counted(first, 2, 2, ends)
		status := tensor.New(tensor.U8, 2, 2)
		if first == 4 {
			status.U8()[2] = env.Aborted // environment 0, step 5
		}
		rollout.Set("status", status)
		test.OK(t, r.Add(rollout))
	}
	return r
}

// TestReplayLeavesLostEpisodesOut: no step of a lost episode is drawn, also of earlier rollouts, and also after the
// buffer was saved and loaded.
func TestReplayLeavesLostEpisodesOut(t *testing.T) {
	if normal != env.Normal || aborted != env.Aborted {
		t.Fatalf("normal is %d, aborted %d, want %d and %d of env", normal, aborted, env.Normal, env.Aborted)
	}
	filled := withLostEpisode(t)
	var saved tensor.Dict
	filled.save(&saved)
	if _, ok := saved.Get("env.replay.status"); ok {
		t.Error("a saved state has a tensor of the status")
	}
	if got := saved.Must("env.replay.truncated").U8()[:8]; !bytes.Equal(got, []byte{0, 0, 2, 2, 2, 2, 0, 0}) {
		t.Errorf("saved truncated %v", got)
	}
	loaded := test.Must(NewReplay(withStatus(1), nil, 2, 8, tensor.Heap))(t)
	test.OK(t, loaded.load(saved))
	for name, r := range map[string]*Replay{"filled": filled, "loaded": loaded} {
		rows := make([]int32, 4000)
		s := philox.New(1, philox.Replay, 0, 0)
		r.Draw(rows, &s)
		var drawn [16]int
		for _, k := range rows {
			drawn[k]++
		}
		for k, n := range drawn {
			if gone := k >= 2 && k <= 5; gone != (n == 0) {
				t.Errorf("%s: transition %d was drawn %d times", name, k, n)
			}
		}
		if got, want := r.truncated.U8()[:8], []byte{0, 0, 1, 1, 1, 1, 0, 0}; !bytes.Equal(got, want) {
			t.Errorf("%s: truncated %v, want %v", name, got, want)
		}
	}
}

// TestReplaySave: a buffer that loads a saved state has the same draws, before and after the rings are full. The rows
// of single environments can be loaded apart.
func TestReplaySave(t *testing.T) {
	const envs, capacity = 2, 5
	for _, steps := range []int{0, 3, 5, 8} {
		r, half := mustReplay(t, envs, capacity), mustReplay(t, 1, capacity)
		for i := range steps {
			test.OK(t, r.Add(counted(i, 1, envs, nil)))
		}
		var d, second tensor.Dict
		r.save(&d)
		for i := range d.Len() {
			name, x := d.Entry(i)
			if name != "replay.cursor" {
				x = x.Slice(1, 2)
			}
			second.Set(name, x.Clone())
		}
		test.OK(t, half.load(second), "after %d steps", steps)
		for k := range half.Size() {
			got, want := half.NewBatch(1), r.NewBatch(1)
			half.Gather(got, []int32{int32(k)}, 2, 0.5, false)
			r.Gather(want, []int32{int32(r.Size() + k)}, 2, 0.5, false)
			if got.Reward[0] != want.Reward[0] || got.Obs.Must("state").F32()[0] != want.Obs.Must("state").F32()[0] {
				t.Errorf("after %d steps, row %d: reward %v, want %v", steps, k, got.Reward[0], want.Reward[0])
			}
		}
		if mustReplay(t, 1, capacity-3).load(second) == nil && steps > capacity-3 {
			t.Errorf("%d steps into a buffer of %d: no error", steps, capacity-3)
		}
	}
}

func TestReplayAllocatesNothing(t *testing.T) {
	r := mustReplay(t, 2, 8)
	rollout, b, rows := counted(0, 4, 2, nil), r.NewBatch(4), make([]int32, 4)
	s := philox.New(1, philox.Replay, 0, 0)
	test.NoAllocs(t, 10, func() {
		test.OK(t, r.Add(rollout))
		r.Draw(rows, &s)
		r.Gather(b, rows, 3, 0.9, false)
	})
}

// After an interruption the newest step ends an episode, so that no transition goes on in the next episode.
func TestReplayInterrupted(t *testing.T) {
	r := mustReplay(t, 2, 5)
	r.interrupt() // an empty buffer has no episodes
	for _, first := range []int{0, 3} {
		test.OK(t, r.Add(counted(first, 3, 2, func(e, t int) (byte, byte) { return byte(e), 0 })))
		r.interrupt()
	}
	b := r.NewBatch(1)
	r.Gather(b, []int32{0}, 3, 0.5, false) // environment 0 from step 1 on: step 2 is the last of its episode
	if next := b.Next.Must("state").F32()[0]; next != 2.5 || b.Reward[0] != 1+0.5*2 || b.Discount[0] != 0.25 {
		t.Errorf("next %v, reward %v, discount %v, want 2.5, 2 and 0.25", next, b.Reward[0], b.Discount[0])
	}
	r.Gather(b, []int32{9}, 3, 0.5, false) // environment 1 terminates in each step
	if b.Discount[0] != 0 {
		t.Errorf("discount %v after a termination, want 0", b.Discount[0])
	}
}

// TestReturnsOfChunkedDemonstrations: in a return of several steps no action's reward counts twice. The step after a
// chunk is the chunk that begins where it ends. By hand: the rewards are 1, 2, 4, …, an episode ends after the fifth
// action, and the file ends within the second episode.
func TestReturnsOfChunkedDemonstrations(t *testing.T) {
	const m, half = 8, 0.5
	fields := transitions(1, 1, 1)
	fields[2].Shape = []int{1, 1, 2, 1} // chunks of two actions
	var file tensor.Dict
	file.Set("action", tensor.New(tensor.F32, m, 1, 1))
	file.Set("reward", tensor.FromF32([]float32{1, 2, 4, 8, 16, 32, 64, 128}, m))
	file.Set("terminated", tensor.Of([]byte{0, 0, 0, 0, 1, 0, 0, 0}, tensor.U8, m))
	file.Set("truncated", tensor.New(tensor.U8, m))
	file.Set("observation.state", tensor.New(tensor.F32, m, 1))
	file.Set("next_observation.state", tensor.FromF32([]float32{1, 2, 3, 4, 5, 6, 7, 8}, m, 1))
	d, left, err := inChunks(file, fields)
	test.OK(t, err)
	d.Set(leftName, left)
	r := test.Must(newDemos(fields, d.Slice(0, m), nil, tensor.Heap))(t)
	rows := []int32{0, 1, 2, 3, 4, 5, 6, 7}
	b := r.NewBatch(m)
	for nStep, want := range map[int]struct{ reward, discount, next []float32 }{
		1: {[]float32{3, 6, 12, 24, 16, 96, 192, 128}, []float32{half, half, half, 0, 0, half, half, half},
			[]float32{2, 3, 4, 5, 5, 7, 8, 8}},
		2: {[]float32{3 + 12*half, 6 + 24*half, 12 + 16*half, 24, 16, 96 + 128*half, 192, 128},
			[]float32{half * half, 0, 0, 0, 0, half * half, half, half}, []float32{4, 5, 5, 5, 5, 8, 8, 8}},
		math.MaxInt: {[]float32{3 + 12*half + 16*half*half, 6 + 24*half, 12 + 16*half, 24, 16, 96 + 128*half, 192,
			128},
			[]float32{0, 0, 0, 0, 0, half * half, half, half}, []float32{5, 5, 5, 5, 5, 8, 8, 8}},
	} {
		r.Gather(b, rows, nStep, half, false)
		if !slices.Equal(b.Reward, want.reward) || !slices.Equal(b.Discount, want.discount) ||
			!slices.Equal(b.Next.Must("state").F32(), want.next) {
			t.Errorf("n_step %d: rewards %v, discounts %v, next %v, want %v", nStep, b.Reward, b.Discount,
				b.Next.Must("state").F32(), want)
		}
	}
}
