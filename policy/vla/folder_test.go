package vla_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/hf"
	"github.com/rlinf/rlinf/policy/lm/tokenizer"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel"
	"github.com/rlinf/rlinf/policy/vla"
	"github.com/rlinf/rlinf/tensor"
)

// folder writes a small model with the given number of tokens as a checkpoint folder of Hugging Face, and returns
// folder and model.
func folder(t *testing.T, vocabulary int) (string, *lm.Model) {
	t.Helper()
	dir := t.TempDir()
	texts := slices.Values([]string{"reach the red cube", "push the blue ball to the left.", "stack it"})
	training := tokenizer.Training{VocabSize: 270, Pattern: "qwen2", MinCount: 1}
	test.Must(tokenizer.Train(dir, texts, training))(t)
	m, err := lm.New(new(nn.Params[float32]), lm.Config{
		Family: lm.Qwen2, Vocab: vocabulary, Hidden: 16, Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 8, Intermediate: 24,
		Eps: 1e-6, QKVBias: true, Tied: true, Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault}, InitRange: 0.1,
	}, lm.Options{})
	if err == nil {
		err = m.Alloc(tensor.Heap)
	}
	test.OK(t, err)
	m.Init(7)
	test.OK(t, hf.Save(m, dir, hf.SaveOptions{Tokens: hf.Tokens{BOS: -1, Pad: -1}}))
	return dir, m
}

// A trunk from a folder has the folder's weights, tied or not, and its tokenizer: in full, frozen and with adapters.
func TestTrunkFromFolder(t *testing.T) {
	dir, m := folder(t, 320)
	for name, change := range map[string]func(*vla.Config){
		"full": func(*vla.Config) {}, "lora": func(o *vla.Config) { o.IsLoRA, o.LoRARank = true, 2 },
		"frozen": func(o *vla.Config) { o.FreezeTrunk = true },
	} {
		t.Run(name, func(t *testing.T) {
			cfg, own := small()
			fromFolder(&own, dir)
			change(&own)
			pol := test.Must(vla.New(cfg, own, spec(), 1, tensor.Heap))(t)
			for _, x := range m.Tensors() {
				want := x.Data
				if x.Name == "model.embed_tokens.weight" { // tied: the model has it as [hidden, vocabulary]
					want = make([]float32, len(x.Data))
					kernel.Transpose(want, x.Data, 16, 320)
				}
				if !slices.Equal(weights(pol.Params(), x.Name), want) {
					t.Errorf("%s is not that of the folder", x.Name)
				}
			}
			p := pol.(*vla.Policy)
			obs, act := sample(t, p, 4, 0)
			if got := logProbs(t, p, p.NewWork(4), obs, act.Action); !slices.Equal(got, act.LogProb.F32()) {
				t.Errorf("log-probs %v, Forward said %v", got, act.LogProb.F32())
			}
		})
	}
}

// weights returns the weights of that name, trained or frozen.
func weights(params *nn.Params[float32], name string) []float32 {
	if b, ok := params.Buffers.Get(name); ok {
		return b.F32()
	}
	return params.Of(slices.IndexFunc(params.Fields, func(f nn.ParamTensor) bool { return f.Name == name }))
}

// fromFolder takes the trunk and its sizes from a folder.
func fromFolder(own *vla.Config, dir string) {
	own.HiddenSize, own.Intermediate, own.NumLayers, own.NumHeads, own.ModelPath = 0, 0, 0, 0, dir
}

// A folder whose tokenizer knows more tokens than the model is refused.
func TestFolderRefused(t *testing.T) {
	dir, _ := folder(t, 200)
	cfg, own := small()
	fromFolder(&own, dir)
	_, err := vla.New(cfg, own, spec(), 1, tensor.Heap)
	test.Fails(t, err, "expected at most vocab_size, 200")
}

// TestCheckFiles: a blank policy reads no weights, and CheckFiles finds a folder without weights.
func TestCheckFiles(t *testing.T) {
	dir, _ := folder(t, 320)
	cfg, own := small()
	fromFolder(&own, dir)
	cfg.Blank = true
	check := func() error {
		pol := test.Must(vla.New(cfg, own, spec(), 1, tensor.Heap))(t)
		return pol.(policy.FileChecker).CheckFiles()
	}
	test.Check(t, check())
	test.OK(t, os.Remove(filepath.Join(dir, "model.safetensors")))
	if err := check(); err == nil || !strings.HasPrefix(err.Error(), "model_path: load model: ") {
		t.Errorf("a folder without weights: %v", err)
	}
}
