// Package external runs simulators that are separate programs, in any language, as environments.
//
// A child is a process of such a simulator. It simulates some environments, and talks to this
// process, its parent, in the protocol RLB1 (docs/bridge.md). A Hub starts children with the
// configured command, or accepts children that connect. Its method New is an env.Constructor:
//
//	hub := external.NewHub(os.Stderr, 0)
//	defer hub.Close()
//	registry.Add("external", hub.New)
//	vec, err := registry.New(cfg, 16)       // cfg.External.Command: [python3, cartpole.py]
//
// The files, from the outside in: vec.go is the env.Vec, and restart.go replaces children that
// fail. conversation.go is the protocol with one child. greeting.go and blocks.go define the
// meaning and the layout of its arrays. frame.go, stream.go, bell.go and memory.go transport frames
// and arrays. process.go, listener.go and hub.go start or accept children. shutdown.go ends waits
// when the program stops. serve.go is a child in Go. check.go tests whether a child obeys the
// protocol, in normal play (check_play.go) and with invalid input (check_hostile.go).
//
// Children are untrusted: every frame is validated before it is used.
package external
