package spmd

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
)

// Errors of channels, for callers that branch on them.
var (
	ErrClosed = errors.New("closed")         // no more items will come, or the Sender is closed
	ErrEmpty  = errors.New("nothing queued") // error of TryGet: the queue has no item
	ErrFull   = errors.New("no credit")      // error of TryTake: the key has no room
)

// A ChannelSpec describes a Channel. The spec is the same on every rank.
type ChannelSpec struct {
	Name     string
	From, To GroupSpec // producers and consumers; launch both groups before NewChannel
	// MaxSize is the capacity of a key's queue, in items; 0 means 1. Each producer may have one more
	// item in transit.
	MaxSize int
	// ItemBytes is the largest Layout.Size of an item.
	ItemBytes int
	// Pairs reports whether the given producer may send to keys of the given consumer. If Pairs is nil, every producer
	// may. A consumer posts receives only for the producers that may send to it, so large jobs should set Pairs.
	Pairs func(producer, consumer int) bool
	// Shared allows keys with To: AnyMember. Each process with consumers has a goroutine that serves such keys.
	Shared bool
}

// AnyMember is the Key.To of a key that all consumers share. Each item goes to the consumer that called
// Get first.
const AnyMember = -1

// A Key names one queue of a Channel.
type Key struct {
	To   int // consumer member, or AnyMember
	Name string
}

func (k Key) String() string {
	if k.To == AnyMember {
		return fmt.Sprintf("%q of any member", k.Name)
	}
	return fmt.Sprintf("%q of member %d", k.Name, k.To)
}

// maxKeyName is the largest length of Key.Name.
const maxKeyName = 255

// A Channel is a set of bounded FIFO queues, one for each key. The queues lead from the members of one group to the
// members of another group. A queue lives in its consumer's process. A shared queue lives in the process of one of the
// consumers. Each consumer gets the items of one producer in the order in which they were put.
//
// All Senders and Receivers of one member belong to one goroutine at a time.
type Channel struct {
	w    *World
	spec ChannelSpec

	owners    []int // ranks that serve shared keys; owner i is member len(From)+len(To)+i of the communicator
	producers map[int]*port
	consumers map[int]*port
	inboxes   map[int]*inbox // inboxes of the consumers on this rank
	owned     *inbox         // inbox for the shared keys that this rank owns; nil if it owns none
	stop      context.CancelFunc
	served    sync.WaitGroup

	mu        sync.Mutex
	senders   map[handle]*Sender
	receivers map[handle]*Receiver
	tags      map[[2]int]int // next free tag for each pair of a member on this rank and a peer
}

type handle struct {
	member int
	key    Key
}

// Tags of a channel's communicator. Keys use the tags from firstKeyTag on.
const (
	tagControl  = iota // producer → inbox: a key was opened or closed
	tagBell            // members of the owner's process → inbox: a queue has changed
	tagRequest         // consumer → owner: request for an item
	firstKeyTag = 8
)

// NewChannel makes a channel. It is collective: every rank calls it, in the same order.
func NewChannel(w *World, spec ChannelSpec) (_ *Channel, err error) {
	defer annotate(&err, "channel %q", spec.Name)
	w.note("channel", spec.Name, nil)
	if len(spec.From.Ranks) == 0 || len(spec.To.Ranks) == 0 {
		return nil, errors.New("expected producers and consumers")
	}
	if spec.MaxSize < 0 || spec.ItemBytes < 0 {
		return nil, fmt.Errorf("max size %d, %d bytes an item: expected none below 0", spec.MaxSize, spec.ItemBytes)
	}
	spec.MaxSize = max(spec.MaxSize, 1)
	if spec.Pairs == nil {
		spec.Pairs = func(int, int) bool { return true }
	}
	c := &Channel{
		w: w, spec: spec,
		producers: make(map[int]*port), consumers: make(map[int]*port), inboxes: make(map[int]*inbox),
		senders: make(map[handle]*Sender), receivers: make(map[handle]*Receiver), tags: make(map[[2]int]int),
	}
	members := slices.Concat(spec.From.Ranks, spec.To.Ranks)
	if spec.Shared {
		for _, r := range spec.To.Ranks {
			if !slices.Contains(c.owners, r) {
				c.owners = append(c.owners, r)
			}
		}
		members = append(members, c.owners...)
	}
	if slices.Contains(members, w.Rank()) {
		if err := c.connect(members); err != nil {
			return nil, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.channels = append(w.channels, c)
	return c, nil
}

// connect makes the communicator of all members, unless all of them are in one process. It also makes the ports and
// inboxes of this rank's members, and starts the goroutine that serves this rank's shared keys.
func (c *Channel) connect(members []int) error {
	var ends []Comm
	if slices.ContainsFunc(members, func(r int) bool { return r != members[0] }) {
		var err error
		if ends, err = c.w.newComm(members, "channel/"+c.spec.Name, true); err != nil {
			return err
		}
	}
	from, to := len(c.spec.From.Ranks), len(c.spec.To.Ranks)
	for m, r := range members {
		if r != c.w.Rank() {
			continue
		}
		var p *port
		if len(ends) > 0 {
			p, ends = &port{comm: ends[0]}, ends[1:]
		}
		switch {
		case m < from:
			c.producers[m] = p
		case m < from+to:
			c.consumers[m-from] = p
			senders := slices.DeleteFunc(ascending(0, from), func(i int) bool { return !c.spec.Pairs(i, m-from) })
			box, err := newInbox(c, m, members, p, senders, nil)
			if err != nil {
				return err
			}
			c.inboxes[m-from] = box
		default:
			box, err := newInbox(c, m, members, p, ascending(0, from), ascending(from, to))
			if err != nil {
				return err
			}
			c.owned = box
			if box.port != nil {
				c.serve(box)
			}
		}
	}
	return nil
}

// serve starts the goroutine that serves the shared keys of this rank.
func (c *Channel) serve(box *inbox) {
	ctx, stop := context.WithCancel(c.w.job.end)
	c.stop = stop
	c.served.Go(func() {
		protect(c.w.reporter("channel "+c.spec.Name, -1), func() error {
			err := box.serve(ctx)
			if ctx.Err() != nil {
				return nil
			}
			return err
		})
	})
}

// Sender returns the handle with which member m puts items under a key. m must be a producer. Calls with the same key
// return the same handle. The call announces the producer to the consumer at once.
func (c *Channel) Sender(m *Member, key Key) (*Sender, error) {
	if err := c.check(m, c.spec.From, key); err != nil {
		return nil, fmt.Errorf("channel %q: sender of key %v: %w", c.spec.Name, key, err)
	}
	if key.To != AnyMember && !c.spec.Pairs(m.Index(), key.To) {
		return nil, fmt.Errorf("channel %q: sender of key %v: Pairs does not let producer %d send to consumer %d",
			c.spec.Name, key, m.Index(), key.To)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := handle{m.Index(), key}
	if s := c.senders[h]; s != nil {
		return s, nil
	}
	s, err := c.newSender(m, key)
	if err != nil {
		return nil, fmt.Errorf("channel %q: sender of key %v: %w", c.spec.Name, key, err)
	}
	c.senders[h] = s
	return s, nil
}

// Receiver returns the handle with which member m gets the items of a key. m must be a consumer. The key must be shared
// or belong to m. Calls with the same key return the same handle.
func (c *Channel) Receiver(m *Member, key Key) (*Receiver, error) {
	err := c.check(m, c.spec.To, key)
	if err == nil && key.To != AnyMember && key.To != m.Index() {
		err = fmt.Errorf("it belongs to member %d, not to %d", key.To, m.Index())
	}
	if err != nil {
		return nil, fmt.Errorf("channel %q: receiver of key %v: %w", c.spec.Name, key, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := handle{m.Index(), key}
	if r := c.receivers[h]; r != nil {
		return r, nil
	}
	r, err := c.newReceiver(m, key)
	if err != nil {
		return nil, fmt.Errorf("channel %q: receiver of key %v: %w", c.spec.Name, key, err)
	}
	c.receivers[h] = r
	return r, nil
}

// site returns the Site under which an operation on a key is recorded. peer is the group at the other end of the
// channel.
func (c *Channel) site(op SiteOp, key Key, peer GroupSpec) Site {
	name := key.Name
	if key.To != AnyMember { // members may have keys of the same name
		name = fmt.Sprintf("%s of %s %d", key.Name, c.spec.To.Name, key.To)
	}
	return Site{Op: op, Name: c.spec.Name, Key: name, Peer: peer.Name}
}

// Close closes all Senders of member m, and announces to the consumers that m will open no more keys. A
// worker calls it after its last Put.
func (c *Channel) Close(m *Member) error {
	if err := c.check(m, c.spec.From, Key{}); err != nil {
		return fmt.Errorf("channel %q: close: %w", c.spec.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for h, s := range c.senders {
		if h.member != m.Index() {
			continue
		}
		if err := s.Close(); err != nil {
			return err
		}
	}
	if err := c.leave(m.Index()); err != nil {
		return fmt.Errorf("channel %q: close: %w", c.spec.Name, err)
	}
	return nil
}

func (c *Channel) check(m *Member, group GroupSpec, key Key) error {
	switch {
	case m.Group() != group.Name || m.World() != c.w:
		return fmt.Errorf("expected a member of group %q of this rank, not of %q", group.Name, m.Group())
	case len(key.Name) > maxKeyName:
		return fmt.Errorf("expected a name of at most %d bytes", maxKeyName)
	case key.To == AnyMember && !c.spec.Shared:
		return errors.New("expected ChannelSpec.Shared for keys of any member")
	case key.To < AnyMember || key.To >= len(c.spec.To.Ranks):
		return fmt.Errorf("expected a consumer of 0..%d", len(c.spec.To.Ranks)-1)
	}
	return nil
}

// ownerOf returns the communicator member that owns a key, and the owner's inbox. The inbox is nil if the owner is in
// another process.
func (c *Channel) ownerOf(key Key) (member int, box *inbox) {
	from, to := len(c.spec.From.Ranks), len(c.spec.To.Ranks)
	if key.To != AnyMember {
		return from + key.To, c.inboxes[key.To]
	}
	h := fnv.New32a()
	h.Write([]byte(key.Name))
	i := int(h.Sum32() % uint32(len(c.owners)))
	if c.owners[i] == c.w.Rank() {
		return from + to + i, c.owned
	}
	return from + to + i, nil
}

// tag reserves n consecutive tags for messages between two members of the communicator. It returns the first tag.
func (c *Channel) tag(here, there, n int) (int, error) {
	p := [2]int{here, there}
	t := max(c.tags[p], firstKeyTag)
	if t+n > MaxTag {
		return 0, fmt.Errorf("more than %d keys between two members", MaxTag-firstKeyTag)
	}
	c.tags[p] = t + n
	return t, nil
}

// drain waits until all sends of this rank are done.
func (c *Channel) drain(ctx context.Context) (err error) {
	defer annotate(&err, "channel %q: end", c.spec.Name)
	for _, s := range c.senders {
		if err := s.drain(ctx); err != nil {
			return err
		}
	}
	for _, ports := range []map[int]*port{c.producers, c.consumers} {
		for _, p := range ports {
			if err := p.drain(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// halt stops the goroutine that serves shared keys.
func (c *Channel) halt(ctx context.Context) (err error) {
	defer annotate(&err, "channel %q: end", c.spec.Name)
	if c.stop == nil {
		return nil
	}
	c.stop()
	c.served.Wait()
	return c.owned.drain(ctx)
}

// close cancels the receives that no message will match.
func (c *Channel) close(ctx context.Context) (err error) {
	defer annotate(&err, "channel %q: end", c.spec.Name)
	for _, s := range c.senders {
		if err := s.cancel(ctx); err != nil {
			return err
		}
	}
	for _, r := range c.receivers {
		if err := r.access.cancel(ctx); err != nil {
			return err
		}
	}
	for _, b := range c.inboxes {
		if err := b.cancel(ctx); err != nil {
			return err
		}
	}
	if c.owned != nil {
		return c.owned.cancel(ctx)
	}
	return nil
}
