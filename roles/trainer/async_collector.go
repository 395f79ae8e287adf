package trainer

import (
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// An AsyncCollector is a SyncCollector that works in the background. While its caller trains on one rollout, it makes
// the next rollout. When it returns a rollout, it copies the parameters for the next rollout. So each rollout except
// the first lags one update behind, as its version shows. Results do not depend on timing.
type AsyncCollector struct {
	*SyncCollector               // plays with the copied parameters
	learner        policy.Policy // the caller trains its parameters
	lent           tensor.Dict   // the memory of the rollout that the caller uses
	lentLength     int
	version        tensor.Tensor
	underWay       chan collected // the result of the rollout being made; nil if there is none
	steps          int            // steps of the rollout being made
	calls          int64
}

// collected is the result of a rollout.
type collected struct {
	rollout tensor.Dict
	err     error
}

var _ Collector = (*AsyncCollector)(nil)

// NewAsyncCollector is like NewSyncCollector, but collects in the background, with copies of learner's parameters.
// actor holds the copies, and must be a policy of the same kind. The collector owns actor from now on.
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

// Collect waits for the rollout of n steps that is being made, returns it, and begins the next one. If reset is true or
// n has changed, it first discards that rollout and makes a new one. The learner's parameters must not change during
// the call. The rollout is valid until the next call. Its tensor algo.FieldVersion, I64 [n, N] for N environments, is
// filled with the number of calls that had returned when the rollout began. If an update follows each call, this is the
// number of updates.
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

// begin begins a rollout with a copy of the learner's parameters, in the memory that the caller no longer uses.
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

// Close waits for the rollout being made. The collector cannot be used afterwards.
func (c *AsyncCollector) Close() error {
	if c.underWay == nil {
		return nil
	}
	got := <-c.underWay
	c.underWay = nil
	return got.err
}
