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

// A unitPlan describes a unit: a set of ranks that share one copy of the weights. The readers of a unit are
// all readers of a node, or all readers of one rank.
type unitPlan struct {
	leader  int   // rank that writes the copy and owns its memory
	source  bool  // the leader is a source
	readers []int // indices of WeightsSpec.Readers, ascending
	ranks   []int // ranks of the readers
}

// planUnits groups the readers into units. The result is the same on all ranks. The first source always has
// a unit, because it broadcasts the copy of that unit.
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

// A unit is one rank's view of a copy of the weights, in memory that the writer and the readers share. With
// n slots, publication s is in slot s mod n. Writer and readers synchronize by hazard pointers (Michael
// 2004). A reader announces the publication that it uses, then checks whether the writer has begun to
// overwrite it. The writer announces the publication that it writes, then waits for readers of the slot.
type unit struct {
	plan    *unitPlan
	rankOf  []int // rank of each reader, for messages
	slots   int   // number of slots; 0 if readers use the leader's State
	sends   bool  // this rank broadcasts this copy to other units
	size    int   // bytes of a slot
	mem     []byte
	signals signals
	*control
	using []spmd.Signal // the publication that each reader uses; 0 if it uses none
}

// control holds the words by which the ranks of a unit synchronize. It is at the start of the unit's memory.
type control struct {
	ready    spmd.Signal   // newest complete publication; 0 if there is none
	sent     spmd.Signal   // newest publication that was broadcast to other units
	writing  atomic.Uint32 // newest publication that the writer has begun to write
	versions [maxSlots]atomic.Int64
	_        [56 - 8*maxSlots]byte
}

const maxSlots = 2

// signals has the methods of spmd.Shared that a unit calls after newUnit has returned.
type signals interface {
	Await(ctx context.Context, s *spmd.Signal, old uint32, rank int) error
	Post(s *spmd.Signal, value uint32)
}

// newUnit makes this rank's view of the planned unit. The leader allocates the memory and sends its location
// to the other ranks of the unit.
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
				s.copyState(u.mem[i*u.size:(i+1)*u.size], true) // slots begin with the values of Held tensors
			}
		}
		if !alone {
			err = u.sendLocations(ctx, shared, setup, ranks, mem)
		}
	default:
		mem, err = u.recvLocations(ctx, shared, setup, slices.Index(ranks, plan.leader), head)
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

// tagLocations is the tag of the messages of sendLocations. The Group of the set-up does not use this tag.
const tagLocations = debugTag

// sendLocations sends two locations to the unit's other ranks: the location of the control words,
// and the location of the slots or of the state.
func (u *unit) sendLocations(ctx context.Context, shared spmd.Shared, setup spmd.Comm, ranks []int, head []byte) error {
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
		req, err := setup.Isend(where[:], slices.Index(ranks, r), tagLocations)
		if err != nil {
			return err
		}
		if err := setup.Wait(ctx, []spmd.Request{req}); err != nil {
			return err
		}
	}
	return nil
}

// recvLocations receives the locations from the leader. It sets u.mem and returns the memory of the control
// words.
func (u *unit) recvLocations(ctx context.Context, shared spmd.Shared, setup spmd.Comm, leader, head int) ([]byte,
	error) {
	var where [16]byte
	req, err := setup.Irecv(where[:], leader, tagLocations)
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

// slot returns the slot of publication seq.
func (u *unit) slot(seq uint32) []byte {
	if u.slots == 0 {
		return u.mem
	}
	at := int(seq) % u.slots * u.size
	return u.mem[at : at+u.size : at+u.size]
}

// claim waits until no reader or broadcast uses the slot of publication seq. Then the caller may write the
// slot.
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

// publish makes the complete publication seq available to the readers.
func (u *unit) publish(seq uint32, version int64) {
	u.versions[int(seq)%max(1, u.slots)].Store(version)
	u.signals.Post(&u.ready, seq)
}

// markSent records that publication seq was broadcast to the other units.
func (u *unit) markSent(seq uint32) { u.signals.Post(&u.sent, seq) }

// awaitSent waits until publication seq was broadcast. Only the broadcasting rank calls it.
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

// adopt implements WeightsReader.Adopt.
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
			if kept { // otherwise the writer may be overwriting the slot
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

// newest implements WeightsReader.Newest. If the slot is overwritten during the call, newest
// returns the newer version.
func (u *unit) newest() int64 {
	seq := u.ready.Value.Load()
	if seq == 0 {
		return -1
	}
	return u.versions[int(seq)%max(1, u.slots)].Load()
}

// leave records that the reader uses no slot.
func (u *unit) leave(r *WeightsReader) {
	r.using = 0
	u.signals.Post(&u.using[r.word], 0)
}

// process implements signals within one process, for ranks without shared memory.
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

// wake lets all waiting goroutines check their signals.
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
