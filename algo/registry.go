package algo

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/policy"
)

// A Registry makes Algorithms by adv_type and loss_type.
type Registry struct{ entries []entry }

type entry struct {
	advType, lossType string
	build             func(Setup) (Algorithm, error)
	fits              func(policy.Policy) error // of algorithms that learn from transitions, else nil
	offline           bool                      // it learns from demonstrations alone
	labelled          bool                      // it learns the actions of experts
	own               params.Own                // its keys under algorithm, with their defaults
}

// Builtin returns the algorithms that come with rlinf. A new one is one file and one line here.
// Your own main may add others.
func Builtin() *Registry {
	r := &Registry{}
	r.Add("gae", "actor_critic", as(NewPPO))
	r.Add("gae", "actor", as(NewPPO))
	r.Add("gae", decoupledActorCritic, as(NewPPO))
	r.Add("gae", "a2c", as(NewPPO))
	r.Add("grpo", "actor", as(NewGRPO))
	r.Add("reinpp", "actor", as(NewReinforce))
	r.AddOffPolicy("embodied_sac", "embodied_sac", fitsSAC, as(NewSAC))
	r.AddOffPolicy("embodied_crossq", "embodied_crossq", fitsCrossQ, as(NewCrossQ))
	r.AddOffPolicy("embodied_dqn", "embodied_dqn", fitsDQN, as(NewDQN))
	r.AddOffPolicy("embodied_td3", "embodied_td3", fitsTD3, as(NewTD3))
	r.AddLabelled("embodied_dagger", "embodied_dagger", fitsBC, as(NewDAgger))
	r.AddOffline("offline_iql", "offline_iql", fitsIQL, as(NewIQL))
	r.AddOffline("embodied_bc", "embodied_bc", fitsBC, as(NewBC))
	return r
}

// as turns the constructor of one type of algorithm into one that returns an Algorithm.
func as[A Algorithm](build func(Setup) (A, error)) func(Setup) (Algorithm, error) {
	return func(s Setup) (Algorithm, error) { return build(s) }
}

// Add adds an algorithm. It panics if the pair is already there. kind is the data that the
// algorithm learns from, if these are not rollouts of the present policy.
func (r *Registry) Add(advType, lossType string, build func(Setup) (Algorithm, error), kind ...Kind) {
	if r.find(advType, lossType) != nil {
		panic(fmt.Sprintf("algo: %s with %s twice", advType, lossType))
	}
	e := entry{advType: advType, lossType: lossType, build: build}
	for _, k := range kind {
		k(&e)
	}
	r.entries = append(r.entries, e)
}

// Register adds an algorithm with keys of its own under algorithm; see package params. build gets
// the values of these keys. kind is that of Add.
func Register[P any](r *Registry, advType, lossType string, defaults P, build func(Setup, P) (Algorithm, error),
	kind ...Kind) {
	own := params.New(defaults)
	r.Add(advType, lossType, func(s Setup) (Algorithm, error) {
		p, err := params.Get(s.Config.Own, defaults)
		if err != nil {
			return nil, fmt.Errorf("algorithm: loss_type %s: %w", lossType, err)
		}
		return build(s, p)
	}, kind...)
	r.entries[len(r.entries)-1].own = own
}

// A Kind is the data that an algorithm learns from: OffPolicy, Offline or Labelled.
type Kind func(*entry)

// OffPolicy is the Kind of AddOffPolicy.
func OffPolicy(fits func(policy.Policy) error) Kind {
	return func(e *entry) { e.fits = fits }
}

// Offline is the Kind of AddOffline.
func Offline(fits func(policy.Policy) error) Kind {
	return func(e *entry) { e.fits, e.offline = fits, true }
}

// Labelled is the Kind of AddLabelled.
func Labelled(fits func(policy.Policy) error) Kind {
	return func(e *entry) { e.fits, e.labelled = fits, true }
}

// Pairs returns the adv_type and the loss_type of each algorithm, in the order in which they were
// added.
func (r *Registry) Pairs() (pairs [][2]string) {
	for _, e := range r.entries {
		pairs = append(pairs, [2]string{e.advType, e.lossType})
	}
	return pairs
}

// Own returns the keys that the algorithm of the pair has beyond Config's, with their defaults.
func (r *Registry) Own(advType, lossType string) params.Own {
	if e := r.find(advType, lossType); e != nil {
		return e.own
	}
	return params.Own{}
}

// Owner returns the name of the algorithm that has key as a key of its own, or "".
func (r *Registry) Owner(key string) string {
	for _, e := range r.entries {
		if e.own.Has(key) {
			return fmt.Sprintf("loss_type %s (with adv_type %s)", e.lossType, e.advType)
		}
	}
	return ""
}

// AddOffPolicy adds an algorithm that learns from transitions in a replay buffer. Its rollouts hold
// next_observation.<name>, [T,N,...], the observation after the step and before any auto-reset.
// They hold neither log-probs nor values. fits returns nil for a policy that the algorithm can
// train, else an error that names the required policy.
func (r *Registry) AddOffPolicy(advType, lossType string, fits func(policy.Policy) error,
	build func(Setup) (Algorithm, error)) {
	r.Add(advType, lossType, build, OffPolicy(fits))
}

// AddOffline adds an algorithm that learns from demonstrations alone (Setup.Demos). Its Update is
// called without a rollout, and its Prepare is never called. fits is that of AddOffPolicy.
func (r *Registry) AddOffline(advType, lossType string, fits func(policy.Policy) error,
	build func(Setup) (Algorithm, error)) {
	r.Add(advType, lossType, build, Offline(fits))
}

// AddLabelled adds an algorithm that learns from transitions, like those of AddOffPolicy. The
// actions of the transitions are those of the environments' experts. OffPolicyConfig.Dagger decides
// whether expert or policy acts.
func (r *Registry) AddLabelled(advType, lossType string, fits func(policy.Policy) error,
	build func(Setup) (Algorithm, error)) {
	r.Add(advType, lossType, build, Labelled(fits))
}

// Has reports whether there is an algorithm for c's pair.
func (r *Registry) Has(c Config) bool { return r.find(c.AdvType, c.LossType) != nil }

// Labelled reports whether c names an algorithm that learns the actions of experts.
func (r *Registry) Labelled(c Config) bool {
	e := r.find(c.AdvType, c.LossType)
	return e != nil && e.labelled
}

// Offline reports whether c names an algorithm that learns from demonstrations alone.
func (r *Registry) Offline(c Config) bool {
	e := r.find(c.AdvType, c.LossType)
	return e != nil && e.offline
}

// OffPolicy reports whether c names an algorithm that learns from a replay buffer.
func (r *Registry) OffPolicy(c Config) bool {
	e := r.find(c.AdvType, c.LossType)
	return e != nil && e.fits != nil && !e.offline
}

// Fits returns an error if the algorithm of c cannot train pol. The error names the policy that it
// can train.
func (r *Registry) Fits(c Config, pol policy.Policy) error {
	e := r.find(c.AdvType, c.LossType)
	switch {
	case e == nil:
		return nil
	case e.fits != nil:
		return e.fits(pol)
	}
	if p, ok := pol.(interface{ Explores() bool }); ok && !p.Explores() {
		return errors.New("a policy that draws its actions (action_head tokens)")
	}
	return nil
}

// Check checks that there is an algorithm for c's pair. It also checks the keys that only some
// algorithms have.
func (r *Registry) Check(c Config, want Want) {
	var adv, loss []string
	for _, e := range r.entries {
		if !slices.Contains(adv, e.advType) {
			adv = append(adv, e.advType)
		}
		if e.advType == c.AdvType {
			loss = append(loss, e.lossType)
		}
	}
	if !slices.Contains(adv, c.AdvType) {
		want(false, "adv_type", c.AdvType, "one of "+strings.Join(adv, ", "))
		return
	}
	want(slices.Contains(loss, c.LossType), "loss_type", c.LossType,
		fmt.Sprintf("one of %s (with adv_type %s)", strings.Join(loss, ", "), c.AdvType))
	if offline := r.Offline(c); offline || r.OffPolicy(c) {
		c.OffPolicy.Check(want, offline)
		want(!offline || c.OffPolicy.Demos.LoadPath != "", "demo_buffer.load_path", c.OffPolicy.Demos.LoadPath,
			"a file of demonstrations, as rlinf demos writes it (loss_type "+c.LossType+")")
	}
}

// New makes the algorithm that s.Config names. An unknown pair is an error that lists the known
// ones.
func (r *Registry) New(s Setup) (Algorithm, error) {
	e := r.find(s.Config.AdvType, s.Config.LossType)
	if e == nil {
		var known []string
		for _, e := range r.entries {
			known = append(known, e.advType+" with "+e.lossType)
		}
		return nil, fmt.Errorf("algorithm: no adv_type %s with loss_type %s, expected one of: %s",
			s.Config.AdvType, s.Config.LossType, strings.Join(known, ", "))
	}
	return e.build(s)
}

func (r *Registry) find(advType, lossType string) *entry {
	for i := range r.entries {
		if e := &r.entries[i]; e.advType == advType && e.lossType == lossType {
			return e
		}
	}
	return nil
}
