package external

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// A Vec is an env.Vec whose environments run in children. Each child plays consecutive
// environments. The first Reset or Load spawns the children. If a child fails, its episodes are
// aborted (env.Aborted) and another child replaces it.
type Vec struct {
	hub      *Hub
	cfg      env.Config
	text     string // the greeting as it was sent
	greeting *greeting
	started  bool
	spec     env.Spec
	n        int
	sparse   int // column of Info that replaces the reward; -1 for none
	children []*child
	over     []byte // [n]: flags of ended episodes; 0 while an episode runs

	// Scratch memory of one step.
	turn []byte // [n]: 1 if the environment takes part in the exchange
}

var (
	_ env.Vec      = (*Vec)(nil)
	_ env.Saver    = (*Vec)(nil)
	_ env.Renderer = (*Vec)(nil)
	_ env.Expert   = (*Vec)(nil)
)

// Flags of an environment in Vec.over.
const (
	terminated = 1 << iota
	truncated
	aborted    // its child failed
	needsReset // there was no Reset yet
)

// A child plays environments [lo, hi) of a Vec.
type child struct {
	*conversation // nil if its environments have no simulator
	number        int
	lo, hi        int
	restarts      int  // number of replacements since an episode last ended
	gone          bool // it failed and is not replaced
	idle          bool // none of its environments took part in the last exchange
	by            time.Time
	err           error // error of the last exchange
	lost          error // why the last request to its expert ended the conversation; nil if no such request did
}

// New makes n environments of cfg.External. It is an env.Constructor.
func (h *Hub) New(cfg env.Config, n int) (env.Vec, error) {
	cfg.Split = "" // a key of RLinf's simulators, without effect here
	if err := cfg.Plain(); err != nil {
		return nil, err
	}
	if cfg.External.IsZero() {
		return nil, errors.New("no simulator: set external.command or external.listen")
	}
	text := cfg.External.Greeting
	if text == "" {
		var err error
		if text, err = h.Ask(cfg); err != nil {
			return nil, err
		}
	}
	g, err := readGreeting([]byte(text))
	if err != nil {
		return nil, err
	}
	if g.OwnsLoop && cfg.IgnoreTerminations {
		return nil, fmt.Errorf("%s: ignore_terminations: true: a solver that owns its loop cannot continue "+
			"after its episode has ended, expected false", g.Name)
	}
	v := &Vec{hub: h, cfg: cfg, text: text, greeting: g, spec: g.spec, n: n, sparse: -1, over: make([]byte, n),
		turn: make([]byte, n)}
	v.spec.Goal = v.spec.Goal.Under(cfg)
	if limit := cfg.MaxEpisodeSteps; limit > 0 {
		if limit > v.spec.MaxSteps {
			v.spec.OwnLimit = v.spec.MaxSteps
		}
		v.spec.MaxSteps = limit
	}
	if cfg.RewardMode == env.RewardOnlySuccess {
		v.sparse = v.spec.InfoIndex("success")
	}
	for i := range v.over {
		v.over[i] = needsReset
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.vecs[v] = struct{}{}
	return v, nil
}

// Spec describes one environment.
func (v *Vec) Spec() env.Spec { return v.spec }

// Len returns the number of environments.
func (v *Vec) Len() int { return v.n }

// Reset starts new episodes; see env.Vec.
func (v *Vec) Reset(mask []bool, seeds []uint64, out *env.Step) error {
	if err := v.spec.CheckReset(v.n, mask, seeds, out); err != nil {
		return err
	}
	if err := v.start(); err != nil {
		return err
	}
	for n := range v.turn {
		if v.turn[n] = 0; mask == nil || mask[n] {
			v.turn[n], v.over[n] = 1, 0
		}
	}
	v.exchange(reset, 0, seeds)
	for _, c := range v.children {
		for n := c.lo; c.err != nil && n < c.hi; n++ {
			if v.turn[n] == 0 && v.over[n] == 0 { // its running episode was lost with the child
				v.over[n] = aborted
			}
		}
		if err := v.restart(c, seeds); err != nil {
			return err
		}
		for i := range v.spec.Obs {
			_, dst := out.Obs.Entry(i)
			for n := c.lo; n < c.hi; n++ {
				if v.turn[n] != 0 {
					v.show(c, dst, i, n)
				}
			}
		}
	}
	return nil
}

// Step takes the actions of one chunk; see env.Vec.
func (v *Vec) Step(action tensor.Dict, seeds []uint64, out *env.Step) error {
	a, err := v.spec.CheckStep(v.n, action, seeds, out)
	if err != nil {
		return err
	}
	if out.Status.IsZero() {
		return fmt.Errorf("%s: no buffer of Status, expected U8[%d]: a simulator may fail", v.spec.Name, v.n)
	}
	chunk := a.Dim(1)
	out.Reward.Zero()
	out.Terminated.Zero()
	out.Truncated.Zero()
	out.Status.Zero()
	out.Info.Zero()
	out.Intervened.Zero()
	for _, c := range v.children {
		for n := c.lo; n < c.hi; n++ {
			if v.over[n] != 0 { // repeats the figures of its last step
				v.inform(c, n, n*chunk, out)
			}
		}
	}
	for n, f := range v.over {
		if f&needsReset != 0 {
			return fmt.Errorf("%s: step of environment %d before its first reset", v.spec.Name, n)
		}
		v.turn[n] = 1
		if f != 0 { // the episode stays ended
			v.turn[n] = 0
			out.Terminated.U8()[n*chunk] = f & terminated
			out.Truncated.U8()[n*chunk] = f & truncated / truncated
			if f&aborted != 0 {
				out.Truncated.U8()[n*chunk], out.Status.U8()[n] = 1, env.Aborted
			}
		}
	}
	flags := uint16(0)
	if seeds != nil {
		flags = flagAutoReset
	}
	for k := 0; k < chunk && bytes.IndexByte(v.turn, 1) >= 0; k++ {
		v.act(a, k)
		v.exchange(step, flags, seeds)
		for _, c := range v.children {
			if c.err != nil {
				v.abort(c, k, seeds != nil, out)
			} else {
				v.judge(c, k, seeds != nil, out)
			}
			if err := v.restart(c, seeds); err != nil {
				return err
			}
		}
	}
	for _, c := range v.children {
		for i := range v.spec.Obs {
			_, dst := out.Obs.Entry(i)
			v.showAll(c, dst, i)
		}
	}
	return nil
}

// act copies action k of each chunk into the request blocks of the children.
func (v *Vec) act(a tensor.Tensor, k int) {
	chunk, src := a.Dim(1), a.Bytes()
	row := len(src) / (v.n * chunk)
	for _, c := range v.children {
		if c.conversation == nil {
			continue
		}
		if chunk == 1 {
			copy(c.action, src[c.lo*row:c.hi*row])
			continue
		}
		for n := c.lo; n < c.hi; n++ {
			from := (n*chunk + k) * row
			copy(c.action[(n-c.lo)*row:(n-c.lo+1)*row], src[from:from+row])
		}
	}
}

// exchange sends a request of kind k to the children of the environments that v.turn selects, and
// receives the answers. It sets the field err of each child.
func (v *Vec) exchange(k kind, flags uint16, seeds []uint64) {
	limit, _ := v.limit(k, flags&flagAutoReset != 0)
	for _, c := range v.children {
		c.by = time.Now().Add(limit)
		if c.err = cmp.Or(c.lost, errNoChild); c.conversation != nil {
			c.err = c.ask(k, flags, v.turn[c.lo:c.hi], seeds, c.by)
		}
	}
	for i, c := range v.children {
		if c.err == nil {
			start := c.by.Add(-limit) // when the request was sent
			c.by = v.hub.shutdown.deadline(start, c.by)
			// receiving from earlier children may have used up the time, while this child still
			// writes an answer that is larger than the pipe's buffer
			if i > 0 {
				if late := time.Now().Add(leeway); c.by.Before(late) {
					c.by = late
				}
			}
			c.err = c.answer(c.by)
		}
	}
}

// leeway is the minimum time that a child has to send its answer once the Vec begins to receive it.
const leeway = time.Second

// ask sends a request for the environments that turn selects. If turn selects none, ask sends
// nothing. Call answer next, to receive the reply.
func (c *child) ask(k kind, flags uint16, turn []byte, seeds []uint64, by time.Time) error {
	if c.idle = bytes.IndexByte(turn, 1) < 0; c.idle {
		return nil
	}
	if !bytes.Equal(c.mask, turn) { // an unchanged mask stays in the child's cache
		copy(c.mask, turn)
	}
	if seeds != nil {
		for i, s := range seeds[c.lo:c.hi] {
			c.seed[i] = int64(s)
		}
	}
	return c.conversation.ask(k, flags, by)
}

func (c *child) answer(by time.Time) error {
	if c.idle {
		return nil
	}
	return c.hear(by)
}

// judge writes the results of action k of the chunk, for the environments of child c, and marks
// ended episodes.
func (v *Vec) judge(c *child, k int, autoReset bool, out *env.Step) {
	reward, term, trunc := out.Reward.F32(), out.Terminated.U8(), out.Truncated.U8()
	chunk := out.Reward.Dim(1)
	if chunk == 1 && !out.Info.IsZero() && c.conversation != nil { // one copy of all rows is faster
		copy(out.Info.F32()[c.lo*len(v.spec.Info):], c.info.F32())
	}
	for n := c.lo; n < c.hi; n++ {
		if v.turn[n] == 0 {
			continue
		}
		i, at := n-c.lo, n*chunk+k
		if chunk > 1 {
			v.inform(c, n, at, out)
		}
		if reward[at] = c.reward[i]; v.sparse >= 0 {
			reward[at] = c.info.F32()[i*len(v.spec.Info)+v.sparse]
		}
		term[at], trunc[at] = c.terminated[i], c.truncated[i]
		v.take(c, i, at, out)
		if term[at]|trunc[at] == 0 {
			continue
		}
		c.restarts = 0
		v.hub.repeats.end()
		v.hub.failures.end()
		v.turn[n] = 0
		if !autoReset {
			v.over[n] = term[at]*terminated | trunc[at]*truncated
			continue
		}
		for f := range v.spec.Obs {
			_, dst := out.FinalObs.Entry(f)
			copyRow(dst, n, c.final[f], i)
		}
	}
}

// take writes the action of a person in environment i of child c, within the bounds of the space. The argument at is
// the row in the caller's Taken.
func (v *Vec) take(c *child, i, at int, out *env.Step) {
	if c.intervened == nil || c.intervened[i] == 0 {
		return
	}
	copyRow(c.clipped, 0, c.taken, i)
	out.Intervened.U8()[at] = env.Acted
	if clip(&v.spec.Action, c.clipped) {
		out.Intervened.U8()[at] = env.Clipped
	}
	copy(out.Taken.Bytes()[at*len(c.clipped.Bytes()):], c.clipped.Bytes())
}

// abort writes the results of action k of the chunk for the failed child c. The running episodes of
// the child are aborted.
func (v *Vec) abort(c *child, k int, autoReset bool, out *env.Step) {
	trunc, status, chunk := out.Truncated.U8(), out.Status.U8(), out.Reward.Dim(1)
	for n := c.lo; n < c.hi; n++ {
		if v.turn[n] == 0 {
			continue
		}
		v.turn[n] = 0
		if trunc[n*chunk+k], status[n] = 1, env.Aborted; autoReset && c.gone {
			status[n] = env.NoEpisode
		}
		if !autoReset {
			v.over[n] = aborted
			continue
		}
		for f := range v.spec.Obs {
			_, dst := out.FinalObs.Entry(f)
			zeroRow(dst, n)
		}
	}
}

// show copies observation i of environment n, which child c plays, to row n of dst. Without a
// simulator, it fills the row with zeros, or with ones in an action mask.
func (v *Vec) show(c *child, dst tensor.Tensor, i, n int) {
	switch {
	case c.conversation != nil:
		copyRow(dst, n, c.obs[i], n-c.lo)
	case v.spec.Obs[i].Name == env.ActionMask:
		row := dst.Slice(n, n+1).U8()
		for j := range row {
			row[j] = 1
		}
	default:
		zeroRow(dst, n)
	}
}

// showAll calls show for all environments of c, in one copy if possible.
func (v *Vec) showAll(c *child, dst tensor.Tensor, i int) {
	if c.conversation == nil {
		for n := c.lo; n < c.hi; n++ {
			v.show(c, dst, i, n)
		}
		return
	}
	size := len(dst.Bytes()) / dst.Dim(0)
	take(dst.Bytes()[c.lo*size:c.hi*size], c.obs[i].Bytes())
}

// inform copies the figures of environment n to row i of the caller's Info. Without an Info it does
// nothing.
func (v *Vec) inform(c *child, n, i int, out *env.Step) {
	if figures := len(v.spec.Info); !out.Info.IsZero() && c.conversation != nil {
		copy(out.Info.F32()[i*figures:], c.info.F32()[(n-c.lo)*figures:(n-c.lo+1)*figures])
	}
}

func copyRow(dst tensor.Tensor, n int, src tensor.Tensor, i int) {
	size := len(dst.Bytes()) / dst.Dim(0)
	take(dst.Bytes()[n*size:(n+1)*size], src.Bytes()[i*size:(i+1)*size])
}

func zeroRow(dst tensor.Tensor, n int) { dst.Slice(n, n+1).Zero() }

// limit returns the maximum time for an answer to a request of kind k, and the key that sets it.
func (v *Vec) limit(k kind, autoReset bool) (time.Duration, string) {
	if e := &v.cfg.External; e.ResetTimeout > 0 && (k == reset || k == step && autoReset) {
		return e.ResetTimeout, "external.reset_timeout"
	}
	return v.cfg.External.StepTimeout, "external.step_timeout"
}

func (v *Vec) by() time.Time { return time.Now().Add(v.cfg.External.StepTimeout) }

// Close ends the children.
func (v *Vec) Close() error {
	v.hub.mu.Lock()
	delete(v.hub.vecs, v)
	v.hub.mu.Unlock()
	errs := make([]error, len(v.children))
	var ends sync.WaitGroup
	for i, c := range v.children {
		if c.conversation != nil {
			ends.Go(func() { errs[i] = c.close(false) })
		}
	}
	ends.Wait()
	for _, c := range v.children {
		c.conversation = nil
	}
	return errors.Join(errs...)
}
