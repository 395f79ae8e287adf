package hf_test

import (
	"compress/gzip"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/hf"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel"
	"github.com/rlinf/rlinf/tensor"
)

// Independent implementations computed the golden numbers: see testdata/README.md. The tests also compare folders of
// the same form below $RLINF_GOLDEN_LM.
const (
	logitTolerance    = 5e-5 // logits, hidden states, log-probabilities
	lossTolerance     = 5e-6
	stepTolerance     = 1e-5 // losses along optimiser steps
	gradientTolerance = 2e-5 // L2 norm of the difference, relative to that of the tensor
	valueTolerance    = 2e-6 // single values of gradients
)

type golden struct {
	Sequences   [][]int32
	RopeInvFreq []float64 `json:"rope_inv_freq"`
	Weights     map[string]struct {
		Shape  []int
		L2     float64
		First8 []float64
	}
	Single []struct {
		Length          int
		LogitPositions  []int32 `json:"logit_positions"`
		Logits          [][]float64
		TokenLogprobs   []float64 `json:"token_logprobs"`
		TokenLogprobs64 []float64 `json:"token_logprobs_f64"`
		Loss            float64
		LossF64         float64       `json:"loss_f64"`
		HiddenStates    [][][]float64 `json:"hidden_states"`
		AuxLoss         *float64      `json:"aux_loss"`
		LossPlusAux     *float64      `json:"loss_plus_aux"`
		Router          []struct {
			Logits  [][]float64 `json:"router_logits"`
			Chosen  [][]int32   `json:"selected_experts"`
			Weights [][]float64 `json:"expert_weights"`
		}
		GradientsWithAux json.RawMessage `json:"gradients_with_aux"`
	}
	BatchRight struct {
		Loss    float64
		LossF64 float64 `json:"loss_f64"`
		AuxLoss float64 `json:"aux_loss"`
	} `json:"batch_right"`
	Gradients struct {
		GlobalL2 float64 `json:"global_l2"`
		Tensors  map[string]goldenGradient
	}
	GradientsSingle struct {
		Tensors map[string]goldenGradient
	} `json:"gradients_single"`
	AdamW     goldenAdam `json:"adamw"`
	AdamWNo1D goldenAdam `json:"adamw_no_decay_1d"`
	Greedy    goldenGreedy
	Merged    json.RawMessage
	AuxCoef   float64 `json:"router_aux_loss_coef"`
}

type goldenGradient struct {
	Shape       []int
	L2          float64
	L264        float64 `json:"l2_f64"`
	First16     []float64
	SpreadIndex []int `json:"spread_index"`
	Spread      []float64
}

type goldenAdam struct {
	LR, Beta1, Beta2, Eps float64
	WeightDecay           float64 `json:"weight_decay"`
	Losses                []float64
	GradL2                []float64 `json:"grad_l2_before_each_step"`
	ParamsAfter3          map[string]struct {
		L2     float64
		First8 []float64
	} `json:"params_after_3"`
}

type goldenGreedy struct {
	Runs []struct {
		Prompt         []int32
		NewTokens      []int32   `json:"new_tokens"`
		ChosenLogits   []float64 `json:"chosen_logits"`
		ChosenLogprobs []float64 `json:"chosen_logprobs"`
		LastLogits     []float64 `json:"last_logits"`
	}
}

// goldenFolders are the folders of whole models, or of adapters.
func goldenFolders(t *testing.T, file string) []string {
	var all []string
	for _, root := range []string{"testdata", os.Getenv("RLINF_GOLDEN_LM")} {
		if root == "" {
			continue
		}
		found := test.Must(filepath.Glob(filepath.Join(root, "*", file)))(t)
		for _, f := range found {
			all = append(all, filepath.Dir(f))
		}
	}
	if len(all) == 0 {
		t.Fatal("no golden folder with", file)
	}
	return all
}

func readGolden(t *testing.T, dir string) *golden {
	t.Helper()
	f := test.Must(os.Open(filepath.Join(dir, "golden.json.gz")))(t)
	defer f.Close()
	z := test.Must(gzip.NewReader(f))(t)
	var g golden
	test.OK(t, json.NewDecoder(z).Decode(&g))
	return &g
}

// open loads the model of a folder. An adapter folder names the folder of its model, which is beside it.
func open(t *testing.T, dir string) *lm.Model {
	t.Helper()
	var o lm.Options
	base := dir
	if _, err := os.Stat(filepath.Join(dir, "adapter_config.json")); err == nil {
		if o.LoRA, err = hf.ReadAdapter(dir); err != nil {
			t.Fatal(err)
		}
		base = strings.TrimSuffix(dir, "_lora")
	}
	c := test.Must(hf.ReadConfig(base))(t)
	m := test.Must(lm.New(new(nn.Params[float32]), c, o))(t)
	test.OK(t, m.Alloc(tensor.Heap))
	test.OK(t, hf.Load(m, base))
	if o.LoRA != nil {
		test.OK(t, hf.LoadAdapter(m, dir))
	}
	return m
}

// near fails where two numbers differ by more than the tolerance, and keeps the largest difference.
type near struct {
	t     *testing.T
	name  string
	worst float64
}

func (n *near) check(what string, got, want, tolerance float64) {
	n.t.Helper()
	d := math.Abs(got - want)
	n.worst = max(n.worst, d)
	if !(d <= tolerance) {
		n.t.Errorf("%s, %s: %.9g, expected %.9g ± %g", n.name, what, got, want, tolerance)
	}
}

func (n *near) log() { n.t.Logf("%s: largest difference %.2g", n.name, n.worst) }

func pack(sequences ...[]int32) lm.Batch {
	b := lm.Batch{Starts: []int32{0}}
	for _, s := range sequences {
		b.IDs = append(b.IDs, s...)
		b.Starts = append(b.Starts, int32(len(b.IDs)))
	}
	return b
}

func TestGoldenForward(t *testing.T) {
	for _, dir := range append(goldenFolders(t, "config.json"), goldenFolders(t, "adapter_config.json")...) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			g, m := readGolden(t, dir), open(t, dir)
			checkWeights(t, g, m)
			w := m.NewTraining(184)
			logits, logprobs, hidden := near{t: t, name: "logits"}, near{t: t, name: "log-probs"},
				near{t: t, name: "hidden"}
			losses := near{t: t, name: "loss"}
			for i, s := range g.Single {
				b := pack(g.Sequences[i])
				test.OK(t, m.Forward(w, b))
				out := make([]float32, len(s.LogitPositions)*m.Config.Vocab)
				m.Logits(w, out, s.LogitPositions)
				for r, row := range s.Logits {
					for j, want := range row {
						logits.check("logit", float64(out[r*m.Config.Vocab+j]), want, logitTolerance)
					}
				}
				got, loss := tokenLosses(m, w, b)
				for j, want := range s.TokenLogprobs64 {
					logprobs.check("token", float64(got[j]), want, logitTolerance)
				}
				losses.check("sequence", loss, s.LossF64, lossTolerance)
				if s.AuxLoss != nil {
					losses.check("aux", w.AuxLoss(), *s.AuxLoss, 1e-5)
				}
				if n := len(s.HiddenStates); n > 0 {
					d := m.Config.Hidden
					for j, want := range slices.Concat(s.HiddenStates[n-1]...) {
						hidden.check("last", float64(w.Hidden()[j]), want, logitTolerance)
					}
					for layer, state := range s.HiddenStates[:n-1] {
						for j, want := range slices.Concat(state...) {
							hidden.check("layer", float64(w.Residual(layer)[j]), want, logitTolerance)
						}
					}
					_ = d
				}
			}
			test.OK(t, m.Forward(w, pack(g.Sequences...)))
			_, loss := tokenLosses(m, w, pack(g.Sequences...))
			losses.check("batch", loss, g.BatchRight.LossF64, lossTolerance)
			for _, n := range []near{logits, logprobs, hidden, losses} {
				n.log()
			}
		})
	}
}

// tokenLosses returns the log-probability of every token of a batch, except for the first token of each sequence. It
// also returns minus their mean.
func tokenLosses(m *lm.Model, w *lm.Work, b lm.Batch) ([]float32, float64) {
	targets := b.NextTokens(nil)
	logp := make([]float32, len(targets))
	m.LogProbs(w, logp, nil, targets, 1)
	sum := 0.0
	for _, x := range logp {
		sum -= float64(x)
	}
	return logp, sum / float64(len(logp))
}

func checkWeights(t *testing.T, g *golden, m *lm.Model) {
	if len(g.Weights) == 0 {
		return
	}
	f := fileTensors(m)
	test.Equal(t, len(f), len(g.Weights), "weights")
	for name, want := range g.Weights {
		got, ok := f[name]
		if !ok {
			t.Errorf("no weight %q", name)
			continue
		}
		values := inFile(got, got.Data)
		if l := l2(values); math.Abs(l-want.L2) > 1e-6*want.L2 {
			t.Errorf("%s: L2 %g, want %g", name, l, want.L2)
		}
		for i, x := range want.First8 {
			if values[i] != float32(x) {
				t.Errorf("%s[%d] = %g, want %g", name, i, values[i], x)
			}
		}
	}
	inv, _ := m.Config.Rope.Frequencies(m.Config.HeadDim)
	for i, f := range g.RopeInvFreq {
		if math.Abs(float64(inv[i])-f) > 2e-7*f {
			t.Errorf("frequency %d is %g, want %g", i, inv[i], f)
		}
	}
}

// fileTensors returns the tensors of the model and of its adapters, by their names in files.
func fileTensors(m *lm.Model) map[string]lm.Weight {
	all := map[string]lm.Weight{}
	for _, t := range m.Tensors() {
		all[hf.FileName(m.Config.Family, t.Name)] = t
	}
	for _, t := range m.Adapters() {
		all["base_model.model."+hf.FileName(m.Config.Family, t.Name)] = t
	}
	return all
}

// inFile returns values of a tensor in the layout of a file.
func inFile(t lm.Weight, x []float32) []float32 {
	if !t.Transposed {
		return x
	}
	y := make([]float32, len(x))
	kernel.Transpose(y, x, t.Shape[0], t.Shape[1])
	return y
}

func l2(x []float32) float64 { return math.Sqrt(kernel.SumSq(x)) }
