package external

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/programs"
)

// A Hub starts children, or accepts children that connect. One Hub serves a whole process. Several
// goroutines may create Vecs, and use different Vecs.
type Hub struct {
	log      *lineWriter
	output   io.Writer // for the children's output: writes up to maxOutput bytes to log
	rank     int
	programs *programs.Starter
	shutdown *shutdown
	repeats  repeats            // counts errors that simulators report
	failures repeats            // counts failures of all kinds
	offered  chan *conversation // children added with Offer

	mu        sync.Mutex
	listeners map[string]*listener
	spare     map[string]*conversation // by source: children that Ask opened and no Vec uses yet
	vecs      map[*Vec]struct{}
	started   int // number of children started so far
	stop      func(error)
}

// NewHub returns a Hub that writes its children's output and failures to log. If log has a method Repeat([]byte),
// repeated lines and failures go to this method instead. The argument rank is this process's rank in its job. Each rank
// listens at its own address.
func NewHub(log io.Writer, rank int) *Hub {
	lines := &lineWriter{to: log}
	novel := &novelWriter{to: lines, by: map[string]string{}}
	return &Hub{
		log: lines, output: &limitedWriter{to: novel, left: maxOutput}, rank: rank, programs: new(programs.Starter),
		shutdown: &shutdown{asked: make(chan struct{})}, offered: make(chan *conversation, maxWaiting),
		listeners: map[string]*listener{}, vecs: map[*Vec]struct{}{}, spare: map[string]*conversation{},
	}
}

// Supervise makes the Hub start its children under a supervisor. When this process ends, the
// supervisor ends the children and their processes. Call Supervise before the Hub starts children.
// It returns the Hub.
func (h *Hub) Supervise(by programs.Entered) *Hub {
	h.programs = by.NewStarter()
	return h
}

// Ask returns the greeting of the simulators of cfg, for env.External.Greeting. It starts or
// accepts a child, which the first Vec with the same command or address will use.
func (h *Hub) Ask(cfg env.Config) (string, error) {
	c, err := h.open(cfg.External)
	if err != nil {
		return "", fmt.Errorf("%s: %w", source(cfg.External), err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.spare[source(cfg.External)]; old != nil {
		err = old.close(false)
	}
	h.spare[source(cfg.External)] = c
	return c.text, err
}

// Offer adds a child that talks over link. It is for Vecs whose env.External.Listen is env.ListenMPI.
func (h *Hub) Offer(link Conn, who string) error {
	c, err := greet(link, nil, who, "", h.output, time.Now().Add(greetingTime))
	if err == nil {
		h.offered <- c
	}
	return err
}

// Watch sets the function that the Hub calls when a child fails and is not replaced. The child's environments then have
// no further episodes (env.NoEpisode). Without Watch, Step returns the error.
func (h *Hub) Watch(stop func(error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop = stop
}

// giveUp passes err to the function set by Watch. If there is none, it returns err.
func (h *Hub) giveUp(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop == nil {
		return err
	}
	h.stop(err)
	return nil
}

// Close ends all children, including those of open Vecs, and stops listening. It may be called
// again.
func (h *Hub) Close() error {
	h.mu.Lock()
	vecs, spare, listeners := h.vecs, h.spare, h.listeners
	h.vecs, h.spare, h.listeners = map[*Vec]struct{}{}, map[string]*conversation{}, map[string]*listener{}
	h.mu.Unlock()
	var err error
	for v := range vecs {
		err = errors.Join(err, v.Close())
	}
	for _, c := range spare {
		err = errors.Join(err, c.close(false))
	}
	for _, l := range listeners {
		err = errors.Join(err, l.close())
	}
	err = errors.Join(err, closeAll(h.offered))
	if late := h.programs.Close(); late != nil {
		fmt.Fprintln(h.log, "warning:", late)
	}
	return err
}

// closeAll closes the conversations in a queue.
func closeAll(queue chan *conversation) (err error) {
	for {
		select {
		case c := <-queue:
			err = errors.Join(err, c.close(false))
		default:
			return err
		}
	}
}

// open returns a child that has sent its greeting: a spare child, a child that connected, or a new
// process.
func (h *Hub) open(cfg env.External) (*conversation, error) {
	h.mu.Lock()
	spare := h.spare[source(cfg)]
	delete(h.spare, source(cfg))
	h.mu.Unlock()
	if spare != nil {
		return spare, nil
	}
	by := time.Now().Add(cfg.StartTimeout)
	if cfg.Listen != "" {
		return h.await(cfg, by)
	}
	h.mu.Lock()
	who := fmt.Sprintf("simulator %d", h.started)
	h.started++
	h.mu.Unlock()
	proc, link, err := start(h.programs, cfg.Command, who, h.output)
	if err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w: expected a program that can be found and run; for a script, the program that its #! "+
				"line names must exist, too", err)
		}
		return nil, err
	}
	link.shutdown = h.shutdown
	c, err := greet(link, proc, who, "", h.output, by)
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = late("greeting", cfg.StartTimeout, "external.start_timeout", err)
		}
		about := proc.fate(err) + proc.outputTail()
		return nil, errors.Join(fmt.Errorf("%s: %w%s", who, err, about), link.Close(), proc.end(true))
	}
	return c, nil
}

// await returns the next child that connects. With env.ListenMPI it returns the next child that
// Offer added.
func (h *Hub) await(cfg env.External, by time.Time) (*conversation, error) {
	if cfg.Listen == env.ListenMPI {
		select {
		case c := <-h.offered:
			return c, nil
		default:
			return nil, errNoSolver
		}
	}
	h.mu.Lock()
	l := h.listeners[cfg.Listen]
	var err error
	if l == nil {
		if l, err = h.listen(cfg.Listen, cfg.TokenFile); err == nil {
			h.listeners[cfg.Listen] = l
			fmt.Fprintf(h.log, "waiting for simulators at RLB_ADDR=%s:%v\n", l.net.Addr().Network(), l.net.Addr())
		}
	}
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(time.Until(by))
	defer timer.Stop()
	select {
	case c := <-l.queue:
		c.link.(*stream).shutdown = h.shutdown
		return c, nil
	case <-h.shutdown.asked:
		return nil, fmt.Errorf("no simulator connected to %v before %w", l.net.Addr(), ErrStopRequested)
	case <-timer.C:
		return nil, fmt.Errorf("no simulator connected in %v (start_timeout)", cfg.StartTimeout)
	}
}

// errNoSolver is the error of await if all children added with Hub.Offer are in use.
var errNoSolver = errors.New("no other solver is in this MPI job; solvers in the MPI job serve only a training job " +
	"(rlinf -c), no other command")

// source returns the address of cfg, or its quoted command. The text is a unique key and also appears in messages.
func source(cfg env.External) string {
	if cfg.Listen != "" {
		return cfg.Listen
	}
	words := slices.Clone(cfg.Command)
	for i, w := range words {
		if w == "" || strings.ContainsAny(w, " \"") {
			words[i] = strconv.Quote(w)
		}
	}
	return strings.Join(words, " ")
}
