package algo

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/tensor"
)

// DaggerConfig is the section algorithm.dagger. In each step of an environment the expert acts with probability β, and
// the policy otherwise. In both cases the policy learns the expert's action.
type DaggerConfig struct {
	// InitBeta is β in the first iteration, in [0, 1]. Default 0.5.
	InitBeta float64 `yaml:"init_beta"`
	// BetaSchedule is exponential, the default and only value. Every iteration multiplies β by BetaDecay. β does not
	// fall below BetaMin.
	BetaSchedule string `yaml:"beta_schedule"`
	// BetaDecay is the factor of β per iteration, in [0, 1]. Default 0.99.
	BetaDecay float64 `yaml:"beta_decay"`
	// BetaMin is the lower bound of β, in [0, 1]. Default 0.05.
	BetaMin float64 `yaml:"beta_min"`
}

// BetaExponential is the value of DaggerConfig.BetaSchedule.
const BetaExponential = "exponential"

// check validates each field.
func (c *DaggerConfig) check(want Want) {
	want(c.InitBeta >= 0 && c.InitBeta <= 1, "dagger.init_beta", c.InitBeta, "a number in [0, 1]")
	want(c.BetaSchedule == BetaExponential, "dagger.beta_schedule", c.BetaSchedule, BetaExponential)
	want(c.BetaDecay >= 0 && c.BetaDecay <= 1, "dagger.beta_decay", c.BetaDecay, "a number in [0, 1]")
	want(c.BetaMin >= 0 && c.BetaMin <= 1, "dagger.beta_min", c.BetaMin, "a number in [0, 1]")
}

// Beta returns β in an iteration, counted from 0.
func (c *DaggerConfig) Beta(iteration uint64) float64 {
	return max(c.BetaMin, c.InitBeta*math.Pow(c.BetaDecay, float64(iteration)))
}

// DAgger is imitation by dataset aggregation, Ross, Gordon and Bagnell 2011, arXiv:1011.0686. An expert labels all
// states that are visited: in rollouts its actions replace the actions that were taken (see Labelled). The policy
// learns the expert's actions with the loss of BC, from the replay buffer.
//
// Metrics, over all replicas and updates of an iteration, None if there were no updates: dagger/loss; dagger/beta, β of
// the rollout; actor/lr, actor/grad_norm; replay_buffer/size = transitions held, replay_buffer/total_samples = ever
// added.
type DAgger struct {
	*BC
	stats ObservationStats // nil if the policy does not normalise observations
	seen  []float64        // sums of the observations since the last update, see ObservationStats
}

var _ Algorithm = (*DAgger)(nil)

// NewDAgger makes DAgger, with an empty replay buffer.
func NewDAgger(s Setup) (*DAgger, error) { return newChecked("dagger", s, fitsBC, newDAgger) }

// daggerKeys declares the keys of NewDAgger.
func daggerKeys(s *Setup, k *Keys) {
	clonerKeys(s, k, false)
	k.Read("dagger.init_beta", "dagger.beta_schedule", "dagger.beta_decay", "dagger.beta_min")
}

func newDAgger(s *Setup) (*DAgger, error) {
	b, err := newCloner(s, "dagger", false)
	if err != nil {
		return nil, err
	}
	d := &DAgger{BC: b}
	if d.stats = observationStats(s.Policy); d.stats != nil {
		d.seen = make([]float64, d.stats.StatsLen())
	}
	return d, nil
}

// Prepare adds a rollout to the replay buffer; see Algorithm.
func (d *DAgger) Prepare(rollout *tensor.Dict) error {
	if err := d.BC.Prepare(rollout); err != nil {
		return err
	}
	if d.stats == nil {
		return nil
	}
	var seen tensor.Dict // [T·N,...]
	obs := rollout.Sub(Observations)
	for i := range obs.Len() {
		name, t := obs.Entry(i)
		seen.Set(name, t.Reshape(append([]int{t.Dim(0) * t.Dim(1)}, t.Shape()[2:]...)...))
	}
	if err := d.stats.AddStats(d.seen, seen); err != nil {
		return fmt.Errorf("dagger: observation statistics: %w", err)
	}
	return nil
}

// Update makes the updates of an iteration; see Algorithm.
func (d *DAgger) Update(tensor.Dict) (Metrics, error) {
	if d.stats != nil {
		if err := d.replicas.Sum(d.seen); err != nil {
			return Metrics{}, fmt.Errorf("dagger: observation statistics: %w", err)
		}
		d.stats.MergeStats(d.seen)
		clear(d.seen)
	}
	if err := d.iterate(d.update); err != nil {
		return Metrics{}, err
	}
	d.reportMean("dagger/loss", bcLoss)
	d.metrics.add("dagger/beta", d.off.Dagger.Beta(uint64(d.iteration)))
	d.reportActor(d.train)
	d.reportReplay()
	return d.metrics, nil
}
