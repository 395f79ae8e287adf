package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/text"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/reward/answer"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/language/exam"
	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/tensor"
)

// A Question is a prompt and its right answer.
type Question = answer.Question

// readPrompts makes prompts from the job's samples, sets Sampling, and checks the keys of reasoning.
func (d *Draft) readPrompts() {
	c := d.Config
	d.setSampling()
	d.keepPrompts(d.Train)
	d.keepPrompts(d.Valid)
	d.checkQuestions("data.train_data_paths", d.Train)
	d.checkQuestions("data.val_data_paths", d.Valid)
	if n := len(d.Train.Samples); n < d.batch {
		d.found.Problem("data.rollout_batch_size", d.batch,
			fmt.Sprintf("at most %d, the prompts of data.train_data_paths", n))
	}
	per := config.Product(d.batch, c.Algorithm.GroupSize) / max(d.Actors, 1)
	steps := c.Algorithm.Texts.NMinibatches
	d.found.Want(steps <= 0 || per%steps == 0, "algorithm.n_minibatches", steps,
		fmt.Sprintf("a share of the %d answers of an actor", per))
	if critics := d.Replicas("critic"); critics > 0 && steps > 0 {
		per := config.Product(d.batch, c.Algorithm.GroupSize) / critics
		d.found.Want(per%steps == 0, "algorithm.n_minibatches", steps,
			fmt.Sprintf("a share of the %d answers of a critic worker", per))
	}
	bytes := d.AnswerBytes()
	d.found.Want(bytes > 0 && bytes <= 1<<30, "algorithm.group_size", d.group,
		fmt.Sprintf("fewer answers: those to a prompt, of %d tokens each, must fit into 1 GiB", d.Sampling.MaxTokens))
	setup := d.TextSetup()
	if d.HasCritic() {
		setup.Critic = new(algo.TextCritic) // a critic will be made
		setup.CriticOptim.Check(d.found.At("actor.critic_optim").Want)
	}
	setup.Check(d.found.Want)
	d.tryGrader()
}

// setSampling sets the maximum lengths, and the settings of sampled answers in training.
func (d *Draft) setSampling() {
	c := d.Config
	d.longest, d.group = c.Runner.SeqLength, c.Algorithm.GroupSize
	s := &c.Rollout.SamplingParams
	d.Sampling = engine.Sampling{MaxTokens: c.Runner.SeqLength - c.Data.MaxPromptLength, Temperature: s.Temperature,
		TopK: s.TopK, TopP: s.TopP, RepetitionPenalty: s.RepetitionPenalty, Stop: d.Sampling.Stop, Seed: c.Actor.Seed}
	if s.TopK >= d.Model.Vocab {
		d.Sampling.TopK = 0
	}
}

// keepPrompts removes too long prompts from the dataset. Without data.filter_prompt_by_length it reports them as a
// mistake instead.
func (d *Draft) keepPrompts(set *text.Dataset) {
	if set == nil {
		return
	}
	c, longest := d.Config, 0
	set.Samples = slices.DeleteFunc(set.Samples, func(s text.Sample) bool {
		if len(s.IDs) <= c.Data.MaxPromptLength {
			return false
		}
		longest = max(longest, len(s.IDs))
		if c.Data.FilterPromptByLength {
			set.Dropped++
		}
		return c.Data.FilterPromptByLength
	})
	want := fmt.Sprintf("at least %d, the longest prompt", longest)
	switch {
	case longest > 0 && !c.Data.FilterPromptByLength:
		d.found.Problem("data.max_prompt_length", c.Data.MaxPromptLength, want+", or data.filter_prompt_by_length")
	case len(set.Samples) == 0:
		d.found.Problem("data.max_prompt_length", c.Data.MaxPromptLength, want+": all prompts are left out")
	}
}

// checkQuestions reports questions that the reward rule cannot grade, and adds warnings.
func (d *Draft) checkQuestions(key string, set *text.Dataset) {
	if set == nil {
		return
	}
	type found struct {
		count int
		first string
	}
	var wrong []string
	notes, rule := map[string]found{}, d.Config.Reward.RewardType
	for _, s := range set.Samples {
		q := question(s, 0)
		at := fmt.Sprintf("%s:%d", s.Source.File, s.Source.Line)
		note, err := answer.CheckQuestion(rule, &q)
		if err != nil {
			wrong = append(wrong, at+": "+err.Error())
		}
		if note != "" {
			n := notes[note]
			notes[note] = found{n.count + 1, cmp.Or(n.first, at)}
		}
	}
	if n := len(wrong); n > 0 {
		if n > 3 {
			wrong = append(wrong[:3], fmt.Sprintf("and %d more", n-3))
		}
		d.found.Problem(key, nil, fmt.Sprintf("prompts that reward_type %s can reward: %s", rule,
			strings.Join(wrong, "; ")))
	}
	for _, note := range slices.Sorted(maps.Keys(notes)) {
		n := notes[note]
		d.notes = append(d.notes, fmt.Sprintf("%s: %d of %d answers are %s, the first in %s", key, n.count,
			len(set.Samples), note, n.first))
	}
}

// tryGrader makes the grader of answers, to report mistakes in its keys. It starts no program.
func (d *Draft) tryGrader() {
	err := answer.CheckProgram(d.graderSetup())
	if err == nil && d.Config.Reward.RewardType != answer.Program {
		_, err = d.NewGrader(nil)
	}
	if err != nil {
		d.found.Problem("reward", nil, "a reward that fits: "+err.Error())
	}
}

// CheckFiles returns an error if the rank starts a verifier whose script, the first argument of its command, is
// missing. CheckFiles can fail on some ranks and not on others.
func (p *Plan) CheckFiles(rank int) error {
	r := &p.Config.Reward
	command := r.Answers.Program.Command
	asks := p.Config.Reasons() && r.RewardType == answer.Program && p.On(p.RewardComponent(), rank)
	if !asks || len(command) < 2 {
		return nil
	}
	scripts := []string{".py", ".sh", ".js", ".rb", ".pl", ".R"}
	if !slices.Contains(scripts, filepath.Ext(command[1])) {
		return nil
	}
	if _, err := os.Stat(command[1]); err != nil {
		return p.Config.Mistake("reward.program.command", strings.Join(command, " "), "a program that starts here: "+
			err.Error())
	}
	return nil
}

// ForEvaluation returns the plan of an evaluation of cfg, without a placement. It reads the validation questions of
// the reasoning task, or the validation texts of the sft task. Each layer of the model is divided as in the component
// that Examined returns.
func ForEvaluation(cfg *config.Config, reg config.Registries) (*Plan, error) {
	d := &Draft{Plan: &Plan{Job: &job.Job{Config: cfg, Registries: reg}}, found: cfg.CheckParts(reg)}
	d.found.Want(len(cfg.Data.ValDataPaths) > 0, "data.val_data_paths", nil,
		"files of JSON lines or Parquet, to evaluate with")
	if d.found.Err() == nil && d.readModel() {
		of := d.Examined()
		d.meshes = map[string]mesh.Mesh{of: {Tensor: cfg.Layout(of).TensorModelParallelSize}}
		d.checkTensor(of)
		d.Valid = d.readSet("data.val_data_paths", cfg.Data.ValDataPaths)
		if cfg.Reasons() {
			d.setSampling()
			d.keepPrompts(d.Valid)
			d.checkQuestions("data.val_data_paths", d.Valid)
			d.tryGrader()
		} else if d.Valid != nil {
			longest := d.Valid.Longest()
			d.Limit.Tokens = max(config.Product(longest, max(1, cfg.Actor.MicroBatchSize)), cfg.Runner.MaxTokensPerMbs)
		}
	}
	return d.Plan, d.found.Err()
}

// Examined returns the component whose Mesh an evaluation uses.
func (p *Plan) Examined() string {
	if p.Config.Reasons() {
		return "rollout"
	}
	return "actor"
}

// TextSetup returns the setup of the algorithm without the model.
func (p *Plan) TextSetup() algo.TextSetup {
	a, c := &p.Config.Algorithm, &p.Config.Actor
	optim, critic := p.Config.Optimisers()
	return algo.TextSetup{Config: a.Config, Text: a.Texts, Optim: optim, Sampling: p.Sampling, GroupSize: a.GroupSize,
		CriticOptim: critic, MicroBatch: p.Limit, Threads: c.Threads, Seed: c.Seed,
		Recompute:  p.Config.RecomputedLayers(),
		Iterations: int(min(p.MaxSteps, math.MaxInt32))}
}

// EngineOptions returns the limits of the engine that generates answers. The engine's cache has room for the maximum
// number of running texts, at their maximum length.
func (p *Plan) EngineOptions() engine.Options {
	pages, running := (p.longest+lm.PageLen-1)/lm.PageLen, p.Config.Rollout.MaxRunningRequests
	return engine.Options{MaxRunning: running, CacheTokens: config.Product(running, pages*lm.PageLen),
		ChunkTokens: max(512, running), Threads: p.Config.Rollout.Threads, Tokens: p.Tokenizer.Size()}
}

// EngineBytes estimates the engine's memory: keys and values in the cache, and a row of logits for each answer.
func (p *Plan) EngineBytes() int64 {
	o := p.EngineOptions()
	return int64(config.Product(o.CacheTokens, p.cacheBytes())) + int64(4*o.MaxRunning*p.Model.Vocab)
}

// cacheBytes returns the size in bytes of a token's keys and values on one rollout worker.
func (p *Plan) cacheBytes() int {
	m := &p.Model
	return 8 * m.Layers * m.KVHeads / p.Mesh("rollout").Tensor * m.HeadDim
}

// AnswerBytes returns the maximum size in bytes of the packed answers to a prompt.
func (p *Plan) AnswerBytes() int {
	tokens, room := config.Product(p.group, p.Sampling.MaxTokens), tensor.Align-1
	perToken := 16 // the token, and log-probs of three kinds
	if p.Pipeline.Stage("critic") >= 0 {
		perToken += 4
	}
	return (config.Product(perToken, tokens) + 4*p.longest + 16*p.group + 2<<10 + room) &^ room
}

// Samples returns the samples of one batch. order has the samples of an epoch, and number is the index of the batch.
func (p *Plan) Samples(order []int32, number int64) []int32 {
	return order[number*int64(p.batch):][:p.batch]
}

// Question returns a training sample as a question. number is the question's number in the run.
func (p *Plan) Question(sample int, number int64) Question {
	return question(p.Train.Samples[sample], number)
}

// ValidationQuestions returns the validation questions that one of several workers asks.
func (p *Plan) ValidationQuestions(worker, workers int) (mine []Question) {
	lo, hi := span(len(p.Valid.Samples), workers, worker)
	for i := lo; i < hi; i++ {
		mine = append(mine, question(p.Valid.Samples[i], int64(i)))
	}
	return mine
}

func question(s text.Sample, number int64) Question {
	return Question{Number: number, Prompt: s.IDs, Answer: s.Source.Tokens, Text: s.Source.Prompt,
		Solutions: s.Source.Answers}
}

// NewGrader makes a grader of answers from the section reward of the configuration. All graders of a rank share judge.
// If judge is nil, the grader gets its own judge.
func (p *Plan) NewGrader(judge *answer.JudgeProgram) (*answer.Grader, error) {
	setup := p.graderSetup()
	setup.Judge = judge
	return p.Registries.AnswerRules().New(setup)
}

func (p *Plan) graderSetup() answer.Setup {
	r := &p.Config.Reward
	return answer.Setup{Type: r.RewardType, Config: r.Answers, Own: r.Own, Seed: p.Config.Actor.Seed,
		Programs: p.Registries.Programs}
}

// NewExam makes an exam. The engine e answers the questions, and g grades the answers.
func (p *Plan) NewExam(e *engine.Engine, g *answer.Grader) *exam.Exam {
	c := &p.Config.Rollout.EvalSamplingParams
	x := &exam.Exam{Engine: e, Grader: g, Respond: p.Response, Greedy: engine.Greedy(p.Sampling.MaxTokens),
		Samples: c.N}
	x.Greedy.Stop = p.Sampling.Stop
	x.Sampled = engine.Sampling{MaxTokens: p.Sampling.MaxTokens, Temperature: c.Temperature, TopK: c.TopK, TopP: c.TopP,
		RepetitionPenalty: c.RepetitionPenalty, Stop: p.Sampling.Stop, Seed: ^p.Config.Actor.Seed}
	if c.TopK >= p.Model.Vocab {
		x.Sampled.TopK = 0
	}
	return x
}

// Response returns an answer to a question in the form that rules grade. stopped is false if the answer was cut off.
func (p *Plan) Response(q *Question, sample int, tokens []int32, stopped bool) answer.Response {
	said := tokens
	if stopped {
		said = tokens[:len(tokens)-1]
	}
	return answer.Response{Question: q, Sample: sample, Tokens: tokens, Text: p.Tokenizer.DecodeText(said),
		Ended: stopped}
}

// StepPrompts returns the number of prompts in a batch of the reasoning task, over all actors.
func (p *Plan) StepPrompts() int64 { return int64(p.batch) }
