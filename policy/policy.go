package policy

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A Policy maps observations to actions. A policy with a critic also maps them to values. Any number of users share the
// parameters, and each user has a Work. Several users may call Forward concurrently while nobody writes the parameters.
// Observations have the layout of env.Step.Obs: one tensor [N, shape...] per name.
type Policy interface {
	Spaces() (obs []env.Field, action env.Space)
	NewWork(maxRows int) Work
	// Forward chooses actions for the N rows of obs. The result is valid until the next call with w.
	Forward(w Work, obs tensor.Dict, mode Mode, noise Noise) (Act, error)
	// Evaluate computes the log-probs of earlier actions, [N,C,A], under the current parameters. The caller must not
	// change obs and action before Backward.
	Evaluate(w Work, obs tensor.Dict, action tensor.Tensor) (Eval, error)
	// Value returns only the values, [N,V].
	Value(w Work, obs tensor.Dict) (tensor.Tensor, error)
	// Backward adds the gradient of a loss to Params().Grad. g is the gradient of the loss with respect to the results
	// of Evaluate. The last call with w must be Evaluate. If ready is not nil, Backward calls ready as soon as a range
	// [lo,hi) of the flat gradient is final. The ranges do not overlap, and they cover all trained parameters. Their
	// order is the same on every call.
	Backward(w Work, g Grad, ready func(lo, hi int)) error
	Params() *nn.Params[float32]
}

// A Work holds one user's activations. Only the Policy that made the Work can read them.
type Work interface{}

// A Mode tells Forward how to choose actions.
type Mode uint8

const (
	Sample        Mode = iota // draw from the distribution, for training
	Deterministic             // take the most likely action, for evaluation
)

// Noise selects the random numbers of one Forward. Row n draws only from the streams of (Seed, Env[n], Step[n]), so an
// environment gets the same noise in every batch, worker and rank. Mode Deterministic needs no noise.
type Noise struct {
	Seed uint64
	Env  []uint64 // global index of each row's environment
	Step []uint64 // number of earlier steps of each row's environment
}

// Stream returns the random numbers of a row.
func (x Noise) Stream(row int) philox.Stream {
	return philox.New(x.Seed, philox.Action, x.Env[row], x.Step[row])
}

// Act is the result of Forward. L is 1, C or C·A, depending on Config.LogProbType.
type Act struct {
	Action tensor.Tensor // [N,C,A], F32 or I32, depending on the action space; C is the number of actions in a chunk
	// Bounded holds the actions for the environment. If Bounded is the zero Tensor, the environment gets Action,
	// clipped to the bounds of the space.
	Bounded tensor.Tensor
	LogProb tensor.Tensor // F32 [N,L]
	Value   tensor.Tensor // F32 [N,V]; zero Tensor without a critic
	// F32 [N,M]: the hidden state for the next observations; the zero Tensor without a hidden state (Recurrent)
	Hidden tensor.Tensor
	// F32 [N,K]: the denoising steps that led to the action; LogProb is their log-prob. The zero Tensor if the policy
	// is not a Denoiser, or makes no chain.
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
	// F32 [N,M]: the hidden state for the next observations; the zero Tensor without a hidden state (Recurrent)
	Hidden tensor.Tensor
}

// Grad holds the gradients of the loss with respect to the fields of an Eval, in the shapes of these fields. The zero
// Tensor means that the loss does not depend on the field. Only a SoftActor uses Action: its Backward can follow
// Forward. Action and LogProb are then the gradients with respect to Act.Action and Act.LogProb.
type Grad struct{ LogProb, Entropy, Value, Action tensor.Tensor }

// A Denoiser is a Policy that makes an action by a chain of denoising steps. LogProb is the log-prob of this chain, so
// the caller stores the chain, Act.Latent, with the action. Evaluate takes the chain as the observation Latent. Without
// this observation, as in imitation, LogProb measures how well the policy denoises the actions.
type Denoiser interface {
	// LatentLen returns K, the size of a chain, or 0 if there is no chain.
	LatentLen() int
}

// Latent is the name of the observation in which Evaluate takes Act.Latent.
const Latent = "latent"

// LatentLen returns K, the size of a chain of p, or 0 if p makes no chains.
func LatentLen(p Policy) int {
	if d, ok := p.(Denoiser); ok {
		return d.LatentLen()
	}
	return 0
}

// A Fitter is a Policy that normalises its inputs with statistics of demonstrations. Fit computes the statistics before
// training, from observations [M,…] and actions [M,C,A], and stores them in the buffers of the parameters.
type Fitter interface {
	Fit(obs tensor.Dict, action tensor.Tensor) error
}

// A FileChecker is a Policy that loads parameters from files. CheckFiles returns an error if the files do not fit the
// policy. It does not read the parameters. The policy may be blank (Config.Blank).
type FileChecker interface {
	CheckFiles() error
}

// A Foreseer is a Policy that also predicts later observations while it learns from demonstrations. Foresees returns
// the names of the predicted numeric observations, if any. Evaluate takes the true later values of these observations
// as the observation Goal, and appends the log-prob of the prediction to the log-probs of actions: Eval.LogProb is
// [N,L+1].
type Foreseer interface {
	Foresees() []string
}

const (
	// Goal is the name of the observation with the targets of a Foreseer, F32 [N,2·numbers]. The first half holds the
	// numbers after GoalSteps more steps, or at the end of the episode if the end comes sooner. The second half holds
	// the numbers at the end of the episode.
	Goal = "goal"
	// GoalSteps is roughly the number of steps that a robot's hand needs to reach the next object.
	GoalSteps = 10
)

// An Augmenter is a Policy that makes random changes while it learns from demonstrations: it crops images, or drops
// features. Augment sets the noise of each row for the next Evaluate, or for the next Forward of a policy without
// log-probs.
type Augmenter interface {
	Augment(w Work, noise Noise)
}
