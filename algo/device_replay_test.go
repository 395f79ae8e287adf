package algo_test

import (
	"bytes"
	"math"
	"sync"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel/device"
	"github.com/rlinf/rlinf/policy/nn/kernel/device/devicetest"
	"github.com/rlinf/rlinf/tensor"
)

// replayLearner returns SAC, on the CPU or on a device. It learns from numbers, or with an encoder also from images.
func replayLearner(t *testing.T, on bool, encoder *nn.Layer, c change) (algo.Setup, *algo.SAC) {
	t.Helper()
	var model policy.Config
	with := func(s *algo.Setup, m *policy.Config) {
		s.GlobalBatch, s.MicroBatch, s.Config.UpdateEpoch, s.Optim.ClipGrad = 16, 8, 2, 0.5
		s.Config.OffPolicy.ReplayBuffer.MinBufferSize, m.HiddenSizes = 1, []int{17, 9}
		if on {
			m.Device = test.Must(device.New(new(devicetest.Interpreter)))(t)
		}
		c(s, m)
		model = *m
	}
	if encoder == nil {
		s := trackSetup(t, with)
		return s, made(t, s, algo.NewSAC)
	}
	s := seenSetup(t, with)
	s.Policy = test.Must(policy.NewWithEncoder(model, seenSpec(), *encoder, 1, tensor.Heap))(t)
	return s, made(t, s, algo.NewSAC)
}

// SAC on a device has the bits of SAC on the CPU, from numbers and from images. The state of one goes on on the other.
func TestDeviceLearnsFromReplay(t *testing.T) {
	t.Parallel()
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		t.Skip("kernels have the bits of a processor with AVX2 and FMA, which this processor lacks")
	}
	image := nn.Sequence(nn.Input("image"), nn.Conv(4, 3, 2, 1), nn.Activate(nn.ReLU), nn.Conv(6, 2, 1, 0), nn.Dense(5))
	encoder := nn.Concat(image, nn.Input("state"))
	for name, c := range map[string]struct {
		encoder *nn.Layer
		change  change
	}{
		"numbers": {nil, asIs},
		"five critics": {nil, func(s *algo.Setup, m *policy.Config) {
			m.NumQHeads, s.Config.OffPolicy.CriticSubsampleSize = 5, 2
		}},
		"images": {&encoder, asIs},
		"images, targets of the encoder": {&encoder, func(s *algo.Setup, _ *policy.Config) {
			s.Config.OffPolicy.TargetUpdateType, s.ShiftImages = algo.TargetAll, true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			type learner struct {
				setup algo.Setup
				*algo.SAC
			}
			newLearner := func(on bool) learner {
				s, a := replayLearner(t, on, c.encoder, c.change)
				return learner{s, a}
			}
			compare := func(a, b learner, x, y algo.Metrics) {
				t.Helper()
				test.EqualSlices(t, y.Names, x.Names)
				for i, v := range x.Values {
					if w := y.Values[i]; math.Float64bits(v) != math.Float64bits(w) && (v == v || w == w) {
						t.Errorf("%s: %v, want %v", x.Names[i], w, v)
					}
				}
				if !bytes.Equal(a.setup.Policy.Params().State(), b.setup.Policy.Params().State()) {
					t.Error("other parameters")
				}
				d, e := stateOf(t, a), stateOf(t, b)
				for i := range d.Len() {
					if name, v := d.Entry(i); !bytes.Equal(v.Bytes(), e.Must(name).Bytes()) {
						t.Errorf("other %s", name)
					}
				}
			}
			same := func(a, b learner, iteration int) {
				t.Helper()
				compare(a, b, look(t, a, &a.setup, iteration), look(t, b, &b.setup, iteration))
			}
			host, dev := newLearner(false), newLearner(true)
			for i := range 2 {
				same(host, dev, i)
			}
			for _, on := range []bool{false, true} { // the state of the other
				from, to := dev, newLearner(on)
				if on {
					from = host
				}
				copy(to.setup.Policy.Params().State(), from.setup.Policy.Params().State())
				test.OK(t, to.Load(stateOf(t, from)))
				same(from, to, 2)
			}

			replicas := func(on bool) (of [2]learner, got [2]algo.Metrics) { // one of them on a device
				var wait sync.WaitGroup
				for i, r := range algo.NewTeam(2) {
					of[i].setup, of[i].SAC = replayLearner(t, on && i == 1, c.encoder,
						func(s *algo.Setup, m *policy.Config) {
							c.change(s, m)
							s.Replicas = r
						})
					wait.Go(func() { got[i] = look(t, of[i], &of[i].setup, i) })
				}
				wait.Wait()
				return of, got
			}
			hosts, want := replicas(false)
			of, got := replicas(true)
			for i, l := range of {
				compare(hosts[i], l, want[i], got[i])
			}
		})
	}
}
