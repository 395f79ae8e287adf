package algo_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/policy"
)

type ownKeys struct {
	Coef float32 `yaml:"my_coef" doc:"a weight"`
}

func (k ownKeys) Check(want algo.Want) { want(k.Coef < 1, "my_coef", k.Coef, "a number < 1") }

// TestRegister: an algorithm gets the values of its keys, or their defaults, and has the kind of its registration.
func TestRegister(t *testing.T) {
	r := algo.Builtin()
	var got ownKeys
	build := func(_ algo.Setup, k ownKeys) (algo.Algorithm, error) {
		got = k
		return nil, nil
	}
	fits := func(policy.Policy) error { return errors.New("another policy") }
	algo.Register(r, "own", "plain", ownKeys{0.5}, build)
	algo.Register(r, "own", "replay", ownKeys{0.5}, build, algo.OffPolicy(fits))
	algo.Register(r, "own", "demos", ownKeys{0.5}, build, algo.Offline(fits))
	algo.Register(r, "own", "labels", ownKeys{0.5}, build, algo.Labelled(fits))

	s := algo.Setup{Config: algo.DefaultConfig()}
	s.Config.AdvType, s.Config.LossType = "own", "plain"
	if _, err := r.New(s); err != nil || got.Coef != 0.5 {
		t.Errorf("made with %v (%v), want the default 0.5", got, err)
	}
	s.Config.Own = params.New(ownKeys{0.25})
	if _, err := r.New(s); err != nil || got.Coef != 0.25 {
		t.Errorf("made with %v (%v), want 0.25", got, err)
	}
	s.Config.Own = params.New(ownKeys{2})
	if _, err := r.New(s); err == nil || !strings.Contains(err.Error(),
		"loss_type plain: my_coef: 2: expected a number < 1") {
		t.Errorf("a value that is refused: %v", err)
	}
	for _, c := range []struct {
		loss                         string
		offPolicy, offline, labelled bool
	}{{"plain", false, false, false}, {"replay", true, false, false}, {"demos", false, true, false},
		{"labels", true, false, true}} {
		k := algo.Config{AdvType: "own", LossType: c.loss}
		if r.OffPolicy(k) != c.offPolicy || r.Offline(k) != c.offline || r.Labelled(k) != c.labelled ||
			(r.Fits(k, nil) == nil) == (c.loss != "plain") {
			t.Errorf("%s: off-policy %v, offline %v, labelled %v, fits: %v", c.loss, r.OffPolicy(k), r.Offline(k),
				r.Labelled(k), r.Fits(k, nil))
		}
	}
	if got := r.Owner("my_coef"); got != "loss_type plain (with adv_type own)" {
		t.Errorf("my_coef belongs to %q", got)
	}
	if r.Owner("gamma") != "" || !r.Own("gae", "actor_critic").IsZero() || r.Own("own", "plain").IsZero() {
		t.Error("own keys where there are none, or none where there are some")
	}
}
