package vla_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/hf"
	"github.com/rlinf/rlinf/policy/lm/tokenizer"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/vla"
	"github.com/rlinf/rlinf/tensor"
)

// folder writes a small model with a vocabulary of so many tokens as a checkpoint folder of Hugging Face, and returns both.
func folder(t *testing.T, vocabulary int) (string, *lm.Model) {
	t.Helper()
	dir := t.TempDir()
	texts := slices.Values([]string{"reach the red cube", "push the blue ball to the left.", "stack it"})
	if _, err := tokenizer.Train(dir, texts, tokenizer.Training{VocabSize: 270, Pattern: "qwen2", MinCount: 1}); err != nil {
		t.Fatal(err)
	}
	m, err := lm.New(new(nn.Params[float32]), lm.Config{
		Family: lm.Qwen2, Vocab: vocabulary, Hidden: 16, Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 8, Intermediate: 24, Eps: 1e-6, QKVBias: true,
		Tied: true, Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault}, InitRange: 0.1,
	}, lm.Options{})
	if err == nil {
		err = m.Alloc(tensor.Heap)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.Init(7)
	if err := hf.Save(m, dir, hf.SaveOptions{Tokens: hf.Tokens{BOS: -1, Pad: -1}}); err != nil {
		t.Fatal(err)
	}
	return dir, m
}

// A trunk from a folder has its weights, tied or not, and reads by its tokenizer, in full, frozen and with adapters.
func TestTrunkFromFolder(t *testing.T) {
	dir, m := folder(t, 320)
	for name, change := range map[string]func(*vla.Config){
		"full": func(*vla.Config) {}, "lora": func(o *vla.Config) { o.IsLoRA, o.LoRARank = true, 2 }, "frozen": func(o *vla.Config) { o.FreezeTrunk = true },
	} {
		cfg, own := small()
		own.HiddenSize, own.Intermediate, own.NumLayers, own.NumHeads, own.ModelPath = 0, 0, 0, 0, dir
		change(&own)
		pol, err := vla.New(cfg, own, spec(), 1, tensor.Heap)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		params := pol.Params()
		of := func(name string) []float32 {
			if b, ok := params.Buffers.Get(name); ok {
				return b.F32()
			}
			return params.Of(slices.IndexFunc(params.Fields, func(f nn.Field) bool { return f.Name == name }))
		}
		for _, x := range m.Tensors() {
			got := of(x.Name)
			if x.Name != "model.embed_tokens.weight" {
				if !slices.Equal(got, x.Data) {
					t.Errorf("%s: %s is not that of the folder", name, x.Name)
				}
				continue
			}
			for id := range 320 { // a tied embedding lies there as [hidden, vocabulary]
				for j := range 16 {
					if got[id*16+j] != x.Data[j*320+id] {
						t.Fatalf("%s: the embedding of token %d is not that of the folder", name, id)
					}
				}
			}
		}
		act, err := pol.Forward(pol.NewWork(4), observe(4, 0), policy.Sample, noise(4))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		e, err := pol.Evaluate(pol.NewWork(4), observe(4, 0), act.Action)
		if err != nil || !slices.Equal(e.LogProb.F32(), act.LogProb.F32()) {
			t.Errorf("%s: log-probs %v, Forward said %v (%v)", name, e.LogProb.F32(), act.LogProb.F32(), err)
		}
	}
}

// A folder whose tokenizer knows more tokens than the model is refused.
func TestFolderRefused(t *testing.T) {
	dir, _ := folder(t, 200)
	cfg, own := small()
	own.HiddenSize, own.Intermediate, own.NumLayers, own.NumHeads, own.ModelPath = 0, 0, 0, 0, dir
	if _, err := vla.New(cfg, own, spec(), 1, tensor.Heap); err == nil || !strings.Contains(err.Error(), "expected at most vocab_size, 200") {
		t.Errorf("error %v", err)
	}
}
