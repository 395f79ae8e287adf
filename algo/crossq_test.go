package algo_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

func crossqSetup(t testing.TB, changes ...change) algo.Setup {
	t.Helper()
	return trackSetup(t, append([]change{func(s *algo.Setup, m *policy.Config) {
		o := &s.Config.OffPolicy
		m.QHeadType, o.CriticActorRatio, o.EntropyTuning.TargetEntropy = policy.QHeadCrossQ, 2, -1
		s.Optim.LR, s.Optim.AdamBeta1 = 1e-3, 0.5
	}}, changes...)...)
}

// TestCrossQLearns is like TestSACLearns, but slower. It fails if the gradient flows into the targets, or if the
// actor's statistics do not move.
func TestCrossQLearns(t *testing.T) {
	for name, c := range map[string]change{
		"one batch":     asIs,
		"micro-batches": func(s *algo.Setup, _ *policy.Config) { s.MicroBatch = 16 },
	} {
		t.Run(name, func(t *testing.T) {
			s := crossqSetup(t, c)
			a := made(t, s, algo.NewCrossQ)
			if testing.Short() { // for the race detector a few updates are enough
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

// TestCrossQTargets: the loss of a batch is the error of the first half's estimates against targets from the second
// half, computed here by critics in the same state. The gradient is that of the loss with fixed targets.
func TestCrossQTargets(t *testing.T) {
	s := crossqSetup(t, func(s *algo.Setup, m *policy.Config) { m.Activation, s.Config.UpdateEpoch = "tanh", 1 })
	w, on, critic := watch(t, made(t, s, algo.NewCrossQ), s), newTrack(s.Envs), criticLike(t, s.Policy)
	m := runTrack(t, w, s, on, 0, 5) // two updates
	alpha := float32(metric(t, m, "sac/alpha"))
	before := stateOf(t, w).Clone()
	params := paramsIn(before, "critic", critic.Params())
	critic.Params().Buffers.CopyFrom(before.Sub("critic"))
	actor, statistics := slices.Clone(s.Policy.Params().Data), s.Policy.Params().Buffers.Clone()
	m = runTrack(t, w, s, on, 5, 1)
	after, b := stateOf(t, w), w.batch(2)

	s.Policy.Params().Buffers.CopyFrom(statistics) // the actor's parameters move after the critics'
	act := acts(t, s.Policy, actor, b.Next, policy.Sample, w.noise(2*2))
	joint := func(params []float32) (first, second [2][]float32) {
		copy(critic.Params().Data, params)
		n := len(b.Reward)
		q := test.Must(critic.JointQ(critic.NewWork(2*n), b.Obs, b.Action, b.Next, act.Action))(t)
		for h := range 2 {
			row := q.F32()[2*n*h:]
			first[h], second[h] = row[:n], row[n:2*n]
		}
		return first, second
	}
	_, next := joint(params)
	y := make([]float32, len(b.Reward))
	for i := range y {
		y[i] = b.Reward[i] + b.Discount[i]*(min(next[0][i], next[1][i])-alpha*act.LogProb.F32()[i])
	}
	loss := func(params []float32) float64 { // of two heads ½ Σ is the mean
		q, _ := joint(params)
		return (meanSquare(q[0], y) + meanSquare(q[1], y)) / 2
	}
	want := loss(params)
	within(t, "loss", metric(t, m, "sac/critic_loss"), want, 1e-5*want)
	checkSlope(t, "critics", gradientOf(before, after, "critic", s.CriticOptim.AdamBeta1), params, loss)
}

// TestCrossQResumes: the checkpoint has the critics' running statistics, which move in each update. The actor's are
// saved with its parameters, and move in the actor's updates.
func TestCrossQResumes(t *testing.T) {
	checkResumes(t, crossqSetup, algo.NewCrossQ)
	s := crossqSetup(t)
	a := made(t, s, algo.NewCrossQ)
	runTrack(t, a, s, newTrack(s.Envs), 0, 5)
	if stats, ok := stateOf(t, a).Get("critic.critic.0.norm.0.stats"); !ok || stats.F64()[0] != 16 {
		t.Errorf("statistics in the checkpoint: %v", stats)
	}
	if stats := s.Policy.Params().Buffers.Must("actor.norm.0.stats").F64(); stats[0] != 8 || stats[1] == 0 {
		t.Errorf("the actor's statistics: %v", stats)
	}
}

// TestCrossQReplicas: two replicas with half of the environments each end with the same critics and statistics, though
// each normalises by its own batch.
func TestCrossQReplicas(t *testing.T) {
	var saved, actors [2]tensor.Dict
	var wait sync.WaitGroup
	for m, r := range algo.NewTeam(2) {
		s := crossqSetup(t)
		s.Replicas = r
		a, w := made(t, s, algo.NewCrossQ), newTrack(s.Envs)
		w.drawn = uint64(1000 * m)
		wait.Go(func() {
			runTrack(t, a, s, w, 0, 6)
			saved[m], actors[m] = stateOf(t, a), s.Policy.Params().Buffers
		})
	}
	wait.Wait()
	for i := range saved[0].Len() {
		name, x := saved[0].Entry(i)
		if y := saved[1].Must(name); !strings.HasPrefix(name, "env.") && string(x.Bytes()) != string(y.Bytes()) {
			t.Errorf("%s differs between the replicas", name)
		}
	}
	const stats = "actor.norm.1.stats"
	if string(actors[0].Must(stats).Bytes()) != string(actors[1].Must(stats).Bytes()) {
		t.Error("the actors' statistics differ between the replicas")
	}
}

func TestCrossQRefuses(t *testing.T) {
	checkRefuses(t, trackSetup, algo.NewCrossQ, map[string]change{"critics that do not normalise": asIs})
	checkRefuses(t, crossqSetup, algo.NewSAC, map[string]change{"SAC with critics that normalise": asIs})
}
