// Package config answers: what did the user ask for? A Config is what a YAML file, its presets and
// the command line say: RLinf's keys, and a few of our own.
//
// Load reads one and checks every value without a world; nothing writes to it afterwards. What
// follows from it and from the world is a job.Job.
package config
