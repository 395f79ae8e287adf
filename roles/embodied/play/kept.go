package play

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A keeping makes feature maps of the observations of environments, for trajectories that have these in place of
// images. The nil keeping leaves observations as they are.
type keeping struct {
	now, last *policy.Keeper // of observations, and of the last observations of episodes
	acted     tensor.Dict    // the images at the time of the last act
	ended     []int          // the environments whose episodes ended in the last step
}

// newKeeping returns a keeping for n environments, or nil if the trajectory d has the observations that pol sees. names
// are those of the observations in d.
func newKeeping(pol policy.Policy, d tensor.Dict, names []string, n int) *keeping {
	var k *keeping
	seen, _ := pol.Spaces()
	for i, f := range seen {
		if d.Must(names[i]).DType() == f.DType {
			continue
		}
		if k == nil {
			k = &keeping{now: policy.NewKeeper(pol, n), last: policy.NewKeeper(pol, n)}
		}
		k.acted.Set(f.Name, tensor.New(f.DType, append([]int{n}, f.Shape...)...))
	}
	return k
}

// act returns the observations on which the policy acts.
func (k *keeping) act(obs tensor.Dict) (tensor.Dict, error) {
	if k == nil {
		return obs, nil
	}
	for i := range k.acted.Len() {
		name, images := k.acted.Entry(i)
		images.CopyFrom(obs.Must(name))
	}
	return k.now.Keep(obs, nil)
}

// after returns the observations after a step, and those of the episodes that ended in it.
func (k *keeping) after(step *env.Step, parts []part) (now, final tensor.Dict, err error) {
	if k == nil {
		return step.Obs, step.FinalObs, nil
	}
	if now, err = k.now.Keep(step.Obs, nil); err != nil {
		return now, final, err
	}
	k.ended = k.ended[:0]
	for i := range parts {
		for j, ended := range parts[i].ended {
			if ended {
				k.ended = append(k.ended, parts[i].lo+j)
			}
		}
	}
	final, err = k.last.Keep(step.FinalObs, k.ended)
	return now, final, err
}

// images returns the images of the named observation at the time of the last act. ok is false if trajectories have
// them.
func (k *keeping) images(name string) (t tensor.Tensor, ok bool) {
	if k == nil {
		return t, false
	}
	return k.acted.Get(name)
}
