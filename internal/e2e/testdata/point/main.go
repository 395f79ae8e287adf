// Command point is rlinf with its own environment: the task that the solvers of testdata/bridge play. Actions push a
// point on a line. Its goal is 0.
package main

import (
	"math"
	"os"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	policies "github.com/rlinf/rlinf/policy/all"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles"
	"github.com/rlinf/rlinf/tensor"
)

func main() {
	envs := all.Registry()
	envs.Add("Point", func(cfg env.Config, n int) (env.Vec, error) {
		return env.NewEpisodic(make(points, n), cfg), nil
	})
	os.Exit(roles.Main(os.Args, roles.Registries{Envs: envs, Policies: policies.Registry(), Algorithms: algo.Builtin(),
		Rewards: reward.Builtin()}))
}

// points are the positions and the speeds of the points.
type points [][2]float64

// Spec describes one point.
func (p points) Spec() env.Spec {
	inf := float32(math.Inf(1))
	return env.Spec{
		Name:     "Point",
		Obs:      []env.Field{{Name: "state", Space: box([]float32{-inf, -inf}, []float32{inf, inf})}},
		Action:   box([]float32{-1}, []float32{1}),
		MaxSteps: 40,
		Info:     []string{"success"},
	}
}

func box(low, high []float32) env.Space {
	return env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{len(low)}, Low: low, High: high}
}

// Len returns the number of points.
func (p points) Len() int { return len(p) }

// Reset puts point n at a position that follows from the seed.
func (p points) Reset(n int, seed uint64) error {
	seed &= 1<<20 - 1
	p[n] = [2]float64{float64(seed%1001)/500 - 1, float64(seed/1001%1001)/500 - 1}
	return nil
}

// Step pushes the points. It rounds each product, because the solvers do not fuse products with sums either.
func (p points) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte, info []float32) error {
	for n, push := range action.F32() {
		if turn[n] == env.Idle {
			continue
		}
		x, v := p[n][0], p[n][1]
		v += float64(0.2 * min(max(float64(push), -1), 1))
		x += float64(0.2 * v)
		p[n] = [2]float64{x, v}
		far := float64(x * x)
		r := -far - float64(0.1*v*v)
		terminated[n], info[n] = 0, 0
		if far > 9 {
			r, terminated[n] = r-10, 1
		} else if far < 0.01 {
			info[n] = 1
		}
		reward[n] = float32(r)
	}
	return nil
}

// Observe writes the positions and the speeds.
func (p points) Observe(mask []bool, obs tensor.Dict) {
	seen := obs.Must("state").F32()
	for n, s := range p {
		if mask == nil || mask[n] {
			seen[2*n], seen[2*n+1] = float32(s[0]), float32(s[1])
		}
	}
}

// Close does nothing.
func (p points) Close() error { return nil }
