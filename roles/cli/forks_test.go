package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/loop"
)

// TestForks forks two seeds of a sweep. A fork with the settings of its parent has the parent's numbers, and forks of a
// seed are compared in pairs.
func TestForks(t *testing.T) {
	dir := t.TempDir()
	code, _, errs := run(t, append([]string{"sweep", "--seeds", "2", "runner.save_interval=2",
		"runner.keep_checkpoints=0"}, momentary(dir)...)...)
	test.Equal(t, code, loop.ExitOK, "%s", errs)
	parents := filepath.Join(dir, "grid-sweep")
	code, out, errs := run(t, "sweep", "--from", parents, "--step", "2", "actor.optim.lr=1e-3,3e-4")
	if code != loop.ExitOK || !strings.Contains(out, "4 of 4 runs are finished") ||
		!strings.Contains(out, "paired difference") {
		t.Fatalf("code %d\n%s%s", code, out, errs)
	}
	const metric = "train/critic/value_loss"
	forks := parents + "-forks"
	for _, seed := range []string{"seed_1", "seed_2"} {
		parent := test.Must(results.ReadRun(filepath.Join(parents, seed), metric))(t)
		one := test.Must(results.ReadRun(filepath.Join(forks, "lr=1e-3", seed), metric))(t)
		other := test.Must(results.ReadRun(filepath.Join(forks, "lr=3e-4", seed), metric))(t)
		test.Equal(t, one.Rows[0].Step, 3)
		test.Equal(t, one.Last().Values[metric], parent.Last().Values[metric])
		test.Equal(t, one.Last().Values[metric] == other.Last().Values[metric], false)
		test.Equal(t, one.Forked && !parent.Forked, true)
		dir, step, _ := runfolder.Parent(filepath.Join(forks, "lr=1e-3", seed))
		test.Equal(t, dir, filepath.Join(parents, seed))
		test.Equal(t, step, 2)
	}
	for _, tc := range []struct {
		words []string
		want  string
	}{
		{[]string{"--step", "2", "env.train.total_num_envs=32,64"}, "total_num_envs: 32 then, 64 now"},
		{[]string{"--step", "2", "actor.model.hidden_sizes=[8],[64,64]"}, "a fork may change rates"},
		{[]string{"--step", "3", "actor.optim.lr=1e-3,3e-4"}, "no such checkpoint: expected one of [2 4]"},
		{[]string{"--step", "4", "actor.optim.lr=1e-3,3e-4"}, "the run ends after step 4"},
		{[]string{"--step", "2", "--seeds", "2", "actor.optim.lr=1e-3,3e-4"}, "--seeds: expected no --from"},
	} {
		code, _, errs := run(t, append([]string{"sweep", "--from", parents}, tc.words...)...)
		if code != loop.ExitConfig || !strings.Contains(errs, tc.want) {
			t.Errorf("%q: code %d: %s, want %s", tc.words, code, errs, tc.want)
		}
	}
}
