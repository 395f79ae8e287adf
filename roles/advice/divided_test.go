package advice_test

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/results/resultstest"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/planner"
)

// TestAutoOfDividedModels: a plan keeps how models are divided, and places whole replicas. The metrics are those of the
// hand-placed job.
func TestAutoOfDividedModels(t *testing.T) {
	log := t.TempDir()
	layout := []string{"++actor.model.tensor_model_parallel_size=2", "++actor.model.pipeline_model_parallel_size=2",
		"++rollout.tensor_parallel_size=2", "++cluster.allow_idle_ranks=true"}
	p, said := answersAsByHand(t, log, 4, "{actor: auto, rollout: auto}", "{actor: 0-3, rollout: 0-1}", layout...)
	l, w := &p.Layout, &p.Profile.Work
	if len(l.Actor) != 4 || len(l.Rollout)%2 != 0 || w.Actors != 1 || l.Meshes["actor"].Members() != 4 ||
		w.Model.MicroBatches != 2 || w.Model.Layers != 2 || w.Model.Running == 0 {
		t.Errorf("%v, %+v", l, w)
	}
	if x := p.Found.Winner(); !strings.Contains(said, " (2 stages × 2 tensor parts), rollout ") || !(x.Seconds > 0) ||
		math.IsInf(x.Seconds, 0) {
		t.Errorf("%v s\n%s", x.Seconds, said)
	}
	t.Log(said)

	cfg, _ := rolestest.MustLoad(t, "../../internal/digests/testdata/reasoning.yaml", answers(t, log, "few",
		"{actor: auto, rollout: auto}", layout...)...)
	if _, err := advice.New(cfg, rolestest.Registries(), tasks(), make([]int, 2), false); err == nil ||
		!strings.Contains(err.Error(), "2 ranks, and 4 actors divide a model") {
		t.Errorf("two ranks for a model on four: %v", err)
	}
	cfg, _ = rolestest.MustLoad(t, "../../internal/digests/testdata/reasoning.yaml", answers(t, log, "half",
		"{actor: auto, rollout: 0-2}", layout...)...)
	if _, err := advice.New(cfg, rolestest.Registries(), tasks(), make([]int, 4), false); err == nil ||
		!strings.Contains(err.Error(), "rollout: 0-2: expected a multiple of 2 members") {
		t.Errorf("three rollout workers with half a model each: %v", err)
	}
}

// TestAutoDivides: a model that does not fit into a node as a whole is divided, and the plan says so. With as many
// models the metrics are those of actors with a whole model each.
func TestAutoDivides(t *testing.T) {
	log := t.TempDir()
	subject := func(name string, more ...string) *advice.Subject {
		cfg, _ := rolestest.MustLoad(t, "../../internal/digests/testdata/reasoning.yaml", answers(t, log, name,
			"{actor: auto, rollout: auto}", more...)...)
		s := test.Must(advice.New(cfg, rolestest.Registries(), tasks(), []int{0, 1, 2, 3}, false))(t)
		return s
	}
	s := subject("auto")
	m := &planner.Machine{Cores: 2, Nodes: 4, Copy: 1e9}
	whole, err := s.Tasks.Plan(s.Resolve(&planner.Placement{Nodes: s.Nodes, Actor: []int{0}, Rollout: []int{0}}),
		s.Registries, s.Nodes)
	test.OK(t, err)
	w := whole.Work()
	m.Memory = w.Bytes.Rank + w.Model.Parts[0].Actor*3/4 + w.Bytes.Copy
	note, err := s.Fit(m)
	if err != nil || !strings.Contains(note, "has no room for 4 models of the actors: there are 2,") {
		t.Errorf("%q, %v", note, err)
	}
	w.Actors = 2
	f := test.Must(s.Search(m, &planner.Profile{Work: w}))(t)
	l := f.Winner().Layout
	if l.Meshes["actor"].Members() != 2 || len(l.Actor) != 4 || l.Actor[0] == l.Actor[1] {
		t.Errorf("%v", l)
	}
	p := &advice.StartPlan{Identity: s.Identity(), Layout: l, Found: f}
	if !s.Serves(p) || subject("a", "++actor.model.tensor_model_parallel_size=1",
		"++actor.model.pipeline_model_parallel_size=1").Serves(p) {
		t.Errorf("%v serves its job: %v", l, s.Serves(p))
	}
	train(t, s.Resolve(&l), 4, "")
	hand, _ := rolestest.MustLoad(t, "../../internal/digests/testdata/reasoning.yaml", answers(t, log, "hand",
		"{actor: 0-1, rollout: 2}")...)
	train(t, hand, 3, "")
	got, want := resultstest.Untimed(t, filepath.Join(log, "auto")), resultstest.Untimed(t, filepath.Join(log, "hand"))
	if len(got) < 4 || !slices.Equal(got, want) {
		t.Errorf("divided\n%s\nwhole\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if note, err := subject("a").Fit(&planner.Machine{Cores: 2, Nodes: 4, Memory: 1}); note != "" || err != nil {
		t.Errorf("without any memory: %q, %v", note, err)
	}
	if _, err := subject("a", "++actor.model.hidden_size=65536", "++actor.model.intermediate_size=65536",
		"++actor.model.num_hidden_layers=64").Profile(t.Context(), m, nil); err == nil ||
		!strings.Contains(err.Error(), "a layer of the model needs more than ") {
		t.Errorf("a model for another host: %v", err)
	}
}

// TestShallow: a model that does not fit into the memory is measured with fewer layers, and costs as many layers as it
// has.
func TestShallow(t *testing.T) {
	cfg, _ := rolestest.MustLoad(t, "../../internal/digests/testdata/reasoning.yaml", answers(t, t.TempDir(), "a",
		"{actor: 0, rollout: 0}", "++actor.model.num_hidden_layers=8", "++data.rollout_batch_size=2")...)
	p, err := tasks().Plan(cfg, rolestest.Registries(), []int{0})
	test.OK(t, err)
	w := p.Work()
	asked := planner.ProbeOptions{Ranks: 2, Cores: 1, Budget: time.Second}
	whole := test.Must(p.Profile(t.Context(), asked))(t)
	asked.Room = w.Model.Parts[0].Actor * 3 / 4
	shallow := test.Must(p.Profile(t.Context(), asked))(t)
	if x := &shallow.Work; x.Model.Layers != 8 || x.GradientBytes != w.GradientBytes || !(x.New > 0) ||
		x.OptimiserSteps != whole.Work.OptimiserSteps || x.Bytes != w.Bytes {
		t.Errorf("%+v", x)
	}
	update, of := shallow.Time(planner.OpUpdate, 16).Seconds, whole.Time(planner.OpUpdate, 16).Seconds
	t.Logf("an update takes %.2g s by a shallow model, %.2g s by the whole one", update, of) // on quiet cores as much
	if !(update > 0) || math.IsInf(update, 0) {
		t.Errorf("an update takes %v s", update)
	}
	asked.Room = w.Model.Parts[0].Actor / 100
	_, err = p.Profile(t.Context(), asked)
	test.Fails(t, err, "a layer of the model needs", "no room for a layer")
}
