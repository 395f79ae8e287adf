// Package advice answers: which placement should this configuration get? It determines what a plan may change, makes
// the measurements for package planner, and writes a plan as a configuration. While a job runs, a Scheduler answers the
// question again. The package uses tasks through an interface.
package advice
