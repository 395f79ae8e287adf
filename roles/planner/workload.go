package planner

import "fmt"

// Workload describes what one iteration of a job does. It does not depend on the layout.
type Workload struct {
	// Actors is W, the number of replicas of the actors' model. The results of a job depend on it, so no plan changes
	// it.
	Actors int `json:"actors"`

	// Envs is N, the number of environments. It is 0 if the job has none. Group is the number of environments in a
	// group. The environments of a group begin in the same state, and no layout splits a group.
	Envs  int `json:"envs,omitempty"`
	Group int `json:"group,omitempty"`
	// Steps is the number of steps in an epoch. A rollout has Epochs epochs.
	Steps  int `json:"steps,omitempty"`
	Epochs int `json:"epochs,omitempty"`

	// Prompts is the number of prompts in an iteration. It is 0 if the job has none. Each prompt gets Answers answers
	// with an average of Tokens tokens.
	Prompts int     `json:"prompts,omitempty"`
	Answers int     `json:"answers,omitempty"`
	Tokens  float64 `json:"tokens,omitempty"`
	// New is the average number of generated tokens in an answer. Longest is the number of generated tokens in the
	// longest answer.
	New     float64 `json:"new,omitempty"`
	Longest float64 `json:"longest,omitempty"`
	// LogProbs is true if actors compute log-probs of answers while other answers are generated.
	LogProbs bool `json:"logprobs,omitempty"`

	// Samples is the number of samples of an iteration, over all actors. OptimiserSteps is the number of optimiser
	// steps of an iteration. Each optimiser step sums a gradient of GradientBytes bytes. SmallSums is the number of
	// other sums in an iteration, each of a few numbers.
	Samples        int   `json:"samples"`
	OptimiserSteps int   `json:"optimiser_steps"`
	SmallSums      int   `json:"small_sums"`
	GradientBytes  int64 `json:"gradient_bytes"`
	// BucketBytes is the size of a gradient bucket. Each bucket is summed separately. Backward is the fraction of the
	// update during which the buckets before the last are summed. It is 0 if no sum overlaps with the update.
	BucketBytes int     `json:"bucket_bytes"`
	Backward    float64 `json:"backward"`
	// Gathers is the number of optimiser steps that end with a gather of weights. It is 0 unless the replicas shard the
	// optimiser's moments.
	Gathers int `json:"gathers,omitempty"`
	// CriticBytes and CriticGathers are like GradientBytes and Gathers, but for critic workers.
	CriticBytes   int64 `json:"critic_bytes,omitempty"`
	CriticGathers int   `json:"critic_gathers,omitempty"`

	// StepsPerEpoch is the number of iterations in a pass over the data. It is 0 if an epoch is an iteration.
	StepsPerEpoch int64 `json:"steps_per_epoch,omitempty"`

	// Warmup is the number of iterations that only fill the replay buffer, before the first update.
	Warmup int `json:"warmup,omitempty"`

	// ModelBytes is the size of the actors' weights. Rollout and inference workers read them every WeightsEvery
	// iterations.
	ModelBytes   int64 `json:"model_bytes"`
	WeightsEvery int   `json:"weights_every"`

	// If Async is true, rollouts go on while actors train. Staleness is the maximum age of a rollout, in iterations. It
	// is -1 if any age is allowed.
	Async     bool `json:"async,omitempty"`
	Staleness int  `json:"staleness,omitempty"`

	Model ModelShape `json:"model,omitzero"`
	Bytes Sizes      `json:"bytes"`
}

// Sizes has the sizes of messages and of the memory of workers, in bytes.
type Sizes struct {
	Observation int64 `json:"observation"` // per environment, with rewards and ends of episodes
	Action      int64 `json:"action"`      // per environment
	Trajectory  int64 `json:"trajectory"`  // per environment and rollout, or per prompt with its answers
	Queued      int   `json:"queued"`      // maximum number of rollouts that wait for their actor
	// Actor is the memory of an actor without its replay buffer. Replay is the memory of this buffer. Rollout is the
	// memory of a rank that has rollout workers. Copy is additional memory for each replica of rollout workers. Rank is
	// the memory of a rank without its members.
	Actor   int64 `json:"actor"`
	Rollout int64 `json:"rollout"`
	Copy    int64 `json:"copy,omitempty"`
	Rank    int64 `json:"rank"`
	Replay  int64 `json:"replay"`
	// Reward, Inference and Critic are the memory of one worker of these components.
	Reward    int64 `json:"reward,omitempty"`
	Inference int64 `json:"inference,omitempty"`
	Critic    int64 `json:"critic,omitempty"`
	// Transition is the size of the message to a reward worker, per environment and step.
	Transition int64 `json:"transition,omitempty"`
	// Simulator is the memory of one environment in an env worker, without messages. It is measured for external
	// simulators alone.
	Simulator int64 `json:"simulator,omitempty"`
}

// share returns the number of samples that each replica of g gets in an iteration.
func (w *Workload) share(g *group) float64 { return float64(w.Samples) / float64(g.replicas()) }

// check returns an error if w has an impossible number.
func (w *Workload) check() error {
	switch {
	case w.Actors < 1:
		return fmt.Errorf("work.actors: %d: expected a number > 0", w.Actors)
	case w.Envs > 0 && (w.Group < 1 || w.Steps < 1 || w.Epochs < 1 || w.Envs%w.Group != 0):
		return fmt.Errorf("work: %d environments in groups of %d, %d epochs of %d steps: expected numbers > 0", w.Envs,
			w.Group, w.Epochs, w.Steps)
	case w.Prompts > 0 && w.Answers < 1:
		return fmt.Errorf("work.answers: %d: expected a number > 0 for %d prompts", w.Answers, w.Prompts)
	case w.Envs < 0 || w.Prompts < 0 || w.Samples < 0:
		return fmt.Errorf("work: %d environments, %d prompts, %d samples: expected numbers ≥ 0", w.Envs, w.Prompts,
			w.Samples)
	}
	return nil
}
