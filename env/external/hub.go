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
)

// A Hub is where children come from: it starts them, or waits for those that connect. One serves a
// whole process, whose Vecs may be made and used by several goroutines.
type Hub struct {
	log     io.Writer
	output  io.Writer // for what children write: to log, as long as it is not too much
	rank    int
	starter starter
	haste   *haste
	offered chan *conversation // children that came over other links

	mu        sync.Mutex
	listeners map[string]*listener
	spare     map[string]*conversation // of Ask: the child of a command whom nobody needs yet
	vecs      map[*Vec]struct{}
	started   int // children, so far
	stop      func(error)
}

// NewHub returns a Hub whose children's output, and what befalls them, goes to log. rank is that of
// this process in its job, 0 if it is alone: sockets of different ranks have different addresses.
func NewHub(log io.Writer, rank int) *Hub {
	lines := &lineWriter{to: log}
	return &Hub{
		log: lines, output: &limitedWriter{to: lines, left: maxOutput}, rank: rank,
		haste: &haste{began: make(chan struct{})}, offered: make(chan *conversation, maxWaiting),
		listeners: map[string]*listener{}, vecs: map[*Vec]struct{}{}, spare: map[string]*conversation{},
	}
}

// A lineWriter lets goroutines write lines in turn.
type lineWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// maxOutput is how many bytes of what children write, all of a Hub together, go to its log: of
// those that are replaced again and again there is no end.
const maxOutput = 16 << 20

// A limitedWriter passes on what goroutines write until left bytes are passed on, then says that
// the rest is left out.
type limitedWriter struct {
	mu   sync.Mutex
	to   io.Writer
	left int // < 0: none, and it was said
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left >= 0 {
		if w.left -= len(p); w.left >= 0 {
			return w.to.Write(p)
		}
		fmt.Fprintf(w.to, "simulators have written %d MiB: the rest is left out here, but for the last lines of one "+
			"that fails (docs/bridge.md, Addresses)\n", maxOutput>>20)
	}
	return 0, errTooMuch
}

// errTooMuch is what becomes of what a limitedWriter leaves out.
var errTooMuch = errors.New("too much was written before")

// Ask returns what the simulators of cfg say of themselves, for env.External.Greeting. The child
// that it asks is there for the first Vec of the same command or address.
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

// Offer gives the Hub a child that talks over link, for Vecs whose env.External.Listen is
// env.ListenMPI.
func (h *Hub) Offer(link Link, who string) error {
	c, err := greet(link, nil, who, "", h.output, time.Now().Add(greetingTime))
	if err == nil {
		h.offered <- c
	}
	return err
}

// Watch makes the Hub call stop when a child has failed too often to be replaced. Its environments
// have no episodes (env.NoEpisode) from then on. Without Watch, Step returns the error.
func (h *Hub) Watch(stop func(error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop = stop
}

// give passes on err; it is back if nobody watches.
func (h *Hub) give(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop == nil {
		return err
	}
	h.stop(err)
	return nil
}

// Close ends all children, those of Vecs that were not closed included, and listens no more. It may
// be called again.
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
	for {
		select {
		case c := <-h.offered:
			err = errors.Join(err, c.close(false))
		default:
			h.starter.close()
			return err
		}
	}
}

// open brings a child that has greeted.
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
	who := fmt.Sprintf("child %d", h.started)
	h.started++
	h.mu.Unlock()
	proc, link, err := h.starter.start(cfg.Command, nil, who, h.output)
	if err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w: want a program that can be found and run; of a script, the one that its #! line "+
				"names too", err)
		}
		return nil, err
	}
	link.haste = h.haste
	c, err := greet(link, proc, who, "", h.output, by)
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = late("greeting", cfg.StartTimeout, "external.start_timeout", err)
		}
		about := proc.fate(err) + proc.lastWords()
		return nil, errors.Join(fmt.Errorf("%s: %w%s", who, err, about), link.Close(), proc.end(true))
	}
	return c, nil
}

// await returns the next child that connects.
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
		if l, err = h.listen(cfg.Listen, cfg.TokenFile, h.rank); err == nil {
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
		c.link.(*stream).haste = h.haste
		return c, nil
	case <-h.haste.began:
		return nil, fmt.Errorf("no simulator has come to %v before %w", l.net.Addr(), ErrHaste)
	case <-timer.C:
		return nil, fmt.Errorf("no simulator has come in %v (start_timeout)", cfg.StartTimeout)
	}
}

// errNoSolver is what comes of waiting for a program of the same MPI job: all that will ever come
// were offered when it began.
var errNoSolver = errors.New("no other solver is in this MPI job; those that are take part in a job (rlinf -c), and " +
	"in no other command")

// source says where the children of cfg come from: of others it says something else.
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
