// Package all answers: which policies does this module have?
package all

import (
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/vla"
)

// Registry returns a registry of every policy of this module: those of package policy, and vla_policy. Your own program
// can add further policies.
func Registry() *policy.Registry {
	r := policy.Builtin()
	policy.Register(r, "vla_policy", vla.Defaults(), vla.New)
	return r
}
