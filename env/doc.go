// Package env defines vector environments, and implements what all environments share: episodes,
// wrappers, seeds, metrics and a registry.
//
// A Vec is a batch of N environments that step together and write into buffers of the caller. The
// registry makes a Vec by name, with the wrappers that its Config selects:
//
//	vec, err := registry.New(cfg, n)                // env/all has the registry of everything in this module
//	step := vec.Spec().NewStep(n, 1)                // the buffers; a worker may lay them over its own memory instead
//	seeds := env.NewSeeder(cfg, env.Train, first, n) // first: global index of the first environment
//	episodes := env.NewEpisodes(vec.Spec(), first, n, true)
//	err = vec.Reset(nil, seeds.Next(), step)
//	seeds.Started(nil)
//	for … {
//		err = vec.Step(action, seeds.Next(), step)  // environments whose episode ends reset themselves
//		episodes.Observe(step)
//		seeds.Observe(step)
//	}
//
// To add an environment, implement a Simulator, which has only the dynamics. NewEpisodic turns a
// Simulator into a Vec: it adds chunks of actions, time limits, automatic resets and saving.
// Package envtest tests whether a Vec meets the contract.
//
// The package is independent of policies, algorithms and ranks. The caller assigns the global
// indices of the environments.
package env
