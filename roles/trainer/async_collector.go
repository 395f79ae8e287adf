package trainer

import (
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// An AsyncCollector is a SyncCollector that works in the background: while its caller learns from
// one rollout, it makes the next, with the parameters at the time when it returned the one before.
// So each rollout but the first is one update old, as its version says. The result of a run does
// not depend on time.
type AsyncCollector struct {
	*SyncCollector               // with the parameters that the rollout under way is made with
	learner        policy.Policy // whose parameters the caller changes
	lent           tensor.Dict   // the memory of the rollout that the caller has
	lentLength     int
	version        tensor.Tensor
	underWay       chan collected // nil: nothing
	steps          int            // of the rollout in production
	calls          int64
}

// collected is how a collection came out.
type collected struct {
	rollout tensor.Dict
	err     error
}

var _ Collector = (*AsyncCollector)(nil)

// NewAsyncCollector is NewSyncCollector with learner's parameters. actor is a policy of the same
// kind, which belongs to the collector from now on.
func NewAsyncCollector(reg *env.Registry, cfg env.Config, learner, actor policy.Policy, seed uint64) (*AsyncCollector,
	error) {
	if l, a := len(learner.Params().State()), len(actor.Params().State()); l != a {
		return nil, fmt.Errorf("collect in the background: the actor's parameters take %d bytes, the learner's %d: "+
			"expected policies of the same kind", a, l)
	}
	sync, err := NewSyncCollector(reg, cfg, actor, seed)
	if err != nil {
		return nil, err
	}
	return &AsyncCollector{SyncCollector: sync, learner: learner}, nil
}

// Collect waits for the rollout of n steps in production, returns it, and begins the next, of as
// many steps. With reset, or another n, it makes a new one first. Nobody may change the learner's
// parameters during the call. The rollout is valid until the next call. Its version, I64 [n,N], is
// the number of calls that had returned when it began: the number of updates, if each call is
// followed by one.
func (c *AsyncCollector) Collect(n int, reset bool) (tensor.Dict, error) {
	var got collected
	made := c.calls - 1
	if c.underWay != nil {
		got = <-c.underWay
	}
	if got.err == nil && (c.underWay == nil || reset || n != c.steps) {
		c.begin(n, reset)
		got, made = <-c.underWay, c.calls
	}
	c.underWay = nil
	if got.err != nil {
		return tensor.Dict{}, got.err
	}
	if c.version.IsZero() || c.version.Dim(0) != n {
		c.version = tensor.New(tensor.I64, n, c.stage.Vec.Len())
	}
	for i := range c.version.I64() {
		c.version.I64()[i] = made
	}
	got.rollout.Set(algo.FieldVersion, c.version)
	c.calls++
	c.begin(n, false)
	return got.rollout, nil
}

// begin begins a rollout with the learner's present parameters, in the memory that the caller has
// returned.
func (c *AsyncCollector) begin(n int, reset bool) {
	copy(c.rec.Policy.Params().State(), c.learner.Params().State())
	sync := c.SyncCollector
	sync.rollout, c.lent = c.lent, sync.rollout
	sync.length, c.lentLength = c.lentLength, sync.length
	to := make(chan collected, 1)
	c.steps, c.underWay = n, to
	go func() {
		rollout, err := sync.Collect(n, reset)
		to <- collected{rollout, err}
	}()
}

// Close waits for the rollout under way. The collector is not used afterwards.
func (c *AsyncCollector) Close() error {
	if c.underWay == nil {
		return nil
	}
	got := <-c.underWay
	c.underWay = nil
	return got.err
}
