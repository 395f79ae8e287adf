package algo

// Names of the tensors of a rollout, of a step and of a transition: in channels, replay buffers, files of
// demonstrations and checkpoints. Shapes are for T steps of N environments. A chunk has C actions of A numbers each,
// and L log-probs. A step has I figures.
const (
	// Observations, NextObservations and FinalObservations are the parts before the dot in the names of observations.
	// They stand for the observation before the step, the observation after the step, and the last observation of an
	// episode that ended.
	Observations      = "observation"
	NextObservations  = "next_observation"
	FinalObservations = "final_observation"

	FieldAction     = "action"     // [T, N, C, A]
	FieldReward     = "reward"     // [T, N], or [T, N, C] where each action has its own
	FieldTerminated = "terminated" // U8, shaped like the reward: the episode ended by itself
	FieldTruncated  = "truncated"  // U8, shaped like the reward: cut off from outside, as by a time limit
	FieldStatus     = "status"     // U8 [T, N]: env.Step.Status, where simulators may fail
	FieldMask       = "mask"       // U8 [T, N]: 1 where the step counts

	FieldLogProb   = "sample_log_prob" // [T, N, L] of the actions when they were chosen
	FieldValue     = "value"           // [T, N] of what the policy saw
	FieldNextValue = "next_value"      // [T, N] of what the policy saw after the step
	FieldAdvantage = "advantage"       // shaped like the reward
	FieldReturn    = "return"          // shaped like the reward

	FieldVersion     = "version"       // I64 [T, N]: the version of the weights that chose the actions
	FieldProxLogProb = "prox_log_prob" // [T, N, L] by the policy before the update
	FieldRefLogProb  = "ref_log_prob"  // [T, N, L] by the reference policy

	FieldInfo  = "info"  // [N, C, I]: the figures of each executed step; in a transition [N, I], of the last step
	FieldInfos = "infos" // [N, C, I] in a transition: the figures of each executed step
	FieldSteps = "steps" // I32 [N]: steps executed, where an action is repeated
)
