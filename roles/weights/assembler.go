package weights

import (
	"context"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/spmd"
)

// An Assembler collects a reader's part of the parameters from all actors that have some of it. Only one goroutine at a
// time may use the Assembler.
type Assembler struct {
	sources []source
	own     []byte // the reader's state; nil if the reader uses the state of its only source
	version int64  // version of the weights in own; -1 if there is none
}

// A source is an Assembler's reader of one flow.
type source struct {
	*collectives.WeightsReader
	state  []byte
	common []overlap // the overlaps of the flow's part with the reader's part
}

// Collector returns the Assembler of m, a member on this rank. The Assembler writes new parameters to state, the memory
// of the member's parameters. If an actor has the same part as m, the Assembler does not use this memory, and Adopt
// returns another state.
func (w *Sync) Collector(m *spmd.Member, state []byte) *Assembler {
	c := &Assembler{own: state, version: -1}
	for _, e := range w.ends {
		i := e.find(m)
		if i < 0 {
			continue
		}
		s := source{WeightsReader: e.reader(i, m, w.label)}
		if r := e.readers[i]; r.part == e.part {
			c.own = nil
		} else {
			s.common = overlaps(e.part, r.fields, r.part)
		}
		c.sources = append(c.sources, s)
	}
	return c
}

// Adopt waits until all flows have the same version, and this version is at least atLeast. It returns the reader's
// state with this version. See collectives.WeightsReader.Adopt.
func (c *Assembler) Adopt(ctx context.Context, atLeast int64) (state []byte, version int64, err error) {
	for i, same := 0, 0; same < len(c.sources); i = (i + 1) % len(c.sources) {
		s := &c.sources[i]
		if s.state, version, err = s.WeightsReader.Adopt(ctx, atLeast); err != nil {
			return nil, 0, err
		}
		if version > atLeast {
			atLeast, same = version, 0
		}
		same++
	}
	if c.own == nil {
		return c.sources[0].state, atLeast, nil
	}
	if c.version < atLeast {
		for _, s := range c.sources {
			copyOverlaps(c.own, s.state, s.common)
		}
		c.version = atLeast
	}
	return c.own, atLeast, nil
}
