package dataset

import (
	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/lerobot"
)

// Describe describes the demonstrations that Import would make of a folder of LeRobot. It also returns the folder's own
// description.
func Describe(dir string) (algo.DemoHeader, lerobot.Metadata, error) {
	m, err := planned(dir, nil)
	if err != nil {
		return algo.DemoHeader{}, lerobot.Metadata{}, in(dir, err)
	}
	return m.out, m.Metadata, nil
}
