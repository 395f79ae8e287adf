package embodied

import (
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
)

// Too many lost episodes among the last hundred are an error. Few episodes and old episodes have no effect.
func TestLosses(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.External.Command = env.Command{"simulator"}
	type batch struct {
		lost, well int
		wrong      string
	}
	for name, batches := range map[string][]batch{
		"too few to tell":      {{lost: 19}},
		"half":                 {{lost: 10, well: 10}},
		"more than half":       {{lost: 11, well: 10, wrong: "11 of the last 21 episodes were lost"}},
		"one more":             {{well: 50}, {lost: 50}, {lost: 1, wrong: "51 of the last 101 episodes were lost"}},
		"long ago":             {{lost: 12}, {well: 7}, {well: 90}, {well: 100}, {lost: 60}},
		"good for a long time": {{well: 100000}, {lost: 99}, {lost: 1, wrong: "100 of the last 100 episodes"}},
	} {
		l := newLosses("env.train", cfg)
		for i, b := range batches {
			err := l.add(env.Summary{NumLost: b.lost, NumTrajectories: b.well})
			if (err == nil) != (b.wrong == "") || err != nil && !strings.Contains(err.Error(), b.wrong) {
				t.Errorf("%s: batch %d: %v, want %q", name, i, err, b.wrong)
			}
			if err != nil && !strings.Contains(err.Error(), "at most 0.5 (env.train.external.max_lost_share)") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	l := newLosses("env.train", env.DefaultConfig()) // without external simulators any share may be lost
	test.Check(t, l.add(env.Summary{NumLost: 1000}))
}
