package member

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/tensor"
)

// An EarlyStop stops training when a validation metric no longer improves, or reaches a target.
type EarlyStop struct {
	config *config.EarlyStopConfig
	sign   float64    // -1 if a larger value is better, else 1
	state  [2]float64 // the best value times sign, and the number of evaluations since the best value
	last   float64    // the last value of the metric
	reason string     // the reason to stop the run; "" if there is none
}

// EarlyStopState is the name of State in the trainer's state.
const EarlyStopState = "early_stop"

// NewEarlyStop returns an EarlyStop before the first evaluation.
func NewEarlyStop(c *config.EarlyStopConfig) *EarlyStop {
	s := &EarlyStop{config: c, sign: 1, state: [2]float64{math.Inf(1), 0}}
	if c.Monitor != config.MonitorLoss {
		s.sign = -1
	}
	return s
}

// State returns a view of the state, F64 [2].
func (s *EarlyStop) State() tensor.Tensor { return tensor.FromF64(s.state[:], len(s.state)) }

// Observe updates s with the metrics of an evaluation, and reports whether training should stop.
func (s *EarlyStop) Observe(m algo.Metrics) bool {
	c, found := s.config, m.Values[slices.Index(m.Names, s.config.Metric())]
	value := s.sign * found
	s.last = found
	if c.Enabled && c.Target > 0 && value <= s.sign*c.Target {
		s.reason = fmt.Sprintf("early stop: %s %.4g has reached runner.early_stop.target %g", c.Monitor, found,
			c.Target)
		return true
	}
	if value < s.state[0]-s.config.MinDelta {
		s.state = [2]float64{value, 0}
		return false
	}
	s.state[1]++
	if c.Enabled && s.state[1] >= float64(c.Patience) {
		s.reason = fmt.Sprintf("early stop: %s %.4g, not better than %.4g by min_delta %g for %d evaluations "+
			"(runner.early_stop.patience)", c.Monitor, found, s.sign*s.state[0], c.MinDelta, c.Patience)
	}
	return s.reason != ""
}

// Describe returns the progress towards an early stop, for the progress line. If an early stop has ended the run, it
// also returns the reason. It returns nil if early stops are off.
func (s *EarlyStop) Describe() []string {
	if !s.config.Enabled {
		return nil
	}
	now := []string{s.config.Progress(s.last, int(s.state[1]))}
	if s.reason != "" {
		now = append(now, s.reason)
	}
	return now
}
