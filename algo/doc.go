// Package algo answers: how do rollouts, demonstrations and texts become better parameters? It holds the algorithms.
//
// A Registry makes an Algorithm from a Setup, which has the policy to be trained. Each iteration calls the Algorithm
// twice:
//
//	alg, err := algo.Builtin().New(setup)    // setup names adv_type and loss_type, such as gae and actor_critic
//	err = alg.Prepare(&rollout)              // adds advantage and return
//	metrics, err := alg.Update(rollout)      // epochs over minibatches; metrics are the same on every replica
//
// A rollout is a Dict with leading dimensions [T,N]: T steps of N environments. A chunk has C
// actions of A numbers and L log-probs, and a hidden state has M numbers:
//
//	observation.<name>   [T,N,...]          observation before the step
//	action               F32 or I32 [T,N,C,A]
//	sample_log_prob      F32 [T,N,L]        of the action, under the policy that took it
//	value                F32 [T,N,1]        absent without a critic
//	next_value           F32 [T,N]          of the observation after the step, before an auto-reset; finite
//	reward               F32 [T,N]
//	terminated, truncated  U8 [T,N]         the episode ended by itself; it was cut off from outside
//	mask                 U8 [T,N], optional 0: the step is not trained on
//	version              I64 [T,N], optional number of iterations that had trained the policy which took the action
//	memory               F32 [T,N,M]        hidden state of the policy before the step (policy.Recurrent)
//
// Algorithms that train on whole rollouts share PPO's loop, and differ in the estimator of their advantages: GAE for
// PPO and A2C, comparisons within groups of episodes for GRPO, normalised scores for REINFORCE++. Each algorithm is a
// file that lists its steps in order.
//
// Algorithms that learn from transitions draw them from a Replay. The Replay holds experience (SAC, TD3, DQN),
// experience in which the expert's actions replace the actions taken (DAgger), or demonstrations that ReadDemos reads
// (BC, IQL).
//
// Language models learn from texts. SFT learns from given texts, TextPPO from a TextBatch of the model's own answers.
// TextPPO and training in environments share functions on flat slices.
//
// An algorithm computes sums over all replicas through Replicas. The pieces (GAE, GRPOAdvantages, Surrogate, KLLoss,
// ValueLoss, Aggregate, Adam, Schedule) are pure functions on flat slices or small types of their own. A new algorithm
// is one file that lists its pieces in order, and one line in Builtin.
package algo
