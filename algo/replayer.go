package algo

import (
	"fmt"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// A replayer is what algorithms with a replay buffer have in common: the buffer, the batches that are drawn from it, and the count of updates. Each
// replica draws from what its own environments went through.
type replayer struct {
	cfg          Config
	off          OffPolicyConfig
	seed         uint64
	local, micro int     // samples of this replica in a batch, and of these at once
	perSample    float32 // weight of a sample in the mean over a batch

	reducer  Reducer
	replicas int
	replica  int

	*Replay
	counters tensor.Tensor // I64 [2]: iterations, updates
	rows     []int32       // the batch
	batch    *Transitions  // a micro-batch of it
	rewards  [2]float64    // sum and count of the last rollout
}

// common is the key of random numbers that are the same on all replicas, where others have the replica's number.
const common = 1<<32 - 1

func newReplayer(s *Setup) (*replayer, error) {
	if err := s.checkOffPolicy(); err != nil {
		return nil, err
	}
	e := &replayer{
		cfg: s.Config, off: s.Config.OffPolicy, seed: s.Seed, perSample: 1 / float32(s.GlobalBatch), reducer: s.Reducer,
		counters: tensor.New(tensor.I64, 2),
	}
	if e.reducer == nil {
		e.reducer = Single{}
	}
	e.replicas, e.replica = e.reducer.Replicas()
	var err error
	if e.local, e.micro, err = s.batches(e.replicas); err != nil {
		return nil, err
	}
	if e.Replay, err = NewReplay(s.Rollout, s.Envs, s.Config.ReplaySteps(s.Steps), s.alloc()); err != nil {
		return nil, err
	}
	e.rows, e.batch = make([]int32, e.local), e.NewBatch(e.micro)
	return e, nil
}

// Prepare adds a rollout to the replay buffer; see Algorithm.
func (e *replayer) Prepare(rollout *tensor.Dict) error {
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

// each calls update for every update of an iteration, with a new batch each time; held is how many iterations the buffer has seen.
func (e *replayer) each(update func(iteration, held int, number uint64) error) (iteration int, err error) {
	counters := e.counters.I64()
	iteration = int(counters[0])
	counters[0]++
	if int(counters[0]) < e.off.ReplayBuffer.MinBufferSize {
		return iteration, nil
	}
	for range e.cfg.UpdateEpoch {
		s := philox.New(e.seed, philox.Replay, uint64(e.replica), uint64(counters[1]))
		e.Draw(e.rows, &s)
		if err := update(iteration, int(counters[0]), uint64(counters[1])); err != nil {
			return iteration, fmt.Errorf("update %d: %w", counters[1], err)
		}
		counters[1]++
	}
	return iteration, nil
}

// micros calls f for every micro-batch of the batch; lo is its first sample. last says that gradients are final behind it.
func (e *replayer) micros(f func(b *Transitions, lo int, last bool) error) error {
	for lo := 0; lo < e.local; lo += e.micro {
		e.Gather(e.batch, e.rows[lo:lo+e.micro], e.off.NStep, e.cfg.Gamma, e.cfg.BootstrapType == BootstrapAlways)
		if err := f(e.batch, lo, lo+e.micro == e.local); err != nil {
			return err
		}
	}
	return nil
}

// held returns the transitions in the buffers of all replicas, and how many were ever added.
func (e *replayer) held() (size, total float64) {
	envs := float64(e.envs * e.replicas)
	return envs * float64(e.Size()), envs * float64(e.Total())
}
