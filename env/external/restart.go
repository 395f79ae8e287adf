package external

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rlinf/rlinf/env"
)

// errNobody is what an exchange comes to with a child that failed too often.
var errNobody = errors.New("nobody plays them")

// start brings the children, once.
func (v *Vec) start() error {
	if v.started {
		return nil
	}
	v.started = true
	count, err := v.greeting.children(v.cfg.External.N, v.n)
	if err != nil {
		return err
	}
	for i := range count {
		v.children = append(v.children, &child{number: i, lo: i * v.n / count, hi: (i + 1) * v.n / count})
	}
	for _, c := range v.children {
		if err := v.bring(c); err != nil && v.hub.haste.is() {
			c.gone = true
			fmt.Fprintf(v.hub.log, "environments %d-%d of %s: %v\n", c.lo, c.hi-1, v.spec.Name, err)
		} else if err != nil {
			return fmt.Errorf("%s: environments %d-%d: %w", v.spec.Name, c.lo, c.hi-1, err)
		}
	}
	return nil
}

// bring has c played by a program that is new to it.
func (v *Vec) bring(c *child) error {
	ext := v.cfg.External
	talk, err := v.hub.open(ext)
	if err != nil {
		return err
	}
	if talk.text != v.text {
		err = fmt.Errorf("its greeting is not that of the first: %s", talk.text)
	} else {
		err = talk.configure(setup{
			n: c.hi - c.lo, child: c.number, maxSteps: v.spec.MaxSteps, ignoreTerminations: v.cfg.IgnoreTerminations,
			shareMemory: ext.SharedMemory, before: time.Now().Add(ext.StartTimeout),
		})
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = late("READY after CONFIG", ext.StartTimeout, "external.start_timeout", err)
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w%s", talk.who, err, talk.obituary(err))
		talk.close(true)
		return err
	}
	c.conversation = talk
	return nil
}

// firstWait and longestWait are how long to wait before a child is replaced for the first time in a
// row, and at most.
const (
	firstWait   = 100 * time.Millisecond
	longestWait = 10 * time.Second
)

// mend replaces child c if it failed in the last exchange. With seeds all of its environments whose
// episodes are not over begin new ones. When it was replaced too often, or nobody can replace it,
// nobody plays them from then on, and who watches the Hub is told, or if nobody does the caller.
func (v *Vec) mend(c *child, seeds []uint64) error {
	for c.err != nil && !c.gone {
		why := c.err.Error()
		if c.conversation != nil {
			why = v.explain(c, c.err)
			c.close(true)
			c.conversation = nil
		}
		where := fmt.Sprintf("environments %d-%d of %s", c.lo, c.hi-1, v.spec.Name)
		if v.hub.haste.is() {
			c.gone = true
			fmt.Fprintf(v.hub.log, "%s: %s\n%s: their episodes are left out; no other child takes over, for the "+
				"program is to stop\n", where, why, where)
			return nil
		}
		if end := v.last(c); end != "" {
			c.gone = true
			return v.hub.give(fmt.Errorf("%s: %s\n%s", where, why, end))
		}
		wait := min(firstWait<<min(c.restarts, 10), longestWait)
		c.restarts++
		fmt.Fprintf(v.hub.log, "%s: %s\n%s: their episodes are left out; another child takes over (restart %d of %d "+
			"in a row)\n",
			where, why, where, c.restarts, v.cfg.External.MaxRestarts)
		select {
		case <-time.After(wait):
		case <-v.hub.haste.began:
			continue
		}
		if c.err = v.bring(c); c.err == nil && seeds != nil {
			c.err = v.begin(c, seeds)
		}
	}
	return nil
}

// last says why child c is not replaced; "" where it is.
func (v *Vec) last(c *child) string {
	switch {
	case v.cfg.External.Listen == env.ListenMPI: // all that will ever come were offered when the job began
		return "no other solver of this MPI job can take its place"
	case c.restarts == v.cfg.External.MaxRestarts:
		return fmt.Sprintf("that was %s in a row without the end of an episode (external.max_restarts)",
			times(c.restarts+1))
	}
	return ""
}

// explain says what befell child c.
func (v *Vec) explain(c *child, err error) string {
	switch {
	case !errors.Is(err, os.ErrDeadlineExceeded):
	case v.hub.haste.atOnce():
		err = errHaste
	default:
		err = late("answer", v.cfg.External.StepTimeout, "external.step_timeout", err)
	}
	return fmt.Sprintf("%s: %v%s", c.who, err, c.obituary(err))
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// begin starts new episodes in all of c's environments but those that are over.
func (v *Vec) begin(c *child, seeds []uint64) error {
	turn := make([]byte, c.hi-c.lo)
	for i := range turn {
		if v.over[c.lo+i] == 0 {
			turn[i] = 1
		}
	}
	if err := c.ask(reset, 0, turn, seeds, v.by()); err != nil {
		return err
	}
	return c.answer(v.by())
}
