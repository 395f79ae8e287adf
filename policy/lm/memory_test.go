package lm

import (
	"math"
	"reflect"
	"testing"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// TestTrainingBytes holds the prediction against the slices that a Work has after a pass.
func TestTrainingBytes(t *testing.T) {
	dense := Config{Family: Qwen3, Vocab: 5000, Hidden: 64, Layers: 3, Heads: 4, KVHeads: 2, HeadDim: 16,
		Intermediate: 160,
		Eps:          1e-6, Rope: Rope{Theta: 1e4, Type: RopeDefault}, QKNorm: true, InitRange: 0.02}
	sparse := dense
	sparse.Family, sparse.Experts = Qwen2MoE, Experts{Count: 4, PerToken: 2, Intermediate: 48, SharedIntermediate: 80,
		AuxCoef: 0.01}
	for name, c := range map[string]Config{"dense": dense, "experts": sparse} {
		for _, o := range []*LoRA{nil, {Rank: 8, Alpha: 8, Targets: []string{"q_proj", "lm_head"}}} {
			m, err := New(new(nn.Params[float32]), c, Options{LoRA: o})
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Alloc(tensor.Heap); err != nil {
				t.Fatal(err)
			}
			m.Init(1)
			const sequences, length = 6, 50
			w := m.NewTraining(sequences * length)
			b := Batch{Starts: []int32{0}}
			for range sequences {
				for i := range length {
					b.IDs = append(b.IDs, int32(i))
				}
				b.Starts = append(b.Starts, int32(len(b.IDs)))
			}
			if err := m.Forward(w, b); err != nil {
				t.Fatal(err)
			}
			targets := b.NextTokens(nil)
			logp := make([]float32, len(targets))
			m.LogProbs(w, logp, nil, targets, 1)
			m.Backward(w, logp, nil, targets, 1, 0)
			got := int(sizeOf(reflect.ValueOf(w).Elem(), map[uintptr]bool{reflect.ValueOf(m).Pointer(): true}))
			want := c.TrainingBytes(len(b.IDs), sequences, o)
			t.Logf("%s, adapters %v: %d bytes, predicted %d", name, o != nil, got, want)
			if math.Abs(float64(got-want)) > 0.05*float64(got) {
				t.Errorf("%s, adapters %v: %d bytes, predicted %d", name, o != nil, got, want)
			}
		}
	}
}

// sizeOf adds up the slices that v holds, but for what lies behind seen pointers.
func sizeOf(v reflect.Value, seen map[uintptr]bool) (n uintptr) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !seen[v.Pointer()] {
			seen[v.Pointer()] = true
			n = v.Elem().Type().Size() + sizeOf(v.Elem(), seen)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += sizeOf(v.Field(i), seen)
		}
	case reflect.Slice:
		if v.IsNil() || seen[v.Pointer()] {
			return 0
		}
		seen[v.Pointer()] = true
		n = uintptr(v.Cap()) * v.Type().Elem().Size()
		for i := range v.Len() {
			if k := v.Type().Elem().Kind(); k != reflect.Pointer && k != reflect.Struct && k != reflect.Slice {
				break
			}
			n += sizeOf(v.Index(i), seen)
		}
	}
	return n
}
