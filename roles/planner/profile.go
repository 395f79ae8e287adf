package planner

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rlinf/rlinf/collectives/bench/stats"
)

// The operations of a Profile. The rows of a call are the units that it processes.
const (
	OpStep       = "step"       // a step of environments; rows: environments
	OpInfer      = "infer"      // an inference, with recording; rows: environments
	OpAdvantages = "advantages" // advantages of a rollout; rows: samples
	OpUpdate     = "update"     // an update without sums over actors; rows: samples of one actor
	OpSum        = "sum"        // a sum over the actors of a node; rows: 4-byte numbers
	OpLayerSum   = "layersum"   // a sum over members of a node that shard a layer; rows: 4-byte numbers
	OpGather     = "gather"     // a gather of weights over the actors of a node; rows: 4-byte numbers
	OpGenerate   = "generate"   // answers of one rollout worker; rows: answers
	OpLogProbs   = "logprobs"   // log-probs before the update; rows: tokens of answers, or samples
	OpScore      = "score"      // rewards; rows: environments of a step, or answers
	OpValues     = "values"     // values of answers by a critic worker; rows: tokens
	OpCritic     = "critic"     // an update of a critic worker without sums; rows: samples of one critic worker
)

// ProbeOptions has the options of the measurement of a Profile.
type ProbeOptions struct {
	Ranks  int           // number of ranks in the world of the job
	World  int           // number of goroutine ranks that imitate the waits of the ranks on a node
	Cores  int           // number of cores that may compute at once
	Budget time.Duration // approximate time of the measurement
	Room   int64         // maximum memory of the measurement, in bytes; 0 for no maximum
}

// A Profile has the costs of one job's operations on one machine.
type Profile struct {
	Build string      `json:"build"` // build of the program that measured
	Host  string      `json:"host"`
	Job   string      `json:"job"`  // hash of the configuration without placement, length and output
	Name  string      `json:"name"` // name of the job, for people
	Work  Workload    `json:"work"`
	Costs []CallTimes `json:"costs"`
	// Crowd has the slow-downs of operations while 2 or more cores of a node compute, in ascending order of cores.
	Crowd []Crowd `json:"crowd"`
	// Speedups are the speed-ups by threads. Costs are for one thread.
	Speedups []Speedup `json:"speedups,omitempty"`
	// Halves has the speed-up of a replica whose members shard every layer, without the time of the messages between
	// them. Speedup.Threads is the number of members.
	Halves []Speedup `json:"halves,omitempty"`
	Real   Real      `json:"real"`
}

// Real are corrections from real iterations. The zero value corrects nothing.
type Real struct {
	// Calls is the overhead of each phase in seconds per iteration: calls, waits and messages.
	Calls map[string]float64 `json:"calls,omitempty"`
	// Scale is the measured time of the work of each phase, divided by its predicted time.
	Scale map[string]float64 `json:"scale,omitempty"`
	// Apart replaces Scale for rollouts in which env and rollout workers exchange messages. If it is 0, Scale is used.
	Apart float64 `json:"apart,omitempty"`
	// Hop is the time in seconds that a message of a step takes in addition to a message between two idle workers.
	Hop float64 `json:"hop"`
	// Rest is the time of an iteration outside its phases, in seconds: votes, reports, metrics.
	Rest float64 `json:"rest"`
}

// A CallTimes has the median times of one call on an idle node.
type CallTimes struct {
	Op      string  `json:"op"`
	Rows    int     `json:"rows"`
	Seconds float64 `json:"seconds"`
	Busy    float64 `json:"busy"`              // core seconds; the rest of Seconds is waiting
	Members int     `json:"members,omitempty"` // number of members of OpSum, OpLayerSum or OpGather
	// Spread has the quantiles at 0, 1/n, … 1 of single calls, divided by the median. If it is empty, all calls take
	// Seconds.
	Spread []float64 `json:"spread,omitempty"`
}

// A Crowd is the slow-down of a call of Op: it takes Factor times as long while Cores cores of the node run calls of
// Op.
type Crowd struct {
	Op     string  `json:"op"`
	Cores  int     `json:"cores"`
	Factor float64 `json:"factor"`
}

// A Took has the time of a call in seconds. Busy is the core seconds of the call.
type Took struct{ Seconds, Busy float64 }

// Time returns the time of a call of op with this many rows on an idle node. It interpolates between measured sizes.
// Beyond them it follows a line a + c·rows with a, c >= 0. If only one size was measured, the time is proportional to
// the rows. If none was measured, the time is 0.
func (p *Profile) Time(op string, rows float64) Took { return curve(p.costsOf(op, 0)).timeOf(rows) }

// Together returns the seconds of a sum or a gather of this many bytes over n actors of a node.
func (p *Profile) Together(op string, n int, bytes float64) float64 {
	if n <= 1 {
		return 0
	}
	var members []int
	for _, c := range p.Costs {
		if c.Op == op && !slices.Contains(members, c.Members) {
			members = append(members, c.Members)
		}
	}
	if len(members) == 0 {
		return 0
	}
	slices.Sort(members)
	near := members[len(members)-1]
	for _, m := range members {
		if m >= n {
			near = m
			break
		}
	}
	t := curve(p.costsOf(op, near)).timeOf(bytes / 4).Seconds
	return t * float64(n) / float64(near) // members of a node take turns on its cores
}

// Factor returns the factor by which calls of op are slower while k cores compute.
func (p *Profile) Factor(op string, k float64) float64 {
	factor, cores := 1.0, 1.0
	for _, c := range p.Crowd { // in ascending order of cores
		if c.Op != op {
			continue
		}
		if k <= float64(c.Cores) {
			return factor + (c.Factor-factor)*(k-cores)/(float64(c.Cores)-cores)
		}
		factor, cores = c.Factor, float64(c.Cores)
	}
	return factor
}

// corrected returns the corrected seconds of a phase. work is its predicted time. hasMessages is true for rollouts in
// which env and rollout workers exchange messages.
func (r *Real) corrected(phase string, work float64, hasMessages bool) float64 {
	if f := r.Scale[phase]; hasMessages && r.Apart > 0 {
		work *= r.Apart
	} else if f > 0 {
		work *= f
	}
	return work + r.Calls[phase]
}

// costsOf returns the costs of op for this number of members, sorted by rows.
func (p *Profile) costsOf(op string, members int) (costs []CallTimes) {
	for _, c := range p.Costs {
		if c.Op == op && c.Members == members {
			costs = append(costs, c)
		}
	}
	slices.SortStableFunc(costs, func(a, b CallTimes) int { return a.Rows - b.Rows })
	return costs
}

// A curve has the costs of one operation, sorted by rows.
type curve []CallTimes

// timeOf returns the cost of a call with this many rows.
func (c curve) timeOf(rows float64) Took {
	switch n := len(c); {
	case n == 0:
		return Took{}
	case n == 1:
		share := 1.0
		if c[0].Rows > 0 {
			share = rows / float64(c[0].Rows)
		}
		return Took{c[0].Seconds * share, c[0].Busy * share}
	case rows < float64(c[0].Rows) || rows > float64(c[n-1].Rows):
		near := c[0]
		if rows > float64(near.Rows) {
			near = c[n-1]
		}
		// The line gives only the slope. The nearest measured size gives the level.
		of := func(value func(CallTimes) float64) float64 {
			l := c.line(value)
			fitted := l.At(1, float64(near.Rows))
			if fitted <= 0 {
				return value(near)
			}
			return value(near) * l.At(1, rows) / fitted
		}
		return Took{of(CallTimes.seconds), of(CallTimes.busy)}
	}
	i := slices.IndexFunc(c, func(x CallTimes) bool { return float64(x.Rows) >= rows })
	b := c[i]
	if float64(b.Rows) == rows {
		return Took{b.Seconds, b.Busy}
	}
	a := c[i-1]
	w := (rows - float64(a.Rows)) / float64(b.Rows-a.Rows)
	return Took{a.Seconds + w*(b.Seconds-a.Seconds), a.Busy + w*(b.Busy-a.Busy)}
}

func (c CallTimes) seconds() float64 { return c.Seconds }
func (c CallTimes) busy() float64    { return c.Busy }

// line fits a + c·rows to a value of the costs.
func (c curve) line(value func(CallTimes) float64) stats.LinearFit {
	points := make([]stats.FitPoint, len(c))
	for i, x := range c {
		points[i] = stats.FitPoint{Rounds: 1, Bytes: float64(x.Rows), Time: value(x)}
	}
	return stats.Fit(points)
}

// spread returns the Spread of the cost with the nearest number of rows.
func (c curve) spread(rows float64) []float64 {
	var near *CallTimes
	for i := range c {
		if near == nil || math.Abs(math.Log(float64(c[i].Rows)/rows)) < math.Abs(math.Log(float64(near.Rows)/rows)) {
			near = &c[i]
		}
	}
	if near == nil {
		return nil
	}
	return near.Spread
}

// scaled returns a copy of p in which the costs of op are multiplied by factor.
func (p *Profile) scaled(op string, factor float64) *Profile {
	q := *p
	q.Costs = slices.Clone(p.Costs)
	for i := range q.Costs {
		if c := &q.Costs[i]; c.Op == op {
			c.Seconds, c.Busy = c.Seconds*factor, c.Busy*factor
		}
	}
	return &q
}

// check returns an error if p has an impossible number.
func (p *Profile) check() error {
	var errs []error
	for i, c := range p.Costs {
		if !(c.Seconds >= 0) || !(c.Busy >= 0) || c.Rows < 0 || math.IsInf(c.Seconds, 0) {
			errs = append(errs, fmt.Errorf("costs.%d: %s of %d rows: %g s, %g s of a core: expected numbers ≥ 0", i,
				c.Op, c.Rows, c.Seconds, c.Busy))
		}
	}
	for i, c := range p.Crowd {
		if c.Cores < 2 || !(c.Factor > 0) {
			errs = append(errs, fmt.Errorf("crowd.%d: %s on %d cores takes %g times as long: expected 2 cores or "+
				"more, and a number > 0", i, c.Op, c.Cores, c.Factor))
		}
	}
	return errors.Join(append(errs, p.Work.check())...)
}
