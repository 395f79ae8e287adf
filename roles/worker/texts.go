package worker

import (
	"context"
	"encoding/binary"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/roles/job"
)

// Texts are those that a job learns from, in the order of an epoch.
type texts struct {
	tuning *job.Tuning
	order  []int32 // of the epoch
	epoch  int64   // that order is of; -1: none
}

func newTexts(t *job.Tuning) *texts { return &texts{tuning: t, epoch: -1} }

// CompareInputs checks that all ranks of a group have read the same texts, and the same weights below
// adapters.
func CompareInputs(ctx context.Context, group *collectives.Group, t *job.Tuning) error {
	names := []string{"data.train_data_paths", "runner.ckpt_path"}
	data := [][]byte{binary.LittleEndian.AppendUint64(nil, t.Train.Hash),
		binary.LittleEndian.AppendUint64(nil, t.Below.Hash)}
	if t.Valid != nil {
		names = append(names, "data.val_data_paths")
		data = append(data, binary.LittleEndian.AppendUint64(nil, t.Valid.Hash))
	}
	return group.SameOnAllRanks(ctx, names, data)
}

// at brings order to the epoch of a batch of the run, and returns the batch's number within it.
func (t *texts) at(batch int64) int64 {
	if epoch := batch / t.tuning.BatchesPerEpoch; epoch != t.epoch {
		t.order, t.epoch = t.tuning.Order(t.order, epoch), epoch
	}
	return batch % t.tuning.BatchesPerEpoch
}

// A prompt is a question with its places.
type prompt struct {
	job.Question
	group  int // of the iteration
	sample int // of the texts of training
}

// prompts returns groups [lo, hi) of batch number n of a step of the task reasoning. Every step owns
// GenBatches batches, used or not, so that a run which resumes meets the same prompts.
func (t *texts) prompts(step int64, n, lo, hi int) (all []prompt) {
	batch := step*t.tuning.GenBatches + int64(n)
	first := batch * t.tuning.StepPrompts()
	samples := t.tuning.Samples(t.order, t.at(batch))
	for g := lo; g < hi; g++ {
		k := int(samples[g])
		all = append(all, prompt{t.tuning.Question(k, first+int64(g)), g, k})
	}
	return all
}
