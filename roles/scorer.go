package roles

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A scorer asks the reward component what the steps of a lane are worth. While it thinks about one
// step the environments take the next: the answer is recorded when the next is asked about, or at
// the end.
type scorer struct {
	lane
	worker    int // the reward worker that is asked
	layout    *tensor.Layout
	obs, next []string // names in it, in the order of the recorder's
	to        *spmd.Sender
	from      *spmd.Receiver
	asked     int // the step that the answer under way is for; -1: none is
}

// RewardChannels lead from rollout workers to reward workers and back. The zero value: there are no
// reward workers.
type RewardChannels struct{ Transitions, Rewards *spmd.Channel }

// newScorer returns the scorer of l, whose recorder knows the observations by these names.
func newScorer(l lane, j *job, names []string) *scorer {
	s := &scorer{lane: l, worker: j.rewardWorker(l), layout: j.transitionLayout(l), asked: -1}
	for _, name := range names {
		s.obs, s.next = append(s.obs, "observation."+name), append(s.next, "next_observation."+name)
	}
	return s
}

// open makes the ends of the channels, once. A nil scorer has none.
func (s *scorer) open(m *spmd.Member, ch RewardChannels) (err error) {
	if s == nil || s.to != nil {
		return nil
	}
	if s.to, err = ch.Transitions.Sender(m, spmd.Key{To: s.worker, Name: transitionsKey}); err != nil {
		return err
	}
	s.from, err = ch.Rewards.Receiver(m, spmd.Key{To: s.rollout, Name: s.name()})
	return err
}

// ask sends what step t of rec was and led to. A nil scorer asks nobody.
func (s *scorer) ask(ctx context.Context, rec *recorder, t int, step *env.Step) error {
	if s == nil {
		return nil
	}
	if err := s.settle(ctx, rec); err != nil {
		return err
	}
	item, err := s.to.Take(ctx, s.layout)
	if err != nil {
		return fmt.Errorf("ask for rewards: %w", err)
	}
	for i := range rec.parts {
		s.fill(item.Dict, rec, &rec.parts[i], t, step)
	}
	if info, ok := item.Dict.Get("info"); ok {
		info.CopyFrom(step.Info)
	}
	item.Lo, item.Hi = s.lo, s.hi
	s.asked = t
	return s.to.Put(ctx, item)
}

// fill copies the rows of p.
func (s *scorer) fill(to tensor.Dict, rec *recorder, p *part, t int, step *env.Step) {
	rows := func(name string) tensor.Tensor { return to.Must(name).Slice(p.lo, p.hi) }
	for i, name := range rec.names {
		rows(s.obs[i]).CopyFrom(p.obs[i].At(t))
		final := step.FinalObs
		if rec.idles {
			final = step.Obs
		}
		p.copyNext(rows(s.next[i]), step.Obs.Must(name), final.Must(name))
	}
	rows("action").CopyFrom(p.action.At(t))
	rows("reward").CopyFrom(p.reward.At(t))
	rows("terminated").CopyFrom(p.terminated.At(t))
	rows("truncated").CopyFrom(p.truncated.At(t))
}

// settle records the answer under way.
func (s *scorer) settle(ctx context.Context, rec *recorder) error {
	if s == nil || s.asked < 0 {
		return nil
	}
	item, err := s.from.Get(ctx)
	if err != nil {
		return fmt.Errorf("rewards of step %d: %w", s.asked, err)
	}
	rec.setReward(s.asked, item.Dict.Must("reward").F32())
	s.from.Release(item)
	s.asked = -1
	return nil
}
