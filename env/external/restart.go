package external

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/printable"
)

// errNoChild is the error of a request to environments that have no child.
var errNoChild = errors.New("they have no simulator")

// start spawns the children when it is first called.
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
		if err := v.spawn(c); err != nil && v.hub.shutdown.requested() {
			c.gone = true
			fmt.Fprintf(v.hub.log, "environments %d-%d of %s: %v\n", c.lo, c.hi-1, v.spec.Name, err)
		} else if err != nil {
			return fmt.Errorf("%s: environments %d-%d: %w", v.spec.Name, c.lo, c.hi-1, err)
		}
	}
	return nil
}

// spawn opens a new child for the environments of c, and configures it.
func (v *Vec) spawn(c *child) error {
	ext := v.cfg.External
	talk, err := v.hub.open(ext)
	if err != nil {
		return err
	}
	if talk.text != v.text {
		err = fmt.Errorf("its greeting differs from that of the first child: %s", printable.Text(talk.text))
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
		err = fmt.Errorf("%s: %w%s", talk.who, err, talk.exitReport(err))
		talk.close(true)
		return err
	}
	c.conversation, c.lost = talk, nil
	return nil
}

// firstWait is the delay before the first of several successive restarts. The delay doubles with
// each further restart, up to longestWait.
const (
	firstWait   = 100 * time.Millisecond
	longestWait = 10 * time.Second
)

// restart replaces child c if it failed in the last exchange. If seeds is not nil, environments whose episodes are not
// over begin new episodes. If c cannot be replaced, its environments have no simulator any more, and restart calls
// Hub.giveUp. After a request to stop, restart only logs the failure.
func (v *Vec) restart(c *child, seeds []uint64) error {
	for c.err != nil && !c.gone {
		why := c.err.Error()
		if c.conversation != nil {
			why = v.explain(c, c.err)
			c.close(true)
			c.conversation = nil
		}
		where := fmt.Sprintf("environments %d-%d of %s", c.lo, c.hi-1, v.spec.Name)
		same := v.hub.repeats.add(c.err)
		if v.hub.shutdown.requested() {
			c.gone = true
			fmt.Fprintf(v.hub.log, "%s: %s\n%s: their episodes are left out; no other simulator takes over, because "+
				"the program was asked to stop\n", where, why, where)
			return nil
		}
		if end := v.finalFailure(c, same); end != "" {
			c.gone = true
			return v.hub.giveUp(fmt.Errorf("%s: %s\n%s", where, why, end))
		}
		wait := min(firstWait<<min(c.restarts, 10), longestWait)
		c.restarts++
		text := fmt.Appendf(nil, "%s: %s\n%s: their episodes are left out; another simulator takes over (restart %d "+
			"of %d in a row)\n", where, why, where, c.restarts, v.cfg.External.MaxRestarts)
		if v.hub.failures.count(c.err.Error()) == 1 || !v.hub.log.Repeat(text) {
			v.hub.log.Write(text)
		}
		select {
		case <-time.After(wait):
		case <-v.hub.shutdown.asked:
			continue
		}
		if c.err = v.spawn(c); c.err == nil && seeds != nil {
			c.err = v.begin(c, seeds)
		}
	}
	return nil
}

// finalFailure returns the reason why child c is not replaced, or "" if it can be replaced. The child's error was
// reported count times.
func (v *Vec) finalFailure(c *child, count int) string {
	most := v.cfg.External.MaxSameErrors
	switch {
	case most > 0 && count >= most:
		return fmt.Sprintf("the simulators have reported this error %s (external.max_same_errors)", times(count))
	case v.greeting.Period > 0:
		return "no other robot takes its place: see to it, and start the job again with --resume auto"
	case v.cfg.External.Listen == env.ListenMPI: // no solver joins a running job
		return "no other solver of this MPI job can take its place"
	case c.restarts == v.cfg.External.MaxRestarts:
		return fmt.Sprintf("that was %s in a row without the end of an episode (external.max_restarts)",
			times(c.restarts+1))
	}
	return ""
}

// explain returns a message for the failure err of child c, with its exit status and last output.
func (v *Vec) explain(c *child, err error) string {
	switch {
	case !errors.Is(err, os.ErrDeadlineExceeded):
	case v.hub.shutdown.limitsReplies():
		err = errNoReply
	default:
		limit, key := v.limit(c.asked, c.autoReset)
		err = late("answer", limit, key, err)
	}
	return fmt.Sprintf("%s: %v%s", c.who, err, c.exitReport(err))
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// begin starts new episodes in the environments of c whose episodes are not over.
func (v *Vec) begin(c *child, seeds []uint64) error {
	turn := make([]byte, c.hi-c.lo)
	for i := range turn {
		if v.over[c.lo+i] == 0 {
			turn[i] = 1
		}
	}
	limit, _ := v.limit(reset, false)
	if err := c.ask(reset, 0, turn, seeds, time.Now().Add(limit)); err != nil {
		return err
	}
	return c.answer(time.Now().Add(limit))
}
