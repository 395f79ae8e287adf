package algo_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// TestSACLearns: after 150 iterations the most likely actions lead from anywhere to ½ and stay there, and the entropy
// is the target. If the time limit counted as an end, values would be too near 0. If the temperature's loss had the
// wrong sign, the entropy would diverge.
func TestSACLearns(t *testing.T) {
	for name, c := range map[string]change{
		"twin critics": asIs,
		"micro-batches, n-step, exp, slow actor": func(s *algo.Setup, _ *policy.Config) {
			o := &s.Config.OffPolicy
			s.MicroBatch, o.NStep, o.EntropyTuning.AlphaType = 16, 3, algo.AlphaExp
			o.CriticActorRatio, o.TargetUpdateFreq = 2, 2
		},
		"five critics, two of which count": func(s *algo.Setup, m *policy.Config) {
			o := &s.Config.OffPolicy
			m.NumQHeads, o.CriticSubsampleSize, o.ActorAggQ = 5, 2, algo.AggMean
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := trackSetup(t, c)
			m := runTrack(t, made(t, s, algo.NewSAC), s, newTrack(s.Envs), 0, 150)
			within(t, "entropy", metric(t, m, "actor/entropy"), -2, 0.8)
			within(t, "transitions held", metric(t, m, "replay_buffer/size"), 100*4*4, 0)
			checkGoal(t, s.Policy, 0.1)
		})
	}
}

// TestSACLoss compares the losses of updates with a computation from critics, target critics and policy. Where two of
// five critics count in targets, one pair explains the loss of all samples, and another pair that of another update.
func TestSACLoss(t *testing.T) {
	pairs := map[string]bool{}
	for _, c := range []struct {
		name   string
		heads  int
		change func(o *algo.OffPolicyConfig)
	}{
		{"least", 2, func(*algo.OffPolicyConfig) {}},
		{"mean", 2, func(o *algo.OffPolicyConfig) { o.AggQ = algo.AggMean }},
		{"no entropy in targets", 2, func(o *algo.OffPolicyConfig) { o.BackupEntropy = false }},
		{"two of five critics", 5, func(o *algo.OffPolicyConfig) {
			o.CriticSubsampleSize, o.ActorAggQ = 2, algo.AggMean
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := trackSetup(t, func(s *algo.Setup, m *policy.Config) {
				m.NumQHeads, m.Activation, s.Config.UpdateEpoch = c.heads, "tanh", 1
				s.Config.OffPolicy.EntropyTuning.InitialAlpha = 0.3
				c.change(&s.Config.OffPolicy)
			})
			w, on := watch(t, made(t, s, algo.NewSAC), s), newTrack(s.Envs)
			m := runTrack(t, w, s, on, 0, 3) // nothing is learnt yet
			disturb(stateOf(t, w), "target")
			for update := range 4 {
				before, actor := stateOf(t, w).Clone(), slices.Clone(s.Policy.Params().Data)
				alpha := metric(t, m, "sac/alpha")
				m = runTrack(t, w, s, on, 3+update, 1)
				u := newSACUpdate(t, w, uint64(update), before, actor, alpha)
				pairs[u.checkCritics(m)] = true
				u.checkActor(m)
			}
		})
	}
	if len(pairs) < 1+3 {
		t.Errorf("the pairs of critics that count are %v", pairs)
	}
}

// A sacUpdate is an update of SAC, made again from the state before it.
type sacUpdate struct {
	t             *testing.T
	setup         algo.Setup
	critic        network
	before, after tensor.Dict
	actor         []float32 // the policy's parameters before
	alpha         float64   // before
	batch         *algo.Transitions
	next          policy.Act // from what follows
	worth         []float32  // of next by the target critics, [H,N]
	noise         policy.Noise
}

func newSACUpdate(t *testing.T, w *watched, number uint64, before tensor.Dict, actor []float32,
	alpha float64) *sacUpdate {
	u := &sacUpdate{t: t, setup: w.setup, critic: criticLike(t, w.setup.Policy), before: before, after: stateOf(t, w),
		actor: actor, alpha: alpha, batch: w.batch(number), noise: w.noise(2*number + 1)}
	u.next = acts(t, w.setup.Policy, actor, u.batch.Next, policy.Sample, w.noise(2*number))
	target := paramsIn(before, "target", u.critic.Params())
	u.worth = slices.Clone(u.critic.estimates(target, u.batch.Next, u.next.Action))
	return u
}

// criticLoss returns half the sum over critics of their mean squared errors, where two of them count in targets.
func (u *sacUpdate) criticLoss(critic []float32, h, k int) float64 {
	o, n := u.setup.Config.OffPolicy, len(u.batch.Reward)
	y := make([]float32, n)
	for i := range y {
		first, second := float64(u.worth[h*n+i]), float64(u.worth[k*n+i])
		agg := min(first, second)
		if o.AggQ == algo.AggMean {
			agg = (first + second) / 2
		}
		if o.BackupEntropy {
			agg -= u.alpha * float64(u.next.LogProb.F32()[i])
		}
		y[i] = u.batch.Reward[i] + u.batch.Discount[i]*float32(agg)
	}
	q := u.critic.estimates(critic, u.batch.Obs, u.batch.Action)
	return meanSquare(q, y) * float64(u.critic.Heads()) / 2
}

// checkCritics checks the critics' loss and its gradient, and returns the pair of critics that counts.
func (u *sacUpdate) checkCritics(m algo.Metrics) (pair string) {
	u.t.Helper()
	heads, critic := u.critic.Heads(), paramsIn(u.before, "critic", u.critic.Params())
	got := metric(u.t, m, "sac/critic_loss") * float64(heads) / 2
	found := 0
	for h := range heads {
		for k := range h {
			if math.Abs(got-u.criticLoss(critic, h, k)) < 1e-6*got {
				found++
				pair = fmt.Sprint(heads, h, k)
				grad := gradientOf(u.before, u.after, "critic", u.setup.CriticOptim.AdamBeta1)
				checkSlope(u.t, "critics", grad, critic, func(x []float32) float64 { return u.criticLoss(x, h, k) })
			}
		}
	}
	if found != 1 {
		u.t.Errorf("%d pairs of critics explain the loss %v", found, got)
	}
	return pair
}

// actorLoss returns the actor's loss by the critics after the update, and the mean log-prob plus the target entropy.
func (u *sacUpdate) actorLoss(actor []float32) (mean, excess float64) {
	o, n, heads := u.setup.Config.OffPolicy, len(u.batch.Reward), u.critic.Heads()
	act := acts(u.t, u.setup.Policy, actor, u.batch.Obs, policy.Sample, u.noise)
	q := u.critic.estimates(paramsIn(u.after, "critic", u.critic.Params()), u.batch.Obs, act.Action)
	excess = -2
	for i, lp := range act.LogProb.F32() {
		least, sum := q[i], 0.0
		for h := range heads {
			least, sum = min(least, q[h*n+i]), sum+float64(q[h*n+i])
		}
		agg := float64(least)
		if o.AggQ == algo.AggMean || o.ActorAggQ == algo.AggMean {
			agg = sum / float64(heads)
		}
		mean += (u.alpha*float64(lp) - agg) / float64(n)
		excess += float64(lp) / float64(n)
	}
	return mean, excess
}

// checkActor checks the losses of actor and temperature, and their gradients.
func (u *sacUpdate) checkActor(m algo.Metrics) {
	u.t.Helper()
	loss, excess := u.actorLoss(u.actor)
	within(u.t, "actor loss", metric(u.t, m, "sac/actor_loss"), loss, 1e-5)
	slope := 1 - math.Exp(-u.alpha) // of softplus
	grad := gradientOf(u.before, u.after, "alpha", u.setup.Optim.AdamBeta1)
	within(u.t, "slope of the temperature's loss", float64(grad[0]), -slope*excess, 1e-5)
	within(u.t, "temperature's loss", metric(u.t, m, "sac/alpha_loss"), -metric(u.t, m, "sac/alpha")*excess, 1e-5)
	checkSlope(u.t, "actor", u.setup.Policy.Params().Grad, u.actor, func(x []float32) float64 {
		mean, _ := u.actorLoss(x)
		return mean
	})
}

// TestSACResumes: a SAC that loads a saved state continues with the same numbers.
func TestSACResumes(t *testing.T) { checkResumes(t, trackSetup, algo.NewSAC) }

// TestSACWaits: before min_buffer_size iterations nothing is learnt.
func TestSACWaits(t *testing.T) {
	s := trackSetup(t)
	a, w := made(t, s, algo.NewSAC), newTrack(s.Envs)
	before := slices.Clone(s.Policy.Params().Data)
	if m := runTrack(t, a, s, w, 0, 3); !math.IsNaN(metric(t, m, "sac/critic_loss")) {
		t.Error("a loss before anything is learnt")
	}
	if !slices.Equal(s.Policy.Params().Data, before) {
		t.Fatal("the policy moved before min_buffer_size")
	}
	if m := runTrack(t, a, s, w, 3, 1); math.IsNaN(metric(t, m, "sac/critic_loss")) {
		t.Error("no loss after min_buffer_size iterations")
	}
}

// TestActorWaits: before train_actor_steps iterations only the critics learn: neither the actor nor SAC's temperature.
func TestActorWaits(t *testing.T) {
	for _, name := range []string{"sac", "td3"} {
		c := offPolicy[name]
		s := c.setup(t, func(s *algo.Setup, _ *policy.Config) { s.Config.OffPolicy.TrainActorSteps = 7 })
		a, w := made(t, s, c.make), newTrack(s.Envs)
		actor, state := slices.Clone(s.Policy.Params().Data), stateOf(t, a).Clone()
		for i := range 8 {
			m := runTrack(t, a, s, w, i, 1)
			if learns := !math.IsNaN(metric(t, m, "critic/q_data")); learns != (i >= 3) {
				t.Errorf("%s, iteration %d: the critics learn: %v", name, i+1, learns)
			}
			learns, moved := !math.IsNaN(metric(t, m, name+"/actor_loss")), !slices.Equal(s.Policy.Params().Data, actor)
			if learns != (i >= 6) || moved != learns {
				t.Errorf("%s, iteration %d: the actor learns: %v, its parameters moved: %v", name, i+1, learns, moved)
			}
			if x, ok := stateOf(t, a).Get("alpha.alpha"); ok &&
				(x.F32()[0] != state.Must("alpha.alpha").F32()[0]) != (i >= 6) {
				t.Errorf("%s, iteration %d: the temperature's parameter is %v", name, i+1, x.F32()[0])
			}
		}
	}
}

func TestSACAllocatesLittle(t *testing.T) {
	s := trackSetup(t)
	a := made(t, s, algo.NewSAC)
	runTrack(t, a, s, newTrack(s.Envs), 0, 5)
	if n := testing.AllocsPerRun(5, func() { update(t, a, 1) }); n > 3*8 { // those of Single's sums
		t.Errorf("%v allocations in 8 updates", n)
	}
}

func TestSACRefuses(t *testing.T) {
	checkRefuses(t, trackSetup, algo.NewSAC, map[string]change{
		"no critics of actions":         func(_ *algo.Setup, m *policy.Config) { m.AddQHead = false },
		"no window":                     keys(func(o *algo.OffPolicyConfig) { o.ReplayBuffer.SampleWindowSize = 0 }),
		"more critics than there are":   keys(func(o *algo.OffPolicyConfig) { o.CriticSubsampleSize = 3 }),
		"micro-batches that do not fit": func(s *algo.Setup, _ *policy.Config) { s.MicroBatch = 48 },
		"no learning rate":              func(s *algo.Setup, _ *policy.Config) { s.Optim.LR = 0 },
	})
	s := trackSetup(t)
	s.CriticOptim.LR = 0
	if _, err := algo.NewSAC(s); err == nil {
		t.Error("no learning rate of the critics: no error")
	}
}
