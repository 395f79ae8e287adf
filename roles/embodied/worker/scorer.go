package worker

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A scorer gets the rewards of a route's steps from a reward worker. The environments take the next step while the
// reward worker computes. So a scorer records an answer at the next request, or at the end of the rollout.
type scorer struct {
	plan.Route
	worker int // the number of the reward worker
	layout *tensor.Layout
	to     *spmd.Sender
	from   *spmd.Receiver
	asked  int // the step whose rewards were requested and not yet recorded; -1 if there is none
}

// RewardChannels connect rollout workers with reward workers. They are nil without reward workers.
type RewardChannels struct {
	Transitions *spmd.Channel // rollout → reward
	Rewards     *spmd.Channel // reward → rollout
}

// open opens the sender and the receiver. Later calls do nothing. A nil scorer does nothing.
func (s *scorer) open(m *spmd.Member, ch RewardChannels) (err error) {
	if s == nil || s.to != nil {
		return nil
	}
	if s.to, err = ch.Transitions.Sender(m, spmd.Key{To: s.worker, Name: transitionsKey}); err != nil {
		return err
	}
	s.from, err = ch.Rewards.Receiver(m, spmd.Key{To: s.Rollout, Name: s.Name()})
	return err
}

// ask requests the rewards of step t of rec. result is the result of this step. A nil scorer does nothing.
func (s *scorer) ask(ctx context.Context, rec *play.RolloutBuilder, t int, result *env.Step) error {
	if s == nil {
		return nil
	}
	if err := s.settle(ctx, rec); err != nil {
		return err
	}
	item, err := s.to.Take(ctx, s.layout)
	if err != nil {
		return fmt.Errorf("request rewards: %w", err)
	}
	rec.Transition(item.Dict, t, result)
	item.Lo, item.Hi = s.Lo, s.Hi
	s.asked = t
	return s.to.Put(ctx, item)
}

// settle waits for the outstanding answer, if there is one, and records its rewards. A nil scorer does nothing.
func (s *scorer) settle(ctx context.Context, rec *play.RolloutBuilder) error {
	if s == nil || s.asked < 0 {
		return nil
	}
	item, err := s.from.Get(ctx)
	if err != nil {
		return fmt.Errorf("rewards of step %d: %w", s.asked, err)
	}
	rec.SetReward(s.asked, item.Dict.Must(algo.FieldReward).F32())
	s.from.Release(item)
	s.asked = -1
	return nil
}
