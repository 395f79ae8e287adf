package loop

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A Report is what one rank tells rank 0 about an iteration.
type Report struct {
	Times    []float64 // seconds per phase, by Phase
	Episodes []float64 // rows of the episodes that ended here, see env.AppendRows
	Evals    []float64 // the same of evaluation
	Names    []string  // of metrics, from actor 0 alone: they are the same on all actors
	Values   []float64 // of the names
	Rollouts int64     // of each environment that training has taken, in the whole run

	Answers   []string // of an evaluation, for a person: a line and the whole of each
	Stop      []string // what an early stop waits for, and why it stopped the run, if it did
	ownNames  []string // of the program's own metrics
	ownValues []float64
}

// append encodes the report behind b.
func (r *Report) append(b []byte) []byte {
	b = appendFloats(b, r.Times)
	b = appendFloats(b, r.Episodes)
	b = appendFloats(b, r.Evals)
	b = appendFloats(appendNames(b, r.Names), r.Values)
	b = appendNames(appendNames(b, r.Answers), r.Stop)
	b = appendFloats(appendNames(b, r.ownNames), r.ownValues)
	return binary.LittleEndian.AppendUint64(b, uint64(r.Rollouts))
}

// parse decodes what append wrote, into r, whose slices it uses again.
func (r *Report) parse(b []byte) (err error) {
	size := len(b)
	defer func() {
		if recover() != nil { // an index beyond b
			err = fmt.Errorf("report of %d bytes is cut off", size)
		}
	}()
	next := func() uint64 {
		v := binary.LittleEndian.Uint64(b)
		b = b[8:]
		return v
	}
	floats := func(x []float64) []float64 {
		x = x[:0]
		for range next() {
			x = append(x, math.Float64frombits(next()))
		}
		return x
	}
	r.Times = floats(r.Times)
	r.Episodes = floats(r.Episodes)
	r.Evals = floats(r.Evals)
	names := func(x []string) []string {
		x = x[:0]
		for range next() {
			n := next()
			x = append(x, string(b[:n]))
			b = b[n:]
		}
		return x
	}
	r.Names = names(r.Names)
	r.Values = floats(r.Values)
	r.Answers = names(r.Answers)
	r.Stop = names(r.Stop)
	r.ownNames = names(r.ownNames)
	r.ownValues = floats(r.ownValues)
	r.Rollouts = int64(next())
	if len(b) > 0 {
		return fmt.Errorf("report of %d bytes has %d behind its end", size, len(b))
	}
	return nil
}

func appendNames(b []byte, names []string) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(names)))
	for _, n := range names {
		b = append(binary.LittleEndian.AppendUint64(b, uint64(len(n))), n...)
	}
	return b
}

func appendFloats(b []byte, x []float64) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(x)))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}
