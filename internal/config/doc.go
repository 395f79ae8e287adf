// Package config reads a job's configuration: YAML files with presets, interpolations and overrides
// from the command line, decoded into structs whose fields hold the defaults. It knows nothing of
// what the keys mean.
//
//	tree, err := config.Load("configs/ppo.yaml", []string{"runner.max_epochs=10"}, config.Options{})
//	check := tree.Decode(&cfg)                                       // wrong types, unknown keys
//	check.At("runner").Want(cfg.Runner.Epochs > 0, "max_epochs", cfg.Runner.Epochs, "a number > 0")
//	err = check.Err()                                                // everything that is wrong, together
//
// Every value remembers its origin, file:line or "command line", and every complaint is a
// FieldError that says where, what and what would be valid. Nothing stops at the first one.
//
// A key of the tree is honoured if a field of the struct has its name. It is known (Options.Known)
// if it is another program's key that means nothing here: it is accepted where its value asks for
// nothing, and else listed in one warning. Any other key is unknown, which is an error.
package config
