package embodied

import (
	"fmt"

	"github.com/rlinf/rlinf/env"
)

// losses follow how many of the last episodes of one kind were lost, because their simulators
// failed.
type losses struct {
	key     string   // of the share that may be, for messages
	most    float64  // that share
	batches [][2]int // lost, of all; the newest last
}

const (
	recentEpisodes = 100 // that the share counts
	fewestEpisodes = 20  // that tell something
)

func newLosses(section string, cfg env.Config) losses {
	l := losses{key: section + ".external.max_lost_share", most: 1}
	if !cfg.External.IsZero() {
		l.most = cfg.External.MaxLostShare
	}
	return l
}

// add takes the episodes since the last call, and returns an error if more than the share is lost.
func (l *losses) add(s env.Summary) error {
	l.batches = append(l.batches, [2]int{s.NumLost, s.NumLost + s.NumTrajectories})
	lost, all := 0, 0
	for _, b := range l.batches {
		lost, all = lost+b[0], all+b[1]
	}
	for all-l.batches[0][1] >= recentEpisodes {
		lost, all = lost-l.batches[0][0], all-l.batches[0][1]
		l.batches = l.batches[1:]
	}
	if all < fewestEpisodes || float64(lost) <= l.most*float64(all) {
		return nil
	}
	return fmt.Errorf("%d of the last %d episodes were lost, because their simulators failed: expected a share of at "+
		"most %v (%s)", lost, all, l.most, l.key)
}
