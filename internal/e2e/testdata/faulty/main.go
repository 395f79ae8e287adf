// Command faulty is rlinf with environments of its own, which fail: a main as users write one.
// CartPole-panic is CartPole-v1 until the process that steps it panics; so are the others in their
// ways.
package main

import (
	"errors"
	"math"
	"os"
	"syscall"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/env/classic"
	policies "github.com/rlinf/rlinf/policy/all"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles"
	"github.com/rlinf/rlinf/tensor"
)

func main() {
	envs := all.Registry()
	for name, fault := range map[string]func(out *env.Step) error{
		"CartPole-panic": func(*env.Step) error { panic("out of its mind") },
		"CartPole-error": func(*env.Step) error { return errors.New("out of patience") },
		"CartPole-exit":  func(*env.Step) error { os.Exit(3); return nil },
		"CartPole-kill":  func(*env.Step) error { return syscall.Kill(os.Getpid(), syscall.SIGKILL) },
		"CartPole-stop":  func(*env.Step) error { return syscall.Kill(os.Getpid(), syscall.SIGSTOP) },
		"CartPole-nan-reward": func(out *env.Step) error {
			out.Reward.F32()[0] = float32(math.NaN())
			return nil
		},
		"CartPole-nan-observation": func(out *env.Step) error {
			out.Obs.Must("state").F32()[0] = float32(math.NaN())
			return nil
		},
	} {
		envs.Add(name, func(cfg env.Config, n int) (env.Vec, error) {
			vec, err := classic.NewCartPole(cfg, n)
			return &faulty{Vec: vec, fault: fault}, err
		})
	}
	os.Exit(roles.Main(os.Args, roles.Registries{Envs: envs, Policies: policies.Registry(), Algorithms: algo.Builtin(),
		Rewards: reward.Builtin()}))
}

// faulty are environments that fail in their 20th step, and from then on.
type faulty struct {
	env.Vec
	steps int
	fault func(out *env.Step) error
}

// Step takes a step, and fails when it is time.
func (f *faulty) Step(action tensor.Dict, seeds []uint64, out *env.Step) error {
	if err := f.Vec.Step(action, seeds, out); err != nil {
		return err
	}
	if f.steps++; f.steps < 20 {
		return nil
	}
	return f.fault(out)
}
