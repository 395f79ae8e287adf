package rolestest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/policy"
	policies "github.com/rlinf/rlinf/policy/all"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/tensor"
)

// Registries returns the built-in registries, with all environments.
func Registries() config.Registries {
	return config.Registries{Envs: all.Registry(), Policies: policies.Registry(), Algorithms: algo.Builtin(),
		Rewards: reward.Builtin()}
}

// Cartpole is the path of the CartPole configuration, relative to a package below roles.
const Cartpole = "../config/testdata/cartpole.yaml"

// MustLoad loads a configuration, and returns its warnings, too. The test fails if the configuration has mistakes.
func MustLoad(t testing.TB, path string, overrides ...string) (*config.Config, []string) {
	t.Helper()
	c, warnings, err := config.Load(Registries(), path, overrides, false)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return c, warnings
}

// Expect fails the test unless got and want have the same lines. The message calls these lines name.
func Expect(t *testing.T, name string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\ngot\n  %s\nwant\n  %s", name, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// ErrorLines returns the lines of an error. It returns nil if err is nil.
func ErrorLines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// EnvConfig returns the default configuration of n environments of type id, with seed 1.
func EnvConfig(id string, n int) env.Config {
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.TotalNumEnvs, cfg.Seed = id, n, 1
	return cfg
}

// NewPolicy makes an MLP policy for the environments of cfg. If adjust is not nil, it adjusts the policy's
// configuration.
func NewPolicy(t testing.TB, cfg env.Config, seed uint64, adjust func(*policy.Config)) policy.Policy {
	t.Helper()
	net := policy.DefaultConfig()
	net.HiddenSizes = []int{64, 64}
	if adjust != nil {
		adjust(&net)
	}
	vec, err := all.Registry().New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	pol, err := policy.NewMLP(net, vec.Spec(), seed, tensor.Heap)
	if err != nil {
		t.Fatal(err)
	}
	return pol
}

// SameDict returns an error unless two Dicts have equal tensors. The order of their names does not matter.
func SameDict(got, want tensor.Dict) error {
	for i := range want.Len() {
		name, w := want.Entry(i)
		g, ok := got.Get(name)
		if !ok || !g.SameShape(w) || !bytes.Equal(g.Bytes(), w.Bytes()) {
			return fmt.Errorf("%s is %v %v, want %v %v", name, g, g.Bytes(), w, w.Bytes())
		}
	}
	if got.Len() != want.Len() {
		return fmt.Errorf("%v, want %v", got, want)
	}
	return nil
}

// WriteDemos writes demos to a file, and returns its path.
func WriteDemos(t testing.TB, demos tensor.Dict) string {
	t.Helper()
	var b bytes.Buffer
	if err := tensor.WriteSafetensors(&b, demos, nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "demos.safetensors")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// AddAll adds the tensors of src to dst.
func AddAll(dst *tensor.Dict, src tensor.Dict) {
	for i := range src.Len() {
		dst.Set(src.Entry(i))
	}
}
