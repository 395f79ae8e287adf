package algo

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/policy"
)

// A Registry makes the Algorithm with a given adv_type and loss_type.
type Registry struct{ entries []entry }

type entry struct {
	advType, lossType string
	build             func(Setup) (Algorithm, error)
	fits              func(policy.Policy) error // see Trait; nil for an algorithm without a Trait
	offline           bool                      // the algorithm learns only from demonstrations
	labelled          bool                      // the algorithm learns the actions of experts
	own               params.Own                // the algorithm's own keys, with their defaults
	declare           func(*Setup, *Keys)       // declares the keys that the algorithm reads; see Reads
}

// Builtin returns the algorithms that come with rlinf. A new algorithm is one file, and one line here. Your own main
// can add more.
func Builtin() *Registry {
	r := &Registry{}
	r.Add("gae", "actor_critic", toAlgorithm(NewPPO), Reads(ppoKeys))
	r.Add("gae", "actor", toAlgorithm(NewPPO), Reads(ppoKeys))
	r.Add("gae", decoupledActorCritic, toAlgorithm(NewPPO), Reads(ppoKeys))
	r.Add("gae", "a2c", toAlgorithm(NewPPO), Reads(ppoKeys))
	r.Add("grpo", "actor", toAlgorithm(NewGRPO), Reads(grpoKeys))
	r.Add("reinpp", "actor", toAlgorithm(NewReinforce), Reads(reinforceKeys))
	r.Add("embodied_sac", "embodied_sac", toAlgorithm(NewSAC), OffPolicy(fitsSAC), Reads(sacKeys))
	r.Add("embodied_crossq", "embodied_crossq", toAlgorithm(NewCrossQ), OffPolicy(fitsCrossQ), Reads(crossQKeys))
	r.Add("embodied_dqn", "embodied_dqn", toAlgorithm(NewDQN), OffPolicy(fitsDQN), Reads(dqnKeys))
	r.Add("embodied_td3", "embodied_td3", toAlgorithm(NewTD3), OffPolicy(fitsTD3), Reads(td3Keys))
	r.Add("embodied_dagger", "embodied_dagger", toAlgorithm(NewDAgger), Labelled(fitsBC), Reads(daggerKeys))
	r.Add("offline_iql", "offline_iql", toAlgorithm(NewIQL), Offline(fitsIQL), Reads(iqlKeys))
	r.Add("embodied_bc", "embodied_bc", toAlgorithm(NewBC), Offline(fitsBC), Reads(bcKeys))
	return r
}

// toAlgorithm converts the constructor of one type of algorithm to a constructor that returns an Algorithm.
func toAlgorithm[A Algorithm](build func(Setup) (A, error)) func(Setup) (Algorithm, error) {
	return func(s Setup) (Algorithm, error) { return build(s) }
}

// Add adds an algorithm. It panics if the registry already has this pair of adv_type and loss_type. kind lists the
// algorithm's Traits. An algorithm that learns from rollouts of the present policy needs none.
func (r *Registry) Add(advType, lossType string, build func(Setup) (Algorithm, error), kind ...Trait) {
	if r.find(advType, lossType).build != nil {
		panic(fmt.Sprintf("algo: %s with %s twice", advType, lossType))
	}
	e := entry{advType: advType, lossType: lossType, build: build}
	for _, k := range kind {
		k(&e)
	}
	r.entries = append(r.entries, e)
}

// Register adds an algorithm that has its own keys in the algorithm section; see package params. build receives the
// values of these keys. kind is as in Add.
func Register[P any](r *Registry, advType, lossType string, defaults P, build func(Setup, P) (Algorithm, error),
	kind ...Trait) {
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

// A Trait sets a property of an algorithm. OffPolicy, Offline and Labelled set the data that it learns from. Their
// argument, the function fits, returns nil for a policy that the algorithm can train. For any other policy it returns
// an error that names the required policy. Reads sets the keys that the algorithm reads.
type Trait func(*entry)

// OffPolicy is the Trait of algorithms that learn from transitions in a replay buffer. Their rollouts hold
// next_observation.<name>, [T,N,...]: the observation after the step and before any auto-reset. The rollouts hold
// neither log-probs nor values.
func OffPolicy(fits func(policy.Policy) error) Trait { return func(e *entry) { e.fits = fits } }

// Offline is the Trait of algorithms that learn only from demonstrations (Setup.Demos). Their Update is called without
// a rollout, and their Prepare is never called.
func Offline(fits func(policy.Policy) error) Trait {
	return func(e *entry) { e.fits, e.offline = fits, true }
}

// Labelled is like OffPolicy, but the transitions have the actions of the environments' experts. OffPolicyConfig.Dagger
// decides whether the expert or the policy acts.
func Labelled(fits func(policy.Policy) error) Trait {
	return func(e *entry) { e.fits, e.labelled = fits, true }
}

// Pairs returns the adv_type and the loss_type of each algorithm, in the order in which the algorithms were added.
func (r *Registry) Pairs() (pairs [][2]string) {
	for _, e := range r.entries {
		pairs = append(pairs, [2]string{e.advType, e.lossType})
	}
	return pairs
}

// Own returns the keys that the given algorithm adds to the keys of Config, with their defaults.
func (r *Registry) Own(advType, lossType string) params.Own { return r.find(advType, lossType).own }

// Owner returns the adv_type and loss_type, as one name, of the algorithm whose own keys include key. It returns "" if
// there is none.
func (r *Registry) Owner(key string) string {
	for _, e := range r.entries {
		if e.own.Has(key) {
			return fmt.Sprintf("loss_type %s (with adv_type %s)", e.lossType, e.advType)
		}
	}
	return ""
}

// Has reports whether r has the algorithm that c names.
func (r *Registry) Has(c Config) bool { return r.find(c.AdvType, c.LossType).build != nil }

// Labelled reports whether c names an algorithm that learns the actions of experts.
func (r *Registry) Labelled(c Config) bool { return r.find(c.AdvType, c.LossType).labelled }

// Offline reports whether c names an algorithm that learns only from demonstrations.
func (r *Registry) Offline(c Config) bool { return r.find(c.AdvType, c.LossType).offline }

// OffPolicy reports whether c names an algorithm that learns from a replay buffer.
func (r *Registry) OffPolicy(c Config) bool {
	e := r.find(c.AdvType, c.LossType)
	return e.fits != nil && !e.offline
}

// Fits returns an error if the algorithm that c names cannot train pol. The error names the required policy.
func (r *Registry) Fits(c Config, pol policy.Policy) error {
	e := r.find(c.AdvType, c.LossType)
	switch {
	case e.build == nil:
		return nil
	case e.fits != nil:
		return e.fits(pol)
	}
	if p, ok := pol.(interface{ Explores() bool }); ok && !p.Explores() {
		return errors.New("a policy that draws its actions (action_head tokens)")
	}
	return nil
}

// Check tells want whether r has the algorithm that c names. For an algorithm that learns from transitions, Check also
// validates c.OffPolicy.
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

// New makes the algorithm that s.Config names. If there is no such algorithm, the error lists the known pairs of
// adv_type and loss_type.
func (r *Registry) New(s Setup) (Algorithm, error) {
	e := r.find(s.Config.AdvType, s.Config.LossType)
	if e.build == nil {
		var known []string
		for _, e := range r.entries {
			known = append(known, e.advType+" with "+e.lossType)
		}
		return nil, fmt.Errorf("algorithm: no adv_type %s with loss_type %s, expected one of: %s",
			s.Config.AdvType, s.Config.LossType, strings.Join(known, ", "))
	}
	return e.build(s)
}

// find returns the entry with the given advType and lossType, or the zero entry if there is none.
func (r *Registry) find(advType, lossType string) entry {
	for _, e := range r.entries {
		if e.advType == advType && e.lossType == lossType {
			return e
		}
	}
	return entry{}
}
