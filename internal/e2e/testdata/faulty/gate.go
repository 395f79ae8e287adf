package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/classic"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/embodied"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/language"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A gate stops one rank, once, in one step of a move. It waits until the rank's process has made a number of plans for
// moves. The stopped rank writes the file shut to dir. It continues when the file open exists, or when its process gets
// a signal.
type gate struct {
	rank, after int64
	step, dir   string

	plans atomic.Int64 // number of plans for moves that this process has made
	here  atomic.Bool  // the rank is in this process
	shut  atomic.Bool  // the rank has reached the step
}

// newGate returns the gate that text describes: its rank, its number of plans, and its step. The environment variable
// GATE_DIR names its folder.
func newGate(text string) *gate {
	g := &gate{dir: os.Getenv("GATE_DIR")}
	if _, err := fmt.Sscan(text, &g.rank, &g.after, &g.step); err != nil {
		panic(err)
	}
	return g
}

// add registers the parts that use the gate in reg, and returns the tasks that use it.
func (g *gate) add(reg *config.Registries) task.Tasks {
	reg.Components = []string{"gate"}
	if g.step == "quiesce" {
		reg.Envs = reg.Envs.With("CartPole-v1", func(cfg env.Config, n int) (env.Vec, error) {
			vec, err := classic.NewCartPole(cfg, n)
			return &gatedEnvs{carried{Vec: vec}, g}, err
		})
	}
	return task.Tasks{gatedTask{embodied.Task{}, g}, gatedTask{language.Reasoning{}, g}}
}

// at is called when rank reaches a step.
func (g *gate) at(step string, rank int64) {
	if step != g.step || rank != g.rank || g.plans.Load() < g.after || g.shut.Swap(true) {
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := os.WriteFile(filepath.Join(g.dir, "shut"), nil, 0o666); err != nil {
		panic(err)
	}
	for _, err := os.Stat(filepath.Join(g.dir, "open")); err != nil; _, err = os.Stat(filepath.Join(g.dir, "open")) {
		select {
		case <-signals:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// A gatedTask is a task with a gate. If the placement has the component gate, it launches that component.
type gatedTask struct {
	task.Task
	*gate
}

func (t gatedTask) Draft(cfg *config.Config, reg config.Registries, nodes []int) task.Draft {
	return gatedDraft{t.Task.Draft(cfg, reg, nodes), t.gate}
}

func (t gatedTask) Run(ctx context.Context, c *loop.Cluster) error {
	rank := int64(c.World().Rank())
	if rank == t.rank {
		t.here.Store(true)
	}
	run := t.Task.Run
	if loop.NewHybridComponentPlacement(c).Has("gate") {
		run = t.train
	}
	err := run(ctx, c)
	if errors.Is(err, spmd.Again) {
		t.at("end", rank)
	}
	return err
}

// train is embodied.Train with a component that goes through the gate.
func (t gatedTask) train(ctx context.Context, c *loop.Cluster) error {
	groups, err := embodied.LaunchEmbodied(ctx, c)
	if err != nil {
		return err
	}
	at := loop.NewHybridComponentPlacement(c).Strategy("gate")
	keepers, err := loop.Launch(ctx, c, at, func(_ context.Context, _ *loop.Cluster, m *spmd.Member) (*keeper, error) {
		return &keeper{gate: t.gate, member: m}, nil
	})
	if err != nil {
		return err
	}
	runner, err := embodied.NewEmbodiedRunner(c, groups)
	if err != nil {
		return err
	}
	for _, k := range keepers.Here() {
		runner.Carry("gate", k)
	}
	return loop.InOrder(ctx, runner.InitWorkers, runner.Run)
}

// A keeper is a member of the component gate.
type keeper struct {
	*gate
	member *spmd.Member
	packed bool
}

var _ loop.OwnWorker = (*keeper)(nil)

func (k *keeper) rank() int64 { return int64(k.member.World().Rank()) }

// Member returns the member of the keeper. After all workers have packed, the exchange first calls Member.
func (k *keeper) Member() *spmd.Member {
	if k.packed {
		k.at("send", k.rank())
	}
	return k.member
}

// Part returns nil, so that the exchange calls Pack.
func (k *keeper) Part() any { return nil }

// Pack packs an empty state.
func (k *keeper) Pack() (d tensor.Dict, err error) {
	k.at("pack", k.rank())
	k.packed = true
	d.Set("nothing", tensor.New(tensor.F32, 1))
	return d, nil
}

// Retire is called when this rank has sent and received all states.
func (k *keeper) Retire(any) error {
	k.at("retire", k.rank())
	return nil
}

// Unpack is called in the new world.
func (k *keeper) Unpack(tensor.Dict) error {
	k.at("takeover", k.rank())
	return nil
}

// gatedEnvs are environments of an asynchronous run. While a rank of the process quiesces, their step goes through the
// gate.
type gatedEnvs struct {
	carried
	*gate
}

func (e *gatedEnvs) Step(action tensor.Dict, seeds []uint64, out *env.Step) error {
	time.Sleep(10 * time.Millisecond) // slower than the actors, so that a step is always in progress
	if e.here.Load() {
		stacks := make([]byte, 1<<20)
		for stack := range bytes.SplitSeq(stacks[:runtime.Stack(stacks, true)], []byte("\n\n")) {
			if bytes.Contains(stack, []byte("quiesce(")) && bytes.Contains(stack, []byte("move(")) {
				e.at(e.step, e.rank)
			}
		}
	}
	return e.Vec.Step(action, seeds, out)
}

// A gatedDraft is a draft with a gate.
type gatedDraft struct {
	task.Draft
	*gate
}

func (d gatedDraft) Complete(cfg *config.Config, reg config.Registries) (*task.Plan, error) {
	p, err := d.Draft.Complete(cfg, reg)
	if err != nil {
		return nil, err
	}
	return d.gated(p), nil
}

// gated returns a copy of the plan p with functions that go through the gate.
func (g *gate) gated(p *task.Plan) *task.Plan {
	q := *p
	q.With = func(j *job.Job) *task.Plan { // called when the ranks of this process need a plan of a move
		g.plans.Add(1)
		if g.here.Load() {
			g.at("agree", g.rank)
		}
		return g.gated(p.With(j))
	}
	q.CheckFiles = func(rank int) error { // called before all ranks accept the move
		g.at("count", int64(rank))
		return p.CheckFiles(rank)
	}
	q.Open = func(w *spmd.World, own *loop.Holdings) (loop.Shared, error) { // called when the new world has begun
		g.at("launch", int64(w.Rank()))
		return p.Open(w, own)
	}
	return &q
}
