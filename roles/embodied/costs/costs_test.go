package costs

import (
	"os"
	"testing"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/planner/probe"
)

// planOf returns the plan of a small job on ranks of one node.
func planOf(t *testing.T, ranks int, more ...string) *plan.Plan {
	t.Helper()
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, append([]string{"env.train.max_steps_per_rollout_epoch=8",
		"env.train.total_num_envs=16", "actor.micro_batch_size=8", "actor.global_batch_size=64",
		"actor.model.hidden_sizes=[8]", "cluster.allow_idle_ranks=true", "cluster.component_placement.actor=0-1",
		"cluster.component_placement.env=0", "cluster.component_placement.rollout=0"}, more...)...)
	p, err := plan.NewDraft(cfg, rolestest.Registries(), make([]int, ranks)).Complete(cfg, rolestest.Registries())
	test.OK(t, err)
	return p
}

// TestProfile: a profile has all operations at three sizes, and what an update sums.
func TestProfile(t *testing.T) {
	p := planOf(t, 2)
	f := test.Must(Profile(t.Context(), p, planner.ProbeOptions{Ranks: 2, Cores: 2, Budget: 300 * time.Millisecond}))(t)
	sizes := map[string][]int{}
	for _, c := range f.Costs {
		sizes[c.Op] = append(sizes[c.Op], c.Rows)
		if !(c.Seconds > 0) || !(c.Busy > 0) || c.Busy > c.Seconds {
			t.Errorf("%+v", c)
		}
	}
	for _, op := range []string{planner.OpStep, planner.OpInfer} {
		if got := sizes[op]; len(got) != 3 || got[0] != 2 || got[2] != 16 {
			t.Errorf("%s at %v rows, want 2, one between, and 16", op, got)
		}
	}
	if got := sizes[planner.OpUpdate]; len(got) != 1 || got[0] != 64 {
		t.Errorf("updates of %v samples, want those of one actor, 64", got)
	}
	w := &f.Work
	if w.OptimiserSteps != 2 || w.GradientBytes != 4*int64(p.NumParams()) || w.SmallSums < 1 {
		t.Errorf("%d sums of %d bytes and %d small ones, want 2 of %d", w.OptimiserSteps, w.GradientBytes, w.SmallSums,
			4*p.NumParams())
	}
	if len(f.Crowd) != 2 || f.Crowd[0].Op != planner.OpInfer || f.Crowd[1].Op != planner.OpUpdate {
		t.Errorf("crowd %v, want inference and update", f.Crowd)
	}
}

// TestProfileOfFurtherComponents: a profile also has what reward and inference workers do.
func TestProfileOfFurtherComponents(t *testing.T) {
	p := planOf(t, 2, "+cluster.component_placement.reward=0", "+cluster.component_placement.inference=1",
		"+reward.reward_type=potential", "+reward.potential.indices=[2]", "+reward.potential.target=[0]",
		"+algorithm.recompute_logprobs=true")
	f := test.Must(Profile(t.Context(), p, planner.ProbeOptions{Ranks: 2, Cores: 1, Budget: 200 * time.Millisecond}))(t)
	for _, op := range []string{planner.OpScore, planner.OpLogProbs} {
		if took := f.Time(op, 16); !(took.Seconds > 0) {
			t.Errorf("%s takes %v", op, took)
		}
	}
	if b := &f.Work.Bytes; b.Transition < 4 || b.Inference != 4*int64(p.NumParams()) {
		t.Errorf("%+v", b)
	}
}

// TestProfileOfSimulators: simulators in programs of their own are measured, with their memory and processor time, and
// end with the profile.
func TestProfileOfSimulators(t *testing.T) {
	hub := external.NewHub(t.Output(), 0)
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, "env.train.max_steps_per_rollout_epoch=8",
		"env.train.total_num_envs=16", "actor.micro_batch_size=8", "actor.global_batch_size=64",
		"actor.model.hidden_sizes=[8]", "cluster.component_placement={actor: 0-1, env: 0, rollout: 0}",
		"env.train.env_type=external", "env.train.external.command=["+os.Args[0]+"]", "env.train.external.n=2")
	var err error
	if cfg.Env.Train.External.Greeting, err = hub.Ask(cfg.Env.Train); err != nil {
		t.Fatal(err)
	}
	reg := rolestest.Registries()
	reg.Envs = reg.Envs.With(env.ExternalID, hub.New)
	p, err := plan.NewDraft(cfg, reg, make([]int, 2)).Complete(cfg, reg)
	test.OK(t, err)
	f, err := Profile(t.Context(), p, planner.ProbeOptions{Ranks: 2, Cores: 2, Budget: 300 * time.Millisecond})
	test.OK(t, err)
	if s := f.Time(planner.OpStep, 16); !(s.Seconds > 0) || !(s.Busy > 0) || s.Busy > s.Seconds {
		t.Errorf("a step takes %+v", s)
	}
	if f.Work.Bytes.Simulator < 1<<10 {
		t.Errorf("a simulator takes %d bytes", f.Work.Bytes.Simulator)
	}
	test.Check(t, hub.Close())
	if left := probe.ChildrenMemory(); left > 0 {
		t.Errorf("%d bytes of simulators are left", left)
	}
}

// TestWaitsTakeNoCore: a step that waits leaves its core to others.
func TestWaitsTakeNoCore(t *testing.T) {
	p := planOf(t, 2, "env.train.step_delay=5ms")
	f := test.Must(Profile(t.Context(), p, planner.ProbeOptions{Ranks: 2, Cores: 1, Budget: 300 * time.Millisecond}))(t)
	if s := f.Time(planner.OpStep, 16); s.Seconds < 5e-3 || s.Busy > s.Seconds/2 {
		t.Errorf("a step of 5 ms takes %v s, %v s of a core", s.Seconds, s.Busy)
	}
}

// TestMemory: the planner's memory of a layout is that of the job's plan, but for padding. The planner does not know
// that actors and rollout workers of a rank share rollouts.
func TestMemory(t *testing.T) {
	p := planOf(t, 2, "cluster.component_placement={actor: '0:0-1', env: 0, rollout: 1}",
		"rollout.pipeline_stage_num=2")
	w := WorkOf(p)
	l := planner.Placement{Nodes: make([]int, 2), Actor: []int{0, 0}, Env: []int{0}, Rollout: []int{1}, Stages: 2}
	got := planner.Estimate(&planner.Machine{Cores: 2, Nodes: 1, Copy: 1e9}, &planner.Profile{Work: w}, l).Memory
	want := p.MemoryOf(0).Sum() + p.MemoryOf(1).Sum()
	if float64(got) < 0.9*float64(want) || float64(got) > 1.1*float64(want) {
		t.Errorf("%d bytes, the plan of the job has %d", got, want)
	}
}

// TestRoutes: the planner divides environments as the plan of a job does.
func TestRoutes(t *testing.T) {
	for _, c := range []struct{ env, rollout, stages string }{
		{"0", "0", "1"}, {"0-1", "0-1", "2"}, {"0-3", "0-1", "1"}, {"0-1", "0-3", "2"}, {"0-1:0-3", "1-2", "4"},
	} {
		p := planOf(t, 4, "cluster.component_placement.env="+c.env, "cluster.component_placement.rollout="+c.rollout,
			"rollout.pipeline_stage_num="+c.stages)
		l := planner.Placement{Nodes: make([]int, 4), Actor: []int{0, 1}, Env: p.Placement.Ranks("env"),
			Rollout: p.Placement.Ranks("rollout"), Stages: p.Train.Stages}
		got := planner.RoutesOf(p.Train.Envs, &l)
		if len(got) != len(p.Train.Routes) {
			t.Errorf("%v: %d routes, want %d", c, len(got), len(p.Train.Routes))
			continue
		}
		for i, r := range p.Train.Routes {
			want := planner.Route{Env: r.Env, Rollout: r.Rollout, Stage: r.Stage, First: r.Lo, Rows: r.Hi - r.Lo,
				Inline: p.RunsInline(p.Train, r, true)}
			test.Equal(t, got[i], want, "%v: route %d", c, i)
		}
	}
}

// TestPhases: predictions name the phases as metrics do.
func TestPhases(t *testing.T) {
	f := planner.Estimate(&planner.Machine{Cores: 1, Nodes: 1, Copy: 1e9}, &planner.Profile{Work: WorkOf(planOf(t, 2))},
		planner.Placement{Nodes: []int{0}, Actor: []int{0, 0}, Env: []int{0}, Rollout: []int{0}, Stages: 1})
	for i, ph := range f.Phases {
		if want := loop.Phases[loop.SyncWeights+loop.Phase(i)]; ph.Name != want {
			t.Errorf("phase %d is %s, want %s", i, ph.Name, want)
		}
	}
}
