// Command faulty is rlinf with environments that fail. It is a main as users write it. For example, CartPole-panic is
// CartPole-v1 until a step panics. The states of the environments cannot be saved, except for environments that fail in
// saving or loading. If the environment variable GATE is set, a rank stops in a step of a move.
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
	"github.com/rlinf/rlinf/roles/cli"
	"github.com/rlinf/rlinf/tensor"
)

func main() {
	envs := all.Registry()
	for name, fault := range map[string]func(out *env.Step) error{
		"CartPole-sound": func(*env.Step) error { return nil },
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
	for name, c := range map[string]carried{
		"CartPole-pack-error":   {save: func() error { return errors.New("out of boxes") }},
		"CartPole-pack-panic":   {save: func() error { panic("out of boxes") }},
		"CartPole-unpack-error": {load: func() error { return errors.New("out of shelves") }},
		"CartPole-unpack-panic": {load: func() error { panic("out of shelves") }},
	} {
		envs.Add(name, func(cfg env.Config, n int) (env.Vec, error) {
			vec, err := classic.NewCartPole(cfg, n)
			return &carried{vec, c.save, c.load}, err
		})
	}
	reg := roles.Registries{Envs: envs, Policies: policies.Registry(), Algorithms: algo.Builtin(),
		Rewards: reward.Builtin()}
	if text := os.Getenv("GATE"); text != "" {
		tasks := newGate(text).add(&reg)
		os.Exit(cli.Run(os.Args, reg, tasks, cli.Own{}))
	}
	os.Exit(roles.Main(os.Args, reg))
}

// faulty are environments that fail in their 20th step and in each later step.
type faulty struct {
	env.Vec
	steps int
	fault func(out *env.Step) error
}

// Step takes a step, and fails at the right time.
func (f *faulty) Step(action tensor.Dict, seeds []uint64, out *env.Step) error {
	if err := f.Vec.Step(action, seeds, out); err != nil {
		return err
	}
	if f.steps++; f.steps < 20 {
		return nil
	}
	return f.fault(out)
}

// carried are environments that fail when their states are saved, or loaded.
type carried struct {
	env.Vec
	save, load func() error
}

func (c *carried) Save() (tensor.Dict, error) {
	if c.save != nil {
		if err := c.save(); err != nil {
			return tensor.Dict{}, err
		}
	}
	return c.Vec.(env.Saver).Save()
}

func (c *carried) Load(d tensor.Dict) error {
	if c.load != nil {
		if err := c.load(); err != nil {
			return err
		}
	}
	return c.Vec.(env.Saver).Load(d)
}
