package algo

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

func textModel(t *testing.T, o lm.Options) *lm.Model {
	t.Helper()
	c := lm.Config{Family: lm.Qwen2, Vocab: 13, Hidden: 16, Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 8, Intermediate: 24,
		Eps: 1e-6, Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault}, Tied: true, QKVBias: true, InitRange: 0.3}
	m, err := lm.New(new(nn.Params[float32]), c, o)
	if err == nil {
		err = m.Alloc(tensor.Heap)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.Init(7)
	return m
}

func textSetup(m *lm.Model) TextSetup {
	s := TextSetup{Config: DefaultConfig(), Text: DefaultTextConfig(), Optim: DefaultOptimConfig(), Model: m, GroupSize: 4,
		Iterations: 10, MicroBatch: MicroBatch{Tokens: 400},
		Sampling: engine.Sampling{MaxTokens: 9, Temperature: 0.8, TopP: 1, RepetitionPenalty: 1, Seed: 3, Stop: []int32{2}}}
	s.Config.AdvType, s.Config.LossType = "grpo", "actor"
	s.Optim.LR = 1e-2
	return s
}

func makeTextPPO(t *testing.T, s TextSetup) *TextPPO {
	t.Helper()
	p, err := NewTextPPO(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// drawn are answers of the model to prompts from first on. An answer gets a point for every token 5.
func drawn(t *testing.T, s *TextSetup, first, prompts int) TextBatch {
	t.Helper()
	e, err := engine.New(s.Model, engine.Options{MaxRunning: 5})
	if err != nil {
		t.Fatal(err)
	}
	var all []engine.Request
	for i := range prompts * s.GroupSize {
		k := first + i/s.GroupSize
		r := engine.Request{Sampling: s.Sampling, Key: uint64(k), Sample: uint64(i % s.GroupSize)}
		for j := range 1 + k%4 {
			r.Prompt = append(r.Prompt, int32(3+(k+j)%10))
		}
		all = append(all, r)
	}
	results, err := e.Generate(t.Context(), all, engine.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	var b TextBatch
	for i, r := range results {
		learn := make([]bool, len(all[i].Prompt)+len(r.Tokens))
		reward := float32(0)
		for j, id := range r.Tokens {
			learn[len(all[i].Prompt)+j] = true
			if id == 5 {
				reward++
			}
		}
		b.Texts = append(b.Texts, Sequence{IDs: slices.Concat(all[i].Prompt, r.Tokens), Learn: learn})
		b.LogProb, b.Reward = append(b.LogProb, r.LogProbs...), append(b.Reward, reward)
		b.Group, b.Ended = append(b.Group, int64(all[i].Key)), append(b.Ended, r.Stopped)
	}
	return b
}

func trainText(t *testing.T, p *TextPPO, b *TextBatch) Metrics {
	t.Helper()
	err := p.Prepare(b)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Update(b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestTextOnPolicy: the log-probs of generation are to the bit those of training, before the first step of every iteration; with adapters, too. Training raises
// the reward.
func TestTextOnPolicy(t *testing.T) {
	for name, o := range map[string]lm.Options{
		"full": {}, "lora": {LoRA: &lm.LoRA{Rank: 3, Alpha: 6, Targets: []string{"q_proj", "v_proj", "o_proj", "down_proj"}}},
	} {
		m := textModel(t, o)
		s := textSetup(m)
		s.Text.NMinibatches = 2
		p := makeTextPPO(t, s)
		var rewards []float64
		for i := range 12 {
			b := drawn(t, &s, 8*i, 8)
			got := trainText(t, p, &b)
			if x := metric(t, got, "actor/max_log_ratio"); x != 0 {
				t.Errorf("%s, iteration %d: a log ratio of %v before the first step", name, i, x)
			}
			if x := metric(t, got, "actor/ratio_abs"); x == 0 {
				t.Errorf("%s, iteration %d: the second step had ratios of 1, too", name, i)
			}
			rewards = append(rewards, metric(t, got, "rollout/rewards"))
		}
		if !(rewards[11] > rewards[0]+0.5) {
			t.Errorf("%s: rewards %v", name, rewards)
		}
	}
	m := textModel(t, lm.Options{})
	s := textSetup(m)
	b := drawn(t, &s, 0, 4)
	m.Params.Data[3] += 0.01 // another policy than the one that drew
	if x := metric(t, trainText(t, makeTextPPO(t, s), &b), "actor/max_log_ratio"); x == 0 {
		t.Error("another policy has a log ratio of 0")
	}
}

// TestTextMicroBatches: no bit of parameters or metrics depends on the micro-batch.
func TestTextMicroBatches(t *testing.T) {
	run := func(limit MicroBatch, change func(*TextSetup)) string {
		m := textModel(t, lm.Options{})
		s := textSetup(m)
		s.MicroBatch, s.Text.NMinibatches, s.Config.UpdateEpoch, s.Config.EntropyBonus = limit, 2, 2, 0.01
		change(&s)
		s.Threads = 1 + limit.Sequences // no bit depends on them, either
		p := makeTextPPO(t, s)
		defer p.Close()
		said := ""
		for i := range 2 {
			b := drawn(t, &s, 4*i, 4)
			b.Ref = slices.Clone(b.LogProb)
			said += fmt.Sprint(trainText(t, p, &b).Values)
		}
		return said + fmt.Sprint(m.Params.Data)
	}
	for name, change := range map[string]func(*TextSetup){
		"grpo": func(s *TextSetup) { s.Config.KLBeta, s.Config.LossAggFunc = 0.1, SeqMeanTokenMean },
		"gspo": func(s *TextSetup) { s.Config.LossType = lossGSPO },
		"ppo":  func(s *TextSetup) { addCritic(t, s) },
	} {
		want := run(MicroBatch{Tokens: 400}, change)
		for _, limit := range []MicroBatch{{Tokens: 14}, {Tokens: 50}, {Tokens: 400, Sequences: 1}, {Tokens: 400, Sequences: 3}} {
			if got := run(limit, change); got != want {
				t.Errorf("%s, %+v:\n%.300s\nwant\n%.300s", name, limit, got, want)
			}
		}
	}
}

// addCritic makes s that of PPO.
func addCritic(t *testing.T, s *TextSetup) {
	t.Helper()
	c, err := NewTextCritic(s.Model.Config, tensor.Heap)
	if err != nil {
		t.Fatal(err)
	}
	c.Model.Init(4)
	s.Critic, s.CriticOptim = c, s.Optim
	s.Config.AdvType, s.Config.LossType = "gae", "actor_critic"
}

// TestTextCriticApart: a critic and a policy that train apart, with two replicas each, have the parameters and metrics of replicas that train both, to the
// bit. The checkpoint of either is the other's.
func TestTextCriticApart(t *testing.T) {
	type side struct {
		policy *TextPPO
		critic *TextCriticPPO // nil: policy has it
	}
	start := func(apart bool, teams [2]*team, member int) (x side, params func() string) {
		s := textSetup(textModel(t, lm.Options{}))
		addCritic(t, &s)
		s.Config.ValueClip, s.Config.UpdateEpoch, s.Text.NMinibatches, s.Text.MaskTruncated = 0.1, 2, 2, true
		s.Config.LossAggFunc, s.Optim.CriticWarmupSteps = SeqMeanTokenMean, 3
		s.CriticOptim.LR = 2e-2
		s.Replicas = &replica{team: teams[0], member: member}
		model, critic := s.Model, s.Critic
		params = func() string { return fmt.Sprint(model.Params.Data, critic.Model.Params.Data) }
		if apart {
			own := s
			own.Model, own.Replicas, own.MicroBatch = nil, &replica{team: teams[1], member: member}, MicroBatch{Tokens: 400, Sequences: 1}
			var err error
			if x.critic, err = NewTextCriticPPO(own); err != nil {
				t.Fatal(err)
			}
			s.Critic, s.Values = nil, true
		}
		x.policy = makeTextPPO(t, s)
		return x, params
	}
	train := func(x side, b TextBatch) map[string]float64 {
		if x.critic == nil {
			m := trainText(t, x.policy, &b)
			return asMap(m)
		}
		var err error
		if b.Value, err = x.critic.Values(nil, b.Texts); err != nil {
			t.Fatal(err)
		}
		own := b // the two fill in different things
		if err := x.critic.Prepare(&own); err != nil {
			t.Fatal(err)
		}
		all := asMap(trainText(t, x.policy, &b))
		m, err := x.critic.Update(&own)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, asMap(m))
		return all
	}
	// run takes four steps. After the second another arrangement goes on, from the state.
	run := func(first, then bool) (said string) {
		of := textSetup(textModel(t, lm.Options{}))
		var batches [4][2]TextBatch
		for i := range batches {
			for k := range 2 {
				batches[i][k] = drawn(t, &of, 8*i+4*k, 4)
			}
		}
		teams := [2][2]*team{{newTeam(2), newTeam(2)}, {newTeam(2), newTeam(2)}}
		var wait sync.WaitGroup
		results := make([]string, 2)
		for k := range 2 {
			wait.Go(func() {
				x, params := start(first, teams[0], k)
				for i := range 4 {
					if i == 2 {
						state := x.policy.Save()
						if x.critic != nil {
							critic := x.critic.Save()
							for j := range critic.Len() {
								state.Set(critic.Entry(j))
							}
						}
						y, next := start(then, teams[1], k)
						copy(y.policy.policy.model.Params.Data, x.policy.policy.model.Params.Data)
						if err := y.policy.Load(state); err != nil {
							t.Error(err)
						}
						if y.critic != nil {
							if err := y.critic.Load(state); err != nil {
								t.Error(err)
							}
						}
						x, params = y, next
					}
					results[k] += fmt.Sprint(train(x, batches[i][k]))
				}
				results[k] += params()
			})
		}
		wait.Wait()
		if results[0] != results[1] {
			t.Errorf("the replicas differ:\n%.300s\n%.300s", results[0], results[1])
		}
		return results[0]
	}
	want := run(false, false)
	for _, of := range [][2]bool{{true, true}, {false, true}, {true, false}} {
		if got := run(of[0], of[1]); got != want {
			t.Errorf("apart %v:\n%.900s\nwant\n%.900s", of, got, want)
		}
	}
	s := textSetup(textModel(t, lm.Options{}))
	addCritic(t, &s)
	s.Text.EarlyStopImpRatio = 3
	if _, err := NewTextCriticPPO(s); err == nil || !strings.Contains(err.Error(), "early_stop_imp_ratio: 3: expected 0") {
		t.Errorf("early stop: %v", err)
	}
	s.Text.EarlyStopImpRatio, s.Critic, s.Values = 0, nil, true
	if b := drawn(t, &s, 0, 1); true {
		if err := makeTextPPO(t, s).Prepare(&b); err == nil || !strings.Contains(err.Error(), "the batch has no values") {
			t.Errorf("a batch without values: %v", err)
		}
	}
}

func asMap(m Metrics) map[string]float64 {
	all := map[string]float64{}
	for i, name := range m.Names {
		all[name] = m.Values[i]
	}
	return all
}

// TestTextReplicas: two replicas, each with half of the texts of each minibatch, take the step that one takes with all, though one has far more tokens.
func TestTextReplicas(t *testing.T) {
	for _, how := range []string{TokenMean, SeqMeanTokenMean, SeqMeanTokenSum} {
		s := textSetup(textModel(t, lm.Options{}))
		s.Config.LossAggFunc, s.Config.ShuffleRollout, s.Config.AdvType = how, false, "reinpp"
		s.Optim.ClipGrad = 0
		b := drawn(t, &s, 0, 6)
		slices.SortFunc(b.Texts, func(x, y Sequence) int { return len(x.IDs) - len(y.IDs) }) // rewards stay
		b.LogProb = nil
		p := makeTextPPO(t, s)
		var err error
		if b.LogProb, err = p.policy.Append(nil, b.Texts); err != nil {
			t.Fatal(err)
		}
		if err := b.check(4, false); err != nil {
			t.Fatal(err)
		}
		halves := []TextBatch{b.part(0, 12), b.part(12, 24)}
		one := trainText(t, p, &b)
		want := slices.Clone(s.Model.Params.Grad)
		team := newTeam(2)
		var wait sync.WaitGroup
		got, said := make([][]float32, 2), make([]Metrics, 2)
		for i := range 2 {
			mine := textSetup(textModel(t, lm.Options{}))
			mine.Config, mine.Optim, mine.Replicas = s.Config, s.Optim, &replica{team: team, member: i}
			p := makeTextPPO(t, mine)
			wait.Go(func() {
				said[i] = trainText(t, p, &halves[i])
				got[i] = mine.Model.Params.Grad
			})
		}
		wait.Wait()
		if !slices.Equal(got[0], got[1]) || fmt.Sprint(said[0]) != fmt.Sprint(said[1]) {
			t.Errorf("%s: the replicas differ:\n%v\n%v", how, said[0], said[1])
		}
		norm, off := 0.0, 0.0
		for i, g := range want {
			norm, off = norm+float64(g*g), off+math.Pow(float64(g)-float64(got[0][i]), 2)
		}
		if !(math.Sqrt(off) < 1e-5*math.Sqrt(norm)) {
			t.Errorf("%s: the gradient is %v off one of %v", how, math.Sqrt(off), math.Sqrt(norm))
		}
		for i, x := range one.Values {
			if y := said[0].Values[i]; math.Abs(x-y) > 1e-5*max(1, math.Abs(x)) {
				t.Errorf("%s: %s is %v, with one replica %v", how, one.Names[i], y, x)
			}
		}
	}
}

// TestTextStillGroups: without a difference in any group there is no step. With max_num_gen_batches, such groups count nowhere, and later groups take their
// places.
func TestTextStillGroups(t *testing.T) {
	s := textSetup(textModel(t, lm.Options{}))
	still := drawn(t, &s, 0, 3)
	for i := range still.Reward {
		still.Reward[i] = 1
	}
	before := slices.Clone(s.Model.Params.Data)
	m := trainText(t, makeTextPPO(t, s), &still)
	if metric(t, m, "actor/optimizer_steps") != 0 || metric(t, m, "rollout/uninformative_groups") != 1 ||
		!slices.Equal(before, s.Model.Params.Data) {
		t.Errorf("no differences, and a step: %v", m)
	}

	s.Config.MaxNumGenBatches = 3
	p := makeTextPPO(t, s)
	first, second := drawn(t, &s, 10, 3), drawn(t, &s, 20, 3)
	for i := range 4 {
		first.Reward[i], first.Reward[8+i], second.Reward[i] = 1, 0, 1 // groups 0 and 2, and 0
		first.Reward[4+i], second.Reward[4+i], second.Reward[8+i] = float32(i), float32(i), float32(i)
	}
	want := JoinTexts(mustPart(t, &second, 1), mustPart(t, &first, 1), mustPart(t, &second, 2))
	b := first
	if more, err := p.Resample(0, &b); !more || err != nil {
		t.Fatal(more, err)
	}
	only := b
	b = second
	if more, err := p.Resample(1, &b); more || err != nil {
		t.Fatal(more, err)
	}
	if fmt.Sprint(b.Texts, b.LogProb, b.Reward, b.Group) != fmt.Sprint(want.Texts, want.LogProb, want.Reward, want.Group) {
		t.Errorf("groups %v, want %v", b.Group, want.Group)
	}
	if x := metric(t, trainText(t, p, &b), "rollout/gen_batches"); x != 2 {
		t.Errorf("%v batches", x)
	}
	if err := p.Prepare(&only); err != nil {
		t.Fatal(err)
	}
	for k := range only.Texts {
		lo, hi := only.tokens(k)
		if want := float32((k / 4) % 2); lo < hi && (only.Weight[lo] != want || only.Weight[hi-1] != want) {
			t.Errorf("text %d has weight %v, want %v", k, only.Weight[lo:hi], want)
		}
	}
}

func mustPart(t *testing.T, b *TextBatch, group int) TextBatch {
	t.Helper()
	if err := b.check(4, false); err != nil {
		t.Fatal(err)
	}
	return b.part(4*group, 4*group+4)
}

// TestTextEarlyStop: an update ends before the step of a minibatch whose mean ratio is too large, but only then.
func TestTextEarlyStop(t *testing.T) {
	for most, want := range map[float32]float64{0.9: 0, 1.3: 1, 0: 6, 1e6: 6} {
		s := textSetup(textModel(t, lm.Options{}))
		s.Text.NMinibatches, s.Config.UpdateEpoch, s.Text.EarlyStopImpRatio, s.Config.ShuffleRollout = 2, 3, most, false
		b := drawn(t, &s, 0, 8)
		second := mustPart(t, &b, 4).LogProb // shares the memory
		for i := range second {
			second[i] -= 5
		}
		if got := metric(t, trainText(t, makeTextPPO(t, s), &b), "actor/optimizer_steps"); got != want {
			t.Errorf("early_stop_imp_ratio %v: %v steps, want %v", most, got, want)
		}
	}
}

// TestTextRecompute: ratios refer to the policy before the update, and importance weights tell it from the one that drew.
func TestTextRecompute(t *testing.T) {
	s := textSetup(textModel(t, lm.Options{}))
	s.Config.RecomputeLogprobs, s.Text.ImportanceSamplingFix, s.Text.ImportanceSamplingClip = true, true, 1.1
	b := drawn(t, &s, 0, 4)
	p := makeTextPPO(t, s)
	at := slices.Clone(b.LogProb)
	for i := range b.LogProb {
		b.LogProb[i] += 0.3*float32(i%3) - 0.3
	}
	plain := textSetup(textModel(t, lm.Options{}))
	c := b
	c.LogProb = at
	if err := p.Prepare(&b); err != nil {
		t.Fatal(err)
	}
	if err := makeTextPPO(t, plain).Prepare(&c); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(b.Old, at) {
		t.Errorf("recomputed %v\nwant %v", b.Old, at)
	}
	for i := range b.Adv {
		want := float64(c.Adv[i]) * min(math.Exp(float64(at[i])-float64(b.LogProb[i])), float64(float32(1.1)))
		if math.Abs(float64(b.Adv[i])-want) > 1e-5 {
			t.Errorf("token %d: advantage %v, want %v", i, b.Adv[i], want)
		}
	}
	rolled := textSetup(textModel(t, lm.Options{}))
	rolled.Config.RecomputeLogprobs = true
	d := c
	d.LogProb, d.Recomputed = nil, nil
	if err := makeTextPPO(t, rolled).Prepare(&d); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.Old, at) || !slices.Equal(d.LogProb, at) || !slices.Equal(d.Adv, c.Adv) {
		t.Errorf("without log-probs of the rollout: %v\nwant %v", d.Old, at)
	}
	m, err := p.Update(&b)
	if err != nil || metric(t, m, "actor/ratio_abs") != 0 || math.Abs(metric(t, m, "actor/max_log_ratio")-0.3) > 1e-5 {
		t.Errorf("%v, %v", m, err)
	}
}

// quiet is one replica whose gradients need no memory.
type quiet struct{ Single }

func (quiet) Gradient([]float32) GradientStream { return quiet{} }
func (quiet) Ready(int, int)                    {}
func (quiet) Wait(func(lo, hi int)) error       { return nil }

// TestTextAllocations: an update allocates nothing for each minibatch.
func TestTextAllocations(t *testing.T) {
	allocations := func(epochs int, change func(*TextSetup)) float64 {
		s := textSetup(textModel(t, lm.Options{}))
		s.Config.UpdateEpoch, s.Text.NMinibatches, s.MicroBatch.Sequences, s.Replicas = epochs, 4, 2, quiet{}
		change(&s)
		p, b := makeTextPPO(t, s), drawn(t, &s, 0, 4)
		return testing.AllocsPerRun(5, func() { trainText(t, p, &b) })
	}
	for name, change := range map[string]func(*TextSetup){
		"grpo": func(*TextSetup) {},
		"gspo": func(s *TextSetup) { s.Config.LossType = lossGSPO },
		"ppo":  func(s *TextSetup) { addCritic(t, s) },
	} {
		if few, many := allocations(2, change), allocations(8, change); few != many {
			t.Errorf("%s: %v allocations with 2 epochs, %v with 8", name, few, many)
		}
	}
}

// TestTextResume: what Save returns and the parameters are all that an update depends on.
func TestTextResume(t *testing.T) {
	s := textSetup(textModel(t, lm.Options{}))
	p := makeTextPPO(t, s)
	b := drawn(t, &s, 0, 4)
	trainText(t, p, &b)
	other := textSetup(textModel(t, lm.Options{}))
	copy(other.Model.Params.Data, s.Model.Params.Data)
	q := makeTextPPO(t, other)
	if err := q.Load(p.Save()); err != nil {
		t.Fatal(err)
	}
	b = drawn(t, &s, 4, 4)
	want, got := fmt.Sprint(trainText(t, p, &b)), fmt.Sprint(trainText(t, q, &b))
	if got != want || !slices.Equal(other.Model.Params.Data, s.Model.Params.Data) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestTextMistakes: keys that texts do not have, sampling that training can't follow, and batches that fit nothing are refused by name.
func TestTextMistakes(t *testing.T) {
	for want, change := range map[string]func(*TextSetup){
		"top_p: 0.8":                      func(s *TextSetup) { s.Sampling.TopP = 0.8 },
		"top_k: 5":                        func(s *TextSetup) { s.Sampling.TopK = 5 },
		"repetition_penalty: 1.1":         func(s *TextSetup) { s.Sampling.RepetitionPenalty = 1.1 },
		"temperature: 0":                  func(s *TextSetup) { s.Sampling.Temperature = 0 },
		"adv_type: mean":                  func(s *TextSetup) { s.Config.AdvType = "mean" },
		"loss_type: actor_critic":         func(s *TextSetup) { s.Config.LossType = "actor_critic" },
		"loss_type: gspo":                 func(s *TextSetup) { s.Config.AdvType, s.Config.LossType = "reinpp", "gspo" },
		"n_minibatches: 2":                func(s *TextSetup) { s.Config.LossType, s.Text.NMinibatches = "policy_gradient", 2 },
		"target_kl: 0.1":                  func(s *TextSetup) { s.Config.TargetKL = 0.1 },
		"max_num_gen_batches: 2":          func(s *TextSetup) { s.Config.AdvType, s.Config.MaxNumGenBatches = "reinpp", 2 },
		"importance_sampling_fix: true":   func(s *TextSetup) { s.Text.ImportanceSamplingFix = true },
		"reinpp_kl_penalty_type: k9":      func(s *TextSetup) { s.Text.ReinppKLPenaltyType = "k9" },
		"normalize_advantages: minibatch": func(s *TextSetup) { s.Config.NormalizeAdvantages = NormalizeMinibatch },
	} {
		s := textSetup(textModel(t, lm.Options{}))
		change(&s)
		if _, err := NewTextPPO(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	for want, change := range map[string]func(*TextBatch){
		"expected a multiple of the group_size 4": func(b *TextBatch) { b.Texts = b.Texts[:5] },
		"text 2 is of group 9":                    func(b *TextBatch) { b.Group[2] = 9 },
		"the reward of text 3 (group 0)":          func(b *TextBatch) { b.Reward[3] = float32(math.NaN()) },
		"log-probs of":                            func(b *TextBatch) { b.LogProb = b.LogProb[1:] },
		"token 1 has +Inf":                        func(b *TextBatch) { b.LogProb[1] = float32(math.Inf(1)) },
		"no log-probs by a reference":             func(*TextBatch) {},
		"text 1 has":                              func(b *TextBatch) { b.Texts[1].Learn = slices.Repeat([]bool{true}, len(b.Texts[1].IDs)) },
	} {
		s := textSetup(textModel(t, lm.Options{}))
		s.Config.KLBeta = 0.1
		b := drawn(t, &s, 0, 2)
		change(&b)
		if err := makeTextPPO(t, s).Prepare(&b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}

// TestTextPage: the page of algorithms for answers explains every metric.
func TestTextPage(t *testing.T) {
	page, err := os.ReadFile("../docs/algorithms/texts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*TextSetup){
		func(s *TextSetup) { s.Config.KLBeta, s.Config.MaxNumGenBatches = 0.1, 2 },
		func(s *TextSetup) { addCritic(t, s) },
	} {
		s := textSetup(textModel(t, lm.Options{}))
		change(&s)
		b := drawn(t, &s, 0, 2)
		b.Ref, b.Right, b.Unparsable = b.LogProb, make([]bool, len(b.Texts)), make([]bool, len(b.Texts))
		p := makeTextPPO(t, s)
		if _, err := p.Resample(0, &b); err != nil {
			t.Fatal(err)
		}
		for _, name := range trainText(t, p, &b).Names {
			if !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/algorithms/texts.md does not explain %s", name)
			}
		}
	}
}

// TestSharedFunctions: texts and environments use the same surrogate, KL, aggregation, advantages and losses. Each of these is one function, which the files of
// both call, and files of texts compute no exponential, root or logarithm of their own.
func TestSharedFunctions(t *testing.T) {
	shared := map[string][2]string{ // a call in the files of texts, and one in those of environments
		"Loss": {"text_ppo.go", "ppo.go"}, "KLLoss": {"text_ppo.go", "ppo.go"}, "EntropyLoss": {"text_ppo.go", "ppo.go"},
		"ValueLoss": {"text_critic.go", "ppo.go"}, "Aggregate": {"text_training.go", "aggregate.go"}, "CountSamples": {"text_training.go", "aggregate.go"},
		"estimate": {"text_training.go", "advantages.go"}, "standardise": {"text_ppo.go", "advantages.go"},
		"replaceGroups": {"text_resample.go", "dynamic.go"}, "klEstimate": {"text_ppo.go", "kl.go"}, "clip": {"text_ppo.go", "ppo.go"}, "GAE": {"estimator.go", "estimator.go"},
		"Reinforce": {"reinforce.go", "reinforce.go"}, "permute": {"text_training.go", "sequences.go"},
	}
	calls, declared := map[string]map[string]bool{}, map[string]int{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if f.Recv == nil {
				declared[f.Name.Name]++
			}
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				switch x := call.Fun.(type) {
				case *ast.Ident:
					note(calls, x.Name, name)
				case *ast.SelectorExpr:
					note(calls, x.Sel.Name, name)
					if of, ok := x.X.(*ast.Ident); ok && of.Name == "math" && strings.HasPrefix(name, "text_") &&
						slices.Contains([]string{"Exp", "Log", "Sqrt", "Expm1", "Pow"}, x.Sel.Name) && f.Name.Name != "ImportanceWeights" {
						t.Errorf("%s: %s calls math.%s: want the functions that environments use", name, f.Name.Name, x.Sel.Name)
					}
				}
				return true
			})
		}
	}
	for f, where := range shared {
		for _, file := range where {
			if !calls[f][file] {
				t.Errorf("%s does not call %s", file, f)
			}
		}
		if n := declared[f]; n > 1 || n == 0 && f != "Loss" && f != "estimate" && f != "clip" {
			t.Errorf("%d functions %s", n, f)
		}
	}
}

func note(calls map[string]map[string]bool, f, file string) {
	if calls[f] == nil {
		calls[f] = map[string]bool{}
	}
	calls[f][file] = true
}
