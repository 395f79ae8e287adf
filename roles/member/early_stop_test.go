package member

import (
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
)

// TestEarlyStop: a run ends when the metric has not improved for patience evaluations, or when it reaches the target.
func TestEarlyStop(t *testing.T) {
	for name, c := range map[string]struct {
		config config.EarlyStopConfig
		values []float64
		stops  int // number of the evaluation that stops the run; -1: none
		says   string
	}{
		"loss, no better": {config.EarlyStopConfig{Enabled: true, Patience: 2, MinDelta: 0.1,
			Monitor: config.MonitorLoss}, []float64{2, 1, 0.95, 0.8, 0.75, 0.71}, 5, "val_loss patience 2/2|early " +
			"stop: val_loss 0.71, not better than 0.8 by min_delta 0.1 for 2 evaluations (runner.early_stop.patience)"},
		"loss, disabled": {config.EarlyStopConfig{Patience: 2, MinDelta: 0.1, Monitor: config.MonitorLoss,
			Target: 1}, []float64{2, 1, 0.95, 0.92, 0.9}, -1, ""},
		"loss, target": {config.EarlyStopConfig{Enabled: true, Patience: 9, Monitor: config.MonitorLoss,
			Target: 0.9}, []float64{2, 1, 0.91, 0.9, 0.8}, 3,
			"val_loss 0.9, target 0.9|early stop: val_loss 0.9 has reached runner.early_stop.target 0.9"},
		"exact match, no better": {
			config.EarlyStopConfig{Enabled: true, Patience: 2, Monitor: config.MonitorExactMatch},
			[]float64{0, 0.1, 0.2, 0.1, 0.2, 0.3}, 4, "val_exact_match patience 2/2|early stop: val_exact_match 0.2, " +
				"not better than 0.2 by min_delta 0 for 2 evaluations (runner.early_stop.patience)"},
		"exact match, target": {
			config.EarlyStopConfig{Enabled: true, Patience: 9, Monitor: config.MonitorExactMatch, Target: 0.3},
			[]float64{0, 0, 0.1, 0.31, 0.2}, 3, "val_exact_match 0.31, target 0.3|early stop: val_exact_match 0.31 " +
				"has reached runner.early_stop.target 0.3"},
		"exact match, far from it": {
			config.EarlyStopConfig{Enabled: true, Patience: 9, Monitor: config.MonitorExactMatch, Target: 0.3},
			[]float64{0, 0, 0.1, 0.29}, -1, "val_exact_match 0.29, target 0.3"},
	} {
		s, stops := NewEarlyStop(&c.config), -1
		for i, x := range c.values {
			m := algo.Metrics{Names: []string{"eval/loss", "eval/token_accuracy", "eval/exact_match"},
				Values: []float64{x, 0.5, 7}}
			if c.config.Monitor == config.MonitorExactMatch {
				m.Values[0], m.Values[2] = 7, x
			}
			if s.Observe(m) {
				stops = i
				break
			}
		}
		test.Equal(t, stops, c.stops, "%s: stops at evaluation", name)
		if got := strings.Join(s.Describe(), "|"); got != c.says {
			t.Errorf("%s: says %q, expected %q", name, got, c.says)
		}
	}
}
