package algo

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/tensor"
)

// A Resampler is an Algorithm that may reject parts of a rollout, and choose from further ones
// before it trains.
type Resampler interface {
	// Resample keeps parts of rollout, the n-th of this update from 0 on, and reports whether it needs
	// another, the same on every replica. If it may need more than one, rollout becomes the parts that
	// it has kept of all of them, in memory of the Resampler.
	Resample(n int, rollout *tensor.Dict) (more bool, err error)
}

var _ Resampler = (*PPO)(nil)

// Resample is the dynamic sampling of DAPO, Yu et al. 2025, arXiv:2503.14476, §3.2: a group whose
// episodes all score the same has advantages of 0 and teaches nothing; its place is taken by a
// group of a later rollout that does, until all places are or max_num_gen_batches rollouts were
// made.
func (p *PPO) Resample(n int, rollout *tensor.Dict) (more bool, err error) {
	p.rollouts = n + 1
	if p.cfg.MaxNumGenBatches <= 1 {
		return false, nil
	}
	tr, mask, err := p.trajectory(*rollout)
	if err != nil {
		return false, fmt.Errorf("%s: rollout: %w", p.name, err)
	}
	size := max(p.groupSize, 1)
	p.episodes.find(tr, mask)
	if err := p.episodes.grouped(size, p.envs); err != nil {
		return false, fmt.Errorf("%s: rollout: %w", p.name, err)
	}
	if len(p.episodes.score) != p.envs {
		return false, fmt.Errorf("%s: rollout: %d episodes in %d environments: want one in each, to replace it", p.name,
			len(p.episodes.score), p.envs)
	}
	if n == 0 {
		p.keepAll(*rollout)
	}
	from := 0 // the next group of the rollout to look at
	for g := range p.informative {
		if n == 0 {
			p.informative[g] = p.episodes.informative(g*size, size)
			continue
		}
		for !p.informative[g] && from < len(p.informative) {
			if p.episodes.informative(from*size, size) {
				p.informative[g] = true
				copyEnvs(p.kept, *rollout, g*size, from*size, size)
			}
			from++
		}
	}
	*rollout = p.kept
	lacking := p.moments[:1]
	lacking[0] = 0
	for _, told := range p.informative {
		if !told {
			lacking[0]++
		}
	}
	if err := p.replicas.Sum(lacking); err != nil {
		return false, fmt.Errorf("%s: groups without a difference: %w", p.name, err)
	}
	return lacking[0] > 0 && n+1 < p.cfg.MaxNumGenBatches, nil
}

// keepAll copies a rollout.
func (p *PPO) keepAll(rollout tensor.Dict) {
	if p.kept.Len() > 0 {
		p.kept.CopyFrom(rollout)
		return
	}
	p.informative = make([]bool, p.envs/max(p.groupSize, 1))
	for i := range rollout.Len() {
		if name, t := rollout.Entry(i); t.Rank() >= 2 && t.Dim(0) == p.steps && t.Dim(1) == p.envs {
			p.kept.Set(name, t.Clone())
		}
	}
}

// informative reports whether the scores of a group differ.
func (e *episodes) informative(k, size int) bool {
	group := e.groupOf(k, size)
	return slices.Max(group) > slices.Min(group)
}

// copyEnvs copies n environments, from env from of src on, to env to of dst, in all tensors of dst,
// [T,N,...].
func copyEnvs(dst, src tensor.Dict, to, from, n int) {
	for i := range dst.Len() {
		name, d := dst.Entry(i)
		s := src.Must(name)
		for t := range d.Dim(0) {
			d.At(t).Slice(to, to+n).CopyFrom(s.At(t).Slice(from, from+n))
		}
	}
}
