package loop

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/rlinf/rlinf/tensor"
)

// A RankReport has one rank's results of an iteration, for rank 0.
type RankReport struct {
	Times    []float64 // seconds of each Phase
	Episodes []float64 // episodes that ended on this rank, as rows of env.AppendRows
	Evals    []float64 // episodes of evaluations, in the form of Episodes
	Names    []string  // names of metrics with equal values on all actors; only actor 0 reports them
	Values   []float64 // the values of Names
	Rollouts int64     // rollouts that training has received in the whole run, per environment

	Rewards   []float64 // counts of the rewards of an iteration; the task defines the order
	Engine    []float64 // use of this rank's engines; the task defines the order
	Answers   []string  // answers of an evaluation, for the user: a line and the full text of each
	Stop      []string  // the state of runner.early_stop, and the reason if it has stopped the run
	Simulated []float64 // seconds that this rank's simulators took; empty without environments
	Spent     []float64 // working seconds of this rank's workers; the task defines the order
	ownNames  []string  // names of the program's own metrics
	ownValues []float64

	// Waits has the fraction of the workers' time for each cause, in the order of trace.Causes. It is empty if nothing
	// is recorded.
	Waits      []float64
	queueNames []string  // names of channels
	queueItems []float64 // for each channel: number of items sent by this rank, minus items received
}

// append appends the encoded report to b.
func (r *RankReport) append(b []byte) []byte {
	r.eachList(func(x *[]float64) {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(*x)))
		for _, v := range *x {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
	}, func(names *[]string) {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(*names)))
		for _, n := range *names {
			b = append(binary.LittleEndian.AppendUint64(b, uint64(len(n))), n...)
		}
	})
	return binary.LittleEndian.AppendUint64(b, uint64(r.Rollouts))
}

// show shows the episodes of a rank to w, which may be nil.
func (r *RankReport) show(w MemberWitness, step int64, rank int) {
	if w == nil {
		return
	}
	var d tensor.Dict
	d.Set("train", tensor.FromF64(r.Episodes, len(r.Episodes)))
	d.Set("eval", tensor.FromF64(r.Evals, len(r.Evals)))
	w(step, "rank", rank, PhaseEpisodes, d)
}

// showStop shows the progress towards an early stop, and records why the run has stopped early.
func (r *RankReport) showStop(l *Logbook) {
	if len(r.Stop) > 0 {
		l.state.Stop = r.Stop[0]
	}
	if len(r.Stop) > 1 {
		l.stopped = r.Stop[1]
		l.Print(l.stopped + "\n")
	}
}

// eachList calls onNumbers for each list of numbers in r, and onNames for each list of strings. It visits the lists in
// the order of their encoding.
func (r *RankReport) eachList(onNumbers func(*[]float64), onNames func(*[]string)) {
	onNumbers(&r.Times)
	onNumbers(&r.Episodes)
	onNumbers(&r.Evals)
	onNames(&r.Names)
	onNumbers(&r.Values)
	onNumbers(&r.Rewards)
	onNumbers(&r.Engine)
	onNames(&r.Answers)
	onNames(&r.Stop)
	onNumbers(&r.Simulated)
	onNumbers(&r.Spent)
	onNames(&r.ownNames)
	onNumbers(&r.ownValues)
	onNumbers(&r.Waits)
	onNames(&r.queueNames)
	onNumbers(&r.queueItems)
}

// parse decodes the result of append into r. It reuses r's slices.
func (r *RankReport) parse(b []byte) (err error) {
	size := len(b)
	defer func() {
		if recover() != nil { // b is too short
			err = fmt.Errorf("report of %d bytes is cut off", size)
		}
	}()
	next := func() uint64 {
		v := binary.LittleEndian.Uint64(b)
		b = b[8:]
		return v
	}
	r.eachList(func(x *[]float64) {
		*x = (*x)[:0]
		for range next() {
			*x = append(*x, math.Float64frombits(next()))
		}
	}, func(names *[]string) {
		*names = (*names)[:0]
		for range next() {
			n := next()
			*names = append(*names, string(b[:n]))
			b = b[n:]
		}
	})
	r.Rollouts = int64(next())
	if len(b) > 0 {
		return fmt.Errorf("report of %d bytes has %d behind its end", size, len(b))
	}
	return nil
}

// queued adds to the count of items in a channel. items is the number of items that this rank has sent, minus the
// number that it has received.
func (r *RankReport) queued(channel string, items int64) {
	i := slices.Index(r.queueNames, channel)
	if i < 0 {
		i = len(r.queueNames)
		r.queueNames, r.queueItems = append(r.queueNames, channel), append(r.queueItems, 0)
	}
	r.queueItems[i] += float64(items)
}
