package plan

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/tensor"
)

// BaseWeights are weights to which adapters are added. They come from runner.ckpt_path, if is_lora is set. Checkpoints
// of a job with base weights have only the adapters, so a resumed run reads the base weights again. The zero value
// stands for a job without base weights.
type BaseWeights struct {
	Path string
	Hash uint64 // hash of the names and values of all weights
}

// BaseHash is the name of the tensor in the trainer's state that holds BaseWeights.Hash.
const BaseHash = "below"

// UseBase uses the weights in the file at path as the base weights of l's adapters. It does nothing if l has no
// adapters, if the file has adapters, or if there is no file.
func (l *Language) UseBase(path string) error {
	if l.LoRA == nil || path == "" {
		return nil
	}
	f, err := job.OpenWeights("runner.ckpt_path", path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // loading the weights or a checkpoint will report the error
	} else if err != nil {
		return err
	}
	defer f.Close()
	m, err := l.New()
	if err != nil {
		return err
	}
	weights := m.Tensors()
	if f.Index(weights[0].Name) < 0 {
		return nil
	}
	want := make([]tensor.Field, len(weights))
	for i, t := range weights {
		want[i] = tensor.Field{Name: t.Name, Shape: t.Shape}
	}
	if err := job.Fit(f.Fields, want); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	h := fnv.New64a()
	buf := make([]byte, 1<<20)
	for _, t := range weights {
		h.Write([]byte(t.Name))
		i := f.Index(t.Name)
		for lo, size := 0, f.Fields[i].Bytes(); lo < size; lo += len(buf) {
			part := buf[:min(len(buf), size-lo)]
			if err := f.ReadTensor(i, part, lo); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			h.Write(part)
		}
	}
	l.BaseWeights = BaseWeights{path, h.Sum64()}
	return nil
}

// load reads the base weights of m into memory. m may be a part of the model.
func (b *BaseWeights) load(m *lm.Model) error {
	f, err := job.OpenWeights("runner.ckpt_path", b.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, t := range m.Tensors() {
		i := f.Index(t.Name)
		if i < 0 {
			return fmt.Errorf("%s: no %s in it", b.Path, t.Name)
		}
		if err := f.ReadSlice(i, tensor.FromF32(t.Data, len(t.Data)).Bytes(), t.Slice); err != nil {
			return fmt.Errorf("%s: %w", b.Path, err)
		}
	}
	return nil
}

// checkSame returns an error if the adapters of a trainer's state have base weights other than b. The state may be
// empty.
func (b *BaseWeights) checkSame(trainer tensor.Dict) error {
	if trainer.Len() == 0 {
		return nil
	}
	hash := int64(0)
	if t, ok := trainer.Get(BaseHash); ok {
		hash = t.I64()[0]
	}
	switch {
	case hash == int64(b.Hash):
		return nil
	case hash == 0:
		return fmt.Errorf("runner.ckpt_path: %s: expected none: the checkpoint's adapters belong to other base weights",
			b.Path)
	case b.Path == "":
		return errors.New("runner.ckpt_path: none: expected the weights below the checkpoint's adapters")
	}
	return fmt.Errorf("runner.ckpt_path: %s: expected the weights below the checkpoint's adapters, not others", b.Path)
}
