package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/roles/weights"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Shared is what the workers of a rank have in common: their policies, and the weights that travel between ranks. All
// policies start with the same parameters. Other workers may read the actors' parameters in place.
type Shared struct {
	world *spmd.World
	plan  *plan.Plan
	own   *loop.Holdings

	training   *weights.Sync
	evaluation *weights.Sync // only for evaluations; nil if evaluations use the rollouts' weights
	inference  *weights.Sync // for inference workers; nil if there are none

	policies map[string]map[int]policy.Policy // by component and member number
	devices  map[int]*member.GPU              // by the member number of an actor; nil without devices
}

var _ loop.Shared = (*Shared)(nil)

// NewShared returns an empty Shared. Connect makes its policies and weights.
func NewShared(w *spmd.World, p *plan.Plan, own *loop.Holdings) *Shared {
	return &Shared{world: w, plan: p, own: own, policies: map[string]map[int]policy.Policy{},
		devices: map[int]*member.GPU{}}
}

// PlanOf returns the plan of c's job, or an error if the job has another task.
func PlanOf(c *loop.Cluster) (*plan.Plan, error) {
	s, ok := loop.SharedOf(c).(*Shared)
	if !ok {
		return nil, errors.New("the job has no environments (runner.task_type embodied)")
	}
	return s.plan, nil
}

// A base is the common part of all workers.
type base struct {
	m       *spmd.Member
	plan    *plan.Plan
	failure error // see EvaluationError
}

// newBase returns the base of the worker of member m, and the Shared of its rank.
func newBase(c *loop.Cluster, m *spmd.Member) (base, *Shared, error) {
	p, err := PlanOf(c)
	if err != nil {
		return base{}, nil, fmt.Errorf("%s %d: %w", m.Group(), m.Index(), err)
	}
	return base{m: m, plan: p}, loop.SharedOf(c).(*Shared), nil
}

// Member returns the member of this worker.
func (b *base) Member() *spmd.Member { return b.m }

// EvaluationError returns the error with which the last evaluation of this worker failed, or nil.
func (b *base) EvaluationError() error { return b.failure }

// Connect makes the policies of this rank, and the weights that travel between ranks.
func (s *Shared) Connect(ctx context.Context) (err error) {
	for _, of := range []string{"actor", "rollout", "inference"} {
		if s.policies[of], err = s.newPolicies(of); err != nil {
			return err
		}
	}
	if s.training, err = s.newWeights(ctx, "weights", "rollout", weights.Configured); err != nil {
		return err
	}
	if s.plan.EvaluatesApart() {
		if s.evaluation, err = s.newWeights(ctx, "weights of evaluations", "rollout", weights.Once); err != nil {
			return err
		}
	}
	if s.plan.Inferences > 0 { // inference workers use the newest weights before every update
		s.inference, err = s.newWeights(ctx, "weights of inference", "inference", weights.Exact)
	}
	return err
}

// newPolicies makes the policies of a component's workers on this rank, by member number. An actor that stays on this
// rank in a move keeps its policy.
func (s *Shared) newPolicies(component string) (map[int]policy.Policy, error) {
	blank := s.own.Moved() && !s.plan.SendsPatches() // patches apply to the initial parameters
	policies := map[int]policy.Policy{}
	for _, m := range s.plan.MembersOn(component, s.world.Rank()) {
		if part, ok := loop.Part[*actorPart](s.own, component, m); ok {
			if policies[m] = part.policy; part.device != nil {
				s.devices[m] = part.device
			}
			continue
		}
		alloc, d := tensor.Heap, nn.Device[float32](nil)
		if component == "actor" {
			alloc = s.own.Alloc(component, m)
			if s.plan.Config.Actor.UsesGPU(m) {
				of, err := member.OpenGPU(s.world.LocalRank())
				if err != nil {
					return nil, fmt.Errorf("%s %d: %w", component, m, err)
				}
				s.devices[m], d = of, of.Ops
			}
		}
		pol, err := s.plan.NewActorPolicy(alloc, d, blank)
		if err != nil {
			return nil, fmt.Errorf("%s %d: %w", component, m, err)
		}
		policies[m] = pol
	}
	return policies, nil
}

// newWeights makes the Weights that carry the actors' parameters to a component.
func (s *Shared) newWeights(ctx context.Context, label, component string, mode weights.SyncMode) (*weights.Sync,
	error) {
	return weights.New(ctx, s.world, s.plan.Job, weights.SyncSpec{Label: label, Readers: []string{component},
		Mode:   mode,
		Params: func(of string, member int) *nn.Params[float32] { return s.policies[of][member].Params() }})
}

// Close ends the weights and closes the devices. Every rank calls Close after the last Publish.
func (s *Shared) Close() {
	for _, d := range s.devices {
		d.Close() // the results are here already, so an error changes nothing
	}
	s.training.Close()
	s.evaluation.Close()
	s.inference.Close()
}
