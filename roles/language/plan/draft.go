package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/text"
	"github.com/rlinf/rlinf/policy/lm/tokenizer"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
)

// A Draft is a plan that is not complete.
type Draft struct {
	*Plan
	found *config.Findings
}

// NewDraft returns the draft of cfg for a world whose rank r is on node nodes[r]. It reads no file except comm.table.
func NewDraft(cfg *config.Config, reg config.Registries, nodes []int) *Draft {
	common, found := job.New(cfg, reg, nodes)
	d := &Draft{Plan: &Plan{Job: common}, found: found}
	if d.Workers("actor") == 0 {
		return d
	}
	if cfg.Deals() {
		if !d.pool(nodes) {
			return d
		}
	} else if cfg.Reasons() && !d.Placement.Has("rollout") {
		d.Placement.Add("rollout", d.Placement.Ranks("actor"))
	}
	if !d.arrange() {
		return d
	}
	d.Actors = d.Replicas("actor")
	if c := cfg.Actor; cfg.Reasons() {
		d.placeAnswers()
	} else if c.GlobalBatchSize > 0 {
		d.found.Want(c.GlobalBatchSize%d.Actors == 0 || c.EnableDPLoadBalance && c.GlobalBatchSize >= d.Actors,
			"actor.global_batch_size", c.GlobalBatchSize, "a multiple of "+d.replicas("actor"))
	}
	return d
}

// Mistakes returns all mistakes as one error, or nil if there are none.
func (d *Draft) Mistakes() error { return d.found.Err() }

// Complete returns the plan, or one error with all mistakes. It reads the tokenizer, the model's configuration and all
// texts. It reads no weights, except base weights of adapters, which it hashes.
func (d *Draft) Complete(cfg *config.Config, reg config.Registries) (*Plan, error) {
	d.Config, d.Registries = cfg, reg
	if err := d.found.Err(); err != nil {
		return nil, err
	}
	c := d.Config
	d.SyncInterval, d.Pipeline = 1, d.pipeline()
	if d.batch = c.Actor.GlobalBatchSize; c.Reasons() {
		d.batch = c.Data.RolloutBatchSize
	}
	if !d.readModel() {
		return nil, d.found.Err()
	}
	d.checkMeshes()
	d.readTexts()
	if c.Reasons() && d.found.Err() == nil {
		d.readPrompts()
	}
	if err := d.found.Err(); err != nil {
		return nil, err
	}
	d.BatchesPerEpoch, d.GenBatches = int64(len(d.Train.Samples)/d.batch), 1
	if c.Reasons() {
		d.GenBatches = int64(c.Algorithm.MaxNumGenBatches)
	}
	d.StepsPerEpoch = max(1, d.BatchesPerEpoch/d.GenBatches)
	d.MaxSteps = c.Runner.Steps(d.StepsPerEpoch)
	d.setLimit()
	if d.checkDevice(); d.found.Err() != nil {
		return nil, d.found.Err()
	}
	d.checkBubble()
	d.noteSharding()
	d.noteBest()
	return d.Plan, nil
}

// noteBest warns if evaluations that runner.early_stop watches have no checkpoint, so the best model may be lost.
func (d *Draft) noteBest() {
	r := &d.Config.Runner
	switch {
	case !r.EarlyStop.Enabled:
	case r.SaveInterval <= 0:
		d.notes = append(d.notes, fmt.Sprintf("runner.early_stop: the best model is lost: set runner.save_interval=%d",
			r.ValCheckInterval))
	case r.SaveInterval > r.ValCheckInterval:
		d.notes = append(d.notes, fmt.Sprintf("runner.early_stop: checkpoints/best is the best of every %d steps: "+
			"runner.save_interval=%d saves after every evaluation", r.SaveInterval, r.ValCheckInterval))
	}
}

// setLimit sets the maximum numbers of texts and of tokens in an actor's micro-batch.
func (d *Draft) setLimit() {
	c := d.Config
	d.Limit = algo.MicroBatch{Tokens: c.Runner.MaxTokensPerMbs}
	if c.Runner.EnableDynamicBatchSize {
		return
	}
	d.Limit.Sequences = c.Actor.MicroBatchSize
	longest := d.Train.Longest()
	if c.Reasons() {
		longest = c.Runner.SeqLength
	}
	if d.Valid != nil {
		longest = max(longest, d.Valid.Longest())
	}
	d.Limit.Tokens = config.Product(longest, min(c.Actor.MicroBatchSize, d.batch*max(c.Algorithm.GroupSize, 1)))
}

// modelKey returns the key to which an error of LanguageOf belongs, and its value: the folder that lacks a file, or the
// model's type.
func modelKey(c *config.Config, err error) (key, value string) {
	keys := c.LanguageModel()
	var missing *fs.PathError
	switch {
	case !errors.As(err, &missing):
		return "actor.model.model_type", c.Actor.Model.ModelType
	case filepath.Dir(missing.Path) == filepath.Clean(keys.LoRAPath):
		return "actor.model.lora_path", keys.LoRAPath
	}
	return "actor.model.model_path", keys.ModelPath
}

// readModel reads the tokenizer and the configuration of the model. It reports whether both could be read.
func (d *Draft) readModel() bool {
	c := d.Config
	if base := c.LanguageModel().ModelPath; base != "" && c.Actor.Tokenizer.TokenizerModel == "" {
		if _, err := os.Stat(filepath.Join(base, "config.json")); err != nil {
			d.found.Problem("actor.model.model_path", base, "the folder of a model: "+err.Error()+job.ExportFirst(base))
			return false
		}
	}
	k, err := tokenizer.Load(c.TokenizerFolder())
	if err != nil {
		d.found.Problem("actor.tokenizer.tokenizer_model", c.TokenizerFolder(), "a tokenizer: "+err.Error()+
			madeBy(err))
		return false
	}
	if d.Language, err = LanguageOf(c, k.Size()); err != nil {
		key, value := modelKey(c, err)
		d.found.Problem(key, value, "a model that can be made: "+err.Error()+job.ExportFirst(value))
		return false
	}
	if err := d.UseBase(c.Runner.CkptPath); err != nil {
		d.found.Problem("runner.ckpt_path", nil, "weights of this model: "+err.Error())
	}
	d.found.Want(d.BaseWeights.Path != "" || c.Runner.ResumeDir == "" || c.Runner.CkptPath == "", "runner.ckpt_path",
		c.Runner.CkptPath, "no adapters beside those of resume_dir")
	if err := d.checkFolder(); err != nil {
		d.found.Problem("actor.model.model_path", d.Base, "a folder of weights: "+err.Error())
	}
	if w := d.Model.Window; w > 0 && c.Runner.SeqLength > w {
		d.found.Problem("runner.seq_length", c.Runner.SeqLength, fmt.Sprintf("at most %d (sliding_window)", w))
	}
	if most := d.Language.Shortest; most > 0 {
		d.notes = append(d.notes, fmt.Sprintf("runner.seq_length %d is more than max_position_embeddings of %s, %d; "+
			"rlinf export writes %[1]d", c.Runner.SeqLength, d.Base, most))
	}
	d.Tokenizer = k
	var warnings []string
	if d.chat, warnings, err = d.UseTokenizer(c, k); err != nil {
		d.found.Problem("data.chat_template", c.Data.ChatTemplate, "a chat template: "+err.Error())
	}
	d.notes = append(d.notes, warnings...)
	d.Sampling.Stop = nil
	for _, id := range d.Tokens.EOS {
		d.Sampling.Stop = append(d.Sampling.Stop, int32(id))
	}
	return err == nil
}

// readTexts reads the training samples, and the validation samples if the job evaluates.
func (d *Draft) readTexts() {
	c := d.Config
	d.Train = d.readSet("data.train_data_paths", c.Data.TrainDataPaths)
	if c.Evaluates() && d.Train != nil {
		d.Valid = d.readSet("data.val_data_paths", c.Data.ValDataPaths)
	}
	for _, path := range c.Data.ValDataPaths {
		if _, err := os.Stat(path); err != nil && !c.Evaluates() { // rlinf eval reads them
			d.found.Problem("data.val_data_paths", path, "files of JSON lines: "+err.Error())
		}
	}
	if d.Train != nil && len(d.Train.Samples) < d.batch {
		key := "actor.global_batch_size"
		if c.Reasons() {
			key = "data.rollout_batch_size"
		}
		d.found.Problem(key, d.batch, fmt.Sprintf("at most %d, the samples of data.train_data_paths",
			len(d.Train.Samples)))
	}
}

// readSet returns the samples in the files of a configuration key. paths is the key's value. If the files cannot be
// read, readSet reports a mistake and returns nil.
func (d *Draft) readSet(key string, paths []string) *text.Dataset {
	c, k := d.Config, d.Tokenizer
	f := text.Format{Tokenizer: k, Prompt: c.Data.PromptKey, Answer: c.Data.AnswerKey, Messages: c.Data.MessagesKey,
		Chat: d.chat, EOS: k.EOS(), Vocab: d.Model.Vocab, Length: c.Runner.SeqLength,
		Drop: c.Data.FilterPromptByLength, Prompts: c.Reasons()}
	if len(d.Tokens.EOS) > 0 && f.EOS < 0 {
		f.EOS = int32(d.Tokens.EOS[0])
	}
	set, err := text.Read(paths, f)
	if err != nil {
		d.reportTexts(key, err, f.Prompts)
		return nil
	}
	return set
}

// reportTexts reports err, an error of text.Read about the files of a configuration key. If another key can make the
// files fit the job, the mistake is in that key.
func (d *Draft) reportTexts(key string, err error, prompts bool) {
	var long *text.TooLongError
	var missing *text.MissingKeyError
	var untemplated *text.NoTemplateError
	data, want := &d.Config.Data, "texts to learn from: "
	if prompts {
		want = "prompts with right answers: "
	}
	switch {
	case errors.As(err, &long):
		d.found.Problem("runner.seq_length", long.Length, fmt.Sprintf("at least %d, the tokens of the longest text, "+
			"or data.filter_prompt_by_length: true: %v", long.Tokens, err))
	case errors.As(err, &untemplated):
		d.found.Problem("data.apply_chat_template", false, "true: "+err.Error())
	case errors.As(err, &missing) && missing.First && d.Train == nil: // otherwise other texts have the keys
		if slices.Contains(missing.Keys, data.PromptKey) {
			d.found.Problem("data.prompt_key", data.PromptKey, "the key of the prompts: "+err.Error())
		}
		if slices.Contains(missing.Keys, data.AnswerKey) {
			d.found.Problem("data.answer_key", data.AnswerKey, "the key of the answers: "+err.Error())
		}
	default:
		d.found.Problem(key, nil, want+err.Error()+madeBy(err))
	}
}

// madeBy returns the last part of the message of err. For a missing file this part names the command that generates the
// data, or the run that saves the checkpoint. For other errors it is "".
func madeBy(err error) string {
	var missing *fs.PathError
	if run := job.MadeBy(err); run != "" || !errors.As(err, &missing) || !errors.Is(missing, fs.ErrNotExist) {
		return run
	}
	parts := strings.Split(filepath.ToSlash(missing.Path), "/")
	if at := slices.Index(parts, "data"); at >= 0 && at+1 < len(parts) {
		if task, err := text.TaskNamed(parts[at+1]); err == nil {
			return ": make it by rlinf data " + task.Name
		}
	}
	return ""
}
