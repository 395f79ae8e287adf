// Package external makes environments of simulators that run as separate programs, in any language.
//
// A child is such a program. It plays some environments and speaks RLB1 (docs/bridge.md) with this
// process. A Hub starts the children of a configuration's command, or accepts children that
// connect. Its New is an env.Constructor:
//
//	hub := external.NewHub(os.Stderr, 0)
//	defer hub.Close()
//	registry.Add("external", hub.New)
//	vec, err := registry.New(cfg, 16)       // cfg.External.Command: [python3, cartpole.py]
//
// From the outside in: vec.go is the env.Vec, and restart.go replaces children that fail.
// conversation.go speaks with one child; greeting.go and blocks.go define the meaning and the
// layout of its arrays. frame.go, stream.go, bell.go and memory.go carry them. process.go,
// listener.go and hub.go start or accept children. shutdown.go ends waiting when the program stops.
// serve.go is a child in Go. check.go tests any child against the protocol, in normal play
// (check_play.go) and with invalid input (check_hostile.go).
//
// Every frame of a child is untrusted: it is checked against the protocol before it is used.
package external
