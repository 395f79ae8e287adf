// Package policy answers: which networks choose actions, compute the log-probs of actions, and estimate values?
//
// A Policy is made from a Config for the observations and actions of an environment. Each user of the
// policy has a Work of its own:
//
//	p, err := policy.Builtin().New(cfg, vec.Spec(), seed, tensor.Heap)
//	w := p.NewWork(rows)
//
//	act, err := p.Forward(w, step.Obs, policy.Sample, noise)  // to act: actions, log-probs, values
//	act.Feed(space, taken)                                    // what the environment gets; act.Action is stored
//
//	eval, err := p.Evaluate(w, obs, action)                   // to learn: log-probs, entropies, values
//	err = p.Backward(w, grad, ready)                          // adds to p.Params().Grad
//
// While the parameters stay the same, Forward and Evaluate give an action the same log-prob, bit for bit, in every
// batch. The random numbers of an action depend only on the seed, the environment and the step (Noise). So every worker
// computes the same action.
//
// A recurrent policy (Recurrent, NewRNN) takes its hidden state with the observations, and returns the next hidden
// state with the actions.
//
// Some details of PPO belong to the network ("The 37 Implementation Details of Proximal Policy
// Optimization", Huang et al. 2022):
//
//   - orthogonal initialisation: network.init
//   - separate networks: Config.ShareTrunk
//   - state-independent deviation and independent dimensions: gaussian
//   - independent multi-discrete choices: categorical
//   - actions that are clipped for the environment and stored unclipped: Act.Feed
//   - normalised and clipped observations: ActorCritic.MergeStats, Config.ObsClip
//
// An encoder (cnn_policy), which actor and critic share, turns images and words into features. The layers after the
// encoder read rows of numbers, as in other policies. A policy never chooses an option that env.ActionMask forbids.
//
// A new kind of network is one file with a Builder, and one line that adds the Builder to a Registry.
package policy
