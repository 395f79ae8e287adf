package collectives

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// debugTag is the tag of the records that members compare. Operations do not use this tag.
const debugTag = spmd.MaxTag - 1

// A debug is the state of a Group's debug mode.
type debug struct {
	site string // source position of the last call
	mem  []byte
}

// A record is an encoded call, which is sent to another member. Its recordBytes bytes hold: the sequence
// number, the kind, the type, the reduction, the root, the number of elements (-1 if members may differ), a
// hash of the counts, and the source position.
const recordBytes = 192

// note stores the source position of the program's call, if debug mode is on.
func (d *debug) note(on bool) {
	if !on {
		return
	}
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !more || !strings.Contains(f.Function, "/collectives.") {
			d.site = fmt.Sprintf("%s/%s:%d", filepath.Base(filepath.Dir(f.File)), filepath.Base(f.File), f.Line)
			return
		}
	}
}

// compare sends this member's record to the next member, and returns an error if the record of the previous
// member differs. If any two members differ, then some neighbours in the ring of members differ too.
func (g *Group) compare(ctx context.Context, c *spmd.Collective) error {
	if err := g.grow(&g.debug.mem, 2*recordBytes); err != nil {
		return err
	}
	mine, theirs := g.debug.mem[:recordBytes], g.debug.mem[recordBytes:2*recordBytes]
	g.record(mine, c)
	p := g.Size()
	before := (g.me - 1 + p) % p
	g.message(false, theirs, before, debugTag)
	g.message(true, mine, (g.me+1)%p, debugTag)
	if err := g.wait(ctx); err != nil {
		return fmt.Errorf("compare %v, call %d at %s, with member %d's (rank %d): %w", c, g.seq, g.debug.site,
			before, g.comm.WorldRank(before), err)
	}
	if string(mine[:recordSite]) == string(theirs[:recordSite]) {
		return nil
	}
	return fmt.Errorf("members make different calls: member %d (rank %d) makes %s, member %d (rank %d) makes %s",
		g.me, g.comm.WorldRank(g.me), recordText(mine), before, g.comm.WorldRank(before), recordText(theirs))
}

const recordSite = 40 // offset of the source position in a record

func (g *Group) record(b []byte, c *spmd.Collective) {
	clear(b)
	elements, hash := int64(-1), uint64(0)
	switch c.Kind {
	case spmd.Broadcast, spmd.Reduce, spmd.AllReduce, spmd.ReduceScatter, spmd.AllGather:
		elements = int64(len(c.Data) / c.DType.Size())
	}
	if c.Counts != nil && c.Kind != spmd.AllToAll {
		h := fnv.New64a()
		fmt.Fprint(h, c.Counts)
		hash = h.Sum64()
	}
	binary.LittleEndian.PutUint64(b, uint64(g.seq))
	b[8], b[9], b[10] = byte(c.Kind), byte(c.DType), byte(c.Op)
	binary.LittleEndian.PutUint64(b[16:], uint64(c.Root))
	binary.LittleEndian.PutUint64(b[24:], uint64(elements))
	binary.LittleEndian.PutUint64(b[32:], hash)
	site := g.debug.site
	copy(b[recordSite:], site[max(0, len(site)-(recordBytes-recordSite)):])
}

func recordText(b []byte) string {
	c := spmd.Collective{Kind: spmd.CollectiveKind(b[8]), DType: tensor.DType(b[9]), Op: spmd.Op(b[10])}
	text := c.Kind.String()
	if n := int64(binary.LittleEndian.Uint64(b[24:])); n >= 0 {
		text += fmt.Sprintf(" of %d %v", n, c.DType)
	} else if c.Kind != spmd.Barrier {
		text += fmt.Sprintf(" of %v", c.DType)
	}
	if reduces(c.Kind) {
		text += fmt.Sprintf(", %v", c.Op)
	}
	switch c.Kind {
	case spmd.Broadcast, spmd.Reduce, spmd.Gather, spmd.Scatter:
		text += fmt.Sprintf(", root %d", binary.LittleEndian.Uint64(b[16:]))
	}
	if h := binary.LittleEndian.Uint64(b[32:]); h != 0 {
		text += fmt.Sprintf(", counts with hash %x", h)
	}
	return fmt.Sprintf("%s (call %d, at %s)", text, binary.LittleEndian.Uint64(b),
		strings.TrimRight(string(b[recordSite:]), "\x00"))
}

// SameOnAllRanks returns an error if data differs between members. It compares CRC-32C checksums. names[i] is
// the name of data[i] in the error; all members pass the same names. Every member gets the same error, which
// shows the first difference.
func (g *Group) SameOnAllRanks(ctx context.Context, names []string, data [][]byte) error {
	sums := make([]int32, len(names)*g.Size())
	for i, b := range data {
		sums[g.me*len(names)+i] = int32(crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	}
	if err := g.Run(ctx, AllGather(sums, nil)); err != nil {
		return fmt.Errorf("compare replicas: %w", err)
	}
	for i, name := range names {
		for m := range g.Size() {
			if a, b := sums[i], sums[m*len(names)+i]; a != b {
				return fmt.Errorf("replicas differ: %s has checksum %08x on member %d (rank %d) and %08x on member "+
					"%d (rank %d)", name, uint32(a), 0, g.comm.WorldRank(0), uint32(b), m, g.comm.WorldRank(m))
			}
		}
	}
	return nil
}
