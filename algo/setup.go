package algo

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A Setup has all inputs for making an Algorithm.
type Setup struct {
	Config      Config
	Optim       OptimConfig
	CriticOptim OptimConfig // for the critics of off-policy algorithms with an actor
	GlobalBatch int         // samples in one optimiser step, over all replicas (actor.global_batch_size)
	// samples evaluated at once (actor.micro_batch_size); the gradients of micro-batches are added up. 0 means all
	// samples of an optimiser step on this replica
	MicroBatch int
	Seed       uint64
	// ShiftImages shifts the images of transitions at random (actor.enable_drq). The policy must have cameras.
	ShiftImages bool
	Iterations  int // length of the run, for schedules that end with it

	Chunk int // C, the actions of a sample (actor.model.num_action_chunks); 0 means 1
	// number of successive environments that begin with the same states (env.train.group_size); 0
	// means 1
	GroupSize   int
	Steps, Envs int // T and N of this replica's rollouts
	// fields of rollouts, [T,N,...]; may be nil if the algorithm has no replay buffer, and rollouts have neither
	// ref_log_prob nor prox_log_prob
	Rollout  []tensor.Field
	Demos    tensor.Dict          // demonstrations, from ReadDemos; the zero Dict if there are none
	Pictures map[string]*Pictures // images of Demos that stay encoded, by the names of their tensors; may be nil
	Goals    *Goals               // goals of the environments, for hindsight; nil if they have none
	Policy   policy.Policy
	Replicas Replicas         // nil means Single
	Alloc    tensor.Allocator // memory of buffers and optimiser; nil means tensor.Heap
	Progress Progress         // of Update; may be nil
	Witness  Witness          // of Update; may be nil
}

// check returns an error with all mistakes in s.Config and s.Optim.
func (s *Setup) check() error {
	var wrong []string
	s.Config.Check(noteIn(&wrong, "algorithm"))
	s.Optim.Check(noteIn(&wrong, "optim"))
	scheduled := s.Optim.LRScheduler != ScheduleConstant || s.Config.ClipRatioSchedule != ScheduleConstant
	if scheduled && s.Iterations <= 0 && s.Optim.TotalTrainingSteps <= 0 {
		wrong = append(wrong, "optim.total_training_steps: not set: expected the iteration at which the schedule ends")
	}
	return joined(wrong)
}

// checkOffPolicy calls check, and also validates c.OffPolicy. If offline is set, the algorithm learns only from
// demonstrations.
func (s *Setup) checkOffPolicy(offline bool) error {
	if err := s.check(); err != nil {
		return err
	}
	var wrong []string
	s.Config.OffPolicy.Check(noteIn(&wrong, "algorithm"), offline)
	s.CriticOptim.Check(noteIn(&wrong, "critic_optim"))
	if offline && s.Demos.Len() == 0 {
		wrong = append(wrong, "no demonstrations: expected some")
	}
	return joined(wrong)
}

// joined returns mistakes as one error, or nil if there are none.
func joined(wrong []string) error {
	if wrong == nil {
		return nil
	}
	return errors.New(strings.Join(wrong, "; "))
}

// noteIn returns a Want that adds the mistakes of a section to wrong. If section is "", keys are relative to the root.
func noteIn(wrong *[]string, section string) Want {
	return func(ok bool, key string, value any, want string) {
		if section != "" {
			key = section + "." + key
		}
		if !ok {
			*wrong = append(*wrong, fmt.Sprintf("%s: %v: expected %s", key, value, want))
		}
	}
}

// setDefaults replaces zero values of fields by the defaults.
func (s *Setup) setDefaults() {
	if s.Replicas == nil {
		s.Replicas = Single{}
	}
	if s.Alloc == nil {
		s.Alloc = tensor.Heap
	}
}

// batchSizes holds the numbers of samples in an optimiser step.
type batchSizes struct {
	global int // over all replicas
	local  int // of this replica
	micro  int // in a micro-batch, which is evaluated at once
}

// batches returns the sizes for the given number of replicas.
func (s *Setup) batches(replicas int) (batchSizes, error) {
	b := batchSizes{global: s.GlobalBatch, micro: s.MicroBatch}
	if s.GlobalBatch <= 0 || s.GlobalBatch%replicas != 0 {
		return b, fmt.Errorf("global_batch_size %d: expected a multiple of %d replicas", s.GlobalBatch, replicas)
	}
	if b.local = s.GlobalBatch / replicas; b.micro == 0 {
		b.micro = b.local
	}
	if b.micro < 0 || b.local%b.micro != 0 {
		return b, fmt.Errorf("micro_batch_size %d: expected a divisor of the %d samples of a batch on each replica",
			b.micro, b.local)
	}
	return b, nil
}

// minibatches is batches for algorithms that train on whole rollouts, divided into minibatches.
func (s *Setup) minibatches(replicas int) (batchSizes, error) {
	n := s.Steps * s.Envs
	if n <= 0 || s.GlobalBatch <= 0 || s.GlobalBatch%replicas != 0 || n%(s.GlobalBatch/replicas) != 0 {
		return batchSizes{}, fmt.Errorf("global_batch_size %d: expected a divisor of the rollout of %d samples (%d "+
			"steps × %d environments) on %d replicas", s.GlobalBatch, n*replicas, s.Steps, s.Envs, replicas)
	}
	if s.Config.LossType == "a2c" && s.GlobalBatch != n*replicas {
		return batchSizes{}, fmt.Errorf("global_batch_size %d: expected the whole rollout, %d samples", s.GlobalBatch,
			n*replicas)
	}
	return s.batches(replicas)
}

// brings reports whether s.Rollout has a field with the given name.
func (s *Setup) brings(name string) bool {
	return slices.ContainsFunc(s.Rollout, func(f tensor.Field) bool { return f.Name == name })
}

// ReplaySteps returns the number of steps of each environment that fit in the replay buffer. steps is the number of
// steps of a rollout.
func (c *Config) ReplaySteps(steps int) int { return c.OffPolicy.ReplayBuffer.SampleWindowSize * steps }
