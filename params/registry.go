package params

import (
	"fmt"
	"slices"
)

// A Registry maps the names of parts of one kind to their constructors and their own keys. The zero
// Registry is empty. The registries of packages policy, env, reward and reward/answer embed a
// Registry.
type Registry[B any] struct {
	names    []string
	builders []B
	owns     []Own
}

// Add adds a part without own keys. It panics if the name is taken.
func (r *Registry[B]) Add(name string, build B) { r.AddOwn(name, Own{}, build) }

// AddOwn adds a part with its own keys and their defaults.
func (r *Registry[B]) AddOwn(name string, keys Own, build B) {
	if slices.Contains(r.names, name) {
		panic(fmt.Sprintf("two of the name %q: %T", name, build))
	}
	r.names, r.builders, r.owns = append(r.names, name), append(r.builders, build), append(r.owns, keys)
}

// With returns a copy of r in which the part called name has the constructor build and no own keys.
// It adds or replaces this part.
func (r *Registry[B]) With(name string, build B) Registry[B] {
	more := Registry[B]{slices.Clone(r.names), slices.Clone(r.builders), slices.Clone(r.owns)}
	if i := slices.Index(more.names, name); i >= 0 {
		more.builders[i], more.owns[i] = build, Own{}
	} else {
		more.Add(name, build)
	}
	return more
}

// Builder returns the constructor of the part called name. ok is false if there is none.
func (r *Registry[B]) Builder(name string) (build B, ok bool) {
	i := slices.Index(r.names, name)
	if i < 0 {
		return build, false
	}
	return r.builders[i], true
}

// Own returns the own keys of the part called name, with their defaults.
func (r *Registry[B]) Own(name string) Own {
	if i := slices.Index(r.names, name); i >= 0 {
		return r.owns[i]
	}
	return Own{}
}

// PartWith returns the name of the first part that has the key, or "" if there is none.
func (r *Registry[B]) PartWith(key string) string {
	if i := slices.IndexFunc(r.owns, func(o Own) bool { return o.Has(key) }); i >= 0 {
		return r.names[i]
	}
	return ""
}

// Names returns the names in the order in which they were added.
func (r *Registry[B]) Names() []string { return slices.Clone(r.names) }
