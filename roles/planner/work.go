package planner

import "fmt"

// Work is what one iteration of a job does, in any layout.
type Work struct {
	// Actors is W, the number of actors, or the number of their replicas if several actors share a model. It decides
	// the numbers that a job computes, so no plan changes it.
	Actors int `json:"actors"`

	// Envs is N, the number of environments, or 0. Group is the number of environments that begin alike and stay
	// together.
	Envs  int `json:"envs,omitempty"`
	Group int `json:"group,omitempty"`
	// Steps is the number of steps of an epoch. A rollout has Epochs epochs.
	Steps  int `json:"steps,omitempty"`
	Epochs int `json:"epochs,omitempty"`

	// Prompts is the number of prompts in an iteration, or 0. Each has Answers answers with Tokens tokens on average.
	Prompts int     `json:"prompts,omitempty"`
	Answers int     `json:"answers,omitempty"`
	Tokens  float64 `json:"tokens,omitempty"`
	// New is the number of generated tokens in an answer, on average. Longest is this number for the longest answer.
	New     float64 `json:"new,omitempty"`
	Longest float64 `json:"longest,omitempty"`
	// LogProbs says that actors compute log-probs of answers while other answers are generated.
	LogProbs bool `json:"logprobs,omitempty"`

	// Samples is the number of samples of an iteration, over all actors. OptimiserSteps is the number of optimiser
	// steps of an iteration. Each sums a gradient of GradientBytes. SmallSums is the number of sums of a few numbers in
	// an iteration.
	Samples        int   `json:"samples"`
	OptimiserSteps int   `json:"optimiser_steps"`
	SmallSums      int   `json:"small_sums"`
	GradientBytes  int64 `json:"gradient_bytes"`
	// BucketBytes is the size of a bucket, a part of a gradient that is summed by itself. Backward is the share of the
	// update that can hide the sums of all buckets but the last, or 0.
	BucketBytes int     `json:"bucket_bytes"`
	Backward    float64 `json:"backward"`
	// Gathers is the number of optimiser steps after which the replicas gather weights, because they shard the moments.
	Gathers int `json:"gathers,omitempty"`
	// CriticBytes and CriticGathers are GradientBytes and Gathers of critic workers.
	CriticBytes   int64 `json:"critic_bytes,omitempty"`
	CriticGathers int   `json:"critic_gathers,omitempty"`

	// Warmup is the number of iterations before the first update, which fill a replay buffer.
	Warmup int `json:"warmup,omitempty"`

	// ModelBytes are the bytes of the weights that readers get, every WeightsEvery iterations.
	ModelBytes   int64 `json:"model_bytes"`
	WeightsEvery int   `json:"weights_every"`

	// Async lets rollouts go on while actors train. Staleness is the largest age of a rollout in iterations, or -1 for
	// any age.
	Async     bool `json:"async,omitempty"`
	Staleness int  `json:"staleness,omitempty"`

	Model Model `json:"model,omitzero"`
	Bytes Bytes `json:"bytes"`
}

// Bytes has the sizes of what workers send and of what they keep.
type Bytes struct {
	Observation int64 `json:"observation"` // of one environment, with rewards and ends of episodes
	Action      int64 `json:"action"`      // of one environment
	Trajectory  int64 `json:"trajectory"`  // of one environment in one rollout, or of one prompt's answers
	Queued      int   `json:"queued"`      // trajectories that a shard may queue
	// Actor is the memory of an actor, and Replay of its replay buffer. Rollout is the memory of a rank with rollout
	// workers. Copy is the memory that each replica of rollout workers needs in addition, and Rank what a rank needs
	// beside its members.
	Actor   int64 `json:"actor"`
	Rollout int64 `json:"rollout"`
	Copy    int64 `json:"copy,omitempty"`
	Rank    int64 `json:"rank"`
	Replay  int64 `json:"replay"`
	// Reward, Inference and Critic are the bytes of a worker of these components.
	Reward    int64 `json:"reward,omitempty"`
	Inference int64 `json:"inference,omitempty"`
	Critic    int64 `json:"critic,omitempty"`
	// Transition is the size of what a reward worker receives for one environment in one step.
	Transition int64 `json:"transition,omitempty"`
	// Simulator is the memory that an env worker needs for an environment beside messages. It is not measured.
	Simulator int64 `json:"simulator,omitempty"`
}

// share returns the samples of an iteration that each replica of g has.
func (w *Work) share(g *group) float64 { return float64(w.Samples) / float64(g.replicas()) }

// check returns an error if a number of w makes no sense.
func (w *Work) check() error {
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
