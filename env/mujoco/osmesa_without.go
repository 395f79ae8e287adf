//go:build mujoco && !osmesa

package mujoco

import (
	"fmt"

	"github.com/rlinf/rlinf/env"
)

// mesa returns an error that names the missing tag.
func (p *painter) mesa() (brush, func(), error) {
	return nil, nil, fmt.Errorf("the renderer osmesa: %w: it needs the tag osmesa: scripts/build --tags \"mujoco "+
		"osmesa\" (Debian: apt-get install libosmesa6-dev)", env.ErrNotBuilt)
}
