package lm_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/lmtest"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// TestTrainingBytes compares the prediction with the slices that a Work has after a step, on each rank of a layout, and
// with those of a Work for inference.
func TestTrainingBytes(t *testing.T) {
	dense := lm.Config{Family: lm.Qwen3, Vocab: 5000, Hidden: 128, Layers: 4, Heads: 4, KVHeads: 2, HeadDim: 16,
		Intermediate: 320,
		Eps:          1e-6, Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault}, QKNorm: true, InitRange: 0.02}
	sparse, tied := dense, dense
	sparse.Family, sparse.Experts = lm.Qwen2MoE, lm.Experts{Count: 4, PerToken: 2, Intermediate: 48,
		SharedIntermediate: 80, AuxCoef: 0.01}
	tied.Tied = true
	adapters := &lm.LoRA{Rank: 8, Alpha: 8, Targets: []string{"q_proj", "lm_head"}}
	for name, v := range map[string]struct {
		c lm.Config
		o lm.Options
		l layout
	}{
		"dense":                 {c: dense, l: layout{1, 1, 0}},
		"dense, adapters":       {c: dense, l: layout{1, 1, 0}, o: lm.Options{LoRA: adapters}},
		"experts":               {c: sparse, l: layout{1, 1, 0}},
		"experts, adapters":     {c: sparse, l: layout{1, 1, 0}, o: lm.Options{LoRA: adapters}},
		"dense, 2 ranks":        {c: dense, l: layout{2, 1, 0}},
		"tied, 2 × 2":           {c: tied, l: layout{2, 2, 0}},
		"dense, 4 stages":       {c: dense, l: layout{1, 4, 0}},
		"experts, 2 × 2":        {c: sparse, l: layout{2, 2, 0}},
		"tied, adapters, 2 × 2": {c: tied, l: layout{2, 2, 0}, o: lm.Options{LoRA: adapters}},
		"tied, 2 stages":        {c: tied, l: layout{1, 2, 0}},
		"dense, repeated":       {c: dense, l: layout{1, 1, 3}},
		"experts, repeated":     {c: sparse, l: layout{1, 2, 9}},
	} {
		if testing.Short() && name != "experts, 2 × 2" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			meshes := lmtest.NewMeshes(v.l.size, v.l.stages)
			test.OK(t, lmtest.Run(len(meshes), func(i int) error {
				o, stage := v.o, i/v.l.size
				o.Part = lm.Shard{Index: i % v.l.size, Size: v.l.size, First: stage * v.c.Layers / v.l.stages,
					End: (stage + 1) * v.c.Layers / v.l.stages}
				return holdBytes(t, v.c, o, meshes[i], v.l.stages-stage, v.l.again)
			}))
		})
	}
}

// holdBytes checks the prediction for a part of a model. passes is the number of micro-batches that it has at the same
// time, and again is the number of layers that are repeated. The prediction counts the product memory of wide models.
func holdBytes(t *testing.T, c lm.Config, o lm.Options, mesh lm.Mesh, passes, again int) error {
	m, err := lm.New(new(nn.Params[float32]), c, o)
	if err != nil {
		return err
	}
	const sequences, length = 6, 150
	want := m.TrainingBytes(sequences*length, sequences, passes, again)
	if err := m.Alloc(tensor.Heap); err != nil {
		return err
	}
	m.Init(1)
	w := m.NewRecomputing(sequences*length, again)
	w.Join(mesh)
	texts := lengths(c, length, length, length, length, length, length)
	stages := 1
	if mesh.Stages != nil {
		stages = mesh.Stages.Size()
	}
	source := &source{micros: slices.Repeat([][][]int32{texts}, stages), trained: new(trained)}
	if err := m.Train(w, len(source.micros), lm.Head{Temperature: 1}, source, nil); err != nil {
		return err
	}
	m.FinishGradients(w)
	if err := near(t, "training", m, w, want, 0.07); err != nil {
		return err
	}
	w = m.NewInference(sequences * length)
	w.Join(mesh)
	if err := m.Infer(w, len(source.micros), lm.Head{Temperature: 1}, source); err != nil {
		return err
	}
	want = m.InferenceBytes(sequences*length, sequences)
	return near(t, "inference", m, w, want, 0.4)
}

// near returns an error if w, a Work of m, has failed, or if the predicted memory is too small, or too large by more
// than the given share of it.
func near(t *testing.T, of string, m *lm.Model, w *lm.Work, want int, most float64) error {
	got := int(sizeOf(reflect.ValueOf(w).Elem(), map[uintptr]bool{reflect.ValueOf(m).Pointer(): true}))
	t.Logf("%s: %d bytes, predicted %d", of, got, want)
	if more := float64(want-got) / float64(got); more < -0.07 || more > most {
		return fmt.Errorf("%s: %d bytes, predicted %d", of, got, want)
	}
	return w.Err()
}

// sizeOf adds up the slices that v holds, except for what seen pointers point to.
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
