// Package trainer answers: how is a policy trained in one process, without ranks? The Trainer
// coordinates a Collector, which plays the policy, an algorithm, which learns, and an Evaluator.
// Demonstration records what an environment's expert does.
package trainer
