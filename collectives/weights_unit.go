package collectives

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
)

// A unitPlan is a set of ranks that share one copy of the weights: the readers of a node, or of a
// process.
type unitPlan struct {
	leader  int   // the rank that fills the copy and owns its memory
	source  bool  // it has a replica
	readers []int // indices of WeightsSpec.Readers, ascending
	ranks   []int // of the readers
}

// planUnits deals the readers to units. All ranks come to the same plan. The first source is in a
// unit even if nobody reads there: it sends from that unit's copy.
func planUnits(s *WeightsSpec, nodes []int, shared bool) []unitPlan {
	sources := slices.Sorted(slices.Values(s.Sources))
	leaderOf := func(rank int) int {
		switch {
		case s.Slots == 0 && slices.Contains(sources, rank), !shared:
			return rank
		}
		for _, ranks := range [][]int{sources, slices.Sorted(slices.Values(s.Readers))} {
			for _, r := range ranks {
				if nodes[r] == nodes[rank] {
					return r
				}
			}
		}
		return rank
	}
	var units []unitPlan
	of := func(leader int) *unitPlan {
		i := slices.IndexFunc(units, func(u unitPlan) bool { return u.leader == leader })
		if i < 0 {
			i = len(units)
			units = append(units, unitPlan{leader: leader, source: slices.Contains(sources, leader)})
		}
		return &units[i]
	}
	of(leaderOf(sources[0]))
	for i, rank := range s.Readers {
		u := of(leaderOf(rank))
		u.readers = append(u.readers, i)
		if !slices.Contains(u.ranks, rank) {
			u.ranks = append(u.ranks, rank)
		}
	}
	return units
}

// A unit is one copy of the weights, with what its writer and its readers tell each other, in
// memory that they share. Publication s lies in slot s mod n. Writer and readers use hazard
// pointers (Michael 2004). A reader says what it uses, then looks whether the writer has begun to
// overwrite that. The writer says what it overwrites, then looks who uses it.
type unit struct {
	plan    *unitPlan
	rankOf  []int // of each reader, for messages
	slots   int   // 0: readers use the leader's state
	sends   bool  // this rank sends what stands here to other units
	size    int   // of a slot
	mem     []byte
	signals signals
	*control
	using []spmd.Signal // for each reader: the publication it uses; 0: none
}

// control is the head of a unit's memory.
type control struct {
	ready    spmd.Signal   // the newest publication that is complete; 0: none
	sent     spmd.Signal   // the newest one that was sent on to other units
	writing  atomic.Uint32 // the newest one begun
	versions [maxSlots]atomic.Int64
	_        [56 - 8*maxSlots]byte
}

const maxSlots = 2

// signals is what a unit needs of spmd.Shared once its memory is there.
type signals interface {
	Await(ctx context.Context, s *spmd.Signal, old uint32, rank int) error
	Post(s *spmd.Signal, value uint32)
}

// newUnit makes this rank's end of the unit of plan. Its leader allocates, the others learn from it
// where.
func newUnit(ctx context.Context, world *spmd.World, shared spmd.Shared, setup spmd.Comm, ranks []int, s *WeightsSpec,
	plan *unitPlan) (*unit, error) {
	u := &unit{plan: plan, slots: s.Slots, size: s.Layout.Size()}
	if !plan.source {
		u.slots = max(1, u.slots)
	}
	for _, r := range plan.readers {
		u.rankOf = append(u.rankOf, s.Readers[r])
	}
	head := int(unsafe.Sizeof(control{})) + len(plan.readers)*int(unsafe.Sizeof(spmd.Signal{}))
	alone := len(plan.ranks) == 0 || len(plan.ranks) == 1 && plan.ranks[0] == plan.leader
	var mem []byte
	var err error
	switch {
	case plan.leader == world.Rank():
		if mem, err = world.Alloc(head + u.slots*u.size); err != nil {
			return nil, err
		}
		u.mem = mem[head:]
		if u.slots == 0 {
			u.mem = s.State
		}
		if s.Patch != nil && s.State != nil {
			for i := range u.slots {
				s.copyState(u.mem[i*u.size:(i+1)*u.size], true) // which Held reports
			}
		}
		if !alone {
			err = u.tell(ctx, shared, setup, ranks, mem)
		}
	default:
		mem, err = u.ask(ctx, shared, setup, slices.Index(ranks, plan.leader), head)
	}
	if err != nil {
		return nil, err
	}
	u.control = (*control)(unsafe.Pointer(unsafe.SliceData(mem)))
	u.using = view[spmd.Signal](mem[unsafe.Sizeof(control{}):head])
	if u.signals = shared; shared == nil {
		u.signals = newProcess()
	}
	return u, nil
}

// tell tells the other ranks of the unit where its memory is: the head, and the slots or the state.
func (u *unit) tell(ctx context.Context, shared spmd.Shared, setup spmd.Comm, ranks []int, head []byte) error {
	var where [16]byte
	for i, b := range [][]byte{head, u.mem} {
		at, ok := shared.Locate(b)
		if !ok {
			return fmt.Errorf("the state of rank %d is not memory of its World", u.plan.leader)
		}
		binary.LittleEndian.PutUint64(where[8*i:], uint64(at))
	}
	for _, r := range u.plan.ranks {
		if r == u.plan.leader {
			continue
		}
		req, err := setup.Isend(where[:], slices.Index(ranks, r), tagWhere)
		if err != nil {
			return err
		}
		if err := setup.Wait(ctx, []spmd.Request{req}); err != nil {
			return err
		}
	}
	return nil
}

// ask learns it from the leader, and returns the head.
func (u *unit) ask(ctx context.Context, shared spmd.Shared, setup spmd.Comm, leader, head int) ([]byte, error) {
	var where [16]byte
	req, err := setup.Irecv(where[:], leader, tagWhere)
	if err != nil {
		return nil, err
	}
	if err := setup.Wait(ctx, []spmd.Request{req}); err != nil {
		return nil, err
	}
	at := func(i int) int64 { return int64(binary.LittleEndian.Uint64(where[8*i:])) }
	if u.mem, err = shared.View(u.plan.leader, at(1), max(1, u.slots)*u.size); err != nil {
		return nil, err
	}
	return shared.View(u.plan.leader, at(0), head)
}

// slot returns where publication seq lies.
func (u *unit) slot(seq uint32) []byte {
	if u.slots == 0 {
		return u.mem
	}
	at := int(seq) % u.slots * u.size
	return u.mem[at : at+u.size : at+u.size]
}

// claim waits until nobody uses the slot of publication seq, which the caller writes next.
func (u *unit) claim(ctx context.Context, seq uint32) error {
	u.writing.Store(seq)
	if seq <= uint32(u.slots) {
		return nil
	}
	old := seq - uint32(u.slots)
	for i := range u.using {
		for u.using[i].Value.Load() == old {
			if err := u.signals.Await(ctx, &u.using[i], old, u.rankOf[i]); err != nil {
				return err
			}
		}
	}
	if u.sends {
		return u.awaitSent(ctx, old)
	}
	return nil
}

// publish makes seq, which is complete, the newest publication.
func (u *unit) publish(seq uint32, version int64) {
	u.versions[int(seq)%max(1, u.slots)].Store(version)
	u.signals.Post(&u.ready, seq)
}

// markSent says that publication seq has been sent on.
func (u *unit) markSent(seq uint32) { u.signals.Post(&u.sent, seq) }

// awaitSent waits for that, on the rank that sends.
func (u *unit) awaitSent(ctx context.Context, seq uint32) error {
	for {
		got := u.sent.Value.Load()
		if int32(got-seq) >= 0 {
			return nil
		}
		if err := u.signals.Await(ctx, &u.sent, got, u.plan.leader); err != nil {
			return err
		}
	}
}

// adopt is WeightsReader.Adopt.
func (u *unit) adopt(ctx context.Context, r *WeightsReader, atLeast int64) ([]byte, int64, error) {
	mine := &u.using[r.word]
	for {
		seq := u.ready.Value.Load()
		if seq != 0 {
			kept := seq == r.using
			if !kept {
				r.using = seq
				u.signals.Post(mine, seq)
				kept = u.slots == 0 || u.writing.Load()-seq < uint32(u.slots)
			}
			if kept { // else it is being overwritten: a newer one is there, or will be
				if version := u.versions[int(seq)%max(1, u.slots)].Load(); version >= atLeast {
					return u.slot(seq), version, nil
				}
			}
		}
		if r.using != 0 {
			u.leave(r)
		}
		if err := u.signals.Await(ctx, &u.ready, seq, u.plan.leader); err != nil {
			return nil, 0, fmt.Errorf("wait for version %d of the weights: %w", atLeast, err)
		}
	}
}

// newest is WeightsReader.Newest. A version that is overwritten while it looks gives way to a newer
// one.
func (u *unit) newest() int64 {
	seq := u.ready.Value.Load()
	if seq == 0 {
		return -1
	}
	return u.versions[int(seq)%max(1, u.slots)].Load()
}

// leave says that the reader uses none of the slots any more.
func (u *unit) leave(r *WeightsReader) {
	r.using = 0
	u.signals.Post(&u.using[r.word], 0)
}

// process is signals within one process, for where ranks share no memory.
type process struct {
	mu     sync.Mutex
	posted sync.Cond
}

func newProcess() *process {
	p := new(process)
	p.posted.L = &p.mu
	return p
}

func (p *process) Await(ctx context.Context, s *spmd.Signal, old uint32, _ int) error {
	if s.Value.Load() != old {
		return nil
	}
	defer context.AfterFunc(ctx, p.wake)()
	p.mu.Lock()
	defer p.mu.Unlock()
	for s.Value.Load() == old {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.posted.Wait()
	}
	return nil
}

// wake makes all waiting goroutines look again.
func (p *process) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posted.Broadcast()
}

func (p *process) Post(s *spmd.Signal, value uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Value.Store(value)
	p.posted.Broadcast()
}
