package collectives

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rlinf/rlinf/spmd"
)

// A Host is the part of *spmd.World that a Group uses.
type Host interface {
	Nodes() []int
	Alloc(n int) ([]byte, error)
	Shared() (spmd.Shared, bool)
	HasNative() bool
	NewNative(ranks []int, label string) (spmd.Native, error)
	Go(name string, f func() error)
}

// Options configure a Group. They are the same on every member.
type Options struct {
	// Fast allows the fastest algorithm for reductions. Otherwise reductions add by one tree over members, so that
	// the bits of a result do not depend on transport, library, placement or order of arrival.
	Fast bool
	// Algorithm names the algorithm for every operation that it supports. With "" and "auto" the table
	// chooses the algorithm.
	Algorithm string
	// TuningTable takes precedence over the built-in table. It may be nil.
	Table *TuningTable
	// MaxMessage is the largest message in bytes, a multiple of 8. Longer buffers are sent in pieces.
	// 0 means 1 GiB, because MPI counts in C ints.
	MaxMessage int
	// Debug compares every call across the members before it runs. The error of a mismatch shows both
	// calls.
	Debug bool
}

// A Group runs collective operations over one Comm. It belongs to one goroutine at a time; operations
// begun by Start run concurrently.
type Group struct {
	comm  spmd.Comm
	host  Host
	opts  Options
	me    int
	nodes []int // node of each member
	all   team
	node  team // the members of this node
	// peerGroup consists of the members that have this member's number on their nodes, one for each node. The team is
	// empty if nodes have different numbers of members.
	peerGroup team
	heads     team // the first member of each node
	nodeIndex int  // this node's index in heads
	aligned   bool // each node's members are a subtree of the tree over members
	distinct  bool // no two members are on one rank

	algorithms []*algorithm
	rules      []rule // rules of the table, then the built-in rules
	forced     *algorithm
	native     spmd.Native
	window     *window // shared memory of this node's members; nil until first used
	shared     spmd.Shared
	traffic    SentCounts
	span       spmd.Span // records this member's waits

	// state of the running operation
	call      spmd.Collective
	seq, tag  int
	reqs      []spmd.Request
	unposted  error // the first error of g.message
	want      []int
	peers     []int
	mem       []byte // communication memory for algorithms
	stage     []byte // communication memory for a copy of Data
	sendStage []byte // communication memory for a copy of Send
	pieces    [][]byte
	dsts      [][]byte
	sums      treeSum
	halving   halving
	cuts      []int
	rooted    []int
	sub       spmd.Collective

	queue
	debug debug
}

// SentCounts counts the messages that a Group has sent. It does not count reads from shared memory or
// the traffic of a library.
type SentCounts struct {
	Messages, Bytes   int64
	BytesBetweenNodes int64
}

// New returns a Group over comm, and the Group takes ownership of comm. New does not communicate.
func New(h Host, comm spmd.Comm, opts Options) (*Group, error) {
	g := &Group{comm: comm, host: h, opts: opts, me: comm.Rank(), algorithms: registry()}
	g.queue.idle = sync.NewCond(&g.queue.mu)
	g.reqs = make([]spmd.Request, 0, 2*comm.Size())
	g.arrange(h.Nodes())
	if s, ok := h.Shared(); ok {
		g.shared = s
	}
	g.opts.MaxMessage = cmp.Or(g.opts.MaxMessage, 1<<30)
	if g.opts.MaxMessage < 0 || g.opts.MaxMessage%8 != 0 {
		return nil, fmt.Errorf("messages of at most %d bytes: expected a positive multiple of 8", opts.MaxMessage)
	}
	if opts.Algorithm != "" && opts.Algorithm != Auto {
		if g.forced = find(g.algorithms, opts.Algorithm); g.forced == nil {
			return nil, fmt.Errorf("no such algorithm: %q: expected one of %v", opts.Algorithm, Algorithms())
		}
	}
	for _, t := range []*TuningTable{opts.Table, builtin()} {
		if t == nil {
			continue
		}
		rules, err := t.resolve(g.algorithms)
		if err != nil {
			return nil, err
		}
		g.rules = append(g.rules, rules...)
	}
	return g, nil
}

// Record makes r record this member's waits: one span for each Run, and one for each Wait of a Future, in order. The
// name and the key identify the group. The key is empty unless groups of a component have the same name. If r is nil,
// nothing is recorded.
func (g *Group) Record(r spmd.Recorder, name, key string) {
	if g.Size() > 1 {
		g.span = spmd.NewSpan(r, spmd.Site{Op: spmd.OpCollect, Name: name, Key: key})
	}
}

// arrange makes the teams. nodes[r] is the node of world rank r.
func (g *Group) arrange(nodes []int) {
	p := g.comm.Size()
	everyone, local, ranks := make([]int, p), make([]int, p), make([]int, p)
	count := map[int]int{} // number of members on each node
	g.nodes = make([]int, p)
	for m := range p {
		everyone[m], ranks[m] = m, g.comm.WorldRank(m)
		g.nodes[m] = nodes[ranks[m]]
		local[m] = count[g.nodes[m]]
		count[g.nodes[m]]++
	}
	where := func(f func(m int) bool) team {
		t := team{g: g, members: slices.DeleteFunc(slices.Clone(everyone), func(m int) bool { return !f(m) })}
		t.me = slices.Index(t.members, g.me)
		return t
	}
	g.all = team{g, everyone, g.me}
	g.node = where(func(m int) bool { return g.nodes[m] == g.nodes[g.me] })
	g.heads = where(func(m int) bool { return local[m] == 0 })
	g.nodeIndex = slices.IndexFunc(g.heads.members, func(m int) bool { return g.nodes[m] == g.nodes[g.me] })
	if !slices.ContainsFunc(everyone, func(m int) bool { return count[g.nodes[m]] != count[g.nodes[g.me]] }) {
		g.peerGroup = where(func(m int) bool { return local[m] == local[g.me] })
	}
	l := count[g.nodes[0]] // members on the first node
	g.aligned = l&(l-1) == 0 && g.heads.size() == (p+l-1)/l
	for m := range p {
		g.aligned = g.aligned && g.nodes[m] == g.nodes[m-m%l]
	}
	slices.Sort(ranks)
	g.distinct = len(slices.Compact(ranks)) == p
}

// Rank returns this member's number.
func (g *Group) Rank() int { return g.me }

// Size returns the number of members.
func (g *Group) Size() int { return len(g.all.members) }

// Traffic returns the traffic of this member so far. No operation may be in progress.
func (g *Group) Traffic() SentCounts { return g.traffic }

// Close frees the Comm. Every member calls it, with no operation in progress.
func (g *Group) Close() error {
	var err error
	if g.native != nil {
		err = g.native.Close()
	}
	return errors.Join(err, g.comm.Close())
}

// Barrier returns when every member has called it.
func (g *Group) Barrier(ctx context.Context) error { return g.Run(ctx, spmd.Collective{}) }

// Broadcast copies root's b to every member. All members pass the same length.
func (g *Group) Broadcast(ctx context.Context, b []byte, root int) error {
	return g.Run(ctx, Broadcast(b, root))
}

// Sum64 sums x over the members, in place.
func (g *Group) Sum64(ctx context.Context, x []float64) error {
	return g.Run(ctx, AllReduce(x, spmd.Sum))
}

// Sum32 sums x over the members, in place.
func (g *Group) Sum32(ctx context.Context, x []float32) error {
	return g.Run(ctx, AllReduce(x, spmd.Sum))
}

// Gather returns every member's b on the root, in member order, and nil on other members. The lengths of b
// may differ between members. Gather allocates, so it is not for hot loops.
func (g *Group) Gather(ctx context.Context, b []byte, root int) ([][]byte, error) {
	all, err := g.gather(ctx, b, root)
	if err != nil {
		return nil, fmt.Errorf("gather: %w", err)
	}
	return all, nil
}

func (g *Group) gather(ctx context.Context, b []byte, root int) ([][]byte, error) {
	lengths, counts, total := make([]int64, g.Size()), make([]int, g.Size()), 0
	lengths[g.me] = int64(len(b))
	if err := g.Run(ctx, AllGather(lengths, nil)); err != nil {
		return nil, err
	}
	for m, n := range lengths {
		counts[m] = int(n)
		total += int(n)
	}
	if g.me != root {
		return nil, g.Run(ctx, Gather(b, root, counts))
	}
	whole := make([]byte, total)
	copy(block(whole, 1, counts, g.Size(), g.me), b)
	if err := g.Run(ctx, Gather(whole, root, counts)); err != nil {
		return nil, err
	}
	all := make([][]byte, g.Size())
	for m := range all {
		all[m] = block(whole, 1, counts, g.Size(), m)
	}
	return all, nil
}

// execute checks the operation g.call, chooses its algorithm and runs it.
func (g *Group) execute(ctx context.Context) error {
	c := &g.call
	if err := c.Check(g.Size(), g.me); err != nil {
		return fmt.Errorf("%v: %w", c.Kind, err)
	}
	g.seq++
	g.tag = g.seq % debugTag
	if g.opts.Debug && g.Size() > 1 {
		if err := g.compare(ctx, c); err != nil {
			return err
		}
	}
	if g.Size() == 1 {
		copy(c.Data, c.Send)
		return nil
	}
	if err := g.choose(c).run(ctx, &g.all, c); err != nil {
		return fmt.Errorf("%v: %w", c, err)
	}
	return nil
}

// scratch returns n bytes of communication memory with undefined contents.
func (g *Group) scratch(n int) ([]byte, error) {
	if err := g.grow(&g.mem, n); err != nil {
		return nil, err
	}
	return g.mem[:n], nil
}

// grow makes *mem at least n bytes long. The contents may be lost. An allocation at least doubles the length,
// because old memory is never freed.
func (g *Group) grow(mem *[]byte, n int) error {
	if len(*mem) >= n {
		return nil
	}
	b, err := g.host.Alloc(max(n, 2*len(*mem)))
	if err != nil {
		return fmt.Errorf("memory for messages: %w", err)
	}
	*mem = b
	return nil
}
