package language

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/urfave/cli/v2"
)

// scoreIDs writes the log-probability of each token after the first, and the mean of the negative log-probabilities.
func scoreIDs(ctx context.Context, c *cli.Context, m *dividedModel) error {
	ids, err := parseIDs(c, m.whole.Config.Vocab)
	if err != nil {
		return err
	}
	if len(ids) < 2 {
		return config.Usagef("--ids: %d token: expected at least 2", len(ids))
	}
	_, stop := args.Progress(c, "scoring")
	defer stop()
	logProbs, err := callParts(ctx, m, "score", func(_ context.Context, p *part) ([]float32, error) {
		return p.score(ids)
	})
	stop()
	if err != nil {
		return config.UsageError{Err: err}
	}
	loss := 0.0
	for _, p := range logProbs {
		loss -= float64(p) / float64(len(logProbs))
	}
	if c.Bool("json") {
		return json.NewEncoder(c.App.Writer).Encode(struct {
			LogProbs []float32 `json:"logprobs"`
			Loss     float64   `json:"loss"`
		}{logProbs, loss})
	}
	for i, p := range logProbs {
		fmt.Fprintf(c.App.Writer, "%8d  %10.5f\n", ids[i+1], p)
	}
	_, err = fmt.Fprintf(c.App.Writer, "loss      %10.5f\n", loss)
	return err
}

// scoreTokens is the maximum number of tokens in one pass.
const scoreTokens = 512

// score returns the log-probabilities of all tokens but the first.
func (p *part) score(ids []int32) ([]float32, error) {
	m := p.model
	cache := m.NewCache((len(ids) + lm.PageLen - 1) / lm.PageLen)
	w, s := m.NewDecoding(min(scoreTokens, len(ids))), cache.NewText(len(ids))
	w.Join(lm.Mesh{Layer: p.line})
	logProbs := make([]float32, len(ids)-1)
	var targets []lm.Target
	for lo := 0; lo < len(logProbs); lo += scoreTokens {
		part := ids[lo:min(lo+scoreTokens, len(logProbs))]
		if err := m.Extend(w, lm.Piece{Seq: s, IDs: part}); err != nil {
			return nil, err
		}
		targets = targets[:0]
		for i := range part {
			targets = append(targets, lm.Target{Row: int32(i), Token: ids[lo+i+1]})
		}
		m.LogProbs(w, logProbs[lo:lo+len(part)], nil, targets, 1)
	}
	return logProbs, w.Err()
}
