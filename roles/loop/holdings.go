package loop

import (
	"sync"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Holdings are what the members on a rank hold beyond their connections: memory, and what came to them from the world
// before. A run that has not moved has none of the latter.
type Holdings struct {
	world *spmd.World
	moved bool
	step  int64     // iterations made before the move
	next  *Holdings // what a move leaves for the next world; nil: none

	mu     sync.Mutex
	memory map[holder][][]byte
	parts  map[holder]any         // of members that stay on this rank
	states map[holder]tensor.Dict // of the other members, and of those that left no parts
}

// A holder is a member of a component.
type holder struct {
	component string
	index     int
}

func holderOf(m *spmd.Member) holder { return holder{m.Group(), m.Index()} }

// NewHoldings returns the holdings of a rank of w. before are those of the world before, which a move has ended; nil:
// this is the first world.
func NewHoldings(w *spmd.World, before *Holdings) *Holdings {
	h := emptyHoldings()
	if before != nil {
		h = before.next
	}
	h.world = w
	return h
}

func emptyHoldings() *Holdings {
	return &Holdings{memory: map[holder][][]byte{}, parts: map[holder]any{}, states: map[holder]tensor.Dict{}}
}

// Alloc returns an allocator of the world's memory for a member. If the member stays on this rank in a move and leaves
// its parts, the memory stays, too.
func (h *Holdings) Alloc(component string, member int) tensor.Allocator {
	return func(n int) ([]byte, error) {
		b, err := h.world.Alloc(n)
		if err == nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			of := holder{component, member}
			h.memory[of] = append(h.memory[of], b)
		}
		return b, err
	}
}

// Part returns what a member left on this rank in a move, for the same member in the present world. ok is false if the
// member was on another rank, or left nothing.
func Part[T any](h *Holdings, component string, member int) (part T, ok bool) {
	part, ok = h.parts[holder{component, member}].(T)
	return part, ok
}
