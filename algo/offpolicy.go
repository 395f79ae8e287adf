package algo

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// offPolicy is the common part of algorithms that learn from transitions: a replay buffer, batches drawn from the
// buffer, and the loop over the updates of an iteration. Each replica draws from the experience of its own
// environments. An algorithm embeds offPolicy and adds what it trains, such as an actor, critics and a temperature.
type offPolicy struct {
	name       string // in errors
	cfg        Config
	off        OffPolicyConfig
	seed       uint64
	batchSizes         // sizes of batches
	perSample  float32 // weight of a sample in the mean over a batch
	replicas   Replicas
	count      int // number of replicas
	replica    int // index of this replica
	progress   Progress

	replay  *Replay        // experience, or demonstrations if offline is set
	demos   int            // number of transitions that are always in the demonstration buffer
	people  *interventions // transitions in which people acted; nil if the demonstration buffer gets none
	offline bool
	rows    []int32      // the batch: indices of transitions, see Replay.Draw
	goals   []int32      // with hindsight: the goals of these transitions
	batch   *Transitions // a micro-batch of these transitions
	seen    *Transitions // the micro-batch as networks see it: batch, or with feature maps in place of images
	shares  []share      // one share of the micro-batch for each replay buffer

	shift    *shift            // shifts the images of a micro-batch; nil without actor.enable_drq
	features *features         // of the batch; nil if the policy has no encoder
	keepers  [2]*policy.Keeper // for the images in batch before steps and after steps; may be nil

	counters  tensor.Tensor // I64 [2]: iterations, updates
	state     tensor.Dict   // views of the saved state, without the replay buffer; the algorithm adds its own
	iteration int           // the present iteration
	made      int           // updates made in this iteration
	reported  int           // micro-batches of this iteration that were reported to progress
	number    uint64        // number of the present update in the run
	first     int           // index in the batch of the micro-batch's first sample
	gathered  int           // value of first when batch was filled; -1 if the present update has not filled it

	held    [numHeld]float64 // sums over all replicas, of the present state of the buffers
	rewards [2]float64       // sum and number of the rewards in the last rollout
	sums    means            // means of an iteration: rolloutReward, then those of the algorithm
	metrics Metrics
}

// Indices of the means of an off-policy algorithm. The means of each algorithm begin at firstMean.
const (
	rolloutReward = iota
	firstMean
)

// Indices of offPolicy.held.
const (
	heldSize  = iota // transitions in the replay buffer that can be drawn
	heldExtra        // Replay.extra
	heldDemos        // transitions in which people acted, that can be drawn
	heldReady        // replicas whose demonstration buffer is large enough
	heldSteps        // interventions.used, summed over the replicas: a bound for each of them
	heldFrames
	numHeld
)

// A share is the range [lo, hi) of a micro-batch that comes from one buffer. rows has views of this range, into which
// pool.gather copies the transitions.
type share struct {
	from   pool
	lo, hi int
	rows   *Transitions
}

// common takes the place of the replica's index in the keys of random numbers that are the same on all replicas.
const common = 1<<32 - 1

// seeds returns the random stream from which an algorithm draws its seeds. It is the same on all replicas.
func (s *Setup) seeds() philox.Stream {
	return philox.New(s.Seed, philox.Replay, common, math.MaxUint64)
}

// newChecked calls check with s.Policy, and then calls build to make an algorithm. If the algorithm cannot train the
// policy, check must return an error that describes the required policy. newChecked also checks the demonstrations. Its
// errors begin with name.
func newChecked[A any](name string, s Setup, check func(policy.Policy) error,
	build func(*Setup) (*A, error)) (*A, error) {
	if err := check(s.Policy); err != nil {
		return nil, fmt.Errorf("%s: policy %T: expected %w", name, s.Policy, err)
	}
	if s.Demos.Len() > 0 {
		if err := FitDemos(s.Demos, s.Policy); err != nil {
			return nil, fmt.Errorf("%s: demonstrations: %w", name, err)
		}
		if err := s.keepMaps(); err != nil {
			return nil, fmt.Errorf("%s: demonstrations: %w", name, err)
		}
	}
	a, err := build(&s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return a, nil
}

// newOffPolicy makes a training loop on the experience of the replica's environments. If there are demonstrations or
// interventions, they are half of each batch. If offline is set, batches hold only demonstrations, and learning begins
// in the first iteration. numMeans is the number of means, including rolloutReward.
func newOffPolicy(s *Setup, name string, offline bool, numMeans int) (*offPolicy, error) {
	if err := s.checkOffPolicy(offline); err != nil {
		return nil, err
	}
	s.setDefaults()
	e := &offPolicy{
		name: name, cfg: s.Config, off: s.Config.OffPolicy, seed: s.Seed, perSample: 1 / float32(s.GlobalBatch),
		replicas: s.Replicas, progress: s.Progress, offline: offline, counters: tensor.New(tensor.I64, 2),
		sums: make(means, 2*numMeans),
	}
	e.state.Set("counters", e.counters)
	e.count, e.replica = e.replicas.Count()
	var err error
	if e.batchSizes, err = s.batches(e.count); err != nil {
		return nil, err
	}
	if offline {
		e.off.ReplayBuffer.MinBufferSize = 0
		e.replay, err = newDemos(s.Rollout, s.Demos, s.Pictures, s.Alloc)
	} else {
		e.replay, err = NewReplay(s.Rollout, StacksOf(s.Policy), s.Envs, s.Config.ReplaySteps(s.Steps), s.Alloc)
	}
	if err != nil {
		return nil, err
	}
	if h := e.off.ReplayBuffer.Hindsight; h.GoalSelectionStrategy != "" && !offline {
		if e.replay.hindsight, err = newHindsight(h, s.Goals, e.replay); err != nil {
			return nil, err
		}
		e.goals = make([]int32, e.local)
	}
	e.rows, e.batch = make([]int32, e.local), e.replay.NewBatch(e.micro)
	if e.seen = e.batch; !s.keepsMaps() && policy.Kept(s.Policy) != nil {
		seen := *e.batch
		e.seen = &seen
		e.keepers = [2]*policy.Keeper{policy.NewKeeper(s.Policy, e.micro), policy.NewKeeper(s.Policy, e.micro)}
	}
	if s.ShiftImages {
		if e.shift, err = newShift(s.Seed, s.Policy); err != nil {
			return nil, err
		}
	}
	if !offline {
		if e.people, err = newInterventions(s); err != nil {
			return nil, fmt.Errorf("demonstration buffer: %w", err)
		}
	}
	if offline || s.Demos.Len() == 0 && e.people == nil {
		e.shares = []share{{pool{e.replay}, 0, e.micro, e.batch}}
		return e, nil
	}
	if e.micro%2 != 0 {
		return nil, fmt.Errorf("micro_batch_size %d: expected an even number (half of each batch is from demo_buffer)",
			e.micro)
	}
	var shown pool
	if s.Demos.Len() > 0 {
		demos, err := newDemos(s.Rollout, s.Demos, s.Pictures, s.Alloc)
		if err != nil {
			return nil, err
		}
		shown, e.demos = pool{demos}, demos.Size()
	}
	if e.people != nil {
		shown = append(shown, e.people.rings...)
	}
	half := e.micro / 2
	e.shares = []share{
		{pool{e.replay}, 0, half, e.batch.slice(0, half)},
		{shown, half, e.micro, e.batch.slice(half, e.micro)},
	}
	return e, nil
}

// replayKeys declares the keys of the loop. Demonstrations alone need no replay buffer.
func replayKeys(k *Keys, offline bool) {
	k.Read("update_epoch", "demo_buffer.load_path", "demo_buffer.names", "demo_buffer.fps", "actor.enable_drq")
	if !offline {
		k.Read("replay_buffer.sample_window_size", "replay_buffer.min_buffer_size", "demo_buffer.sample_window_size",
			"demo_buffer.min_buffer_size")
	}
}

// returnKeys declares the keys of the returns that transitions have; see Transitions.
func returnKeys(k *Keys) { k.Read("n_step", "gamma", "bootstrap_type") }

// actorKeys declares the keys that decide in which updates the actor learns.
func actorKeys(k *Keys) { k.Read("critic_actor_ratio", "train_actor_steps") }

// Prepare adds a rollout to the replay buffer. It also adds the steps in which people acted to the demonstration
// buffer; see Algorithm.
func (e *offPolicy) Prepare(rollout *tensor.Dict) error {
	if err := e.replay.Add(*rollout); err != nil {
		return fmt.Errorf("replay buffer: rollout: %w", err)
	}
	if e.people != nil {
		e.people.add(*rollout)
	}
	if err := e.countHeld(); err != nil {
		return err
	}
	var sum float64
	rewards := rollout.Must(FieldReward).F32()
	for i, r := range rewards {
		if bad(r) {
			return fmt.Errorf("replay buffer: rollout: reward is %v at sample %d of this replica", r, i)
		}
		sum += float64(r)
	}
	e.rewards = [2]float64{sum, float64(len(rewards))}
	return nil
}

// countHeld sets e.held. It sums over the replicas only if there are frames or interventions, because otherwise all
// replicas hold the same numbers.
func (e *offPolicy) countHeld() error {
	clear(e.held[:])
	e.held[heldSize], e.held[heldExtra] = float64(e.replay.envs*e.replay.Size()), float64(e.replay.extra())
	if len(e.replay.frames) == 0 && e.people == nil {
		e.held[heldSize] *= float64(e.count)
		return nil
	}
	if p := e.people; p != nil {
		steps, frames := p.used()
		e.held[heldDemos] = float64(p.rings.size())
		e.held[heldSteps], e.held[heldFrames] = float64(steps), float64(frames)
		if e.demos > 0 || p.added() >= p.enough {
			e.held[heldReady] = 1
		}
	}
	if err := e.replicas.Sum(e.held[:]); err != nil {
		return fmt.Errorf("replay buffer: %w", err)
	}
	return nil
}

// iterate makes the updates of an iteration, each on a new batch. Then it sums e.sums over the replicas. The first
// iteration with updates is iteration min_buffer_size, counted from 1. There are also no updates until the
// demonstration buffer of every replica is large enough.
func (e *offPolicy) iterate(update func() error) error {
	clear(e.sums)
	e.sums.add(rolloutReward, e.rewards[0], e.rewards[1])
	e.metrics = Metrics{e.metrics.Names[:0], e.metrics.Values[:0]}
	counters := e.counters.I64()
	e.iteration, e.reported = int(counters[0]), -1
	counters[0]++
	ready := e.people == nil || int(e.held[heldReady]) == e.count
	if ready && int(counters[0]) >= e.off.ReplayBuffer.MinBufferSize {
		for e.made = range e.cfg.UpdateEpoch {
			e.number = uint64(counters[1])
			e.draw()
			if err := update(); err != nil {
				return fmt.Errorf("%s: update %d: %w", e.name, e.number, err)
			}
			counters[1]++
		}
		e.progressed(e.local)
	}
	if err := e.replicas.Sum(e.sums); err != nil {
		return fmt.Errorf("%s: metrics: %w", e.name, err)
	}
	return nil
}

// draw draws the batch of update e.number.
func (e *offPolicy) draw() {
	e.gathered = -1
	e.features.forget()
	s := philox.New(e.seed, philox.Replay, uint64(e.replica), e.number)
	for first := 0; first < e.local; first += e.micro {
		for _, x := range e.shares {
			x.from.draw(e.rows[first+x.lo:first+x.hi], &s)
		}
	}
	if h := e.replay.hindsight; h != nil {
		s := philox.New(e.seed, philox.Hindsight, uint64(e.replica), e.number)
		for first := 0; first < e.local; first += e.micro {
			lo, hi := first+e.shares[0].lo, first+e.shares[0].hi
			h.draw(e.goals[lo:hi], e.rows[lo:hi], &s)
		}
	}
}

// descend makes one optimiser step of t on the batch. It calls addGradient for each micro-batch. addGradient must pass
// its argument ready to the backward pass.
func (e *offPolicy) descend(t *trainState, addGradient func(b *Transitions, ready func(lo, hi int)) error) error {
	t.open()
	for e.first = 0; e.first < e.local; e.first += e.micro {
		e.progressed(e.first)
		if err := e.gather(); err != nil {
			return err
		}
		if err := addGradient(e.seen, t.readyAt(e.first+e.micro == e.local)); err != nil {
			return err
		}
	}
	return t.step(e.iteration)
}

// gather copies the transitions of the micro-batch to e.batch, shifts their images, and sets e.seen. It does nothing if
// they are already there.
func (e *offPolicy) gather() error {
	if e.gathered == e.first {
		return nil
	}
	for _, x := range e.shares {
		if x.rows.goals != nil && x.from[0] == e.replay {
			copy(x.rows.goals, e.goals[e.first+x.lo:e.first+x.hi])
		}
		err := x.from.gather(x.rows, e.rows[e.first+x.lo:e.first+x.hi], e.off.NStep, e.cfg.Gamma,
			e.cfg.BootstrapType == BootstrapAlways)
		if err != nil {
			e.gathered = -1
			return err
		}
	}
	e.gathered = e.first
	if e.shift != nil {
		e.shift.apply(e.batch, e.replica*e.local+e.first, e.number)
	}
	if e.keepers[0] == nil {
		return nil
	}
	var err error
	if e.seen.Obs, err = e.keepers[0].Keep(e.batch.Obs, nil); err == nil && e.batch.Next.Len() > 0 {
		e.seen.Next, err = e.keepers[1].Keep(e.batch.Next, nil)
	}
	return err
}

// progressed reports the progress of the iteration, after the given number of samples of the present update. If an
// update reads its batch several times, progressed reports only the first time.
func (e *offPolicy) progressed(samples int) {
	micros := e.local / e.micro
	if done := e.made*micros + samples/e.micro; done > e.reported {
		e.reported = done
		e.progress.Report(workUpdate, done, e.cfg.UpdateEpoch*micros)
	}
}

// due reports whether the number of the present update is a multiple of period.
func (e *offPolicy) due(period int) bool { return e.number%uint64(period) == 0 }

// actorDue reports whether the actor learns in the present update.
func (e *offPolicy) actorDue() bool {
	return e.iteration+1 >= e.off.TrainActorSteps && e.due(e.off.CriticActorRatio)
}

// reportMean adds mean i to the metrics.
func (e *offPolicy) reportMean(name string, i int) { e.metrics.add(name, e.sums.mean(i)) }

// reportActor adds the metrics of an actor's training.
func (e *offPolicy) reportActor(t *trainState) {
	lr, _ := t.adam.LR(e.iteration)
	e.metrics.add("actor/lr", lr)
	e.metrics.add("actor/grad_norm", t.meanNorm())
}

// reportCritic adds the metrics of a critic's training.
func (e *offPolicy) reportCritic(t *trainState) {
	_, lr := t.adam.LR(e.iteration)
	e.metrics.add("critic/lr", lr)
	e.metrics.add("critic/grad_norm", t.meanNorm())
}

// reportReplay adds the metrics of the buffers of all replicas: the number of transitions held, and the number of
// transitions that were ever added.
func (e *offPolicy) reportReplay() {
	e.metrics.add("replay_buffer/size", e.held[heldSize])
	e.metrics.add("replay_buffer/total_samples", float64(e.replay.envs*e.count)*float64(e.replay.Total()))
	if e.people != nil {
		e.metrics.add("demo_buffer/size", float64(e.demos)+e.held[heldDemos])
	}
}

// Save returns views of the algorithm's state, and the experience of the buffers. The experience is a copy as long as
// the rings are not full. Demonstrations from a file are not saved, because a resumed run reads them again. See
// Algorithm.
func (e *offPolicy) Save() (tensor.Dict, error) {
	d, used := e.SaveInPlace()
	packRings(&d, used)
	return d, nil
}

// SaveInPlace returns what Save returns, with the replay buffer's own rings; see Replayer.
func (e *offPolicy) SaveInPlace() (d tensor.Dict, used map[string]int) {
	for i := range e.state.Len() {
		d.Set(e.state.Entry(i))
	}
	if e.offline {
		return d, nil
	}
	e.replay.save(&d)
	if len(e.replay.frames) > 0 {
		d.Set(extraName, tensor.FromI64([]int64{int64(e.held[heldExtra])}, 1))
	}
	used = e.replay.used(d, int(e.held[heldExtra]))
	if e.people != nil {
		steps, frames := int64(e.held[heldSteps]), int64(e.held[heldFrames])
		d.Set(placesName, tensor.FromI64([]int64{steps, frames}, 2))
		e.people.save(&d, used, int(steps), int(frames))
	}
	return d, used
}

// Names under which saved states hold numbers of offPolicy.held.
const (
	extraName  = "replay.extra_frames"
	placesName = "interventions.places"
)

// Follow makes the target encoder equal to the policy's encoder; see Follower.
func (e *offPolicy) Follow() { e.features.follow(1) }

// Interrupt ends the last episodes of the replay buffer; see Interruptible.
func (e *offPolicy) Interrupt() {
	if e.offline {
		return
	}
	e.replay.interrupt()
	if e.people != nil {
		for _, r := range e.people.rings {
			r.interrupt()
		}
	}
}

// Load restores the state that Save returned. The model and configuration must be the same.
func (e *offPolicy) Load(from tensor.Dict) error {
	err := restore(e.state, from)
	if err == nil && !e.offline {
		err = e.replay.load(from)
		e.held[heldExtra] = math.MaxInt32 // for a state without this number: all places count as in use until Prepare
		if extra, ok := from.Get(extraName); ok && extra.DType() == tensor.I64 && extra.Len() == 1 {
			e.held[heldExtra] = float64(extra.I64()[0])
		}
	}
	if err == nil && e.people != nil {
		places, ok := from.Get(placesName)
		if !ok || places.DType() != tensor.I64 || places.Len() != 2 || slices.Min(places.I64()) < 0 {
			return fmt.Errorf("%s: load: %s is %v, expected two numbers >= 0", e.name, placesName, places)
		}
		e.held[heldSteps], e.held[heldFrames] = float64(places.I64()[0]), float64(places.I64()[1])
		err = e.people.load(from)
	}
	if err != nil {
		return fmt.Errorf("%s: load: %w", e.name, err)
	}
	return nil
}
