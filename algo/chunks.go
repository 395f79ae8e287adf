package algo

import "github.com/rlinf/rlinf/tensor"

// chunks turns rollouts into trajectories of single actions, for reward_type action_level. T chunks of C actions in N
// environments become T·C steps of N environments. γ and λ then apply to single actions. Actions of a chunk after the
// end of an episode were not executed; their mask is 0.
type chunks struct {
	Trajectory         // T·C steps of N environments
	size       int     // C
	mask       []uint8 // 1 for each action that is trained on
}

func newChunks(steps, envs, size int) *chunks {
	n := steps * envs * size
	return &chunks{
		size: size, mask: make([]uint8, n),
		Trajectory: Trajectory{
			T: steps * size, N: envs, Reward: make([]float32, n), Value: make([]float32, n), Next: make([]float32, n),
			Terminated: make([]uint8, n), Truncated: make([]uint8, n),
		},
	}
}

// unroll fills c from the tensors of a rollout. reward, terminated, truncated and value are [T,N,C]. value[t,n,k] is
// the critic's estimate for the state after k actions of the chunk, computed from the observation before the chunk.
// nextValue, [T,N], is the value of the observation after the chunk. mask, [T,N], is 0 for chunks that are not trained
// on; a nil mask is 1 everywhere.
func (c *chunks) unroll(reward []float32, terminated, truncated []uint8, value, nextValue []float32, mask []uint8) {
	toActions(c.Reward, reward, c.N, c.size)
	toActions(c.Terminated, terminated, c.N, c.size)
	toActions(c.Truncated, truncated, c.N, c.size)
	toActions(c.Value, value, c.N, c.size)
	for i := range nextValue {
		t, n := i/c.N, i%c.N
		counts := mask == nil || mask[i] != 0
		for k := range c.size {
			at := (t*c.size+k)*c.N + n
			c.mask[at] = 0
			if counts {
				c.mask[at] = 1
			}
			ends := c.Terminated[at]|c.Truncated[at] != 0
			if c.Next[at] = nextValue[i]; !ends && k+1 < c.size {
				c.Next[at] = c.Value[at+c.N]
			}
			counts = counts && !ends
		}
	}
}

// toActions copies src, [T,N,C], to dst, [T·C,N]. N is envs, and C is size.
func toActions[E any](dst, src []E, envs, size int) {
	for i, x := range src {
		dst[action(i, envs, size)] = x
	}
}

// toChunks is the inverse of toActions: it copies src, [T·C,N], to dst, [T,N,C].
func toChunks[E any](dst, src []E, envs, size int) {
	for i := range dst {
		dst[i] = src[action(i, envs, size)]
	}
}

// action returns the index in [T·C,N] of element i of [T,N,C].
func action(i, envs, size int) int {
	t, n, k := i/(envs*size), i/size%envs, i%size
	return (t*size+k)*envs + n
}

// levels returns the number of values per chunk at a level: 1 at ChunkLevel, C at ActionLevel, C·A at TokenLevel.
// actions is [N,C,A].
func levels(level string, actions tensor.Tensor) int {
	switch level {
	case ChunkLevel:
		return 1
	case TokenLevel:
		return actions.Dim(1) * actions.Dim(2)
	}
	return actions.Dim(1)
}
