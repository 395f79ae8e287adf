// Package external makes environments of simulators that run as programs of their own, in any
// language.
//
// A child is such a program; it plays some environments, and speaks RLB1 (docs/bridge.md) with this
// process. A Hub is where children come from: it starts those that a configuration's command names,
// and listens for those that connect by themselves. Its New is an env.Constructor:
//
//	hub := external.NewHub(os.Stderr)
//	defer hub.Close()
//	registry.Add("external", hub.New)
//	vec, err := registry.New(cfg, 16)       // cfg.External.Command: [python3, cartpole.py]
//
// From the outside in: vec.go is the env.Vec, and what happens when a child fails; conversation.go
// speaks with one child; greeting.go and blocks.go say what its numbers mean and where they are;
// frame.go, stream.go, bell.go and memory.go carry them; process.go, listener.go and hub.go bring
// children. serve.go is a child in Go, and check.go holds any child against the protocol, in play
// (check_play.go) and under attack (check_hostile.go).
//
// Frames are read as if an enemy had written them: what a child says is checked against the
// protocol before it is used.
package external
