package env

import (
	"errors"
	"testing"

	"github.com/rlinf/rlinf/params"
)

type ownKeys struct {
	Wind float32 `yaml:"wind" doc:"how strong it is"`
}

// TestRegister: an environment gets the values of its keys, or their defaults. An environment that replaces it has
// none of these keys.
func TestRegister(t *testing.T) {
	r := NewRegistry()
	var got ownKeys
	Register(r, "Windy", ownKeys{3}, func(_ Config, k ownKeys, _ int) (Vec, error) {
		got = k
		return nil, errors.ErrUnsupported
	})
	cfg := DefaultConfig()
	cfg.EnvType = "Windy"
	if _, err := r.New(cfg, 1); !errors.Is(err, errors.ErrUnsupported) || got.Wind != 3 {
		t.Errorf("made with %v (%v), want the default 3", got, err)
	}
	cfg.InitParams.Own = params.New(ownKeys{4})
	if _, err := r.New(cfg, 1); !errors.Is(err, errors.ErrUnsupported) || got.Wind != 4 {
		t.Errorf("made with %v (%v), want 4", got, err)
	}
	other := r.With("Windy", func(Config, int) (Vec, error) { return nil, errors.ErrUnsupported })
	if !other.Own("Windy").IsZero() || other.PartWith("wind") != "" {
		t.Error("what is in its place has its keys")
	}
	if r.Own("Windy").IsZero() || r.PartWith("wind") != "Windy" {
		t.Errorf("wind belongs to %q after With", r.PartWith("wind"))
	}
}
