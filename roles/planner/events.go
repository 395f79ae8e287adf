package planner

import "github.com/rlinf/rlinf/internal/heap"

// An engine runs processes in virtual time. It is deterministic: events at the same time are handled in the order in
// which they were scheduled.
type engine struct {
	now    float64
	agenda heap.Heap[event]
	seq    int
	nodes  []cores
	ranks  []sharing
	queues []queue
	procs  []process
	events int // number of events handled so far
}

// A process is a sequence of actions on one node.
type process struct {
	body    body
	node    int
	rank    int
	waits   float64 // seconds to wait after the present computation
	busy    float64 // core seconds of its computations so far, as on an idle node
	working float64 // seconds of its computations and their waits so far, as on an idle node
	on      string  // the kind of the present computation; "" if there is none
	ended   float64 // when the process ended; 0 while it runs
}

// A body is the program of a process. The engine calls next for each action, when the previous one has ended.
type body interface{ next() action }

// An action is one step of a process.
type action struct {
	kind  kind
	busy  float64 // compute: core seconds
	wait  float64 // compute: seconds of waiting after the core seconds, without a core
	queue int     // put and get: the number of the queue
	delay float64 // put: seconds until the item arrives
	tag   int     // put: selects the answer of a server

	spread []float64 // compute: see CallTimes.Spread
	what   string    // compute: its kind, an argument of Spent.add
}

type kind uint8

const (
	end kind = iota
	compute
	put
	get
)

// cores are the cores of one node. All computations on the node progress at the same rate.
type cores struct {
	slow   func(k int) float64 // factor by which k concurrent computations are slower than one
	done   float64             // core seconds that one computation would have received since the run began
	at     float64             // the time at which done was updated
	active heap.Heap[job]      // the present computations, ordered by end
	stamp  int                 // the stamp of this node's latest event; older events do not count
}

// A job is a computation that ends when cores.done reaches end.
type job struct {
	end  float64
	proc int
}

// A queue has bounded room for items.
type queue struct {
	items  int
	room   int    // number of further items for which there is room
	getter int    // process that waits for an item; -1 if there is none
	putter int    // process that waits for room; -1 if there is none
	waits  action // the action of the putter
	tags   []int  // of an inbox: the tags of the items in it
}

// An event is a change at a point of virtual time.
type event struct {
	at    float64
	seq   int
	what  happening
	index int // process, queue or node
	stamp int // for finishes: see cores.stamp; for arrives: the item's tag
}

type happening uint8

const (
	resumes  happening = iota // a process goes on
	arrives                   // an item reaches a queue
	finishes                  // a computation on a node ends
)

// A sharing divides the time of a rank evenly among its members that are in an operation, even if they wait there.
type sharing struct {
	present Spent   // numbers of members, by operation
	spent   Spent   // working seconds until the last change
	since   float64 // the time of the last change
}

// change adds n to the number of members that compute op.
func (s *sharing) change(op string, n, now float64) {
	if all := s.present.Step + s.present.Infer + s.present.Play; all > 0 {
		s.spent = s.spent.plus((now-s.since)/all, s.present)
	}
	s.since = now
	s.present.add(op, n)
}

// newEngine returns an engine with this many nodes and ranks. slow(k) is the factor by which k concurrent computations
// on a node are slower than a single one.
func newEngine(nodes, ranks int, slow func(k int) float64) *engine {
	e := &engine{nodes: make([]cores, nodes), ranks: make([]sharing, ranks)}
	e.agenda.Less = func(a, b *event) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }
	for i := range e.nodes {
		e.nodes[i].slow = slow
		e.nodes[i].active.Less = func(a, b *job) bool { return a.end < b.end || a.end == b.end && a.proc < b.proc }
	}
	return e
}

// queue adds a queue with room for n items, and returns its number.
func (e *engine) queue(n int) int {
	e.queues = append(e.queues, queue{room: n, getter: -1, putter: -1})
	return len(e.queues) - 1
}

// start adds a process on a rank, and returns its number.
func (e *engine) start(node, rank int, b body) int {
	e.procs = append(e.procs, process{body: b, node: node, rank: rank})
	e.add(event{at: 0, what: resumes, index: len(e.procs) - 1})
	return len(e.procs) - 1
}

func (e *engine) add(x event) {
	x.seq = e.seq
	e.seq++
	e.agenda.Push(x)
}

// run handles events until none is left, or until e.events reaches limit. It returns the time of the last event.
func (e *engine) run(limit int) float64 {
	for e.agenda.Len() > 0 && e.events < limit {
		x := e.agenda.Pop()
		if x.what == finishes && x.stamp != e.nodes[x.index].stamp {
			continue
		}
		e.events++
		e.now = x.at
		switch x.what {
		case resumes:
			e.advance(x.index)
		case arrives:
			q := &e.queues[x.index]
			q.items++
			if q.tags != nil {
				q.tags = append(q.tags, x.stamp)
			}
			if p := q.getter; p >= 0 {
				q.getter = -1
				e.take(x.index)
				e.advance(p)
			}
		case finishes:
			e.finish(x.index)
		}
	}
	return e.now
}

// inbox adds a queue that keeps the tags of its items. n and the result are as in engine.queue.
func (e *engine) inbox(n int) int {
	index := e.queue(n)
	e.queues[index].tags = []int{}
	return index
}

// tagged returns the tag of the item that was last taken out of an inbox. An inbox has only one getter.
func (e *engine) tagged(index int) int {
	q := &e.queues[index]
	tag := q.tags[0]
	q.tags = q.tags[1:]
	return tag
}

// take takes an item out of a queue, and resumes a process that waits for room.
func (e *engine) take(index int) {
	q := &e.queues[index]
	q.items--
	q.room++
	if p := q.putter; p >= 0 {
		q.putter = -1
		q.room--
		e.add(event{at: e.now + q.waits.delay, what: arrives, index: index, stamp: q.waits.tag})
		e.add(event{at: e.now, what: resumes, index: p})
	}
}

// advance lets process p act until it waits.
func (e *engine) advance(p int) {
	for {
		proc := &e.procs[p]
		if proc.on != "" {
			e.ranks[proc.rank].change(proc.on, -1, e.now)
			proc.on = ""
		}
		a := proc.body.next()
		switch a.kind {
		case end:
			proc.ended = e.now
			return
		case compute:
			proc.waits, proc.on = a.wait, a.what
			e.ranks[proc.rank].change(a.what, 1, e.now)
			proc.busy += a.busy
			proc.working += a.busy + a.wait
			if a.busy > 0 {
				e.begin(proc.node, p, a.busy)
			} else {
				e.add(event{at: e.now + a.wait, what: resumes, index: p})
			}
			return
		case put:
			q := &e.queues[a.queue]
			if q.room == 0 {
				q.putter, q.waits = p, a
				return
			}
			q.room--
			e.add(event{at: e.now + a.delay, what: arrives, index: a.queue, stamp: a.tag})
		case get:
			q := &e.queues[a.queue]
			if q.items == 0 {
				q.getter = p
				return
			}
			e.take(a.queue)
		}
	}
}

// begin adds a computation of this many core seconds to a node.
func (e *engine) begin(node, p int, busy float64) {
	n := &e.nodes[node]
	e.progress(n)
	n.active.Push(job{n.done + busy, p})
	e.plan(node)
}

// progress updates n.done to the present time.
func (e *engine) progress(n *cores) {
	if k := n.active.Len(); k > 0 {
		n.done += (e.now - n.at) / n.slow(k)
	}
	n.at = e.now
}

// plan schedules the next end of a computation on a node.
func (e *engine) plan(node int) {
	n := &e.nodes[node]
	n.stamp++
	if k := n.active.Len(); k > 0 {
		left := max(0, n.active.First().end-n.done)
		e.add(event{at: e.now + left*n.slow(k), what: finishes, index: node, stamp: n.stamp})
	}
}

// finish ends the computation that is due first on a node. Its process resumes after process.waits seconds.
func (e *engine) finish(node int) {
	n := &e.nodes[node]
	e.progress(n)
	j := n.active.Pop()
	n.done = max(n.done, j.end)
	if wait := e.procs[j.proc].waits; wait > 0 {
		e.add(event{at: e.now + wait, what: resumes, index: j.proc})
	} else {
		e.advance(j.proc)
	}
	e.plan(node)
}
