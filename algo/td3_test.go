package algo_test

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

func td3Setup(t testing.TB, changes ...change) algo.Setup {
	t.Helper()
	return trackSetup(t, append([]change{func(s *algo.Setup, m *policy.Config) {
		m.ExplorationNoise, s.Config.OffPolicy.CriticActorRatio = 0.3, 2
	}}, changes...)...)
}

// TestTD3Learns is like TestSACLearns. Values are at most 0, and at least minus the cost of the way.
func TestTD3Learns(t *testing.T) {
	for name, c := range map[string]change{
		"one step": asIs,
		"micro-batches, n-step": func(s *algo.Setup, _ *policy.Config) {
			s.MicroBatch, s.Config.OffPolicy.NStep = 16, 3
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := td3Setup(t, c)
			m := runTrack(t, made(t, s, algo.NewTD3), s, newTrack(s.Envs), 0, 150)
			checkGoal(t, s.Policy, 0.1)
			if q := metric(t, m, "critic/q_data"); q < -3 || q > 0.2 {
				t.Errorf("estimates %v on average, want between -3 and 0", q)
			}
		})
	}
}

// A td3State has all four networks of TD3.
type td3State struct {
	state                               tensor.Dict
	actor, critic, targetActor, targets []float32
}

func td3StateOf(t *testing.T, a algo.Algorithm, pol policy.Policy, critic network) td3State {
	t.Helper()
	d := stateOf(t, a).Clone()
	return td3State{d, slices.Clone(pol.Params().Data), paramsIn(d, "critic", critic.Params()),
		paramsIn(d, "target", pol.Params()), paramsIn(d, "target", critic.Params())}
}

// TestTD3Loss compares updates without target noise with a computation from all four networks. Critics learn from the
// least estimate of the target critics at the target actor's action. The actor learns from the first critic alone. The
// targets move with the actor, in every second update.
func TestTD3Loss(t *testing.T) {
	s := td3Setup(t, func(s *algo.Setup, m *policy.Config) {
		m.Activation, s.Config.UpdateEpoch, s.Config.OffPolicy.TargetNoise = "tanh", 1, 0
	})
	critic, on := criticLike(t, s.Policy), newTrack(s.Envs)
	w := watch(t, made(t, s, algo.NewTD3), s)
	runTrack(t, w, s, on, 0, 3) // nothing is learnt yet
	disturb(stateOf(t, w), "target")
	before := td3StateOf(t, w, s.Policy, critic)
	m := runTrack(t, w, s, on, 3, 1)
	after, b := td3StateOf(t, w, s.Policy, critic), w.batch(0)

	next := acts(t, s.Policy, before.targetActor, b.Next, policy.Deterministic, policy.Noise{}).Action
	worth := critic.estimates(before.targets, b.Next, next)
	y := make([]float32, len(b.Reward))
	for i := range y {
		y[i] = b.Reward[i] + b.Discount[i]*min(worth[i], worth[len(y)+i])
	}
	criticLoss := func(params []float32) float64 { return meanSquare(critic.estimates(params, b.Obs, b.Action), y) }
	within(t, "critic loss", metric(t, m, "td3/critic_loss"), criticLoss(before.critic), 1e-5)
	grad := gradientOf(before.state, after.state, "critic", s.CriticOptim.AdamBeta1)
	checkSlope(t, "critics", grad, before.critic, criticLoss) // of two heads ½ Σ is the mean
	actorLoss := func(actor []float32) (mean float64) {
		act := acts(t, s.Policy, actor, b.Obs, policy.Deterministic, policy.Noise{})
		for _, q := range critic.estimates(after.critic, b.Obs, act.Action)[:len(y)] {
			mean -= float64(q) / float64(len(y))
		}
		return mean
	}
	within(t, "actor loss", metric(t, m, "td3/actor_loss"), actorLoss(before.actor), 1e-5)
	checkSlope(t, "actor", s.Policy.Params().Grad, before.actor, actorLoss)
	checkFollows(t, "target actor", before.targetActor, after.targetActor, after.actor)
	checkFollows(t, "target critics", before.targets, after.targets, after.critic)

	m = runTrack(t, w, s, on, 4, 1)
	last := td3StateOf(t, w, s.Policy, critic)
	if !math.IsNaN(metric(t, m, "td3/actor_loss")) || slices.Equal(last.critic, after.critic) {
		t.Error("the second update is not of the critics alone")
	}
	if !slices.Equal(last.actor, after.actor) || !slices.Equal(last.targetActor, after.targetActor) ||
		!slices.Equal(last.targets, after.targets) {
		t.Error("the actor or a target moved in the second update, between the actor's")
	}
}

// TestTD3TargetsMoveBeforeTheActor: while the critics learn alone, their targets move in every second update. The actor
// and its target stay.
func TestTD3TargetsMoveBeforeTheActor(t *testing.T) {
	s := td3Setup(t, func(s *algo.Setup, _ *policy.Config) {
		s.Config.UpdateEpoch, s.Config.OffPolicy.TrainActorSteps = 1, 100
	})
	critic, on := criticLike(t, s.Policy), newTrack(s.Envs)
	a := made(t, s, algo.NewTD3)
	runTrack(t, a, s, on, 0, 3) // nothing is learnt yet
	before := td3StateOf(t, a, s.Policy, critic)
	for i := range 4 {
		runTrack(t, a, s, on, 3+i, 1)
		after := td3StateOf(t, a, s.Policy, critic)
		if i%2 == 0 {
			checkFollows(t, "target critics", before.targets, after.targets, after.critic)
		}
		if slices.Equal(after.targets, before.targets) != (i%2 != 0) || slices.Equal(after.critic, before.critic) {
			t.Errorf("update %d: the critics or their targets are wrong", i)
		}
		if !slices.Equal(after.actor, before.actor) || !slices.Equal(after.targetActor, before.actor) {
			t.Errorf("update %d: the actor or its target moved", i)
		}
		before = after
	}
}

// TestTD3Noise: target noise changes the critics' loss.
func TestTD3Noise(t *testing.T) {
	var losses []float64
	for _, noise := range []float32{0, 0.2} {
		s := td3Setup(t, func(s *algo.Setup, _ *policy.Config) {
			s.Config.UpdateEpoch, s.Config.OffPolicy.TargetNoise = 1, noise
		})
		a := made(t, s, algo.NewTD3)
		losses = append(losses, metric(t, runTrack(t, a, s, newTrack(s.Envs), 0, 4), "td3/critic_loss"))
	}
	if losses[0] == losses[1] {
		t.Errorf("the losses without and with target noise are %v", losses)
	}
}

func TestTD3Resumes(t *testing.T) { checkResumes(t, td3Setup, algo.NewTD3) }

func TestTD3Refuses(t *testing.T) {
	checkRefuses(t, trackSetup, algo.NewTD3, map[string]change{"a policy without exploration_noise": asIs})
	checkRefuses(t, td3Setup, algo.NewSAC, map[string]change{"SAC with exploration_noise": asIs})
}
