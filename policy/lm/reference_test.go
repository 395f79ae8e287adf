package lm_test

import (
	"math"
	"slices"
	"strconv"

	"github.com/rlinf/rlinf/policy/lm"
)

// A reference computes a model by its definition in float64: one token after the other, without blocks, cache or
// batches. It shares only the configuration and the weights with package lm.
type reference struct {
	c       lm.Config
	weights map[string][]float64 // as in Tensors: matrices are [in, out]

	freq  []float64 // of the rotation
	scale float64
}

func newReference(m *lm.Model) *reference {
	r := &reference{c: m.Config, weights: map[string][]float64{}}
	r.freq, r.scale = r.frequencies()
	for _, t := range append(m.Tensors(), m.Adapters()...) {
		x := make([]float64, len(t.Data))
		for i, v := range t.Data {
			x[i] = float64(v)
		}
		r.weights[t.Name] = x
	}
	return r
}

// linear returns x·W + b, plus the product of the adapter if there is one.
func (r *reference) linear(name string, x []float64, scale float64) []float64 {
	y := times(x, r.weights[name+".weight"])
	if b, ok := r.weights[name+".bias"]; ok {
		for j := range y {
			y[j] += b[j]
		}
	}
	if a, ok := r.weights[name+".lora_A.weight"]; ok {
		for j, v := range times(times(x, a), r.weights[name+".lora_B.weight"]) {
			y[j] += scale * v
		}
	}
	return y
}

func times(x, w []float64) []float64 {
	y := make([]float64, len(w)/len(x))
	for i, v := range x {
		for j := range y {
			y[j] += v * w[i*len(y)+j]
		}
	}
	return y
}

func (r *reference) norm(x []float64, name string) []float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = r.weights[name][i] * v / math.Sqrt(sum/float64(len(x))+r.c.Eps)
	}
	return y
}

// frequencies returns the frequencies of a rotation, computed from wavelengths.
func (r *reference) frequencies() (f []float64, scale float64) {
	o, e := r.c.Rope, float64(r.c.HeadDim)
	scale = 1
	for j := range r.c.HeadDim / 2 {
		x := math.Pow(o.Theta, -2*float64(j)/e)
		length := 2 * math.Pi / x
		switch o.Type {
		case "linear":
			x /= o.Factor
		case "llama3":
			short, long := float64(o.Original)/o.HighFreqFactor, float64(o.Original)/o.LowFreqFactor
			if length > long {
				x /= o.Factor
			} else if length >= short {
				s := (float64(o.Original)/length - o.LowFreqFactor) / (o.HighFreqFactor - o.LowFreqFactor)
				x = (1-s)*x/o.Factor + s*x
			}
		case "yarn":
			c := func(beta float64) float64 {
				return e * math.Log(float64(o.Original)/(2*math.Pi*beta)) / (2 * math.Log(o.Theta))
			}
			lo, hi := math.Max(math.Floor(c(o.BetaFast)), 0), math.Min(math.Ceil(c(o.BetaSlow)), e-1)
			ramp := math.Min(math.Max((float64(j)-lo)/(hi-lo), 0), 1)
			x = ramp*x/o.Factor + (1-ramp)*x
			scale = 0.1*math.Log(o.Factor) + 1
		}
		f = append(f, float64(float32(x)))
	}
	return f, scale
}

func (r *reference) rotate(x []float64, position int) {
	h, scale := len(r.freq), r.scale
	for j, w := range r.freq {
		sin, cos := math.Sincos(w * float64(position))
		a, b := x[j], x[j+h]
		x[j], x[j+h] = scale*(a*cos-b*sin), scale*(b*cos+a*sin)
	}
}

// A reached is the result of a reference: logits of every token, and the terms of the auxiliary loss.
type reached struct {
	logits [][]float64
	share  []float64 // choices of each expert
	probs  []float64 // summed probabilities of each expert
	rows   float64   // (sparse layer, token) pairs
}

func (r *reference) run(ids []int32, lora float64, out *reached) {
	c := &r.c
	d := c.Hidden
	x := make([][]float64, len(ids))
	for t, id := range ids {
		x[t] = make([]float64, d)
		for j := range x[t] {
			if c.Tied {
				x[t][j] = r.weights["model.embed_tokens.weight"][j*c.Vocab+int(id)]
			} else {
				x[t][j] = r.weights["model.embed_tokens.weight"][int(id)*d+j]
			}
		}
	}
	for l := range c.Layers {
		p := "model.layers." + strconv.Itoa(l) + "."
		r.attend(x, p, lora)
		for t := range x {
			n := r.norm(x[t], p+"post_attention_layernorm.weight")
			y := make([]float64, d)
			if c.Sparse(l) {
				r.experts(y, n, p+"mlp.", lora, out)
			} else {
				copy(y, r.feedForward(n, p+"mlp.", lora))
			}
			for j := range y {
				x[t][j] += y[j]
			}
		}
	}
	for t := range x {
		n := r.norm(x[t], "model.norm.weight")
		logits := r.linear("lm_head", n, lora)
		out.logits = append(out.logits, logits)
	}
}

// attend adds the attention of the layer p to each row of x. A row attends to the rows before it and to itself.
func (r *reference) attend(x [][]float64, p string, lora float64) {
	c, e := &r.c, r.c.HeadDim
	var keys, values [][]float64
	for t := range x {
		n := r.norm(x[t], p+"input_layernorm.weight")
		q, k := r.linear(p+"self_attn.q_proj", n, lora), r.linear(p+"self_attn.k_proj", n, lora)
		for _, heads := range []struct {
			x    []float64
			norm string
		}{{q, "self_attn.q_norm.weight"}, {k, "self_attn.k_norm.weight"}} {
			for h := 0; h < len(heads.x); h += e {
				if c.QKNorm {
					copy(heads.x[h:], r.norm(heads.x[h:h+e], p+heads.norm))
				}
				r.rotate(heads.x[h:h+e], t)
			}
		}
		keys, values = append(keys, k), append(values, r.linear(p+"self_attn.v_proj", n, lora))
		o := make([]float64, c.Heads*e)
		for h := range c.Heads {
			g := h / (c.Heads / c.KVHeads) * e
			weights := make([]float64, t+1)
			for s := range weights {
				for j := range e {
					weights[s] += q[h*e+j] * keys[s][g+j] / math.Sqrt(float64(e))
				}
			}
			for s, w := range softmax(weights) {
				for j := range e {
					o[h*e+j] += w * values[s][g+j]
				}
			}
		}
		for j, v := range r.linear(p+"self_attn.o_proj", o, lora) {
			x[t][j] += v
		}
	}
}

func (r *reference) feedForward(n []float64, p string, lora float64) []float64 {
	gate, up := r.linear(p+"gate_proj", n, lora), r.linear(p+"up_proj", n, lora)
	for j, g := range gate {
		gate[j] = g / (1 + math.Exp(-g)) * up[j]
	}
	return r.linear(p+"down_proj", gate, lora)
}

func (r *reference) experts(y, n []float64, p string, lora float64, out *reached) {
	c := &r.c.Experts
	probs := softmax(r.linear(p+"gate", n, lora))
	order := make([]int, c.Count)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if probs[a] > probs[b] {
			return -1
		}
		if probs[a] < probs[b] {
			return 1
		}
		return 0
	})
	sum := 1.0
	if c.Normalize {
		sum = 0
		for _, j := range order[:c.PerToken] {
			sum += probs[j]
		}
	}
	for _, j := range order[:c.PerToken] {
		for i, v := range r.feedForward(n, p+"experts."+strconv.Itoa(j)+".", lora) {
			y[i] += probs[j] / sum * v
		}
		out.share[j]++
	}
	for j, v := range probs {
		out.probs[j] += v
	}
	out.rows++
	if c.SharedIntermediate > 0 {
		g := 1 / (1 + math.Exp(-r.linear(p+"shared_expert_gate", n, lora)[0]))
		for i, v := range r.feedForward(n, p+"shared_expert.", lora) {
			y[i] += g * v
		}
	}
}

func softmax(x []float64) []float64 {
	top, sum := slices.Max(x), 0.0
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = math.Exp(v - top)
		sum += y[i]
	}
	for i := range y {
		y[i] /= sum
	}
	return y
}

// loss is Σ weight·logp + Σ bonus·entropy over the next tokens of all sequences at a temperature, plus aux times the
// auxiliary loss.
func (r *reference) loss(sequences [][]int32, weight, bonus []float64, temperature, aux, lora float64) float64 {
	if r.c.Tied {
		r.weights["lm_head.weight"] = r.weights["model.embed_tokens.weight"]
	}
	out := &reached{share: make([]float64, r.c.Experts.Count), probs: make([]float64, r.c.Experts.Count)}
	sum, i := 0.0, 0
	for _, s := range sequences {
		out.logits = nil
		r.run(s, lora, out)
		for t := range len(s) - 1 {
			x := slices.Clone(out.logits[t])
			for j := range x {
				x[j] /= temperature
			}
			p := softmax(x)
			sum += weight[i] * math.Log(p[s[t+1]])
			for _, v := range p {
				sum -= bonus[i] * v * math.Log(v)
			}
			i++
		}
	}
	if r.c.Experts.Count > 0 && out.rows > 0 {
		load := 0.0
		for j := range out.share {
			load += out.share[j] / out.rows * out.probs[j] / out.rows
		}
		sum += aux * r.c.Experts.AuxCoef * float64(r.c.Experts.Count) * load
	}
	return sum
}
