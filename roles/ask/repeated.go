package ask

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/tensor"
)

// A RepeatedStep is what happened in a step of a run, seen when the step was repeated.
type RepeatedStep struct {
	Step        int64
	Differences []metrics.Difference // of the repeated metrics; empty if all are equal
	Episodes    []env.Episode        // that ended in the step
	Evaluated   []env.Episode        // of the evaluation after the step
	Prompts     []Prompt             // of a language model, by their numbers
	// Files are the film and the episodes of the evaluation, where the configuration asks for them.
	Files []string

	mu       sync.Mutex
	rows     [2][]float64
	rollouts map[int][]tensor.Dict // by actor
	action   env.Space
}

// A Prompt has the answers to a prompt in a step.
type Prompt struct {
	Number  int64
	Answers []Answer
}

// Reward returns the mean reward of the answers.
func (p *Prompt) Reward() (mean float64) {
	for _, a := range p.Answers {
		mean += float64(a.Reward) / float64(len(p.Answers))
	}
	return mean
}

// An Answer is an answer to a prompt.
type Answer struct {
	Tokens  []int32 // of the prompt and the answer
	Prompt  int     // the number of tokens of the prompt
	Reward  float32
	LogProb []float32 // of each token of the answer
}

// Cost returns how many iterations of r must be repeated for a step, and the seconds that they took in the run.
func (r *Run) Cost(step int64) (iterations int64, seconds float64, err error) {
	from := r.To(step).From.Step
	last := from
	_, err = metrics.ReadLines(r.metrics(), 0, func(line []byte, _ int64) error {
		at := int64(metrics.Number(line, "step"))
		if took := metrics.Number(line, "time/step"); at > from && at <= step && at > last && took > 0 {
			seconds += float64(at-last) * took // took is the mean since the last line
			last = at
		}
		return nil
	})
	return step - from, seconds, err
}

// Replay repeats r up to step, in the folder dir, and returns what happened in this step. change may change the
// configuration; nil changes nothing.
func (a *Again) Replay(ctx context.Context, r *Run, step int64, dir string, change func(*config.Config)) (*RepeatedStep,
	error) {
	p := &RepeatedStep{Step: step, rollouts: map[int][]tensor.Dict{}}
	seeing := *a
	seeing.Witness, seeing.Change = p.witness, change
	s := r.To(step)
	again, err := seeing.Repeat(ctx, r, s, dir)
	if err == nil {
		p.Differences, _, err = Compare(r, again, s)
	}
	if err == nil {
		err = p.readEpisodes(r)
	}
	for _, pattern := range []string{"videos/global_step_%d.*", "demos/eval_global_step_*.safetensors"} {
		pattern = strings.ReplaceAll(pattern, "%d", fmt.Sprint(step))
		files, _ := filepath.Glob(filepath.Join(dir, "repeated", pattern))
		p.Files = append(p.Files, files...)
	}
	slices.SortFunc(p.Prompts, func(a, b Prompt) int { return int(a.Number - b.Number) })
	return p, err
}

var _ loop.MemberWitness = (*RepeatedStep)(nil).witness

func (p *RepeatedStep) witness(step int64, component string, member int, phase string, tensors tensor.Dict) {
	if step != p.Step {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case phase == loop.PhaseEpisodes:
		p.rows[0] = append(p.rows[0], tensors.Must("train").F64()...)
		p.rows[1] = append(p.rows[1], tensors.Must("eval").F64()...)
	case component != "actor":
	case phase == algo.PhaseRollout:
		p.rollouts[member] = append(p.rollouts[member], tensors.Clone())
	case phase == algo.PhaseAnswers:
		p.addAnswers(tensors)
	}
}

// addAnswers adds the answers of an actor: see algo.PhaseAnswers. The members of a replica show the same answers.
func (p *RepeatedStep) addAnswers(d tensor.Dict) {
	tokens, learn, logProb := d.Must(algo.AnswerTokens).I32(), d.Must(algo.AnswerLearn).U8(),
		d.Must(algo.AnswerLogProb).F32()
	seen := map[int64]bool{}
	for _, prompt := range p.Prompts {
		seen[prompt.Number] = true
	}
	at, drawn := 0, 0
	for i, n := range d.Must(algo.AnswerLength).I64() {
		end := at + int(n)
		a := Answer{Tokens: slices.Clone(tokens[at:end]), Prompt: max(0, slices.Index(learn[at:end], 1)),
			Reward: d.Must(algo.AnswerReward).F32()[i]}
		for _, l := range learn[at:end] {
			if l != 0 && len(logProb) > 0 {
				a.LogProb = append(a.LogProb, logProb[drawn])
				drawn++
			}
		}
		at = end
		number := d.Must(algo.AnswerGroup).I64()[i]
		if seen[number] {
			continue
		}
		k := slices.IndexFunc(p.Prompts, func(q Prompt) bool { return q.Number == number })
		if k < 0 {
			k, p.Prompts = len(p.Prompts), append(p.Prompts, Prompt{Number: number})
		}
		p.Prompts[k].Answers = append(p.Prompts[k].Answers, a)
	}
}

// readEpisodes sets the episodes from the rows that the witness was shown.
func (p *RepeatedStep) readEpisodes(r *Run) error {
	if r.Config.ReadsTexts() {
		return nil
	}
	for i, cfg := range []env.Config{r.Config.Env.Train, r.Config.Env.Eval} {
		if i > 0 && len(p.rows[i]) == 0 {
			continue
		}
		spec, err := r.reg.Probe(cfg)
		if err != nil {
			return err
		}
		if i == 0 {
			p.action = spec.Action
		}
		all, err := env.FromRows(p.rows[i], len(spec.Figures()))
		if err != nil {
			return err
		}
		*[]*[]env.Episode{&p.Episodes, &p.Evaluated}[i] = all
	}
	return nil
}

// Rollout returns what environment k did in the step, [T, ...] by name. Actions are those that the environment took, as
// in a recording: within the bounds of the action space. Rollout returns an error if there is no such environment, or
// if the run learns from no rollouts.
func (p *RepeatedStep) Rollout(k int) (d tensor.Dict, err error) {
	if len(p.rollouts) == 0 {
		return d, fmt.Errorf("the run has no rollouts in step %d", p.Step)
	}
	envs := p.rollouts[0][0].Must(algo.FieldReward).Dim(1)
	if total := envs * len(p.rollouts); k < 0 || k >= total {
		return d, fmt.Errorf("environment %d: expected 0 to %d", k, total-1)
	}
	all := p.rollouts[k/envs]
	whole := all[len(all)-1]
	for i := range whole.Len() {
		name, x := whole.Entry(i)
		if x.Rank() < 2 || x.Dim(1) != envs || strings.HasPrefix(name, algo.FieldAdvantage) {
			continue
		}
		x = column(x, k%envs)
		if name == algo.FieldAction && p.action.Kind == env.Box {
			for j, a := range x.F32() {
				low, high := p.action.Range(j % p.action.Dim())
				x.F32()[j] = min(max(a, float32(low)), float32(high))
			}
		}
		d.Set(name, x)
	}
	return d, nil
}

// column returns a copy of column n of x, [T,N,...].
func column(x tensor.Tensor, n int) tensor.Tensor {
	shape := append([]int{x.Dim(0)}, x.Shape()[2:]...)
	to := tensor.New(x.DType(), shape...)
	size := len(to.Bytes()) / max(x.Dim(0), 1)
	for t := range x.Dim(0) {
		copy(to.Bytes()[t*size:(t+1)*size], x.Bytes()[(t*x.Dim(1)+n)*size:])
	}
	return to
}
