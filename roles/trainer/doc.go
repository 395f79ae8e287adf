// Package trainer answers: how is a policy trained in one process, without ranks? A Trainer runs three parts in
// turn: a Collector plays the policy, an algorithm updates it, and an Evaluator measures it. A Demonstration
// records episodes of an environment's expert.
package trainer
