package algo_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/tensor"
)

// TestTextCritic: PPO's advantages are GAE's over the tokens of each answer by itself, and the critic's gradient
// is that of its loss.
func TestTextCritic(t *testing.T) {
	m := tinyModel(t, lm.Options{})
	c := criticOf(t, m)
	s := setup(m)
	s.Critic, s.GroupSize = c, 1
	s.Config.AdvType, s.Config.LossType, s.Config.Gamma, s.Config.GAELambda = "gae", "actor_critic", 0.9, 0.8
	s.Config.NormalizeAdvantages, s.Config.ValueClip = algo.NormalizeNone, 0.5
	p := newTextPPO(t, s)
	b := batchOf(t, m, 1, 0, 3, 2)
	b.Group = []int64{1, 2, 3, 4}
	old := criticValues(t, c, b.Texts)
	test.OK(t, p.Prepare(b))
	near(t, "values", b.Value, old...)
	adv, at := make([]float64, len(old)), 0
	for k, n := range []int{3, 2, 4, 1} {
		for i := at + n - 1; i >= at; i-- {
			if i == at+n-1 {
				adv[i] = float64(b.Reward[k]) - old[i]
			} else {
				adv[i] = 0.9*old[i+1] - old[i] + 0.9*0.8*adv[i+1]
			}
		}
		at += n
	}
	near(t, "advantages", b.Adv, adv...)
	loss := func() (sum float64) {
		for i, v := range criticValues(t, c, b.Texts) {
			e, clip := v-float64(b.Ret[i]), old[i]+min(max(v-old[i], -0.5), 0.5)-float64(b.Ret[i])
			sum += max(e*e, clip*clip) / 2 / 10
		}
		return sum
	}
	critic := c.Model.Params
	want, before := loss(), slices.Clone(critic.Data)
	got := test.Must(p.Update(b))(t)
	if l := metric(t, got, "critic/value_loss"); math.Abs(l-want) > 1e-5 {
		t.Errorf("loss of the critic %v, want %v", l, want)
	}
	slopes(t, critic.Data, critic.Grad, before, loss, critic.Fields[len(critic.Fields)-1].Off)
}

// criticOf is a critic like m, on its device, whose values are not 0.
func criticOf(t *testing.T, m *lm.Model) *algo.TextCritic {
	t.Helper()
	c := test.Must(algo.NewTextCritic(m.Config, m.Part(), tensor.Heap, m.Params.Device()))(t)
	c.Model.Init(9)
	p := c.Model.Params
	for i := range p.Fields {
		if strings.HasPrefix(p.Fields[i].Name, "value_head") {
			for j := range p.Of(i) {
				p.Of(i)[j] = 0.1 * float32(j%3+1)
			}
		}
	}
	return c
}

// criticValues computes the value before each token with Learn, of each text by itself.
func criticValues(t *testing.T, c *algo.TextCritic, texts []algo.Sequence) (all []float64) {
	t.Helper()
	p := c.Model.Params
	head, bias := p.Of(len(p.Fields)-2), p.Of(len(p.Fields) - 1)[0]
	for _, text := range texts {
		w := c.Model.NewTraining(len(text.IDs))
		test.OK(t, c.Model.Forward(w, lm.Batch{IDs: text.IDs, Starts: []int32{0, int32(len(text.IDs))}}))
		for i, learn := range text.Learn {
			if learn {
				v := float64(bias)
				for j, h := range w.Hidden()[(i-1)*len(head):][:len(head)] {
					v += float64(head[j]) * float64(h)
				}
				all = append(all, v)
			}
		}
	}
	return all
}

// TestTextCriticApart: a critic and a policy that train apart, with two replicas each, have the parameters and
// metrics of replicas that train both, to the bit. The checkpoint of either is the other's.
func TestTextCriticApart(t *testing.T) {
	want := trainTeams(t, false, false)
	for _, apart := range [][2]bool{{true, true}, {false, true}, {true, false}} {
		if got := trainTeams(t, apart[0], apart[1]); got != want {
			t.Errorf("apart %v:\n%.900s\nwant\n%.900s", apart, got, want)
		}
	}
}

// trainTeams trains two replicas for four steps. After two steps other replicas continue from the saved state, with
// critic and policy apart if then is true, else together. It returns the metrics and parameters, which must be the same
// on both.
func trainTeams(t *testing.T, first, then bool) string {
	t.Helper()
	of := textSetup(textModel(t, lm.Options{}))
	var batches [4][2]algo.TextBatch
	for i := range batches {
		for k := range 2 {
			batches[i][k] = drawn(t, &of, 8*i+4*k, 4)
		}
	}
	teams := [4][]algo.Replicas{algo.NewTeam(2), algo.NewTeam(2), algo.NewTeam(2), algo.NewTeam(2)}
	var wait sync.WaitGroup
	results := make([]string, 2)
	for k := range 2 {
		wait.Go(func() {
			x := newMember(t, first, teams[0][k], teams[1][k])
			for i := range 4 {
				if i == 2 {
					next := newMember(t, then, teams[2][k], teams[3][k])
					next.resume(t, x)
					x = next
				}
				results[k] += fmt.Sprint(x.train(t, batches[i][k]))
			}
			results[k] += fmt.Sprint(x.model.Params.Data, x.values.Params.Data)
		})
	}
	wait.Wait()
	if results[0] != results[1] {
		t.Errorf("the replicas differ:\n%.300s\n%.300s", results[0], results[1])
	}
	return results[0]
}

// A member trains a replica of a policy and one of its critic.
type member struct {
	policy        *algo.TextPPO
	critic        *algo.TextCriticPPO // nil: policy has it
	model, values *lm.Model           // of the policy and of the critic
}

// newMember returns a member that trains policy and critic apart, each with its own replicas, or together.
func newMember(t *testing.T, apart bool, policies, critics algo.Replicas) *member {
	s := textSetup(textModel(t, lm.Options{}))
	addCritic(t, &s)
	s.Config.ValueClip, s.Config.UpdateEpoch, s.Text.NMinibatches, s.Text.MaskTruncated = 0.1, 2, 2, true
	s.Config.LossAggFunc, s.Optim.CriticWarmupSteps = algo.SeqMeanTokenMean, 3
	s.CriticOptim.LR = 2e-2
	s.Replicas = policies
	x := &member{model: s.Model, values: s.Critic.Model}
	if apart {
		own := s
		own.Model, own.Replicas, own.MicroBatch = nil, critics, algo.MicroBatch{Tokens: 400, Sequences: 1}
		var err error
		if x.critic, err = algo.NewTextCriticPPO(own); err != nil {
			t.Fatal(err)
		}
		s.Critic, s.Values = nil, true
	}
	x.policy = newTextPPO(t, s)
	return x
}

// resume takes over the state of another member.
func (x *member) resume(t *testing.T, from *member) {
	state := from.policy.Save()
	if from.critic != nil {
		critic := from.critic.Save()
		for i := range critic.Len() {
			state.Set(critic.Entry(i))
		}
	}
	copy(x.model.Params.Data, from.model.Params.Data)
	x.policy.Save().CopyFrom(state)
	if x.critic != nil {
		x.critic.Save().CopyFrom(state)
		x.critic.Counters().CopyFrom(state.Must("counters"))
	}
}

// train trains on a batch, and returns the metrics.
func (x *member) train(t *testing.T, b algo.TextBatch) map[string]float64 {
	if x.critic == nil {
		return asMap(trainText(t, x.policy, &b))
	}
	var err error
	if b.Value, err = x.critic.Values(nil, b.Texts); err != nil {
		t.Fatal(err)
	}
	own := b // policy and critic fill different fields
	test.OK(t, x.critic.Prepare(&own))
	all := asMap(trainText(t, x.policy, &b))
	m, err := x.critic.Update(&own)
	test.OK(t, err)
	maps.Copy(all, asMap(m))
	return all
}

func asMap(m algo.Metrics) map[string]float64 {
	all := map[string]float64{}
	for i, name := range m.Names {
		all[name] = m.Values[i]
	}
	return all
}

// TestTextCriticMistakes: a critic that trains apart has no ratio, and a policy whose critic trains apart needs values.
func TestTextCriticMistakes(t *testing.T) {
	s := textSetup(textModel(t, lm.Options{}))
	addCritic(t, &s)
	s.Text.EarlyStopImpRatio = 3
	if _, err := algo.NewTextCriticPPO(s); err == nil ||
		!strings.Contains(err.Error(), "early_stop_imp_ratio: 3: expected 0") {
		t.Errorf("early stop: %v", err)
	}
	s.Text.EarlyStopImpRatio, s.Critic, s.Values = 0, nil, true
	b := drawn(t, &s, 0, 1)
	test.Fails(t, newTextPPO(t, s).Prepare(&b), "the batch has no values", "a batch without values")
}
