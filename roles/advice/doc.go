// Package advice answers: which placement should this configuration get? It finds out what a plan may change, measures
// what package planner needs to know, and writes a plan back as a configuration. While a job runs, a Scheduler answers
// the question again. The package uses tasks through an interface.
package advice
