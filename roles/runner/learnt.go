package runner

import (
	"strings"

	"github.com/rlinf/rlinf/algo"
)

// describeTexts tells the progress line what a language model has learnt, and returns from how many
// tokens.
func (l *Logbook) describeTexts() (tokens float64) {
	for i, name := range l.names {
		mean := l.sums[i] / float64(l.counts[i])
		switch name {
		case "train/sft/loss", "rollout/rewards":
			l.state.Return = mean
		case "eval/loss", "eval/accuracy":
			l.state.Eval = mean
		case "train/sft/tokens", "rollout/response_tokens":
			tokens = l.sums[i]
		}
	}
	return tokens
}

// describeDemos tells the progress line what a policy has learnt from demonstrations.
func (l *Logbook) describeDemos() {
	var mean algo.Metrics
	for i, name := range l.names {
		if name, ok := strings.CutPrefix(name, "train/"); ok {
			mean.Names, mean.Values = append(mean.Names, name), append(mean.Values, l.sums[i]/float64(l.counts[i]))
		}
	}
	if loss, ok := algo.Loss(nil, mean); ok {
		l.state.Return = loss
	}
	c := l.job.Config
	l.state.Learnt = (l.state.Step - l.from) * int64(c.Algorithm.UpdateEpoch*c.Actor.GlobalBatchSize)
}
