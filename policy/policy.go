package policy

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A Policy maps observations to actions and, where it has a critic, to values. Any number of users share the
// parameters, and each has a Work of its own. Calls of Forward may run at the same time, unless something writes the
// parameters. Observations are Dicts like env.Step.Obs: one [N, shape...] per named observation.
type Policy interface {
	Spaces() (obs []env.Field, action env.Space)
	NewWork(maxRows int) Work
	// Forward chooses actions for the N rows of obs. The result is valid until w's next call.
	Forward(w Work, obs tensor.Dict, mode Mode, noise Noise) (Act, error)
	// Evaluate computes log-probs by the current parameters for actions taken earlier, [N,C,A], and
	// keeps what Backward needs; obs and action must not change before that.
	Evaluate(w Work, obs tensor.Dict, action tensor.Tensor) (Eval, error)
	// Value returns only the values, [N,V].
	Value(w Work, obs tensor.Dict) (tensor.Tensor, error)
	// Backward adds to Params().Grad the gradient of a loss, given its derivatives by the results of
	// Evaluate, which must be the last call on w. ready, unless nil, is called as soon as a range
	// [lo,hi) of the flat gradient is final. Ranges do not overlap, cover everything that is trained,
	// and come in the same order on every call.
	Backward(w Work, g Grad, ready func(lo, hi int)) error
	Params() *nn.Params[float32]
}

// A Work holds one user's activations; only the Policy that made it can read it.
type Work interface{}

// A Mode is how Forward chooses actions.
type Mode uint8

const (
	Sample        Mode = iota // draw from the distribution, for training
	Deterministic             // take the mode of the distribution, for evaluation
)

// Noise names the random numbers of one Forward. Row n draws from the streams of (Seed, Env[n], Step[n]) alone, so an
// environment gets the same noise in every batch, worker and rank. Mode Deterministic needs no noise.
type Noise struct {
	Seed uint64
	Env  []uint64 // global index of each row's environment
	Step []uint64 // steps each environment has taken before this one
}

// Stream returns the stream of random numbers of a row.
func (x Noise) Stream(row int) philox.Stream {
	return philox.New(x.Seed, philox.Action, x.Env[row], x.Step[row])
}

// Act is the result of Forward. L is set by Config.LogProbType: 1, C or C·A.
type Act struct {
	Action tensor.Tensor // [N,C,A], F32 or I32 as the action space says; C is the number of actions in a chunk
	// the actions that the environment gets; zero Tensor: Action, clipped to the bounds of the space
	Bounded tensor.Tensor
	LogProb tensor.Tensor // F32 [N,L]
	Value   tensor.Tensor // F32 [N,V]; zero Tensor without a critic
	// F32 [N,M]: the hidden state for the rows' next observations; zero Tensor: none (Recurrent)
	Hidden tensor.Tensor
	// F32 [N,K]: the chain of steps that made the action, with the log-prob LogProb; zero Tensor: none
	// (Denoiser)
	Latent tensor.Tensor
}

// Feed sets dst, [N,C,A], to the actions that an environment with the space s gets.
func (a Act) Feed(s env.Space, dst tensor.Tensor) {
	if !a.Bounded.IsZero() {
		dst.CopyFrom(a.Bounded)
		return
	}
	ClipAction(s, dst, a.Action)
}

// Eval is the result of Evaluate.
type Eval struct {
	LogProb tensor.Tensor // F32 [N,L]
	Entropy tensor.Tensor // F32 [N,L]
	Value   tensor.Tensor // F32 [N,V]; zero Tensor without a critic
	// F32 [N,M]: the hidden state for the observations after these; zero Tensor: none (Recurrent)
	Hidden tensor.Tensor
}

// Grad holds the derivatives of the loss by the fields of an Eval, of the same shapes; a zero Tensor
// means that the loss does not depend on the field. Policies whose actions are differentiable functions
// of their parameters (SoftActor) take derivatives by the Action and LogProb of an Act instead, after
// Forward.
type Grad struct{ LogProb, Entropy, Value, Action tensor.Tensor }

// A Denoiser is a Policy that makes an action by a chain of denoising steps. Log-probs are those of the steps, so the
// chain of steps, Act.Latent, is recorded beside the action. Evaluate takes the chain as the observation Latent.
// Without that observation log-probs measure how well the policy denoises the actions, for imitation.
type Denoiser interface {
	// LatentLen returns K; 0 means that there is no chain.
	LatentLen() int
}

// Latent is the observation in which Evaluate takes Act.Latent.
const Latent = "latent"

// LatentLen returns the length of p's chains, or 0 if p makes none.
func LatentLen(p Policy) int {
	if d, ok := p.(Denoiser); ok {
		return d.LatentLen()
	}
	return 0
}

// A Fitter is a Policy that normalises by statistics of demonstrations. Fit computes the statistics
// before training, from observations [M,…] and actions [M,C,A], and stores them in the buffers of the
// parameters.
type Fitter interface {
	Fit(obs tensor.Dict, action tensor.Tensor) error
}

// A Foreseer is a Policy with an auxiliary prediction: while it learns from demonstrations, it predicts how each
// demonstration goes on. Foresees names the observations of numbers that it predicts, or none. Evaluate takes their
// later values, side by side, as the observation Goal. Evaluate then appends the log-prob of the prediction to the
// log-probs of actions: Eval.LogProb is [N,L+1].
type Foreseer interface {
	Foresees() []string
}

const (
	// Goal is the observation with the targets of a Foreseer, F32 [N,2·numbers]: the numbers GoalSteps
	// later, or at the end of the episode if that comes first, and those at the end.
	Goal = "goal"
	// GoalSteps is about the number of steps in which a robot's hand reaches the next object.
	GoalSteps = 10
)

// An Augmenter is a Policy that sees random parts of images while it learns from demonstrations. Augment
// sets the noise that names the part of each row in the next Evaluate on w.
type Augmenter interface {
	Augment(w Work, noise Noise)
}
