package embodied

import (
	"fmt"

	"github.com/rlinf/rlinf/env"
)

// losses counts the lost episodes among the latest episodes of training, or of evaluations. An episode is lost if its
// simulator fails.
type losses struct {
	key     string   // key of the allowed share of lost episodes
	most    float64  // the allowed share
	batches [][2]int // numbers of lost episodes and of all episodes in each call of add; the newest last
}

const (
	recentEpisodes = 100 // the share is over at least this many recent episodes, if there are so many
	fewestEpisodes = 20  // with fewer episodes any share is allowed
)

func newLosses(section string, cfg env.Config) losses {
	l := losses{key: section + ".external.max_lost_share", most: 1}
	if !cfg.External.IsZero() {
		l.most = cfg.External.MaxLostShare
	}
	return l
}

// add adds the episodes since the last call. It returns an error if more than the allowed share is lost.
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
