package loop

import (
	"sync"

	"github.com/rlinf/rlinf/roles/state"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Holdings has the memory of the members on a rank, and the states that a move brought from the previous world. A rank
// keeps one Holdings in all its worlds.
type Holdings struct {
	moved bool  // the present world began with a move
	step  int64 // number of iterations before that move

	mu      sync.Mutex
	lasting any // see Lasting
	world   *spmd.World
	present estate
	next    estate // what a move leaves for the next world
}

// An estate has the memory and the states of the members on a rank in one world.
type estate struct {
	memory map[holder][][]byte
	parts  map[holder]any        // see Part
	packs  map[holder]state.Pack // states of members without a part

	episodes, evals []float64 // as in RankReport: episodes that no report has yet
}

// A holder names a member by its component and number.
type holder struct {
	component string
	index     int
}

func holderOf(m *spmd.Member) holder { return holder{m.Group(), m.Index()} }

// NewHoldings returns the holdings of a rank in its first world.
func NewHoldings(w *spmd.World) *Holdings { return &Holdings{world: w, present: newEstate()} }

func newEstate() estate {
	return estate{memory: map[holder][][]byte{}, parts: map[holder]any{}, packs: map[holder]state.Pack{}}
}

// Enter begins the world w after a move. The members of w take over the memory and the states from the previous world.
func (h *Holdings) Enter(w *spmd.World) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.world, h.present, h.next, h.moved = w, h.next, estate{}, true
	w.SetStep(h.step)
}

// Moved reports whether the present world began with a move.
func (h *Holdings) Moved() bool { return h.moved }

// Alloc returns an allocator of the present world's memory for a member. The memory stays valid in the
// next world if the member keeps a part on this rank.
func (h *Holdings) Alloc(component string, member int) tensor.Allocator {
	return func(n int) ([]byte, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		b, err := h.world.Alloc(n)
		if err == nil {
			of := holder{component, member}
			h.present.memory[of] = append(h.present.memory[of], b)
		}
		return b, err
	}
}

// Part returns what a member of the previous world has kept on this rank, for the same member of the present world. ok
// is false if the member was on another rank, or has kept nothing.
func Part[T any](h *Holdings, component string, member int) (part T, ok bool) {
	part, ok = h.present.parts[holder{component, member}].(T)
	return part, ok
}

// Lasting returns the value that the workers of a rank share in all worlds. The value is zero at first. All calls on a
// rank must have the same type T.
func Lasting[T any](h *Holdings) *T {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lasting == nil {
		h.lasting = new(T)
	}
	return h.lasting.(*T)
}
