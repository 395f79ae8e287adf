package algo

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// offPolicy is the shared part of algorithms that learn from transitions: the replay buffer, the
// batches that are drawn from it, and the count of updates. Each replica draws from the experience
// of its own environments.
type offPolicy struct {
	name    string             // in errors
	state   func() tensor.Dict // views of the algorithm's state, except for the replay buffer
	offline bool               // the replay buffer holds demonstrations

	cfg        Config
	off        OffPolicyConfig
	seed       uint64
	batchSizes         // of batches
	perSample  float32 // weight of a sample in the mean over a batch

	replicas Replicas
	count    int
	replica  int

	*Replay                  // of experience, or offline of demonstrations
	demos    *Replay         // half of each batch; nil: none
	counters tensor.Tensor   // I64 [2]: iterations, updates
	progress Progress        // of an iteration's updates
	made     int             // updates of this iteration
	done     int             // micro-batches of it, as reported
	rows     []int32         // the batch
	batch    *Transitions    // a micro-batch of it
	halves   [2]*Transitions // its two halves, with demos
	rewards  [2]float64      // sum and count of the last rollout
}

// common is the key of random numbers that are the same on all replicas, where others have the
// replica's number.
const common = 1<<32 - 1

// seeds returns the stream of an algorithm's own seeds, the same on all replicas.
func (s *Setup) seeds() philox.Stream {
	return philox.New(s.Seed, philox.Replay, common, math.MaxUint64)
}

// newOffPolicy makes one that draws from the experience of the replica's environments. If there are
// demonstrations, half of each batch is from those.
func newOffPolicy(name string, s *Setup) (*offPolicy, error) {
	e, err := newDraws(name, s, false)
	if err != nil {
		return nil, err
	}
	if e.Replay, err = NewReplay(s.Rollout, s.Envs, s.Config.ReplaySteps(s.Steps), s.Alloc); err != nil {
		return nil, err
	}
	e.batch = e.NewBatch(e.micro)
	if s.Demos.Len() == 0 {
		return e, nil
	}
	if e.micro%2 != 0 {
		return nil, fmt.Errorf("micro_batch_size %d: expected an even number (half of each batch is from demo_buffer)",
			e.micro)
	}
	e.halves = [2]*Transitions{e.batch.slice(0, e.micro/2), e.batch.slice(e.micro/2, e.micro)}
	e.demos, err = newDemos(s.Rollout, s.Demos, s.Alloc)
	return e, err
}

// newOffline makes one that draws from demonstrations alone, from the first iteration on.
func newOffline(name string, s *Setup, demos tensor.Dict) (*offPolicy, error) {
	e, err := newDraws(name, s, true)
	if err != nil {
		return nil, err
	}
	e.off.ReplayBuffer.MinBufferSize = 0
	if e.Replay, err = newDemos(s.Rollout, demos, s.Alloc); err != nil {
		return nil, err
	}
	e.batch = e.NewBatch(e.micro)
	return e, nil
}

// newDraws makes one without a replay buffer yet.
func newDraws(name string, s *Setup, offline bool) (*offPolicy, error) {
	if err := s.checkOffPolicy(offline); err != nil {
		return nil, err
	}
	s.setDefaults()
	e := &offPolicy{
		name: name, offline: offline, cfg: s.Config, off: s.Config.OffPolicy, seed: s.Seed,
		perSample: 1 / float32(s.GlobalBatch),
		replicas:  s.Replicas,
		counters:  tensor.New(tensor.I64, 2), progress: s.Progress,
	}
	e.count, e.replica = e.replicas.Count()
	var err error
	if e.batchSizes, err = s.batches(e.count); err != nil {
		return nil, err
	}
	e.rows = make([]int32, e.local)
	return e, nil
}

// Prepare adds a rollout to the replay buffer; see Algorithm.
func (e *offPolicy) Prepare(rollout *tensor.Dict) error {
	e.rewards = [2]float64{}
	if err := e.Add(*rollout); err != nil {
		return fmt.Errorf("replay buffer: rollout: %w", err)
	}
	for i, r := range rollout.Must("reward").F32() {
		if bad(r) {
			return fmt.Errorf("replay buffer: rollout: reward is %v at sample %d of this replica", r, i)
		}
		e.rewards[0] += float64(r)
		e.rewards[1]++
	}
	return nil
}

// iterate makes the updates of an iteration, and sums sums over the replicas.
func (e *offPolicy) iterate(sums []float64, update func(iteration, held int, number uint64) error) (iteration int,
	err error) {
	if iteration, err = e.each(update); err != nil {
		return iteration, fmt.Errorf("%s: %w", e.name, err)
	}
	if err := e.replicas.Sum(sums); err != nil {
		return iteration, fmt.Errorf("%s: metrics: %w", e.name, err)
	}
	return iteration, nil
}

// each calls update for every update of an iteration, with a new batch each time; held is how many
// iterations the buffer has seen.
func (e *offPolicy) each(update func(iteration, held int, number uint64) error) (iteration int, err error) {
	counters := e.counters.I64()
	iteration = int(counters[0])
	counters[0]++
	if int(counters[0]) < e.off.ReplayBuffer.MinBufferSize {
		return iteration, nil
	}
	for e.made = range e.cfg.UpdateEpoch {
		e.report(0)
		s := philox.New(e.seed, philox.Replay, uint64(e.replica), uint64(counters[1]))
		e.draw(&s)
		if err := update(iteration, int(counters[0]), uint64(counters[1])); err != nil {
			return iteration, fmt.Errorf("update %d: %w", counters[1], err)
		}
		counters[1]++
	}
	e.report(e.local)
	return iteration, nil
}

// report tells how far the iteration is, when so many samples of the update under way are done.
func (e *offPolicy) report(samples int) {
	micros := e.local / e.micro
	done := e.made*micros + samples/e.micro
	if done == 0 || done > e.done { // an update may go through its batch several times
		e.done = done
		e.progress.Report(workUpdate, done, e.cfg.UpdateEpoch*micros)
	}
}

// draw names the batch: of each micro-batch the second half are demonstrations, where there are
// any.
func (e *offPolicy) draw(s *philox.Stream) {
	if e.demos == nil {
		e.Draw(e.rows, s)
		return
	}
	for lo := 0; lo < e.local; lo += e.micro {
		half := lo + e.micro/2
		e.Draw(e.rows[lo:half], s)
		e.demos.Draw(e.rows[half:lo+e.micro], s)
	}
}

// gather copies the micro-batch from sample lo on.
func (e *offPolicy) gather(lo int) {
	always := e.cfg.BootstrapType == BootstrapAlways
	if e.demos == nil {
		e.Gather(e.batch, e.rows[lo:lo+e.micro], e.off.NStep, e.cfg.Gamma, always)
		return
	}
	half := lo + e.micro/2
	e.Gather(e.halves[0], e.rows[lo:half], e.off.NStep, e.cfg.Gamma, always)
	e.demos.Gather(e.halves[1], e.rows[half:lo+e.micro], e.off.NStep, e.cfg.Gamma, always)
}

// descend makes one optimiser step of t on the batch. add adds the gradient of a micro-batch; see
// micros.
func (e *offPolicy) descend(t *trainState, iteration int, add func(b *Transitions, lo int, last bool) error) error {
	t.open()
	if err := e.micros(add); err != nil {
		return err
	}
	return t.step(iteration)
}

// micros calls f for every micro-batch of the batch; lo is its first sample. last says that
// gradients are final behind it.
func (e *offPolicy) micros(f func(b *Transitions, lo int, last bool) error) error {
	for lo := 0; lo < e.local; lo += e.micro {
		e.gather(lo)
		if err := f(e.batch, lo, lo+e.micro == e.local); err != nil {
			return err
		}
		e.report(lo + e.micro)
	}
	return nil
}

// held returns the transitions in the buffers of all replicas, and how many were ever added.
func (e *offPolicy) held() (size, total float64) {
	envs := float64(e.envs * e.count)
	return envs * float64(e.Size()), envs * float64(e.Total())
}

// Save returns views of the algorithm's state and of the replay buffer; demonstrations are read
// again instead. See Algorithm.
func (e *offPolicy) Save() (tensor.Dict, error) {
	d := e.state()
	if !e.offline {
		e.save(&d)
	}
	return d, nil
}

// Load puts back what Save returned, of the same model and configuration.
func (e *offPolicy) Load(from tensor.Dict) error {
	err := restore(e.state(), from)
	if err == nil && !e.offline {
		err = e.load(from)
	}
	if err != nil {
		return fmt.Errorf("%s: load: %w", e.name, err)
	}
	return nil
}
