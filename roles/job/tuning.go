package job

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/text"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/policy/lm/tokenizer"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/tensor"
)

// A Tuning is what fine-tuning a language model adds to a job: the model, the texts, and which actor
// learns from which of them in each step.
type Tuning struct {
	Language
	Train, Valid  *text.Dataset // Valid is nil without evaluations
	StepsPerEpoch int64
	// BatchesPerEpoch is how often an epoch has a whole batch. A step takes one, or with dynamic
	// sampling up to GenBatches.
	BatchesPerEpoch, GenBatches int64
	Limit                       algo.MicroBatch // of what an actor computes at once
	Tokenizer                   *tokenizer.Tokenizer
	Notes                       []string // about the answers of the data, that the user should know

	answering

	batch   int // texts of a step, over all actors; with the task reasoning prompts
	actors  int
	shuffle bool
	level   bool // texts are dealt by their lengths
	seed    uint64
}

// answering is what the task reasoning adds.
type answering struct {
	Sampling engine.Sampling // how answers are drawn
	Plan     TextPlan        // who has which groups
	longest  int             // tokens of a prompt with its answer
	group    int             // answers to each prompt
	running  int             // answers that grow at the same time
	threads  int             // of a rollout worker
}

// newTuning makes the job of cfg where it fine-tunes a language model. It reads the model's
// configuration and all texts, but no weights.
func newTuning(cfg *config.Config, reg config.Registries, nodes []int) (*Job, error) {
	d := newTuningDraft(cfg, reg, nodes)
	if err := d.found.Err(); err != nil {
		return nil, err
	}
	c := d.Config
	batch := c.Actor.GlobalBatchSize
	if c.Reasons() {
		batch = c.Data.RolloutBatchSize
	}
	d.SyncInterval = 1
	t := &Tuning{answering: answering{Plan: d.textPlan()}, batch: batch, actors: d.Actors, shuffle: c.Data.Shuffle,
		level: c.Actor.EnableDPLoadBalance, seed: c.Data.Seed}
	if !d.readModel(t) {
		return nil, d.found.Err()
	}
	d.readTexts(t)
	if c.Reasons() && d.found.Err() == nil {
		d.readPrompts(t)
	}
	if err := d.found.Err(); err != nil {
		return nil, err
	}
	t.BatchesPerEpoch, t.GenBatches = int64(len(t.Train.Samples)/t.batch), 1
	if c.Reasons() {
		t.GenBatches = int64(c.Algorithm.MaxNumGenBatches)
	}
	t.StepsPerEpoch = max(1, t.BatchesPerEpoch/t.GenBatches)
	d.MaxSteps = steps(&c.Runner, t.StepsPerEpoch)
	t.Limit = algo.MicroBatch{Tokens: c.Runner.MaxTokensPerMbs}
	if !c.Runner.EnableDynamicBatchSize {
		t.Limit.Sequences = c.Actor.MicroBatchSize
		longest := t.Train.Longest()
		if c.Reasons() {
			longest = c.Runner.SeqLength
		}
		if t.Valid != nil {
			longest = max(longest, t.Valid.Longest())
		}
		t.Limit.Tokens = config.Product(longest, min(c.Actor.MicroBatchSize, t.batch*max(c.Algorithm.GroupSize, 1)))
	}
	d.Tuning = t
	return d.Job, nil
}

// newTuningDraft is newDraft for a job that fine-tunes.
func newTuningDraft(cfg *config.Config, reg config.Registries, nodes []int) *draft {
	d := &draft{Job: &Job{Config: cfg, Registries: reg}, found: cfg.CheckParts(reg)}
	d.readTable()
	d.placeOn(nodes)
	d.Actors = d.workers("actor")
	c := cfg.Actor
	if d.Actors > 0 && cfg.Reasons() {
		d.placeAnswers()
	} else if d.Actors > 0 && c.GlobalBatchSize > 0 {
		d.found.Want(c.GlobalBatchSize%d.Actors == 0 || c.EnableDPLoadBalance && c.GlobalBatchSize >= d.Actors,
			"actor.global_batch_size", c.GlobalBatchSize, fmt.Sprintf("a multiple of %d actors", d.Actors))
	}
	return d
}

// steps returns after how many steps the run ends.
func steps(r *config.RunnerConfig, perEpoch int64) int64 {
	n := int64(math.MaxInt64)
	if r.MaxEpochs >= 0 {
		n = int64(config.Product(r.MaxEpochs, int(perEpoch)))
	}
	if r.MaxSteps >= 0 {
		n = min(n, int64(r.MaxSteps))
	}
	return n
}

// readModel reads the tokenizer and what the model is. It reports whether there are both.
func (d *draft) readModel(t *Tuning) bool {
	c := d.Config
	k, err := tokenizer.Load(c.TokenizerFolder())
	if err != nil {
		d.problem("actor.tokenizer.tokenizer_model", c.TokenizerFolder(), "a tokenizer: "+err.Error()+
			madeBy(err))
		return false
	}
	if t.Language, err = LanguageOf(c, k.Size()); err != nil {
		d.problem("actor.model.model_type", c.Actor.Model.ModelType, "a model that can be made: "+err.Error())
		return false
	}
	if err := t.StandOn(c.Runner.CkptPath); err != nil {
		d.problem("runner.ckpt_path", nil, "weights of this model: "+err.Error())
	}
	d.found.Want(t.Below.Path != "" || c.Runner.ResumeDir == "" || c.Runner.CkptPath == "", "runner.ckpt_path",
		c.Runner.CkptPath, "no adapters beside those of resume_dir")
	if err := t.checkFolder(); err != nil {
		d.problem("actor.model.model_path", t.Base, "a folder of weights: "+err.Error())
	}
	if w := t.Model.Window; w > 0 && c.Runner.SeqLength > w {
		d.problem("runner.seq_length", c.Runner.SeqLength, fmt.Sprintf("at most %d (sliding_window)", w))
	}
	t.Tokenizer = k
	for _, id := range append(slices.Clone(t.Tokens.EOS), int(k.EOS())) {
		if id >= 0 && !slices.Contains(t.Sampling.Stop, int32(id)) {
			t.Sampling.Stop = append(t.Sampling.Stop, int32(id))
		}
	}
	return true
}

// readTexts reads the samples of training and of evaluation.
func (d *draft) readTexts(t *Tuning) {
	c := d.Config
	t.Train = d.readSet(t, "data.train_data_paths", c.Data.TrainDataPaths)
	if c.Evaluates() && t.Train != nil {
		t.Valid = d.readSet(t, "data.val_data_paths", c.Data.ValDataPaths)
	}
	if t.Train != nil && len(t.Train.Samples) < t.batch {
		key := "actor.global_batch_size"
		if c.Reasons() {
			key = "data.rollout_batch_size"
		}
		d.problem(key, t.batch, fmt.Sprintf("at most %d, the samples of data.train_data_paths",
			len(t.Train.Samples)))
	}
}

// readSet reads the samples of some files; nil where it cannot.
func (d *draft) readSet(t *Tuning, key string, paths []string) *text.Dataset {
	c, k := d.Config, t.Tokenizer
	f := text.Format{Tokenizer: k, Prompt: c.Data.PromptKey, Answer: c.Data.AnswerKey, Messages: c.Data.MessagesKey,
		EOS: k.EOS(), Vocab: t.Model.Vocab, Length: c.Runner.SeqLength, Drop: c.Data.FilterPromptByLength,
		Sources: c.Reasons()}
	if len(t.Tokens.EOS) > 0 && f.EOS < 0 {
		f.EOS = int32(t.Tokens.EOS[0])
	}
	if c.Data.ApplyChatTemplate {
		var err error
		if f.Chat, err = k.ChatTemplate(""); err != nil {
			d.problem("data.apply_chat_template", true, "a tokenizer with a chat template: "+err.Error())
			return nil
		}
	}
	set, err := text.Read(paths, f)
	if err != nil {
		d.problem(key, nil, "texts to learn from: "+err.Error()+madeBy(err))
		return nil
	}
	return set
}

// TextsHash is the name, in the trainer's state, of the hash of the texts of training.
const TextsHash = "texts"

// SameInputs reports whether a trainer's state, which may be empty, is of these texts, and of adapters
// on these weights.
func (t *Tuning) SameInputs(trainer tensor.Dict) error {
	if hash, ok := trainer.Get(TextsHash); ok && hash.I64()[0] != int64(t.Train.Hash) {
		return errors.New("data.train_data_paths: the texts are not those of the checkpoint")
	}
	return t.Below.same(trainer)
}

// Order returns the samples of an epoch, in the order in which steps take them. Another epoch may
// write over it: order is memory to use again.
func (t *Tuning) Order(order []int32, epoch int64) []int32 {
	return algo.Permutation(order, len(t.Train.Samples), t.shuffle, t.seed, epoch)
}

// A TuningBatch is what one actor learns from in a step.
type TuningBatch struct {
	Mine            []algo.Sequence
	Targets, Tokens int // of the whole batch, over all actors
}

// Batch returns what an actor learns from in step number within its epoch, which has that order.
func (t *Tuning) Batch(order []int32, number int64, actor int) (b TuningBatch) {
	whole := order[number*int64(t.batch):][:t.batch]
	for _, i := range whole {
		s := t.Train.Samples[i]
		b.Targets += s.Targets()
		b.Tokens += len(s.IDs)
	}
	lo, hi := actor*t.batch/t.actors, (actor+1)*t.batch/t.actors
	share := whole[lo:hi]
	if t.level {
		share = t.leveled(whole, actor)
	}
	for _, i := range share {
		b.Mine = append(b.Mine, sequence(t.Train.Samples[i]))
	}
	return b
}

func sequence(s text.Sample) algo.Sequence { return algo.Sequence{IDs: s.IDs, Learn: s.Learn} }

// leveled returns an actor's samples of whole, in their order. The longest that is left goes to the
// actor with the fewest tokens, of equals to the first, so that all have about as many. Every actor
// gets one at least.
func (t *Tuning) leveled(whole []int32, actor int) (share []int32) {
	byLength := slices.Clone(whole)
	length := func(i int32) int { return len(t.Train.Samples[i].IDs) }
	slices.SortStableFunc(byLength, func(a, b int32) int { return length(b) - length(a) })
	load, mine := make([]int, t.actors), map[int32]bool{}
	for _, i := range byLength {
		least := 0
		for a := range load {
			if load[a] < load[least] {
				least = a
			}
		}
		load[least] += length(i)
		mine[i] = least == actor
	}
	for _, i := range whole {
		if mine[i] {
			share = append(share, i)
		}
	}
	return share
}

// Validation returns what the i-th of so many evaluates.
func (t *Tuning) Validation(i, of int) (mine []algo.Sequence) {
	n := len(t.Valid.Samples)
	for _, s := range t.Valid.Samples[i*n/of : (i+1)*n/of] {
		mine = append(mine, sequence(s))
	}
	return mine
}

// sizes describes the model, which a folder or the configuration gives its sizes.
func (t *Tuning) sizes() string {
	m := &t.Model
	text := fmt.Sprintf("sizes: %s, %d layers of width %d, feed-forward %d, %d heads of %d (%d of keys and values), "+
		"%d tokens", m.Family, m.Layers, m.Hidden, m.Intermediate, m.Heads, m.HeadDim, m.KVHeads, m.Vocab)
	if n := m.Experts.Count; n > 0 {
		text += fmt.Sprintf(", %d experts", n)
	}
	if t.LoRA != nil {
		text += fmt.Sprintf("; adapters of rank %d in %s", t.LoRA.Rank, strings.Join(t.LoRA.Targets, ", "))
	}
	return text
}

// lines says in a few lines what a step does.
func (t *Tuning) lines() []string {
	micro := fmt.Sprintf("micro-batches of at most %d tokens", t.Limit.Tokens)
	if t.Limit.Sequences > 0 {
		micro = fmt.Sprintf("micro-batches of %d texts", t.Limit.Sequences)
	}
	texts := "texts"
	if t.longest > 0 {
		texts = "prompts"
	}
	lines := []string{
		fmt.Sprintf("model: %d parameters, %d of them trained", t.Count, t.Trained),
		t.sizes(),
		fmt.Sprintf("step: %d %s (%d on each actor), in %s", t.batch, texts, t.batch/t.actors, micro),
		fmt.Sprintf("epoch: %d texts = %d steps; the longest has %d tokens", len(t.Train.Samples), t.StepsPerEpoch,
			t.Train.Longest()),
	}
	lines = append(lines, t.Plan.lines(t.group)...)
	if t.Train.Dropped > 0 {
		lines = append(lines, fmt.Sprintf("left out: %d %s that are too long", t.Train.Dropped, texts))
	}
	lines = append(lines, t.Notes...)
	if t.Valid != nil {
		lines = append(lines, fmt.Sprintf("evaluation: %d texts", len(t.Valid.Samples)))
	}
	return lines
}
