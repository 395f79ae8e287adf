package algo_test

import (
	"fmt"
	"log"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A new model of two layers learns by fine-tuning to answer 2 to 1, and 4 to 3.
func ExampleNewSFT() {
	model, err := lm.New(new(nn.Params[float32]), lm.Config{Family: lm.Qwen2, Vocab: 8, Hidden: 16, Layers: 2, Heads: 2,
		KVHeads: 1, HeadDim: 8, Intermediate: 24, Eps: 1e-6, Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault},
		QKVBias: true, Tied: true, InitRange: 0.1}, lm.Options{})
	if err == nil {
		err = model.Alloc(tensor.Heap)
	}
	if err != nil {
		log.Fatal(err)
	}
	model.Init(1)
	optim := algo.DefaultOptimConfig()
	optim.LR = 0.02
	sft, err := algo.NewSFT(algo.SFTSetup{Model: model, Optim: optim, Iterations: 40,
		MicroBatch: algo.MicroBatch{Tokens: 16}})
	if err != nil {
		log.Fatal(err)
	}
	defer sft.Close()

	answers := []bool{false, true} // the model learns the answer, not the prompt
	texts := []algo.Sequence{{IDs: []int32{1, 2}, Learn: answers}, {IDs: []int32{3, 4}, Learn: answers}}
	for i := range 40 {
		m, err := sft.Update(texts, 2, 4) // 2 tokens to be learnt, of 4
		if err != nil {
			log.Fatal(err)
		}
		if loss, _ := m.Get("sft/loss"); i%39 == 0 {
			fmt.Printf("loss %.1f\n", loss)
		}
	}
	// Output:
	// loss 2.5
	// loss 0.0
}
