package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// TestMoved: a move changes the places of the named components alone. Its result can be moved again.
func TestMoved(t *testing.T) {
	for _, c := range []struct{ before, text, after string }{
		{"{actor: 0-3, env: 4, rollout: '0-1:0-3'}", "{env: 2-3}", "{actor: 0-3, env: 2-3, rollout: '0-1:0-3'}"},
		{"{'actor,env': 0-3, rollout: 4-7}", "{env: 4}", "{actor: 0-3, env: 4, rollout: 4-7}"},
		{"{actor: 0-3, 'env, rollout': 4-7}", "{'rollout,env': '0-1,3'}", "{actor: 0-3, 'rollout,env': '0-1,3'}"},
		{"{rollout: 0, env: 0, actor: 0}", "{actor: 1, rollout: 1, env: {node_group: node, placement: 0}}",
			"{rollout: 1, env: {node_group: [node], placement: 0}, actor: 1}"},
		{"{actor: all, env: 0, rollout: 0}", "{env: all}", "{actor: all, env: all, rollout: 0}"},
	} {
		cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, "~cluster.component_placement",
			"+cluster.component_placement="+c.before, "runner.max_epochs=7")
		m, err := cfg.Moved(rolestest.Registries(), c.text)
		if err != nil {
			t.Errorf("%s to %s: %v", c.before, c.text, err)
			continue
		}
		got := strings.ReplaceAll(m.PlacementText(), `"`, "'")
		if got != c.after || !m.Cluster.AllowIdleRanks || m.Runner.MaxEpochs != 7 {
			t.Errorf("%s to %s: %s, want %s", c.before, c.text, got, c.after)
		}
		again, err := cfg.Moved(rolestest.Registries(), m.PlacementText())
		if err != nil || again.PlacementText() != m.PlacementText() {
			t.Errorf("%s: %v, %v", m.PlacementText(), again, err)
		}
	}
}

// TestMovedMistakes: a text that is no placement of the run's components is refused with all its mistakes.
func TestMovedMistakes(t *testing.T) {
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole)
	for text, want := range map[string]string{
		"":                               "command line: cluster.component_placement: expected the places of comp",
		"4-7":                            "4-7: expected the places of components",
		"{}":                             "{}: expected the places of components",
		"{env: [":                        "{env: [: expected the places of components",
		"{evn: 0}":                       "cluster.component_placement.evn: evn: expected one of actor, rollout, env",
		"{reward: 0}":                    "reward: expected one of the components that the run has: actor, ",
		"{env: auto}":                    "auto: expected ranks: auto is for the start of a job",
		"{env: 0, env: 1}":               "expected the places of components",
		"{env: {placement: 0, node: 1}}": "unknown key",
	} {
		m, err := cfg.Moved(rolestest.Registries(), text)
		test.Fails(t, err, want, "%q: %v", text, m)
	}
	_, err := cfg.Moved(rolestest.Registries(), "{evn: 0, critic: 1, actor: ''}")
	if err == nil || strings.Count(err.Error(), "\n") < 2 {
		t.Errorf("%v: want three mistakes", err)
	}
}

// TestKeepMembers: members divide fewer ranks evenly, and more ranks than members stay a mistake.
func TestKeepMembers(t *testing.T) {
	nodes := make([]int, 8)
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, "~cluster.component_placement",
		"+cluster.component_placement={actor: 0-7, env: 0-2, rollout: 0}")
	before := test.Must(cfg.Place(nodes))(t)
	for text, want := range map[string]string{
		"{actor: 2-3}":                   "{actor: '2-3:0-7', env: 0-2, rollout: 0}",
		"{actor: '0,4-5', env: 6-7}":     "{actor: '0:0-2,4:3-5,5:6-7', env: '6:0-1,7', rollout: 0}",
		"{'actor,env': 1}":               "{actor: '1:0-7', env: '1:0-2', rollout: 0}",
		"{env: '1:0-2'}":                 "{actor: 0-7, env: '1:0-2', rollout: 0}",
		"{env: 0-3}":                     "{actor: 0-7, env: 0-3, rollout: 0}",
		"{rollout: 9}":                   "{actor: 0-7, env: 0-2, rollout: 9}",
		"{actor: 7, env: 7, rollout: 7}": "{actor: '7:0-7', env: '7:0-2', rollout: 7}",
	} {
		m := test.Must(cfg.Moved(rolestest.Registries(), text))(t)
		m.KeepMembers(before, nodes)
		test.Equal(t, strings.ReplaceAll(m.PlacementText(), `"`, "'"), want, "%s", text)
	}
}

// TestPlacementOverridden: a later key takes its components out of the earlier keys, whatever components these name
// together.
func TestPlacementOverridden(t *testing.T) {
	for _, c := range []struct{ file, override, want string }{
		{"{actor: 0-7, env: 0-3, rollout: 4-7}", `={"actor,env,rollout": 0-3}`, "{'actor,env,rollout': 0-3}"},
		{"{'actor,env,rollout': 0-3}", "={actor: 0, env: 1, rollout: 1}", "{actor: 0, env: 1, rollout: 1}"},
		{"{'actor, env, rollout': 0-3}", "={'rollout,env,actor': 0-1}", "{'rollout,env,actor': 0-1}"},
		{"{'actor, env, rollout': 0-3}", ".env=0", "{'actor,rollout': 0-3, env: 0}"},
		{"{'actor,env': 0-3, rollout: 0}", ".env,rollout=1", "{actor: 0-3, 'env,rollout': 1}"},
		{"{actor: 0-3, env: 0, rollout: 0}", "={env: 1}", "{actor: 0-3, env: 1, rollout: 0}"},
		{"{actor: 0-3, env: {node_group: node, placement: 0}, rollout: 0}", "={env: {placement: 1}}",
			"{actor: 0-3, env: {node_group: [node], placement: 1}, rollout: 0}"},
		{"{'actor,env': {node_group: node, placement: 0}, rollout: 0}", ".env.placement=1",
			"{actor: {node_group: [node], placement: 0}, rollout: 0, env: {node_group: [node], placement: 1}}"},
		{"{'actor, env': {node_group: node, placement: 0}, rollout: 0}", "={'env,actor': {placement: 1}}",
			"{rollout: 0, 'env,actor': {node_group: [node], placement: 1}}"},
		{"{'actor,env': {node_group: node, placement: 0}, rollout: 0}", "={'env,rollout': 1}",
			"{actor: {node_group: [node], placement: 0}, 'env,rollout': 1}"},
		{"{actor: 0-3, env: 0, rollout: 0}", "=auto", "{actor: auto, env: auto, rollout: auto}"},
		{"all", "={actor: 0, 'env,rollout': 1}", "{actor: 0, 'env,rollout': 1}"},
	} {
		cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, "~cluster.component_placement",
			"+cluster.component_placement="+c.file, "cluster.component_placement"+c.override)
		if got := strings.ReplaceAll(cfg.PlacementText(), `"`, "'"); got != c.want {
			t.Errorf("%s and %s: %s, want %s", c.file, c.override, got, c.want)
		}
	}
}

// TestPlacementRemoved: a component is removed from the key that places it with others, and it counts as given there.
func TestPlacementRemoved(t *testing.T) {
	load := func(override string) (string, error) {
		cfg, _, err := config.Load(rolestest.Registries(), rolestest.Cartpole, []string{"~cluster.component_placement",
			"+cluster.component_placement={'actor,rollout': 0-3, env: 0}", override}, false)
		return strings.ReplaceAll(cfg.PlacementText(), `"`, "'"), err
	}
	for _, override := range []string{"~cluster.component_placement.rollout",
		"~cluster.component_placement.rollout=0-3"} {
		if got, _ := load(override); got != "{actor: 0-3, env: 0}" {
			t.Errorf("%s: %s", override, got)
		}
	}
	for override, want := range map[string]string{
		"+cluster.component_placement.rollout=1":   "already given",
		"~cluster.component_placement.rollout=1":   "its value is not 1",
		"~cluster.component_placement.critic":      "it was not given",
		"~cluster.component_placement.env,rollout": "it was not given",
	} {
		test.Fails(t, test.Err(load(override)), want, "%s", override)
	}
}

// TestPlacementOfFiles: a file takes components out of the keys of its presets, as an override does.
func TestPlacementOfFiles(t *testing.T) {
	base := test.Must(filepath.Abs(rolestest.Cartpole))(t)
	for _, c := range []struct{ places, want string }{
		{`{"actor,env,rollout": 0-1}`, "{'actor,env,rollout': 0-1}"},
		{`{"env, rollout": 1}`, "{actor: 0-7, 'env, rollout': 1}"},
		{`{env: 1}`, "{actor: 0-7, env: 1, rollout: 4-7}"},
	} {
		dir := t.TempDir()
		text := test.Must(os.ReadFile(base))(t)
		job := "defaults: [base]\ncluster: {component_placement: " + c.places + "}\n"
		for name, text := range map[string]string{"base.yaml": string(text), "job.yaml": job} {
			test.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		cfg, _ := rolestest.MustLoad(t, filepath.Join(dir, "job.yaml"))
		test.Equal(t, strings.ReplaceAll(cfg.PlacementText(), `"`, "'"), c.want, "%s", c.places)
	}
}
