package algo

// Names of the tensors of rollouts, steps and transitions, in channels, replay buffers, demonstrations and checkpoints.
// Shapes are for T steps of N environments. A chunk has C actions of A numbers each, and L log-probs. The info of a
// step has I numbers.
const (
	// Observations, NextObservations and FinalObservations are prefixes of the names of observations, followed by a
	// dot. They mark the observations before the step, the observations after the step, and the last observations of an
	// episode that ended.
	Observations      = "observation"
	NextObservations  = "next_observation"
	FinalObservations = "final_observation"

	FieldAction     = "action"     // [T, N, C, A]
	FieldReward     = "reward"     // [T, N], or [T, N, C] with a reward for each action
	FieldTerminated = "terminated" // U8, shaped like the reward: the episode ended by itself
	FieldTruncated  = "truncated"  // U8, shaped like the reward: the episode was cut off, for example by a time limit
	FieldStatus     = "status"     // U8 [T, N]: env.Step.Status, if simulators can fail
	// U8 [T, N], if a person may act in place of the policy: 1 if a person acted in the step, else 0. FieldAction has
	// what was taken
	FieldIntervened = "intervened"
	FieldMask       = "mask" // U8 [T, N]: 1 if the step is trained on

	FieldLogProb   = "sample_log_prob" // [T, N, L]: log-probs under the policy that chose the actions
	FieldValue     = "value"           // [T, N]: value of the observation before the step
	FieldNextValue = "next_value"      // [T, N]: value of the observation after the step
	FieldAdvantage = "advantage"       // shaped like the reward
	FieldReturn    = "return"          // shaped like the reward

	FieldVersion     = "version"       // I64 [T, N]: version of the weights that chose the actions
	FieldProxLogProb = "prox_log_prob" // [T, N, L]: log-probs under the policy before the update
	FieldRefLogProb  = "ref_log_prob"  // [T, N, L]: log-probs under the reference policy

	FieldTaken = "taken" // in a step [N, C, A]: what a person did where FieldIntervened, there [N, C], is not 0

	FieldInfo  = "info"  // in a step [N, C, I]: info of each executed step; in a transition [N, I]: of the last step
	FieldInfos = "infos" // in a transition [N, C, I]: info of each executed step
	FieldSteps = "steps" // I32 [N]: number of steps executed, if actions are repeated
)
