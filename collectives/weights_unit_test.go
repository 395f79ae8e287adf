package collectives

import (
	"context"
	"errors"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
)

// A script is an implementation of signals that runs one step of a writer when a reader posts or waits.
type script struct {
	onPost, onAwait func(s *spmd.Signal, value uint32)
}

func (s *script) Post(sig *spmd.Signal, value uint32) {
	sig.Value.Store(value)
	if s.onPost != nil {
		s.onPost(sig, value)
	}
}

func (s *script) Await(_ context.Context, sig *spmd.Signal, old uint32, _ int) error {
	if sig.Value.Load() == old {
		if s.onAwait == nil {
			return errors.New("nobody will post this")
		}
		s.onAwait(sig, old)
	}
	return nil
}

// newScriptedUnit returns a unit with one reader, which holds publication 1, of version 10.
func newScriptedUnit(slots int, s *script) (*unit, *WeightsReader) {
	u := &unit{plan: &unitPlan{}, slots: slots, size: 8, mem: make([]byte, 8*max(1, slots)), signals: s,
		control: new(control), using: make([]spmd.Signal, 1)}
	u.rankOf = []int{0}
	u.writing.Store(1)
	u.versions[1%max(1, slots)].Store(10)
	u.ready.Value.Store(1)
	return u, &WeightsReader{unit: u}
}

// A reader reads which publication is newest, then announces that it uses that. In between the writer may have begun
// to overwrite that publication. Then the reader must not use it.
func TestReaderLooksAgain(t *testing.T) {
	for _, slots := range []int{1, 2} {
		s := new(script)
		u, r := newScriptedUnit(slots, s)
		write := func(seq uint32, version int64) {
			u.writing.Store(seq)
			u.versions[int(seq)%slots].Store(version)
			u.ready.Value.Store(seq)
		}
		s.onPost = func(sig *spmd.Signal, value uint32) {
			if sig == &u.using[0] && value == 1 { // too late: the writer has checked this reader before
				if slots == 2 {
					write(2, 11)
				}
				u.writing.Store(uint32(slots) + 1)
			}
		}
		s.onAwait = func(sig *spmd.Signal, old uint32) {
			if slots == 1 && sig == &u.ready && old == 1 {
				if got := u.using[0].Value.Load(); got != 0 {
					t.Errorf("the reader waits for the next version and holds on to publication %d", got)
				}
				write(2, 11)
			}
		}
		_, version, err := r.Adopt(t.Context(), 0)
		if err != nil || version != 11 {
			t.Errorf("%d slots: adopted version %d (%v), which was being overwritten; want 11", slots, version, err)
		}
	}
}

// TestReaderKeepsWhatItUses: a reader's weights do not change while the writer waits for the reader. Adopt does not
// wait if the reader has the requested version.
func TestReaderKeepsWhatItUses(t *testing.T) {
	for _, slots := range []int{0, 1, 2} {
		u, r := newScriptedUnit(slots, new(script))
		for range 2 {
			if _, version, err := r.Adopt(t.Context(), 10); err != nil || version != 10 {
				t.Errorf("%d slots: adopted version %d (%v), want 10", slots, version, err)
			}
			u.writing.Store(2) // the writer has begun, and waits for the slot if there is only one
		}
		test.Equal(t, u.using[0].Value.Load(), 1, "%d slots: the reader says that it uses publication", slots)
	}
}
