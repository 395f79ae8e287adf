// Package config answers: which values does a job's configuration give to the fields of a struct? It reads YAML files
// with presets and interpolations, and applies overrides from the command line. It decodes the result into structs
// whose fields hold the defaults. It does not know the meaning of keys.
//
//	tree, err := config.Load("configs/ppo.yaml", []string{"runner.max_epochs=10"}, config.Options{})
//	check := tree.Decode(&cfg)                                       // wrong types, unknown keys
//	check.At("runner").Want(cfg.Runner.Epochs > 0, "max_epochs", cfg.Runner.Epochs, "a number > 0")
//	err = check.Err()                                                // everything that is wrong, together
//
// Every value has an origin: file:line or "command line". Every mistake is a FieldError with the origin, the key, the
// value and the valid values. Loading reports all mistakes, not only the first.
//
// A key of the tree sets the struct field that has this key as its yaml tag. A known key (Options.Known) belongs to
// another program and has no effect here. A known key is accepted if its value disables the other program's feature.
// Otherwise a warning lists the key. Any other key is an error.
package config
