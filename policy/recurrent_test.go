package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// recurrentConfig is a small rnn_policy.
func recurrentConfig(set func(*Config)) Config {
	cfg := DefaultConfig()
	cfg.ModelType, cfg.ShareTrunk, cfg.HiddenSizes, cfg.RNNHiddenSize = rnnPolicy, true, []int{5}, 4
	if set != nil {
		set(&cfg)
	}
	return cfg
}

// recurrents are policies of every kind with a hidden state.
func recurrents(t *testing.T) map[string]*ActorCritic {
	spec := func(action env.Space) env.Spec {
		return env.Spec{Name: "Test-v0", Obs: []env.Field{vector("state", 4), vector("goal", 3)}, Action: action}
	}
	return map[string]*ActorCritic{
		"gru": newPolicy(t, recurrentConfig(nil), spec(discrete)),
		"lstm": newPolicy(t, recurrentConfig(func(c *Config) { c.RNNType, c.NormalizeObservations = "lstm", true }),
			spec(box)),
		"own": newOwn(t, nn.Sequence(ownLayers(), nn.Residual(nn.Concat(nn.GRU(4),
			nn.Sequence(nn.Dense(3), nn.LSTM(3))))),
			func(c *Config) { c.ShareTrunk = true }),
		"sde": newPolicy(t, recurrentConfig(func(c *Config) { c.UseSDE, c.HiddenSizes = true, nil }), spec(box)),
	}
}

// The gradients of a loss over all results of Evaluate for sequences agree with central differences in float64,
// for every parameter of the core and its heads.
func TestRecurrentPolicyGradients(t *testing.T) {
	for name, set := range map[string]func(*Config){
		"gru":           nil,
		"lstm":          func(c *Config) { c.RNNType = "lstm" },
		"no trunk":      func(c *Config) { c.HiddenSizes = nil },
		"no critic":     func(c *Config) { c.AddValueHead = false },
		"sde, features": func(c *Config) { c.UseSDE, c.SDELearnFeatures = true, true },
	} {
		t.Run(name, func(t *testing.T) { recurrentGradients(t, recurrentConfig(set)) })
	}
}

func recurrentGradients(t *testing.T, cfg Config) {
	const steps, sequences, width = 3, 2, 3
	const rows = steps * sequences
	begins := []byte{0, 0, 0, 1, 0, 0}
	act := actionShape{dims: 2, summed: 2}
	n := testNetwork(t, cfg, act, obsShape{numbers: width})
	for i := range n.params.Fields {
		randomize(n.params.Of(i), uint64(i))
	}
	x, a := testBatch(act, rows, width)
	state := sequences * n.front.State
	x.Sequences, x.State, x.Next, x.Begins = sequences, random(state, 30), make([]float64, state), begins
	weight, dEntropy, w := random(rows, 31), random(rows, 32), n.newWork(rows)
	loss := func() (sum float64) {
		n.evaluate(w, &x, a)
		for i := range rows {
			sum += weight[i]*w.logProb[i] + dEntropy[i]*w.entropy[i]
		}
		for i := range w.value {
			sum += 0.5 * weight[i] * w.value[i] * w.value[i]
		}
		return sum
	}
	checkGradients(t, n.params, loss, func(ready func(lo, hi int)) {
		var dValue []float64
		for i := range w.value {
			dValue = append(dValue, weight[i]*w.value[i])
		}
		n.backward(w, weight, dEntropy, dValue, ready)
	})
}

// TestRecurrentEvaluatesWhatItPlayed: evaluating sequences gives, bit for bit, the log-probs and values of
// playing them one observation at a time, with hidden states that start over where episodes do.
func TestRecurrentEvaluatesWhatItPlayed(t *testing.T) {
	const steps, rows = 5, 3
	for name, p := range recurrents(t) {
		obs, noise := observe(p, steps*rows)
		begins := make([]byte, steps*rows)
		begins[1*rows+2], begins[3*rows+0], begins[3*rows+2] = 1, 1, 1
		m := p.HiddenLen()
		hidden := tensor.New(tensor.F32, rows, m)
		for i := range hidden.F32() {
			hidden.F32()[i] = float32(i%7)/7 - 0.5
		}
		first := hidden.Clone()
		w := p.NewWork(rows)
		var actions, logProbs, values []byte
		for at := 0; at < steps*rows; at += rows {
			for i := range rows {
				if begins[at+i] != 0 {
					hidden.At(i).Zero()
				}
			}
			now := obs.Slice(at, at+rows)
			now.Set(HiddenState, hidden)
			value := must[tensor.Tensor](t)(p.Value(w, now)).Clone()
			act := must[Act](t)(p.Forward(w, now, Sample, noise.slice(at, at+rows)))
			if !sameBits(value, act.Value) {
				t.Errorf("%s: value %v alone, %v beside an action", name, value.F32(), act.Value.F32())
			}
			actions = append(actions, act.Action.Bytes()...)
			logProbs = append(logProbs, act.LogProb.Bytes()...)
			values = append(values, act.Value.Bytes()...)
			hidden.CopyFrom(act.Hidden)
		}
		obs.Set(HiddenState, first)
		obs.Set(Begins, tensor.FromU8(begins, len(begins)))
		shape := p.NewWork(1).(*work).action.Shape()
		shape[0] = steps * rows
		action := tensor.New(p.NewWork(1).(*work).action.DType(), shape...)
		copy(action.Bytes(), actions)
		eval := must[Eval](t)(p.Evaluate(p.NewWork(steps*rows), obs, action))
		if !slices.Equal(eval.LogProb.Bytes(), logProbs) || !slices.Equal(eval.Value.Bytes(), values) {
			t.Errorf("%s: the sequences' log-probs or values are not those of their steps", name)
		}
		obs.Set(Begins, tensor.New(tensor.U8, steps*rows))
		if eval = must[Eval](t)(p.Evaluate(p.NewWork(steps*rows), obs, action)); slices.Equal(eval.Value.Bytes(),
			values) {
			t.Errorf("%s: values do not depend on where episodes begin", name)
		}
	}
}

func TestRecurrentAllocatesNothing(t *testing.T) {
	const rows = 6
	for name, p := range recurrents(t) {
		w := p.NewWork(rows)
		obs, noise := observe(p, rows)
		obs.Set(HiddenState, tensor.New(tensor.F32, rows/2, p.HiddenLen()))
		obs.Set(Begins, tensor.New(tensor.U8, rows))
		g := Grad{LogProb: tensor.New(tensor.F32, rows, 1), Value: tensor.New(tensor.F32, rows, 1)}
		test.NoAllocs(t, 10, func() {
			act, err := p.Forward(w, obs, Sample, noise)
			test.OK(t, err)
			if _, err = p.Evaluate(w, obs, act.Action); err != nil {
				t.Fatal(err)
			}
			test.OK(t, p.Backward(w, g, nil))
		}, "%s", name)
	}
}

func TestRecurrentErrors(t *testing.T) {
	spec := env.Spec{Name: "Test-v0", Obs: []env.Field{vector("state", 4)}, Action: discrete}
	p := newPolicy(t, recurrentConfig(nil), spec)
	for want, set := range map[string]func(*tensor.Dict){
		"memory Tensor{} beside 6 rows of observations: expected F32[N 4], and rows for each of N " +
			"sequences": func(*tensor.Dict) {},
		"memory F32[2 5] beside 6 rows": func(d *tensor.Dict) { d.Set(HiddenState, tensor.New(tensor.F32, 2, 5)) },
		"memory F32[4 4] beside 6 rows": func(d *tensor.Dict) { d.Set(HiddenState, tensor.New(tensor.F32, 4, 4)) },
		"begins U8[2]: expected U8[6]": func(d *tensor.Dict) {
			d.Set(HiddenState, tensor.New(tensor.F32, 2, 4))
			d.Set(Begins, tensor.New(tensor.U8, 2))
		},
	} {
		obs, noise := observe(p, 6)
		set(&obs)
		test.Fails(t, test.Err(p.Forward(p.NewWork(6), obs, Sample, noise)), want)
	}
	for want, cfg := range map[string]Config{
		"share_trunk: false: expected true":   recurrentConfig(func(c *Config) { c.ShareTrunk = false }),
		"rnn_type: rnn: expected gru or lstm": recurrentConfig(func(c *Config) { c.RNNType = "rnn" }),
		"add_q_head: true: expected false": recurrentConfig(func(c *Config) {
			c.AddQHead, c.AddValueHead = true, false
		}),
	} {
		test.Fails(t, test.Err(NewRNN(cfg, spec, 1, tensor.Heap)), want)
	}
	spec.Obs[0].Name = HiddenState
	if _, err := NewRNN(recurrentConfig(nil), spec, 1, tensor.Heap); err == nil ||
		!strings.Contains(err.Error(), `observation "memory"`) {
		t.Errorf("an observation of that name: %v", err)
	}
}
