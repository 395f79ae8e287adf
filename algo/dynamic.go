package algo

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/tensor"
)

// A Resampler is an Algorithm that can replace parts of a rollout by parts of later rollouts before training.
type Resampler interface {
	// Resample chooses the parts of rollout to train on. n is the number of earlier rollouts of this update. Resample
	// reports whether another rollout is needed; all replicas report the same. If an update can use several rollouts,
	// Resample sets rollout to the parts chosen so far. These lie in memory of the Resampler.
	Resample(n int, rollout *tensor.Dict) (more bool, err error)
}

var _ Resampler = (*DynamicSampler)(nil)

// A DynamicSampler is the dynamic sampling of DAPO, Yu et al. 2025, arXiv:2503.14476, §3.2: a group
// whose episodes all score the same has advantages of 0 and teaches nothing. An informative group
// of a later rollout takes its place, until all groups are informative or max_num_gen_batches
// rollouts were made.
type DynamicSampler struct {
	view      *rolloutView
	episodes  *episodes
	groupSize int
	most      int // largest number of rollouts for an update
	replicas  Replicas

	kept        tensor.Dict
	informative []bool // whether each group in kept is informative
	fresh       []bool // the same for the latest rollout
	rollouts    int    // number of rollouts made for this update
}

func newDynamicSampler(s *Setup, v *rolloutView, r Replicas) *DynamicSampler {
	size := max(s.GroupSize, 1)
	return &DynamicSampler{
		view: v, episodes: newEpisodes(v.samples() * v.units), groupSize: size, most: s.Config.MaxNumGenBatches,
		replicas: r, informative: make([]bool, v.envs/size), fresh: make([]bool, v.envs/size),
	}
}

// Resample replaces groups that are not informative; see Resampler.
func (d *DynamicSampler) Resample(n int, rollout *tensor.Dict) (more bool, err error) {
	d.rollouts = n + 1
	if d.most <= 1 {
		return false, nil
	}
	if err := d.find(*rollout); err != nil {
		return false, fmt.Errorf("dynamic sampling: rollout: %w", err)
	}
	informative := func(g int) bool { return d.informative[g] }
	if n == 0 {
		d.keepAll(*rollout)
		copy(d.informative, d.fresh)
	} else {
		replaceGroups(len(d.informative), len(d.fresh), informative, func(g int) bool { return d.fresh[g] },
			func(to, from int) {
				d.informative[to] = true
				copyEnvs(d.kept, *rollout, to*d.groupSize, from*d.groupSize, d.groupSize)
			})
	}
	*rollout = d.kept
	more, err = lacksGroups(len(d.informative), informative, d.replicas)
	return more && n+1 < d.most, err
}

// replaceGroups replaces those of n groups that are not informative. There are m new groups; each replacement is the
// next of these that is informative. replaceGroups stops when no new group is left.
func replaceGroups(n, m int, informative, newInformative func(g int) bool, replace func(group, newGroup int)) {
	from := 0 // the next new group
	for to := range n {
		for !informative(to) && from < m {
			if newInformative(from) {
				replace(to, from)
			}
			from++
		}
	}
}

// lacksGroups reports whether any replica has a group that is not informative. This replica has n groups.
func lacksGroups(n int, informative func(g int) bool, r Replicas) (bool, error) {
	lacking := []float64{0}
	for g := range n {
		if !informative(g) {
			lacking[0]++
		}
	}
	if err := r.Sum(lacking); err != nil {
		return false, fmt.Errorf("dynamic sampling: groups without a difference: %w", err)
	}
	return lacking[0] > 0, nil
}

// find fills d.fresh. It returns an error if an environment of the rollout has more than one episode. A group that lost
// all of its episodes is not informative.
func (d *DynamicSampler) find(rollout tensor.Dict) error {
	tr, mask, err := d.view.trajectory(rollout)
	if err != nil {
		return err
	}
	e := d.episodes
	e.find(tr, mask)
	if err := e.divide(d.groupSize, tr.N); err != nil {
		return err
	}
	clear(d.fresh)
	for k, first := range e.first {
		if int(first) >= tr.N {
			return fmt.Errorf("episode %d begins at step %d of environment %d: expected one episode in each "+
				"environment, to replace it", k, int(first)/tr.N, int(first)%tr.N)
		}
		d.fresh[int(first)/d.groupSize] = differ(e.groupOf(k))
	}
	return nil
}

// keepAll copies a rollout to d.kept.
func (d *DynamicSampler) keepAll(rollout tensor.Dict) {
	if d.kept.Len() > 0 {
		d.kept.CopyFrom(rollout)
		return
	}
	steps, envs := d.view.steps, d.view.envs
	for i := range rollout.Len() {
		if name, t := rollout.Entry(i); t.Rank() >= 2 && t.Dim(0) == steps && t.Dim(1) == envs {
			d.kept.Set(name, t.Clone())
		}
	}
}

// differ reports whether the scores of a group differ.
func differ[F float32 | float64](group []F) bool { return slices.Max(group) > slices.Min(group) }

// copyEnvs copies environments [srcEnv, srcEnv+n) of src to environments [dstEnv, dstEnv+n) of dst, in all tensors of
// dst, [T,N,...].
func copyEnvs(dst, src tensor.Dict, dstEnv, srcEnv, n int) {
	for i := range dst.Len() {
		name, d := dst.Entry(i)
		s := src.Must(name)
		for t := range d.Dim(0) {
			d.At(t).Slice(dstEnv, dstEnv+n).CopyFrom(s.At(t).Slice(srcEnv, srcEnv+n))
		}
	}
}
