package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/embodied"
	"github.com/rlinf/rlinf/roles/language"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A gate stops a rank in a step of a move. The rank says so by the file shut in dir. It goes on when there is the file
// open, or when its process gets a signal.
type gate struct {
	rank, move int64 // move counts from 1
	step, dir  string

	moves atomic.Int64 // that this process has begun
	here  atomic.Bool  // the rank is one of this process
	shut  atomic.Bool  // the rank has come to the step
}

// gated returns the tasks with a gate. text has its rank, move and step, and GATE_DIR in the environment its folder.
func gated(text string) task.Tasks {
	g := &gate{dir: os.Getenv("GATE_DIR")}
	if _, err := fmt.Sscan(text, &g.rank, &g.move, &g.step); err != nil {
		panic(err)
	}
	return task.Tasks{gatedTask{embodied.Task{}, g}, gatedTask{language.Reasoning{}, g}}
}

// at is called when rank comes to a step.
func (g *gate) at(step string, rank int64) {
	if step != g.step || rank != g.rank || g.moves.Load() != g.move || g.shut.Swap(true) {
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

// A gatedTask is a task with a gate. It launches a component of its own, gate, if that has a place.
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

var _ loop.Member = (*keeper)(nil)

func (k *keeper) rank() int64 { return int64(k.member.World().Rank()) }

// Member returns the member of the keeper. After all have packed, the exchange asks for it first.
func (k *keeper) Member() *spmd.Member {
	if k.packed {
		k.at("send", k.rank())
	}
	return k.member
}

// Part returns nothing, so the keeper is packed.
func (k *keeper) Part() any { return nil }

// Pack packs nothing of value.
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

// A gatedDraft is a draft with a gate.
type gatedDraft struct {
	task.Draft
	*gate
}

func (d gatedDraft) Complete(cfg *config.Config, reg config.Registries) (task.Plan, error) {
	p, err := d.Draft.Complete(cfg, reg)
	return gatedPlan{p, d.gate}, err
}

func (d gatedDraft) Move(p task.Plan) (task.Plan, error) {
	d.moves.Add(1)
	if d.here.Load() {
		d.at("agree", d.rank)
	}
	moved, err := d.Draft.Move(p.(gatedPlan).Plan)
	return gatedPlan{moved, d.gate}, err
}

// A gatedPlan is a plan with a gate.
type gatedPlan struct {
	task.Plan
	*gate
}

// CheckFiles is called before all ranks accept the move.
func (p gatedPlan) CheckFiles(rank int) error {
	p.at("count", int64(rank))
	return p.Plan.CheckFiles(rank)
}

// Open is called when the new world has begun.
func (p gatedPlan) Open(w *spmd.World, own *loop.Holdings) (loop.Shared, error) {
	p.at("launch", int64(w.Rank()))
	return p.Plan.Open(w, own)
}
