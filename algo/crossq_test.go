package algo

import (
	"sync"
	"testing"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

func crossqSetup(t testing.TB, change ...func(*Setup, *policy.Config)) Setup {
	t.Helper()
	return sacSetup(t, append([]func(*Setup, *policy.Config){func(s *Setup, m *policy.Config) {
		m.QHeadType, s.Config.OffPolicy.CriticActorRatio, s.Config.OffPolicy.EntropyTuning.TargetEntropy = policy.QHeadCrossQ, 2, -1
		s.Optim.LR, s.Optim.AdamBeta1 = 1e-3, 0.5
	}}, change...)...)
}

// TestCrossQLearns: as TestSACLearns, more slowly. Were the gradient to flow into what follows, or the actor to see statistics that nobody moves, it would not.
func TestCrossQLearns(t *testing.T) {
	for name, change := range map[string]func(*Setup, *policy.Config){
		"one batch":     func(*Setup, *policy.Config) {},
		"micro-batches": func(s *Setup, _ *policy.Config) { s.MicroBatch = 16 },
	} {
		t.Run(name, func(t *testing.T) {
			s := crossqSetup(t, change)
			a, err := NewCrossQ(s)
			if err != nil {
				t.Fatal(err)
			}
			if testing.Short() { // the race detector looks on: a few updates meet all that there is to race
				runTrack(t, a, s, newTrack(s.Envs), 0, 5)
				return
			}
			m := runTrack(t, a, s, newTrack(s.Envs), 0, 200)
			checkGoal(t, s.Policy, 0.15)
			if q := metric(t, m, "critic/q_data"); q < -3 || q > 0.5 { // entropy pays a little
				t.Errorf("estimates %v on average, want between -3 and 0.5", q)
			}
		})
	}
}

// TestCrossQTargets: a batch's loss is that of the estimates of its first half against rewards and those of the second, computed here one by one by
// critics in the same state; and only the first half has a gradient.
func TestCrossQTargets(t *testing.T) {
	s := crossqSetup(t)
	a, err := NewCrossQ(s)
	if err != nil {
		t.Fatal(err)
	}
	runTrack(t, a, s, newTrack(s.Envs), 0, 5)
	clear(a.sums)
	a.drawSubset()
	a.first = 0
	a.gather()
	a.critics.train.open()
	if err := a.addCritic(a.batch, a.critics.train.readyAt(true)); err != nil {
		t.Fatal(err)
	}
	act, err := s.Policy.Forward(s.Policy.NewWork(a.micro), a.batch.Next, policy.Sample, a.noiseOf(2*a.number))
	if err != nil {
		t.Fatal(err)
	}
	q, err := a.critics.net.JointQ(a.critics.net.NewWork(2*a.micro), a.batch.Obs, a.batch.Action, a.batch.Next, act.Action)
	if err != nil {
		t.Fatal(err)
	}
	var want float64
	for i := range a.micro {
		first, second := q.F32()[:2*a.micro], q.F32()[2*a.micro:]
		next := min(first[a.micro+i], second[a.micro+i])
		y := a.batch.Reward[i] + a.batch.Discount[i]*(next-float32(a.temperature.alpha())*act.LogProb.F32()[i])
		for _, head := range [][]float32{first, second} {
			e := float64(head[i] - y)
			want += e * e / 2
		}
	}
	if got := a.sums[sacCriticLoss]; got < want*(1-1e-5) || got > want*(1+1e-5) || want == 0 {
		t.Errorf("loss %v, want %v", got, want)
	}
	for h := range 2 {
		for i, d := range a.dJoint.F32()[2*a.micro*h : 2*a.micro*(h+1)] {
			if (d != 0) != (i < a.micro) {
				t.Fatalf("head %d: derivative %v by estimate %d of 2·%d", h, d, i, a.micro)
			}
		}
	}
}

// TestCrossQResumes: the critics' running statistics are in the checkpoint, and move; the actor's, which go where its parameters go, at its own updates.
func TestCrossQResumes(t *testing.T) {
	checkResumes(t, func() Setup { return crossqSetup(t) }, func(s Setup) (Algorithm, error) { return NewCrossQ(s) })
	s := crossqSetup(t)
	a, err := NewCrossQ(s)
	if err != nil {
		t.Fatal(err)
	}
	runTrack(t, a, s, newTrack(s.Envs), 0, 5)
	saved, err := a.Save()
	if err != nil {
		t.Fatal(err)
	}
	if stats, ok := saved.Get("critic.critic.0.norm.0.stats"); !ok || stats.F64()[0] != 16 {
		t.Errorf("statistics in the checkpoint: %v", stats)
	}
	if stats := s.Policy.Params().Buffers.Must("actor.norm.0.stats").F64(); stats[0] != 8 || stats[1] == 0 {
		t.Errorf("the actor's statistics: %v", stats)
	}
}

// TestCrossQReplicas: two replicas with half of the environments each end with the same critics and statistics, though each normalises by its own batch.
func TestCrossQReplicas(t *testing.T) {
	members := newTeam(2)
	var saved [2]tensor.Dict
	var actors [2]*nn.Params[float32]
	var wait sync.WaitGroup
	for m := range saved {
		s := crossqSetup(t)
		s.Replicas = &replica{team: members, member: m}
		a, err := NewCrossQ(s)
		if err != nil {
			t.Fatal(err)
		}
		w := newTrack(s.Envs)
		w.drawn = uint64(1000 * m)
		wait.Go(func() {
			runTrack(t, a, s, w, 0, 6)
			saved[m], actors[m] = a.state, s.Policy.Params()
		})
	}
	wait.Wait()
	for i := range saved[0].Len() {
		name, x := saved[0].Entry(i)
		if y := saved[1].Must(name); string(x.Bytes()) != string(y.Bytes()) {
			t.Errorf("%s differs between the replicas", name)
		}
	}
	if x, y := actors[0].Buffers.Must("actor.norm.1.stats"), actors[1].Buffers.Must("actor.norm.1.stats"); string(x.Bytes()) != string(y.Bytes()) {
		t.Error("the actors' statistics differ between the replicas")
	}
}

func TestCrossQRefuses(t *testing.T) {
	if _, err := NewCrossQ(sacSetup(t)); err == nil {
		t.Error("critics that do not normalise: no error")
	}
	if _, err := NewSAC(crossqSetup(t)); err == nil {
		t.Error("SAC with critics that normalise: no error")
	}
}
