package plan

import (
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/job"
)

// TestPeopleAndRobotsRefused: chunks of choices with a person, chunks with a scripted person, and an evaluation that
// needs the robot of the training are errors. Other jobs are not.
func TestPeopleAndRobotsRefused(t *testing.T) {
	t.Parallel()
	const greeting = `{"v": 1, "name": "arm", "obs": [{"name": "state", "kind": "box", "dtype": "f32", "shape": [1]}],
		"action": {"kind": "box", "dtype": "f32", "shape": [1]}`
	choices := env.Space{Kind: env.Discrete, Nvec: []int{2}}
	for _, c := range []struct {
		name   string
		change func(d *Draft)
		want   string // "": no error
	}{
		{"choices", func(d *Draft) { d.Spec.Action, d.Chunks = choices, 1 }, ""},
		{"chunks", func(d *Draft) {}, ""},
		{"chunks of choices", func(d *Draft) { d.Spec.Action = choices },
			"expected 1: a person may act in arm, whose actions are choices"},
		{"chunks of choices alone", func(d *Draft) { d.Spec.Action, d.Spec.Intervene = choices, false }, ""},
		{"chunks with a scripted person", func(d *Draft) { d.Config.Env.Train.Person.Share = 0.1 },
			"expected 1: env.train.person acts in single steps"},
		{"no robot", func(d *Draft) { d.Config.Env.Train.External.Greeting = greeting + "}" }, ""},
		{"a robot", func(d *Draft) { d.Config.Env.Train.External.Greeting = greeting + `, "period": 0.1}` },
			"expected -1: the training holds the robot arm; rlinf eval evaluates it afterwards"},
		{"another robot", func(d *Draft) {
			d.Config.Env.Train.External.Greeting = greeting + `, "period": 0.1}`
			d.Config.Env.Eval.External.Command = env.Command{"other"}
		}, ""},
		{"two programs for a robot", func(d *Draft) {
			e := &d.Config.Env.Train
			e.EnvType, e.TotalNumEnvs, e.External.Command = env.ExternalID, 16, env.Command{"arm"}
			e.External.Greeting = greeting + `, "num_envs": 1, "period": 0.1}`
			d.Config.Env.Eval.External.Command = env.Command{"other"}
		}, "env.train.total_num_envs: 16: expected a number that one program plays: 16 would move one robot"},
	} {
		cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole)
		d := newTestDraft(cfg, 1, 1, 1)
		d.Placement = test.Must(cfg.Place(make([]int, 8)))(t)
		d.Spec, d.Chunks = env.Spec{Name: "arm", Intervene: true, Action: env.Space{Kind: env.Box}}, 2
		c.change(d)
		d.checkInterventions()
		d.checkRobot()
		d.checkOutside()
		err := d.found.Err()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestRoomForPeople: an actor's memory has room for what people do, and too much of it is an error of its key.
func TestRoomForPeople(t *testing.T) {
	t.Parallel()
	cfg, _ := rolestest.MustLoad(t, "../../configs/pendulum_sac.yaml", "algorithm.demo_buffer.sample_window_size=100",
		"algorithm.replay_buffer.sample_window_size=100")
	p := test.Must(newPlan(cfg, rolestest.Registries(), []int{0}))(t)
	alone := p.MemoryOf(0).Replay
	if note := strings.Join(p.notes, "\n"); !strings.Contains(note, "demo_buffer.sample_window_size: no effect") {
		t.Errorf("without people: %q", note)
	}
	p.Spec.Intervene = true
	room := int64(p.interventionBytes(100))
	if got := p.MemoryOf(0).Replay; got <= alone+room*9/10 || room < alone {
		t.Errorf("%d bytes with people, %d without", got, alone)
	}
	test.OK(t, p.checkReplay(1, job.Available{Free: 2 * room, Where: "a test"}))
	test.Fails(t, p.checkReplay(1, job.Available{Free: room - 1, Where: "a test"}),
		"algorithm.demo_buffer.sample_window_size: 100: expected fewer")
	test.Fails(t, p.checkReplay(1, job.Available{Free: 2*room - 1, Where: "a test"}),
		"algorithm.replay_buffer.sample_window_size: 100: expected at most 9")
}
