// Package config answers: what did the user ask for? A Config has the values of a YAML file, its presets and the
// command line: RLinf's keys, and a few of our own.
//
// Load reads a Config and checks every value without a world. Nothing changes the Config afterwards. The plan of a task
// has the values that depend on both the Config and the world.
package config
