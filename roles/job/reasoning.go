package job

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/text"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/reward/answer"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/play"
	"github.com/rlinf/rlinf/tensor"
)

// A Question is a prompt and the right answer to it.
type Question = answer.Question

// readPrompts makes the job's samples prompts, and says how answers are drawn.
func (d *draft) readPrompts(t *Tuning) {
	c := d.Config
	d.setSampling(t)
	d.keepPrompts(t.Train)
	d.keepPrompts(t.Valid)
	d.checkQuestions(t, "data.train_data_paths", t.Train)
	d.checkQuestions(t, "data.val_data_paths", t.Valid)
	if n := len(t.Train.Samples); n < t.batch {
		d.problem("data.rollout_batch_size", t.batch,
			fmt.Sprintf("at most %d, the prompts of data.train_data_paths", n))
	}
	per := config.Product(t.batch, c.Algorithm.GroupSize) / max(t.actors, 1)
	steps := c.Algorithm.Texts.NMinibatches
	d.found.Want(steps <= 0 || per%steps == 0, "algorithm.n_minibatches", steps,
		fmt.Sprintf("a share of the %d answers of an actor", per))
	if d.Critics > 0 && steps > 0 {
		per := config.Product(t.batch, c.Algorithm.GroupSize) / d.Critics
		d.found.Want(per%steps == 0, "algorithm.n_minibatches", steps,
			fmt.Sprintf("a share of the %d answers of a critic worker", per))
	}
	bytes := t.AnswerBytes()
	d.found.Want(bytes > 0 && bytes <= 1<<30, "algorithm.group_size", t.group,
		fmt.Sprintf("fewer answers: those to a prompt, of %d tokens each, must fit into 1 GiB", t.Sampling.MaxTokens))
	setup := d.TextSetup(t)
	if d.HasCritic() {
		setup.Critic = new(algo.TextCritic) // there will be one
		setup.CriticOptim.Check(d.found.At("actor.critic_optim").Want)
	}
	setup.Check(d.found.Want)
	d.tryGrader()
}

// setSampling says how answers of training are drawn.
func (d *draft) setSampling(t *Tuning) {
	c := d.Config
	t.longest, t.group = c.Runner.SeqLength, c.Algorithm.GroupSize
	t.running, t.threads = c.Rollout.MaxRunningRequests, c.Rollout.Threads
	s := &c.Rollout.SamplingParams
	t.Sampling = engine.Sampling{MaxTokens: c.Runner.SeqLength - c.Data.MaxPromptLength, Temperature: s.Temperature,
		TopK: s.TopK, TopP: s.TopP, RepetitionPenalty: s.RepetitionPenalty, Stop: t.Sampling.Stop, Seed: c.Actor.Seed}
	if s.TopK >= t.Model.Vocab {
		t.Sampling.TopK = 0
	}
}

// keepPrompts leaves out prompts that are too long, or reports them.
func (d *draft) keepPrompts(set *text.Dataset) {
	if set == nil {
		return
	}
	c, longest := d.Config, 0
	set.Samples = slices.DeleteFunc(set.Samples, func(s text.Sample) bool {
		n := slices.Index(s.Learn, true)
		if n <= c.Data.MaxPromptLength {
			return false
		}
		longest = max(longest, n)
		set.Dropped++
		return c.Data.FilterPromptByLength
	})
	if longest > 0 && (!c.Data.FilterPromptByLength || len(set.Samples) == 0) {
		d.problem("data.max_prompt_length", c.Data.MaxPromptLength,
			fmt.Sprintf("at least %d, the longest prompt, or data.filter_prompt_by_length", longest))
	}
}

// checkQuestions reports prompts to which no answer can be right, and notes the user should know of.
func (d *draft) checkQuestions(t *Tuning, key string, set *text.Dataset) {
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
		d.problem(key, nil, fmt.Sprintf("prompts that reward_type %s can reward: %s", rule, strings.Join(wrong, "; ")))
	}
	for _, note := range slices.Sorted(maps.Keys(notes)) {
		n := notes[note]
		t.Notes = append(t.Notes, fmt.Sprintf("%s: %d of %d answers are %s, the first in %s", key, n.count,
			len(set.Samples), note, n.first))
	}
}

// tryGrader reports a rule that cannot be made. It starts no program.
func (d *draft) tryGrader() {
	err := answer.CheckProgram(d.graderSetup())
	if err == nil && d.Config.Reward.RewardType != answer.Program {
		_, err = d.NewGrader(nil)
	}
	if err != nil {
		d.problem("reward", nil, "a reward that fits: "+err.Error())
	}
}

// NewExamination makes the job of cfg in which a language model answers the questions of validation, or
// after fine-tuning is measured on its texts, and learns nothing. It has no placement.
func NewExamination(cfg *config.Config, reg config.Registries) (*Job, error) {
	d := &draft{Job: &Job{Config: cfg, Registries: reg}, found: cfg.CheckParts(reg)}
	d.found.Want(len(cfg.Data.ValDataPaths) > 0, "data.val_data_paths", nil, "files of JSON lines, to evaluate with")
	t := new(Tuning)
	if d.found.Err() == nil && d.readModel(t) {
		t.Valid = d.readSet(t, "data.val_data_paths", cfg.Data.ValDataPaths)
		if cfg.Reasons() {
			d.setSampling(t)
			d.keepPrompts(t.Valid)
			d.checkQuestions(t, "data.val_data_paths", t.Valid)
			d.tryGrader()
		} else if t.Valid != nil {
			longest := t.Valid.Longest()
			t.Limit.Tokens = max(config.Product(longest, max(1, cfg.Actor.MicroBatchSize)), cfg.Runner.MaxTokensPerMbs)
		}
	}
	d.Tuning = t
	return d.Job, d.found.Err()
}

// TextSetup returns how the language model learns from its answers, without the model.
func (j *Job) TextSetup(t *Tuning) algo.TextSetup {
	a, c := &j.Config.Algorithm, &j.Config.Actor
	return algo.TextSetup{Config: a.Config, Text: a.Texts, Optim: c.Optim, Sampling: t.Sampling, GroupSize: a.GroupSize,
		CriticOptim: c.CriticOptim, MicroBatch: t.Limit, Threads: c.Threads, Seed: c.Seed,
		Iterations: int(min(j.MaxSteps, math.MaxInt32))}
}

// EngineOptions returns the limits of what answers prompts: the cache holds as many of the longest
// texts as may grow at the same time.
func (t *Tuning) EngineOptions() engine.Options {
	pages := (t.longest + lm.PageLen - 1) / lm.PageLen
	return engine.Options{MaxRunning: t.running, CacheTokens: config.Product(t.running, pages*lm.PageLen),
		ChunkTokens: max(512, t.running), Threads: t.threads, Tokens: t.Tokenizer.Size()}
}

// engineBytes returns about what it takes: the cache's keys and values, and a row of logits for each
// answer.
func (t *Tuning) engineBytes() int64 {
	m := &t.Model
	perToken := 8 * m.Layers * m.KVHeads * m.HeadDim
	return int64(config.Product(t.EngineOptions().CacheTokens, perToken)) + int64(4*t.running*m.Vocab)
}

// AnswerBytes returns how many bytes the packed answers to a prompt have at most on their way.
func (t *Tuning) AnswerBytes() int {
	tokens, room := config.Product(t.group, t.Sampling.MaxTokens), tensor.Align-1
	perToken := 16 // the token, and log-probs of three kinds
	if t.Plan.Hop("critic") >= 0 {
		perToken += 4
	}
	return (config.Product(perToken, tokens) + 4*t.longest + 16*t.group + 2<<10 + room) &^ room
}

// Samples returns the numbers of the samples that are the prompts of a batch in an order, by the
// batch's number in it.
func (t *Tuning) Samples(order []int32, number int64) []int32 {
	return order[number*int64(t.batch):][:t.batch]
}

// Question returns a sample of training as the prompt of that number in the run.
func (t *Tuning) Question(sample int, number int64) Question {
	return question(t.Train.Samples[sample], number)
}

// ValidationQuestions returns the prompts that the i-th of so many members evaluates.
func (t *Tuning) ValidationQuestions(i, of int) (mine []Question) {
	n := len(t.Valid.Samples)
	for i, end := i*n/of, (i+1)*n/of; i < end; i++ {
		mine = append(mine, question(t.Valid.Samples[i], int64(i)))
	}
	return mine
}

func question(s text.Sample, number int64) Question {
	n := slices.Index(s.Learn, true)
	return Question{Number: number, Prompt: s.IDs[:n], Answer: s.IDs[n:], Text: s.Source.Prompt,
		Solutions: s.Source.Answers}
}

// NewGrader makes what judges answers, of the section reward. Graders of a rank share judge; nil is one
// of its own.
func (j *Job) NewGrader(judge *answer.Judge) (*answer.Grader, error) {
	setup := j.graderSetup()
	setup.Judge = judge
	return j.Registries.AnswerRules().New(setup)
}

func (j *Job) graderSetup() answer.Setup {
	r := &j.Config.Reward
	return answer.Setup{Type: r.RewardType, Config: r.Answers, Own: r.Own, Seed: j.Config.Actor.Seed,
		Programs: j.Registries.Programs}
}

// NewExam makes what asks a language model the questions of evaluations.
func (j *Job) NewExam(e *engine.Engine, g *answer.Grader) *play.Exam {
	t, c := j.Tuning, &j.Config.Rollout.EvalSamplingParams
	x := &play.Exam{Engine: e, Grader: g, Respond: t.Response, Greedy: engine.Greedy(t.Sampling.MaxTokens),
		Samples: c.N}
	x.Greedy.Stop = t.Sampling.Stop
	x.Sampled = engine.Sampling{MaxTokens: t.Sampling.MaxTokens, Temperature: c.Temperature, TopK: c.TopK, TopP: c.TopP,
		RepetitionPenalty: c.RepetitionPenalty, Stop: t.Sampling.Stop, Seed: ^j.Config.Actor.Seed}
	if c.TopK >= t.Model.Vocab {
		x.Sampled.TopK = 0
	}
	return x
}

// Response returns an answer to a question as rules read it. stopped is false if it was cut off.
func (t *Tuning) Response(q *Question, sample int, tokens []int32, stopped bool) answer.Response {
	said := tokens
	if stopped {
		said = tokens[:len(tokens)-1]
	}
	return answer.Response{Question: q, Sample: sample, Tokens: tokens, Text: t.Tokenizer.DecodeText(said),
		Ended: stopped}
}

// StepPrompts returns how many prompts a batch of the task reasoning has, over all actors.
func (t *Tuning) StepPrompts() int64 { return int64(t.batch) }
