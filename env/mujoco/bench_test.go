//go:build mujoco

package mujoco

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/mujoco/plain"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// BenchmarkPhysics steps 16 environments through the Vec and in a plain loop in C, in turns, with the same actions from
// the same states. Both must reach the same states. It reports the steps of an environment per second of both. vec/C is
// the median over the turns of the ratio of the two rates. vec/C-cpu is the same for the rates per processor time of
// the process, which other programs on the machine disturb less.
//
// The goroutine yields before each turn, as a job's goroutine does when it waits for actions. Otherwise, after 10 ms,
// Go would preempt it in each call into C that is longer than some 20 µs, and resume it 5 to 8 µs late.
//
//	go test -tags mujoco -run '^$' -bench Physics -cpu 2 ./env/mujoco
func BenchmarkPhysics(b *testing.B) {
	for _, d := range []definition{
		invertedPendulum(V5), reacher(V5), halfCheetah(V5), hopper(V5), walker2d(V5), ant(V4), ant(V5), pusher(V5),
	} {
		b.Run(d.source().name, func(b *testing.B) { benchmarkPhysics(b, d) })
	}
}

// randomActions returns actions within ±high for some steps of n environments, and the same numbers in one slice.
func randomActions(steps, n, width int, high float32) ([]tensor.Dict, []float32) {
	flat := make([]float32, steps*n*width)
	r := philox.New(1, philox.Action, 0, 0)
	for i := range flat {
		flat[i] = float32(r.Uniform(-1, 1)) * high
	}
	actions := make([]tensor.Dict, steps)
	for k := range actions {
		actions[k].Set("action", tensor.FromF32(flat[k*n*width:(k+1)*n*width], n, 1, width))
	}
	return actions, flat
}

// sameState returns an error if the positions or velocities of an environment differ from those of the loop in C.
func sameState(p physics, want []float32) error {
	for k, x := range append(slices.Clone(p.qpos), p.qvel...) {
		if float32(x) != want[k] && !math.IsNaN(x) {
			return fmt.Errorf("element %d is %v, the loop in C has %v", k, x, want[k])
		}
	}
	return nil
}

func benchmarkPhysics(b *testing.B, d definition) {
	const n, turn, turns = 16, 25, 16 // environments, steps in a turn, turns in an episode
	cfg := env.DefaultConfig()
	cfg.IgnoreTerminations, cfg.MaxEpisodeSteps = true, turn*turns+1
	s := open(b, d, n)
	vec := env.NewEpisodic(s, cfg)
	loop := test.Must(plain.Open("models/"+d.file, n, d.skip, s.task.contacts))(b)
	defer loop.Close()

	width := len(s.task.actuator)
	actions, flat := randomActions(turns*turn, n, width, s.spec.Action.High[0])
	out, seeds := s.spec.NewStep(n, 1), make([]uint64, n)
	var inVec, inC time.Duration
	var ratios, cpuRatios []float64
	for episode := uint64(0); b.Loop(); episode++ {
		for i := range seeds {
			seeds[i] = episode*n + uint64(i)
		}
		test.OK(b, vec.Reset(nil, seeds, out))
		for i, p := range s.batch.physics {
			qpos, qvel := slices.Clone(p.qpos), slices.Clone(p.qvel)
			// The loop gets the state after the reset, because a reset changes the last bits of an ant's qpos.
			s.place(b, i, qpos, qvel)
			loop.Place(i, qpos, qvel)
		}
		for t := range turns {
			runtime.Gosched()
			start, used := time.Now(), processorTime(b)
			for k := t * turn; k < (t+1)*turn; k++ {
				test.OK(b, vec.Step(actions[k], seeds, out))
			}
			middle, usedInVec := time.Now(), processorTime(b)-used
			state := loop.Run(turn, flat[t*turn*n*width:])
			v, c := middle.Sub(start), time.Since(middle)
			cpuRatios = append(cpuRatios, float64(processorTime(b)-used-usedInVec)/float64(usedInVec))
			inVec, inC, ratios = inVec+v, inC+c, append(ratios, c.Seconds()/v.Seconds())
			for i, p := range s.batch.physics {
				size := len(p.qpos) + len(p.qvel)
				test.OK(b, sameState(p, state[i*size:][:size]), "environment %d after turn %d", i, t)
			}
		}
	}
	slices.Sort(ratios)
	slices.Sort(cpuRatios)
	steps := float64(len(ratios) * turn * n)
	b.ReportMetric(steps/inVec.Seconds(), "steps/s")
	b.ReportMetric(steps/inC.Seconds(), "C-steps/s")
	b.ReportMetric(ratios[len(ratios)/2], "vec/C")
	b.ReportMetric(cpuRatios[len(ratios)/2], "vec/C-cpu")
	b.ReportMetric(0, "ns/op")
}

// processorTime returns the processor time of all threads of this process.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	test.OK(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
