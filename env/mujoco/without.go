//go:build !mujoco

package mujoco

import (
	"fmt"

	"github.com/rlinf/rlinf/env"
)

// newVec returns an error that names the missing tag.
func newVec(src source, _ func(m *model) (task, error), _ env.Config, _ int) (env.Vec, error) {
	return nil, fmt.Errorf("%s: %w: it needs MuJoCo and the tag mujoco: scripts/build --tags mujoco (Debian: apt-get "+
		"install libmujoco-dev)", src.name, env.ErrNotBuilt)
}
