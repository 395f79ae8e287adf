package sweep

import (
	"reflect"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

func TestSplitGrid(t *testing.T) {
	axes, fixed, err := splitGrid([]string{"actor.optim.lr=1e-3, 3e-4", "runner.max_steps=5",
		"actor.model.hidden_sizes=[64,64],[8]",
		"~rollout", `cluster.component_placement.env="0-1,4"`, "+env.train.init_params={env_type: a,b}"})
	test.OK(t, err)
	if want := []axis{{"actor.optim.lr", []string{"1e-3", "3e-4"}},
		{"actor.model.hidden_sizes", []string{"[64,64]", "[8]"}}}; !reflect.DeepEqual(axes, want) {
		t.Errorf("axes %q, want %q", axes, want)
	}
	if want := []string{"runner.max_steps=5", "~rollout", `cluster.component_placement.env="0-1,4"`,
		"+env.train.init_params={env_type: a,b}"}; !slices.Equal(fixed, want) {
		t.Errorf("fixed %q, want %q", fixed, want)
	}
	var names []string
	for _, p := range points(axes) {
		names = append(names, pointName(p))
	}
	if want := []string{"lr=1e-3,hidden_sizes=[64,64]", "lr=1e-3,hidden_sizes=[8]", "lr=3e-4,hidden_sizes=[64,64]",
		"lr=3e-4,hidden_sizes=[8]"}; !slices.Equal(names, want) {
		t.Errorf("points %q, want %q", names, want)
	}
	if got, want := pointName([]string{"actor.optim.lr=1", "+actor.critic_optim.lr=2", "runner.ckpt_path=../a b"}),
		"actor.optim.lr=1,+actor.critic_optim.lr=2,ckpt_path=.._ab"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestCause: a failed run is reported without its warnings.
func TestCause(t *testing.T) {
	if got := cause("warning: a\nrank 0: wrong\n  key: value\nwarning: b\n"); got != "rank 0: wrong\n  key: value" {
		t.Errorf("%q", got)
	}
}
