package algo_test

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// lose marks the episode of an environment as lost in a rollout: all of its steps [from, to) have mask 0. It ended at
// its second step.
func lose(r tensor.Dict, env, from, to int) {
	mask, truncated := r.Must("mask"), r.Must("truncated")
	for t := from; t < to; t++ {
		mask.At(t).U8()[env] = 0
		if t > from { // an idle environment repeats its flags
			truncated.At(t).U8()[env] = 1
		}
	}
}

// twoEpochsOf is a rollout of two epochs of eight steps in four environments. lost has the epoch and the environment of
// each lost episode.
func twoEpochsOf(lost [][2]int) tensor.Dict {
	r := algo.RandomRollout(3, 16, 0, 4)
	mask := tensor.New(tensor.U8, 16, 4)
	r.Set("mask", mask)
	r.Must("terminated").Zero()
	r.Must("truncated").Zero()
	for i := range mask.U8() {
		mask.U8()[i] = 1
		r.Must("truncated").U8()[i] = uint8(i / 4 % 8 / 7)
	}
	for _, x := range lost {
		lose(r, x[1], 8*x[0], 8*x[0]+8)
	}
	return r
}

// A lost episode leaves its group, and the others are compared among themselves. An episode without others is not
// trained on, unless nothing is compared. So every episode that is left has an advantage by hand.
func TestLostEpisodesLeaveTheirGroups(t *testing.T) {
	pairs := [][2]int{{0, 1}, {1, 2}, {1, 3}} // one episode is left alone, and a group is lost as a whole
	for _, c := range []struct {
		name, adv string
		size      int
		baseline  bool
		chunk     int
		lost      [][2]int
		dropped   [][2]int // episodes that are left alone in their groups
	}{
		{name: "grpo", adv: "grpo", size: 4, lost: [][2]int{{0, 1}, {1, 0}, {1, 1}}},
		{name: "grpo in pairs", adv: "grpo", size: 2, lost: pairs, dropped: [][2]int{{0, 0}}},
		{name: "grpo with chunks", adv: "grpo", size: 2, chunk: 2, lost: pairs, dropped: [][2]int{{0, 0}}},
		{name: "the first epoch is lost", adv: "grpo", size: 2, lost: [][2]int{{0, 0}, {0, 1}, {0, 2}, {0, 3}}},
		{name: "everything is lost", adv: "grpo", size: 4, lost: [][2]int{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1},
			{1, 2}, {1, 3}}, dropped: [][2]int{{0, 3}}},
		{name: "baseline", adv: "reinpp", baseline: true, size: 2, lost: pairs, dropped: [][2]int{{0, 0}}},
		{name: "reinpp", adv: "reinpp", size: 2, lost: pairs},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := twoEpochsOf(c.lost)
			var score [2][4]float64
			var left [2][4]bool
			for i, m := range r.Must("mask").U8() {
				epoch, env := i/32, i%4
				score[epoch][env] += float64(r.Must("reward").F32()[i])
				left[epoch][env] = m == 1 && !slices.Contains(c.dropped, [2]int{epoch, env})
			}
			s := groupSetup(c.adv, func(s *algo.Setup) {
				s.GroupSize, s.Config.UseReinppBaseline = c.size, c.baseline
				if c.chunk > 0 {
					s.Config.RewardType = algo.ActionLevel
					s.Chunk, s.Steps, s.GlobalBatch = c.chunk, 16/c.chunk, 64/c.chunk
				}
			})
			if c.chunk > 0 {
				r = inChunksOf(r, c.chunk)
			}
			a := test.Must(algo.Builtin().New(s))(t)
			test.OK(t, a.Prepare(&r))
			adv, weight := bySteps(r.Must("advantage"), c.chunk), bySteps(r.Must("weight"), c.chunk)
			want := byHand(score, left, c.size, c.adv == "grpo", c.adv == "grpo" || c.baseline)
			for i := range adv {
				epoch, env := i/32, i%4
				if w := weight[i]; (w == 1) != left[epoch][env] || w != 0 && w != 1 {
					t.Fatalf("step %d of environment %d: weight %v", i/4, env, w)
				}
				if left[epoch][env] {
					within(t, "advantage", float64(adv[i]), want[epoch][env], 1e-5)
				}
			}
			if c.chunk > 0 {
				return
			}
			test.Must(a.Update(r))(t)
			for _, x := range s.Policy.Params().Data {
				if math.IsNaN(float64(x)) {
					t.Fatal("a parameter is NaN")
				}
			}
		})
	}
}

// byHand returns the advantages of episodes of eight steps. Those that are left are compared in groups of size
// environments if compared is set, and divided by the deviation of the group if std is set. Otherwise the advantages
// are normalised over all samples.
func byHand(score [2][4]float64, left [2][4]bool, size int, std, compared bool) (adv [2][4]float64) {
	var all []float64
	for epoch := range score {
		for lo := 0; lo < 4; lo += size {
			var group []float64
			for env := lo; env < lo+size; env++ {
				if left[epoch][env] {
					group = append(group, score[epoch][env])
				}
			}
			m, scale := 0.0, 1.0
			if compared {
				m = mean(group)
			}
			if std {
				scale = deviation(group, m) + 1e-6
			}
			for env := lo; env < lo+size; env++ {
				if adv[epoch][env] = (score[epoch][env] - m) / scale; left[epoch][env] {
					all = append(all, slices.Repeat([]float64{adv[epoch][env]}, 8)...)
				}
			}
		}
	}
	if std {
		return adv
	}
	m := mean(all)
	for i := range 8 {
		adv[i/4][i%4] = (adv[i/4][i%4] - m) / (deviation(all, m) + 1e-5)
	}
	return adv
}

func deviation(x []float64, mean float64) float64 {
	var sq float64
	for _, v := range x {
		sq += (v - mean) * (v - mean)
	}
	return math.Sqrt(sq / float64(len(x)-1))
}

func mean(x []float64) (m float64) {
	for _, v := range x {
		m += v / float64(len(x))
	}
	return m
}

// bySteps returns numbers of chunks of size actions, [16/size,4,size], in the order of steps, [16,4]. Without chunks
// they have this order.
func bySteps(x tensor.Tensor, size int) []float32 {
	steps := slices.Clone(x.F32())
	for i := range steps {
		if size > 0 {
			steps[i] = x.F32()[inChunk(i, size)]
		}
	}
	return steps
}

// inChunk returns the place of sample i of [16,4] in [16/size,4,size].
func inChunk(i, size int) int {
	t, env := i/4, i%4
	return (t/size*4+env)*size + t%size
}

// inChunksOf turns the steps of r into actions of chunks, which have a reward each.
func inChunksOf(r tensor.Dict, size int) (d tensor.Dict) {
	steps := 16 / size
	for _, name := range []string{"terminated", "truncated"} {
		x := tensor.New(tensor.U8, steps, 4, size)
		for i, v := range r.Must(name).U8() {
			x.U8()[inChunk(i, size)] = v
		}
		d.Set(name, x)
	}
	x, mask := tensor.New(tensor.F32, steps, 4, size), tensor.New(tensor.U8, steps, 4)
	for i, v := range r.Must("reward").F32() {
		x.F32()[inChunk(i, size)] = v
	}
	d.Set("reward", x)
	for t := range steps {
		mask.At(t).CopyFrom(r.Must("mask").At(t * size))
	}
	d.Set("mask", mask)
	return d
}

// Dynamic sampling replaces a pair that was lost, and a pair of which one episode was lost.
func TestResampleReplacesLostGroups(t *testing.T) {
	p := test.Must(algo.NewGRPO(resampling()))(t)
	for n, c := range []struct {
		lost []int
		more bool
		want []float32
	}{
		{[]int{0, 1, 3}, true, []float32{0, 1, 2, 3, 4, 5}},
		{[]int{0}, false, []float32{102, 103, 104, 105, 4, 5}},
	} {
		r := informativeRollout(float32(100*n), true, true, true)
		for _, env := range c.lost {
			lose(r, env, 0, 4)
		}
		more, err := p.Resample(n, &r)
		var marks []float32
		for env := range 6 {
			marks = append(marks, r.Must("observation.state").F32()[3*(18+env)])
		}
		if err != nil || more != c.more || !slices.Equal(marks, c.want) {
			t.Fatalf("rollout %d: more %v, %v, kept %v; want %v, %v", n, more, err, marks, c.more, c.want)
		}
		if n == 0 {
			continue
		}
		test.OK(t, p.Prepare(&r))
		if slices.Contains(r.Must("weight").F32(), 0) {
			t.Errorf("weights %v", r.Must("weight").F32())
		}
	}
}
