// Package env defines vector environments, and has the parts that every environment shares:
// episodes, wrappers, seeds, metrics, a registry.
//
// A Vec is N environments that step together, into buffers of the caller. The registry makes one by
// name, with the wrappers that its Config asks for:
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
// A new environment is a Simulator, which is dynamics alone. NewEpisodic makes a Vec of it: it adds
// chunks of actions, time limits, resets at the end of an episode, and saving. Package envtest
// checks any Vec against the contract.
//
// The package knows nothing of policies, algorithms and ranks. The caller of a Vec gives its
// environments their global numbers.
package env
