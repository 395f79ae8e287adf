package algo_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/tensor"
)

// textSetup is a GRPO of small groups. Its model draws the answers, see drawn.
func textSetup(m *lm.Model) algo.TextSetup {
	s := algo.TextSetup{Config: algo.DefaultConfig(), Text: algo.DefaultTextConfig(), Optim: algo.DefaultOptimConfig(),
		Model: m, GroupSize: 4, Iterations: 10, MicroBatch: algo.MicroBatch{Tokens: 400},
		Sampling: engine.Sampling{MaxTokens: 9, Temperature: 0.8, TopP: 1, RepetitionPenalty: 1, Seed: 3,
			Stop: []int32{2}}}
	s.Config.AdvType, s.Config.LossType = "grpo", "actor"
	s.Optim.LR = 1e-2
	return s
}

// addCritic makes s a setup of PPO.
func addCritic(t *testing.T, s *algo.TextSetup) {
	t.Helper()
	c := test.Must(algo.NewTextCritic(s.Model.Config, s.Model.Part(), tensor.Heap, nil))(t)
	c.Model.Init(4)
	s.Critic, s.CriticOptim = c, s.Optim
	s.Config.AdvType, s.Config.LossType = "gae", "actor_critic"
}

// drawn are answers of the model to prompts from first on. An answer gets a point for every token 5.
func drawn(t *testing.T, s *algo.TextSetup, first, prompts int) algo.TextBatch {
	t.Helper()
	e := test.Must(engine.New(s.Model, engine.Options{MaxRunning: 5}))(t)
	var all []engine.Request
	for i := range prompts * s.GroupSize {
		k := first + i/s.GroupSize
		r := engine.Request{Sampling: s.Sampling, Key: uint64(k), Sample: uint64(i % s.GroupSize)}
		for j := range 1 + k%4 {
			r.Prompt = append(r.Prompt, int32(3+(k+j)%10))
		}
		all = append(all, r)
	}
	results := test.Must(e.Generate(t.Context(), all, engine.Watch{}))(t)
	var b algo.TextBatch
	for i, r := range results {
		learn := make([]bool, len(all[i].Prompt)+len(r.Tokens))
		reward := float32(0)
		for j, id := range r.Tokens {
			learn[len(all[i].Prompt)+j] = true
			if id == 5 {
				reward++
			}
		}
		b.Texts = append(b.Texts, algo.Sequence{IDs: slices.Concat(all[i].Prompt, r.Tokens), Learn: learn})
		b.LogProb, b.Reward = append(b.LogProb, r.LogProbs...), append(b.Reward, reward)
		b.Group, b.Ended = append(b.Group, int64(all[i].Key)), append(b.Ended, r.Stopped)
	}
	return b
}

// tokensBefore returns the number of tokens with Learn in the first k texts.
func tokensBefore(b *algo.TextBatch, k int) (n int) {
	for _, s := range b.Texts[:k] {
		for _, learn := range s.Learn {
			if learn {
				n++
			}
		}
	}
	return n
}

// part is texts lo to hi of b. It shares their memory.
func part(b *algo.TextBatch, lo, hi int) algo.TextBatch {
	return algo.TextBatch{Texts: b.Texts[lo:hi], LogProb: b.LogProb[tokensBefore(b, lo):tokensBefore(b, hi)],
		Reward: b.Reward[lo:hi], Group: b.Group[lo:hi], Ended: b.Ended[lo:hi]}
}

func trainText(t *testing.T, p *algo.TextPPO, b *algo.TextBatch) algo.Metrics {
	t.Helper()
	err := p.Prepare(b)
	test.OK(t, err)
	m := test.Must(p.Update(b))(t)
	return m
}

func metric(t testing.TB, m algo.Metrics, name string) float64 {
	t.Helper()
	x, ok := m.Get(name)
	if !ok {
		t.Fatalf("no %s in %v", name, m.Names)
	}
	return x
}

// TestTextOnPolicy: before the first step of every iteration the log-probs of generation are to the bit
// those of training, with adapters, too. Training raises the reward.
func TestTextOnPolicy(t *testing.T) {
	adapters := &lm.LoRA{Rank: 3, Alpha: 6, Targets: []string{"q_proj", "v_proj", "o_proj", "down_proj"}}
	for name, o := range map[string]lm.Options{"full": {}, "lora": {LoRA: adapters}} {
		m := textModel(t, o)
		s := textSetup(m)
		s.Text.NMinibatches = 2
		p := newTextPPO(t, s)
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
	if x := metric(t, trainText(t, newTextPPO(t, s), &b), "actor/max_log_ratio"); x == 0 {
		t.Error("another policy has a log ratio of 0")
	}
}

// TestTextMicroBatches: no bit of parameters or metrics depends on the micro-batch.
func TestTextMicroBatches(t *testing.T) {
	run := func(limit algo.MicroBatch, change func(*algo.TextSetup)) string {
		m := textModel(t, lm.Options{})
		s := textSetup(m)
		s.MicroBatch, s.Text.NMinibatches, s.Config.UpdateEpoch, s.Config.EntropyBonus = limit, 2, 2, 0.01
		change(&s)
		s.Threads = 1 + limit.Sequences // no bit depends on them, either
		p := newTextPPO(t, s)
		defer p.Close()
		said := ""
		for i := range 2 {
			b := drawn(t, &s, 4*i, 4)
			b.Ref = slices.Clone(b.LogProb)
			said += fmt.Sprint(trainText(t, p, &b).Values)
		}
		return said + fmt.Sprint(m.Params.Data)
	}
	for name, change := range map[string]func(*algo.TextSetup){
		"grpo": func(s *algo.TextSetup) { s.Config.KLBeta, s.Config.LossAggFunc = 0.1, algo.SeqMeanTokenMean },
		"gspo": func(s *algo.TextSetup) { s.Config.LossType = "gspo" },
		"ppo":  func(s *algo.TextSetup) { addCritic(t, s) },
	} {
		want := run(algo.MicroBatch{Tokens: 400}, change)
		for _, limit := range []algo.MicroBatch{{Tokens: 14}, {Tokens: 50}, {Tokens: 400, Sequences: 1},
			{Tokens: 400, Sequences: 3}} {
			if got := run(limit, change); got != want {
				t.Errorf("%s, %+v:\n%.300s\nwant\n%.300s", name, limit, got, want)
			}
		}
	}
}

// quiet is one replica whose gradients need no memory.
type quiet struct{ algo.Single }

func (quiet) Gradient([]float32) algo.GradientStream { return quiet{} }
func (quiet) Ready(int, int)                         {}
func (quiet) Wait(func(lo, hi int)) error            { return nil }

// TestTextAllocations: an update allocates nothing for each minibatch.
func TestTextAllocations(t *testing.T) {
	allocations := func(epochs int, change func(*algo.TextSetup)) float64 {
		s := textSetup(textModel(t, lm.Options{}))
		s.Config.UpdateEpoch, s.Text.NMinibatches, s.MicroBatch.Sequences, s.Replicas = epochs, 4, 2, quiet{}
		change(&s)
		p, b := newTextPPO(t, s), drawn(t, &s, 0, 4)
		return testing.AllocsPerRun(5, func() { trainText(t, p, &b) })
	}
	for name, change := range map[string]func(*algo.TextSetup){
		"grpo": func(*algo.TextSetup) {},
		"gspo": func(s *algo.TextSetup) { s.Config.LossType = "gspo" },
		"ppo":  func(s *algo.TextSetup) { addCritic(t, s) },
	} {
		if few, many := allocations(2, change), allocations(8, change); few != many {
			t.Errorf("%s: %v allocations with 2 epochs, %v with 8", name, few, many)
		}
	}
}

// TestTextReplicas: two replicas, each with half of the texts of each minibatch, take the same step as one replica with
// all texts. The halves have different numbers of tokens.
func TestTextReplicas(t *testing.T) {
	for _, how := range []string{algo.TokenMean, algo.SeqMeanTokenMean, algo.SeqMeanTokenSum} {
		t.Run(how, func(t *testing.T) {
			s := textSetup(textModel(t, lm.Options{}))
			s.Config.LossAggFunc, s.Config.ShuffleRollout, s.Config.AdvType = how, false, "reinpp"
			s.Optim.ClipGrad = 0
			b := sortedByLength(t, &s)
			halves := []algo.TextBatch{part(&b, 0, 12), part(&b, 12, 24)}
			one := trainText(t, newTextPPO(t, s), &b)
			two, grad := trainHalves(t, &s, halves)
			norm, off := 0.0, 0.0
			for i, g := range s.Model.Params.Grad {
				norm, off = norm+float64(g*g), off+math.Pow(float64(g)-float64(grad[i]), 2)
			}
			if !(math.Sqrt(off) < 1e-5*math.Sqrt(norm)) {
				t.Errorf("the gradient is %v off one of %v", math.Sqrt(off), math.Sqrt(norm))
			}
			for i, x := range one.Values {
				if y := two.Values[i]; math.Abs(x-y) > 1e-5*max(1, math.Abs(x)) {
					t.Errorf("%s is %v, with one replica %v", one.Names[i], y, x)
				}
			}
		})
	}
}

// sortedByLength are 24 answers in the order of their lengths. They keep the rewards of others.
func sortedByLength(t *testing.T, s *algo.TextSetup) algo.TextBatch {
	t.Helper()
	b := drawn(t, s, 0, 6)
	slices.SortFunc(b.Texts, func(x, y algo.Sequence) int { return len(x.IDs) - len(y.IDs) })
	p := algo.NewTextLogProbs(s.Model, s.MicroBatch, 1, lm.Mesh{}, s.Sampling.Temperature)
	var err error
	if b.LogProb, err = p.Append(nil, b.Texts); err != nil {
		t.Fatal(err)
	}
	return b
}

// trainHalves trains two replicas, and returns their metrics and gradient, which must be the same.
func trainHalves(t *testing.T, s *algo.TextSetup, halves []algo.TextBatch) (algo.Metrics, []float32) {
	t.Helper()
	var wait sync.WaitGroup
	grads, metrics := make([][]float32, 2), make([]algo.Metrics, 2)
	for i, r := range algo.NewTeam(2) {
		mine := textSetup(textModel(t, lm.Options{}))
		mine.Config, mine.Optim, mine.Replicas = s.Config, s.Optim, r
		p := newTextPPO(t, mine)
		wait.Go(func() {
			metrics[i] = trainText(t, p, &halves[i])
			grads[i] = mine.Model.Params.Grad
		})
	}
	wait.Wait()
	if !slices.Equal(grads[0], grads[1]) || fmt.Sprint(metrics[0]) != fmt.Sprint(metrics[1]) {
		t.Errorf("the replicas differ:\n%v\n%v", metrics[0], metrics[1])
	}
	return metrics[0], grads[0]
}

// TestTextStillGroups: if no group has a difference, there is no step.
func TestTextStillGroups(t *testing.T) {
	s := textSetup(textModel(t, lm.Options{}))
	still := drawn(t, &s, 0, 3)
	for i := range still.Reward {
		still.Reward[i] = 1
	}
	before := slices.Clone(s.Model.Params.Data)
	m := trainText(t, newTextPPO(t, s), &still)
	if metric(t, m, "actor/optimizer_steps") != 0 || metric(t, m, "rollout/uninformative_groups") != 1 ||
		!slices.Equal(before, s.Model.Params.Data) {
		t.Errorf("no differences, and a step: %v", m)
	}
}

// TestTextResample: with max_num_gen_batches later groups replace groups without a difference.
func TestTextResample(t *testing.T) {
	s := textSetup(textModel(t, lm.Options{}))
	s.Config.MaxNumGenBatches = 3
	p := newTextPPO(t, s)
	first, second := drawn(t, &s, 10, 3), drawn(t, &s, 20, 3)
	for i := range 4 {
		first.Reward[i], first.Reward[8+i], second.Reward[i] = 1, 0, 1 // groups 0 and 2, and 0
		first.Reward[4+i], second.Reward[4+i], second.Reward[8+i] = float32(i), float32(i), float32(i)
	}
	want := algo.JoinTexts(part(&second, 4, 8), part(&first, 4, 8), part(&second, 8, 12))
	b := first
	if more, err := p.Resample(0, &b); !more || err != nil {
		t.Fatal(more, err)
	}
	only := b
	b = second
	if more, err := p.Resample(1, &b); more || err != nil {
		t.Fatal(more, err)
	}
	got := fmt.Sprint(b.Texts, b.LogProb, b.Reward, b.Group)
	if got != fmt.Sprint(want.Texts, want.LogProb, want.Reward, want.Group) {
		t.Errorf("groups %v, want %v", b.Group, want.Group)
	}
	m := trainText(t, p, &b)
	x, still := metric(t, m, "rollout/gen_batches"), metric(t, m, "rollout/uninformative_groups")
	if x != 2 || still != 0.5 {
		t.Errorf("%v batches, in which %v of the groups have no difference, want 2 and 0.5", x, still)
	}
	test.OK(t, p.Prepare(&only))
	for k := range only.Texts {
		lo, hi := tokensBefore(&only, k), tokensBefore(&only, k+1)
		if want := float32((k / 4) % 2); lo < hi && (only.Weight[lo] != want || only.Weight[hi-1] != want) {
			t.Errorf("text %d has weight %v, want %v", k, only.Weight[lo:hi], want)
		}
	}
}

// TestTextEarlyStop: an update ends before the step of a minibatch whose mean ratio is too large, but only then.
func TestTextEarlyStop(t *testing.T) {
	for most, want := range map[float32]float64{0.9: 0, 1.3: 1, 0: 6, 1e6: 6} {
		s := textSetup(textModel(t, lm.Options{}))
		s.Text.NMinibatches, s.Config.UpdateEpoch, s.Text.EarlyStopImpRatio, s.Config.ShuffleRollout = 2, 3, most, false
		b := drawn(t, &s, 0, 8)
		second := part(&b, 16, 20).LogProb // shares the memory
		for i := range second {
			second[i] -= 5
		}
		test.Equal(t, metric(t, trainText(t, newTextPPO(t, s), &b), "actor/optimizer_steps"), want,
			"early_stop_imp_ratio %v: steps", most)
	}
}

// TestTextRecompute: ratios refer to the policy before the update. Importance weights compare this policy with the
// policy that drew the answers.
func TestTextRecompute(t *testing.T) {
	s := textSetup(textModel(t, lm.Options{}))
	s.Config.RecomputeLogprobs, s.Text.ImportanceSamplingFix, s.Text.ImportanceSamplingClip = true, true, 1.1
	b := drawn(t, &s, 0, 4)
	p := newTextPPO(t, s)
	at := slices.Clone(b.LogProb)
	for i := range b.LogProb {
		b.LogProb[i] += 0.3*float32(i%3) - 0.3
	}
	plain := textSetup(textModel(t, lm.Options{}))
	c := b
	c.LogProb = at
	test.OK(t, p.Prepare(&b))
	test.OK(t, newTextPPO(t, plain).Prepare(&c))
	test.EqualSlices(t, b.Old, at, "recomputed")
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
	test.OK(t, newTextPPO(t, rolled).Prepare(&d))
	if !slices.Equal(d.Old, at) || !slices.Equal(d.LogProb, at) || !slices.Equal(d.Adv, c.Adv) {
		t.Errorf("without log-probs of the rollout: %v\nwant %v", d.Old, at)
	}
	m, err := p.Update(&b)
	if err != nil || metric(t, m, "actor/ratio_abs") != 0 || math.Abs(metric(t, m, "actor/max_log_ratio")-0.3) > 1e-5 {
		t.Errorf("%v, %v", m, err)
	}
}

// TestTextResume: an update depends on the state of Save and on the parameters alone.
func TestTextResume(t *testing.T) {
	s := textSetup(textModel(t, lm.Options{}))
	p := newTextPPO(t, s)
	b := drawn(t, &s, 0, 4)
	trainText(t, p, &b)
	other := textSetup(textModel(t, lm.Options{}))
	copy(other.Model.Params.Data, s.Model.Params.Data)
	q := newTextPPO(t, other)
	q.Save().CopyFrom(p.Save())
	b = drawn(t, &s, 4, 4)
	want, got := fmt.Sprint(trainText(t, p, &b)), fmt.Sprint(trainText(t, q, &b))
	if got != want || !slices.Equal(other.Model.Params.Data, s.Model.Params.Data) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestTextSettings: keys that texts do not have, and sampling that training cannot follow, are refused by name.
func TestTextSettings(t *testing.T) {
	for want, change := range map[string]func(*algo.TextSetup){
		"top_p: 0.8":              func(s *algo.TextSetup) { s.Sampling.TopP = 0.8 },
		"top_k: 5":                func(s *algo.TextSetup) { s.Sampling.TopK = 5 },
		"repetition_penalty: 1.1": func(s *algo.TextSetup) { s.Sampling.RepetitionPenalty = 1.1 },
		"temperature: 0":          func(s *algo.TextSetup) { s.Sampling.Temperature = 0 },
		"adv_type: mean":          func(s *algo.TextSetup) { s.Config.AdvType = "mean" },
		"loss_type: actor_critic": func(s *algo.TextSetup) { s.Config.LossType = "actor_critic" },
		"loss_type: gspo":         func(s *algo.TextSetup) { s.Config.AdvType, s.Config.LossType = "reinpp", "gspo" },
		"n_minibatches: 2": func(s *algo.TextSetup) {
			s.Config.LossType, s.Text.NMinibatches = "policy_gradient", 2
		},
		"target_kl: 0.1": func(s *algo.TextSetup) { s.Config.TargetKL = 0.1 },
		"max_num_gen_batches: 2": func(s *algo.TextSetup) {
			s.Config.AdvType, s.Config.MaxNumGenBatches = "reinpp", 2
		},
		"importance_sampling_fix: true": func(s *algo.TextSetup) { s.Text.ImportanceSamplingFix = true },
		"with loss_type gspo, whose texts have one advantage": func(s *algo.TextSetup) {
			s.Text.ImportanceSamplingFix, s.Config.RecomputeLogprobs, s.Config.LossType = true, true, "gspo"
		},
		"reinpp_kl_penalty_type: k9": func(s *algo.TextSetup) { s.Text.ReinppKLPenaltyType = "k9" },
		"normalize_advantages: minibatch": func(s *algo.TextSetup) {
			s.Config.NormalizeAdvantages = algo.NormalizeMinibatch
		},
	} {
		s := textSetup(textModel(t, lm.Options{}))
		change(&s)
		test.Fails(t, test.Err(algo.NewTextPPO(s)), want)
	}
}

// TestTextBatchMistakes: batches that do not fit are refused by name.
func TestTextBatchMistakes(t *testing.T) {
	for want, change := range map[string]func(*algo.TextBatch){
		"expected a multiple of the group_size 4": func(b *algo.TextBatch) { b.Texts = b.Texts[:5] },
		"text 2 is of group 9":                    func(b *algo.TextBatch) { b.Group[2] = 9 },
		"the reward of text 3 (group 0)":          func(b *algo.TextBatch) { b.Reward[3] = float32(math.NaN()) },
		"log-probs of":                            func(b *algo.TextBatch) { b.LogProb = b.LogProb[1:] },
		"token 1 has +Inf":                        func(b *algo.TextBatch) { b.LogProb[1] = float32(math.Inf(1)) },
		"no log-probs by a reference":             func(*algo.TextBatch) {},
		"text 1 has": func(b *algo.TextBatch) {
			b.Texts[1].Learn = slices.Repeat([]bool{true}, len(b.Texts[1].IDs))
		},
	} {
		s := textSetup(textModel(t, lm.Options{}))
		s.Config.KLBeta = 0.1
		b := drawn(t, &s, 0, 2)
		change(&b)
		test.Fails(t, newTextPPO(t, s).Prepare(&b), want)
	}
}

// TestTextPage: the page of algorithms for answers explains every metric.
func TestTextPage(t *testing.T) {
	page := test.Must(os.ReadFile("../docs/algorithms/texts.md"))(t)
	for _, change := range []func(*algo.TextSetup){
		func(s *algo.TextSetup) { s.Config.KLBeta, s.Config.MaxNumGenBatches = 0.1, 2 },
		func(s *algo.TextSetup) { addCritic(t, s) },
	} {
		s := textSetup(textModel(t, lm.Options{}))
		change(&s)
		b := drawn(t, &s, 0, 2)
		b.Ref, b.Right, b.Unparsable = b.LogProb, make([]bool, len(b.Texts)), make([]bool, len(b.Texts))
		p := newTextPPO(t, s)
		test.Must(p.Resample(0, &b))(t)
		for _, name := range trainText(t, p, &b).Names {
			if !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/algorithms/texts.md does not explain %s", name)
			}
		}
	}
}
