package plan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/text"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/policy/lm/tokenizer"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/tensor"
)

// A Plan has the model and the texts of a job that trains a language model, and the distribution of the texts over
// actors and steps. It is derived from the configuration and the ranks of the world. It is equal on all ranks, and does
// not change.
type Plan struct {
	*job.Job
	Language

	Actors int                  // number of replicas of the actors; the members of a replica have one model together
	meshes map[string]mesh.Mesh // the mesh of each placed component with a model

	Train, Valid  *text.Dataset // Valid is nil without evaluations
	StepsPerEpoch int64
	// BatchesPerEpoch is the number of whole batches in an epoch. A step takes one batch. With dynamic sampling a step
	// takes up to GenBatches batches.
	BatchesPerEpoch, GenBatches int64
	Limit                       algo.MicroBatch // the maximum size of an actor's micro-batch
	Tokenizer                   *tokenizer.Tokenizer
	chat                        *tokenizer.ChatTemplate // nil without data.apply_chat_template
	notes                       []string                // warnings for the user
	deviceBytes                 map[string]int64        // of a member on its device, by component
	batch                       int                     // texts of a batch (in reasoning: prompts), over all actors

	// In the reasoning task:
	Sampling engine.Sampling // the settings of sampled answers
	Pipeline Pipeline        // the distribution of groups over workers
	longest  int             // maximum number of tokens of a prompt with its answer
	group    int             // the number of answers to each prompt
}

// Notes returns warnings that the user should see before the job begins.
func (p *Plan) Notes() []string { return p.notes }

// MayDiffer returns the keys that may differ in a resumed run, because they change no result.
func (p *Plan) MayDiffer() []string {
	keys := []string{"rollout.return_logprobs", "rollout.eval_sampling_params", "reward.program",
		"actor.model.tensor_model_parallel_size", "actor.model.pipeline_model_parallel_size",
		"actor.model.pipeline_layers", "rollout.tensor_parallel_size", "inference.model", "critic.model",
		"actor.model.recompute_granularity", "actor.model.recompute_method", "actor.model.recompute_num_layers",
		"actor.fsdp_config", "actor.optim.use_distributed_optimizer", "actor.critic_optim.use_distributed_optimizer",
		"algorithm.entropy_tuning.optim.use_distributed_optimizer"}
	if p.Model.Experts.Count == 0 { // experts are balanced over a micro-batch
		keys = append(keys, "actor.micro_batch_size", "runner.enable_dynamic_batch_size", "runner.max_tokens_per_mbs")
	}
	return keys
}

// Fits returns an error unless model lists exactly the trained parameters of this plan's model. It also returns an
// error if the tensors of a trainer's state belong to other texts or other base weights. trainer may be empty.
func (p *Plan) Fits(model []tensor.Field, trainer tensor.Dict) error {
	m, err := p.New()
	if err != nil {
		return err
	}
	return errors.Join(job.Fit(model, m.Params.Layout().Fields()), p.sameInputs(trainer))
}

// TextsHash is the name of the tensor in the trainer's state that holds the hash of the training texts.
const TextsHash = "texts"

// sameInputs returns an error if a trainer's state belongs to other texts or other base weights. The state may be
// empty.
func (p *Plan) sameInputs(trainer tensor.Dict) error {
	if hash, ok := trainer.Get(TextsHash); ok && hash.I64()[0] != int64(p.Train.Hash) {
		return errors.New("data.train_data_paths: the texts are not those of the checkpoint")
	}
	return p.BaseWeights.checkSame(trainer)
}

// Inputs returns hashes of the inputs that must be the same on all ranks: the texts and the base weights. keys are the
// configuration keys that name the files of the inputs.
func (p *Plan) Inputs() (keys []string, hashes [][]byte) {
	add := func(key string, hash uint64) {
		keys, hashes = append(keys, key), append(hashes, binary.LittleEndian.AppendUint64(nil, hash))
	}
	add("data.train_data_paths", p.Train.Hash)
	add("runner.ckpt_path", p.BaseWeights.Hash)
	if p.Valid != nil {
		add("data.val_data_paths", p.Valid.Hash)
	}
	return keys, hashes
}

// Order returns the order of samples in an epoch. It reuses the memory of buf, for example an earlier result.
func (p *Plan) Order(buf []int32, epoch int64) []int32 {
	data := &p.Config.Data
	return algo.Permutation(buf, len(p.Train.Samples), data.Shuffle, data.Seed, epoch)
}

// A Batch has the texts on which one replica of the actors trains in a step.
type Batch struct {
	Mine            []algo.Sequence
	Targets, Tokens int // numbers of targets and tokens in the whole batch, over all actors
}

// BatchOf returns the batch of a replica in a step. number is the step's number within its epoch, and order is the
// order of samples in that epoch.
func (p *Plan) BatchOf(order []int32, number int64, replica int) (b Batch) {
	whole := order[number*int64(p.batch):][:p.batch]
	for _, i := range whole {
		s := p.Train.Samples[i]
		b.Targets += s.Targets()
		b.Tokens += len(s.IDs)
	}
	lo, hi := span(p.batch, p.Actors, replica)
	share := whole[lo:hi]
	if p.Config.Actor.EnableDPLoadBalance {
		share = p.balanced(whole, replica)
	}
	for _, i := range share {
		b.Mine = append(b.Mine, sequence(p.Train.Samples[i]))
	}
	return b
}

func sequence(s text.Sample) algo.Sequence { return algo.Sequence{IDs: s.IDs, Learn: s.Learn} }

// balanced returns a replica's samples of batch, in the order of the batch. All replicas get about the same number of
// tokens, and at least one sample.
func (p *Plan) balanced(batch []int32, replica int) (share []int32) {
	tokens := make([]float64, len(batch))
	for k, i := range batch {
		tokens[k] = float64(len(p.Train.Samples[i].IDs))
	}
	for k, r := range balance(tokens, p.Actors, len(batch)) {
		if r == replica {
			share = append(share, batch[k])
		}
	}
	return share
}

// Validation returns the validation texts that one of several workers evaluates.
func (p *Plan) Validation(worker, workers int) (mine []algo.Sequence) {
	lo, hi := span(len(p.Valid.Samples), workers, worker)
	for _, s := range p.Valid.Samples[lo:hi] {
		mine = append(mine, sequence(s))
	}
	return mine
}

// sizes describes the sizes of the model.
func (p *Plan) sizes() string {
	m := &p.Model
	text := fmt.Sprintf("sizes: %s, %d layers of width %d, feed-forward %d, %d heads of %d (%d of keys and values), "+
		"%d tokens", m.Family, m.Layers, m.Hidden, m.Intermediate, m.Heads, m.HeadDim, m.KVHeads, m.Vocab)
	if n := m.Experts.Count; n > 0 {
		text += fmt.Sprintf(", %d experts", n)
	}
	if p.LoRA != nil {
		text += fmt.Sprintf("; adapters of rank %d in %s", p.LoRA.Rank, strings.Join(p.LoRA.Targets, ", "))
	}
	return text
}

// Describe returns a few lines that describe one step.
func (p *Plan) Describe() []string {
	micro := fmt.Sprintf("micro-batches of at most %d tokens", p.Limit.Tokens)
	if p.Limit.Sequences > 0 {
		micro = fmt.Sprintf("micro-batches of %d texts", p.Limit.Sequences)
	}
	texts, actor := "texts", "actor"
	if p.Config.Reasons() {
		texts = "prompts"
	}
	if p.Mesh("actor").Members() > 1 {
		actor = "replica"
	}
	lines := []string{
		fmt.Sprintf("model: %d parameters, %d of them trained", p.Count, p.Trained),
		p.sizes(),
		fmt.Sprintf("step: %d %s (%d on each %s), in %s", p.batch, texts, p.batch/p.Actors, actor, micro),
		fmt.Sprintf("epoch: %d %s = %d steps; the longest has %d tokens", len(p.Train.Samples), texts, p.StepsPerEpoch,
			p.Train.Longest()),
	}
	if rest := int64(len(p.Train.Samples)) - p.StepsPerEpoch*p.GenBatches*int64(p.batch); rest > 0 {
		others := ""
		if p.Config.Data.Shuffle {
			others = ", others in each"
		}
		lines[3] += fmt.Sprintf("; an epoch leaves out %d%s", rest, others)
	}
	if a := &p.Config.Actor; p.HasCritic() {
		lines = append(lines, fmt.Sprintf("learning rates: %g, critic %g", a.Optim.LR, a.CriticOptim.CriticLR()))
	}
	lines = append(lines, p.meshLines()...)
	lines = append(lines, p.Pipeline.lines(p.group)...)
	lines = append(lines, p.endLine())
	if p.Train.Dropped > 0 {
		lines = append(lines, fmt.Sprintf("left out: %d %s that are too long", p.Train.Dropped, texts))
	}
	if p.Valid != nil {
		line := fmt.Sprintf("evaluation: %d %s", len(p.Valid.Samples), texts)
		if n := p.Valid.Dropped; n > 0 {
			line += fmt.Sprintf("; left out: %d that are too long", n)
		}
		lines = append(lines, line)
	}
	return lines
}
