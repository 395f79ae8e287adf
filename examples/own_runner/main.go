// Command own_runner has its own training loop, with RLinf's phases, and its own group of workers, "monitor". In each
// iteration, an actor sends the parameters through a channel to member 0 of the group. Member 0 computes the largest
// change of a parameter, and sends it to member 1, which logs it.
//
// The program can move to other ranks while it runs (rlinf scale). To move, it returns the error of Next. The monitors'
// state moves with it.
//
//	go run ./examples/own_runner -c examples/own_runner/cartpole.yaml
package main

import (
	"context"
	"os"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

func main() {
	os.Exit(roles.RunMovable(os.Args, roles.Registries{Envs: all.Registry(), Policies: policy.Builtin(),
		Algorithms: algo.Builtin(), Rewards: reward.Builtin(), Components: []string{"monitor"}}, train))
}

// A monitor is a member of the group "monitor".
type monitor struct {
	member *spmd.Member
	before []float32 // on member 0, the parameters of the previous iteration
}

var _ roles.Member = (*monitor)(nil)

// Member returns the member of the monitor.
func (m *monitor) Member() *spmd.Member { return m.member }

// Part returns nil, because a move makes new monitors.
func (m *monitor) Part() any { return nil }

// Pack returns the state that a move carries to the new monitor.
func (m *monitor) Pack() (d tensor.Dict, err error) {
	d.Set("before", tensor.FromF32(m.before, len(m.before)))
	return d, nil
}

// Unpack restores what Pack returned.
func (m *monitor) Unpack(d tensor.Dict) error {
	m.before = append(m.before[:0], d.Must("before").F32()...)
	return nil
}

// Retire does nothing, because the monitor runs nothing in the background.
func (m *monitor) Retire(any) error { return nil }

func newMonitor(_ context.Context, _ *roles.Cluster, m *spmd.Member) (*monitor, error) {
	return &monitor{member: m}, nil
}

// compare receives the parameters, and sends their largest change to member 1.
func (m *monitor) compare(ctx context.Context, from *spmd.Receiver) error {
	item, err := from.Get(ctx)
	if err != nil {
		return err
	}
	now, change := item.Dict.Must("parameters").F32(), tensor.New(tensor.F32, 1)
	for i := range m.before {
		change.F32()[0] = max(change.F32()[0], now[i]-m.before[i], m.before[i]-now[i])
	}
	m.before = append(m.before[:0], now...)
	from.Release(item)
	var message tensor.Dict
	message.Set("change", change)
	return m.member.SendTo(ctx, "monitor", 1, message)
}

func train(ctx context.Context, cluster *roles.Cluster) error {
	groups, err := roles.LaunchEmbodied(ctx, cluster) // examples/embodied launches them one by one
	if err != nil {
		return err
	}
	at := roles.NewHybridComponentPlacement(cluster).Strategy("monitor")
	at.Direct = []string{"monitor"} // its members send messages to each other
	monitors, err := roles.Launch(ctx, cluster, at, newMonitor)
	if err != nil {
		return err
	}
	layout := tensor.NewLayout(tensor.Field{Name: "parameters", DType: tensor.F32, Shape: []int{cluster.NumParams()}})
	channel, err := spmd.NewChannel(cluster.World(), spmd.ChannelSpec{Name: "parameters", From: groups.Actor.Spec(),
		To: monitors.Spec(), ItemBytes: layout.Size()})
	if err != nil {
		return err
	}
	runner, err := roles.NewEmbodiedRunner(cluster, groups)
	if err != nil {
		return err
	}
	var here []roles.Member
	for _, m := range monitors.Here() {
		here = append(here, m)
	}
	runner.Carry("monitor", here...)
	watch := func(ctx context.Context) error {
		spmd.Call(groups.Actor.ExecuteOn(0), ctx, "show", func(ctx context.Context, a *roles.ActorWorker) (any, error) {
			to, err := channel.Sender(a.Member(), spmd.Key{To: 0})
			if err != nil {
				return nil, err
			}
			item, err := to.Take(ctx, layout)
			if err != nil {
				return nil, err
			}
			copy(item.Dict.Must("parameters").F32(), a.Policy().Params().Data)
			return nil, to.Put(ctx, item)
		})
		spmd.Call(monitors.ExecuteOn(0), ctx, "compare", func(ctx context.Context, m *monitor) (any, error) {
			from, err := channel.Receiver(m.member, spmd.Key{To: 0})
			if err != nil {
				return nil, err
			}
			return nil, m.compare(ctx, from)
		})
		receive := func(ctx context.Context, m *monitor) (tensor.Dict, error) {
			return m.member.RecvFrom(ctx, "monitor", 0, tensor.Dict{})
		}
		received, err := spmd.Call(monitors.ExecuteOn(1), ctx, "receive", receive).Wait(ctx)
		for _, r := range received { // on the rank of member 1
			runner.Log("monitor/largest_change", float64(r.Value.Must("change").F32()[0]))
		}
		return err
	}
	if err := runner.InitWorkers(ctx); err != nil {
		return err
	}
	for {
		more, err := runner.Next(ctx) // writes metrics and checkpoints, and moves
		if err != nil || !more {
			return err
		}
		for _, phase := range []func(context.Context) error{runner.UpdateRolloutWeights, runner.GenerateRollouts,
			runner.ComputeAdvantagesAndReturns, runner.RunTraining, watch, runner.EvaluateIfDue} {
			if err := phase(ctx); err != nil {
				return err
			}
		}
	}
}
