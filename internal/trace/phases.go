package trace

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// A PhaseLog writes the phase times of all ranks. Only rank 0 has one. A nil PhaseLog writes nothing.
type PhaseLog struct {
	o      Options
	file   *os.File  // nil until the first Write
	buf    []byte    // reused, like order and column
	order  []int     // ranks, the slowest first
	column []float32 // times of one phase
	broken bool      // a write has failed
}

// NewPhaseLog returns the PhaseLog of a run.
func NewPhaseLog(o Options) *PhaseLog { return &PhaseLog{o: o} }

// slowestKept is the number of slow ranks whose times are kept in worlds of more than ranksApart ranks.
const slowestKept = 3

// Write writes the phase times of an iteration, by rank. After its first error it does nothing.
func (l *PhaseLog) Write(iteration int64, ranks [][NumPhases]float32) error {
	if l == nil || l.broken {
		return nil
	}
	b := appendHeader(l.buf[:0], chunkPhases, &l.o)
	b = appendCount(appendInt(b, iteration), len(ranks))
	if len(ranks) <= ranksApart {
		for i := range ranks {
			b = appendTimes(b, &ranks[i])
		}
	} else {
		b = l.appendExtremes(b, ranks)
	}
	l.buf = b
	var err error
	if l.file == nil {
		l.file, err = openToAppend(filepath.Join(l.o.Run, Folder, "phases.bin"))
	}
	if err == nil {
		_, err = l.file.Write(finishChunk(b))
	}
	if l.broken = err != nil; l.broken {
		return fmt.Errorf("trace: %w", err)
	}
	return nil
}

// Close closes the file.
func (l *PhaseLog) Close() error {
	if l == nil || l.file == nil {
		return nil
	}
	return l.file.Close()
}

// appendExtremes appends the minimum and the median of each phase, and the times of the slowest ranks.
func (l *PhaseLog) appendExtremes(b []byte, ranks [][NumPhases]float32) []byte {
	var least, median [NumPhases]float32
	for p := range NumPhases {
		l.column = l.column[:0]
		for r := range ranks {
			l.column = append(l.column, ranks[r][p])
		}
		slices.Sort(l.column)
		least[p], median[p] = l.column[0], l.column[len(l.column)/2]
	}
	b = appendTimes(appendTimes(b, &least), &median)
	l.order = l.order[:0]
	for r := range ranks {
		l.order = append(l.order, r)
	}
	slices.SortStableFunc(l.order, func(x, y int) int { return cmp.Compare(ranks[y][0], ranks[x][0]) })
	for _, r := range l.order[:slowestKept] {
		b = appendTimes(appendCount(b, r), &ranks[r])
	}
	return b
}

func appendTimes(b []byte, t *[NumPhases]float32) []byte {
	for _, x := range t {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func (d *decoder) times() (t [NumPhases]float32) {
	for i := range t {
		t[i] = d.float()
	}
	return t
}

// phases decodes the part after the header of a chunkPhases chunk.
func (d *decoder) phases() Phases {
	p := Phases{Iteration: d.int()}
	n := int(d.uint())
	if n > ranksApart {
		p.Least, p.Median = d.times(), d.times()
		for range slowestKept {
			p.Slowest = append(p.Slowest, RankTimes{int(d.uint()), d.times()})
		}
		return p
	}
	for range n {
		p.Ranks = append(p.Ranks, d.times())
	}
	return p
}
