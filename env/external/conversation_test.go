package external

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
)

// TestMaskChecked: a mask consists of zeros and ones, and allows an option of each choice while the episode runs.
func TestMaskChecked(t *testing.T) {
	g, err := readGreeting([]byte(`{"v":1,"name":"masked","obs":[{"name":"action_mask","kind":"box","dtype":"u8",` +
		`"shape":[5]}],"action":{"kind":"multi_discrete","nvec":[2,3]}}`))
	test.OK(t, err)
	blocked := []byte{1, 0, 0, 0, 0}
	for _, tt := range []struct {
		asked       kind
		auto, ended bool
		seen, final []byte
		want        string
	}{
		{reset, false, false, []byte{1, 0, 0, 0, 1}, nil, ""},
		{reset, false, false, blocked, nil,
			"environment 1: observation action_mask allows no option of choice 1, expected at least one"},
		{step, true, false, blocked, nil, "allows no option of choice 1"},
		{step, true, false, []byte{1, 0, 0, 7, 0}, nil,
			"environment 1: observation action_mask[3] is 7, expected 0 or 1"},
		{step, false, true, blocked, nil, ""},
		{step, false, true, []byte{1, 0, 0, 0, 2}, nil, "observation action_mask[4] is 2"},
		{step, true, true, []byte{1, 1, 1, 1, 1}, blocked, ""},
		{step, true, true, blocked, []byte{1, 1, 1, 1, 1}, "allows no option of choice 1"},
		{step, true, true, []byte{1, 1, 1, 1, 1}, []byte{255, 0, 0, 0, 0},
			"environment 1: final observation action_mask[0] is 255, expected 0 or 1"},
		{load, false, false, blocked, nil, ""},
	} {
		c := &conversation{greeting: g, n: 2, blocks: newBlocks(g.spec, 2), asked: tt.asked, autoReset: tt.auto}
		c.memory = privateMemory(c.blocks.size())
		c.bind()
		c.mask[1] = 1 // environment 0, whose mask is all zeros, does not take part
		if tt.ended {
			c.terminated[1] = 1
		}
		copy(c.obs[0].U8()[5:], tt.seen)
		copy(c.final[0].U8()[5:], tt.final)
		var err error
		if allocated := testing.AllocsPerRun(10, func() { err = c.check(tt.ended) }); err == nil && allocated != 0 {
			t.Errorf("%v, %v: %v allocations", tt.asked, tt.seen, allocated)
		}
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, ended %v under AUTORESET %v, %v, at last %v: %v, want %q", tt.asked, tt.ended, tt.auto,
				tt.seen, tt.final, err, tt.want)
		}
	}
}

// TestNotFinite: an error names all numbers that are not finite, and says how to repeat the step.
func TestNotFinite(t *testing.T) {
	g := test.Must(readGreeting([]byte(`{"v":1,"name":"a","info":["far"],"obs":[{"name":"state","kind":"box",` +
		`"dtype":"f32","shape":[4]}],"action":{"kind":"box","dtype":"f32","shape":[2]}}`)))(t)
	c := &conversation{greeting: g, n: 2, blocks: newBlocks(g.spec, 2), autoReset: true}
	c.memory = privateMemory(c.blocks.size())
	c.bind()
	copy(c.mask, []byte{1, 1})
	copy(c.seed, []int64{3, 7})
	nan := float32(math.NaN())
	says := func(want string) {
		t.Helper()
		if err := c.check(true); err == nil || err.Error() != "environment 1: "+want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	c.asked, c.obs[0].F32()[5] = reset, nan
	says("observation state[1] is NaN; reset with seed 7")
	c.obs[0].F32()[5] = 0
	c.follow()
	c.seed[1] = 8 // of the next episode
	c.asked = step
	c.follow()
	actions := c.blocks.request.Bind(c.memory.bytes).Must("action").F32()
	copy(actions, []float32{0, 0, 0.5, -1})
	c.reward[1], c.info.F32()[1] = nan, nan
	copy(c.obs[0].F32()[4:], []float32{0, nan, nan, 0})
	says("reward NaN, info far is NaN, observation state[1] is NaN and 1 more; seed 7, step 2, action [0.5 -1]")
	c.truncated[1] = 1
	says("reward NaN, info far is NaN; seed 7, step 2, action [0.5 -1]")
	c.reward[1], c.info.F32()[1] = 0, 0
	says("observation state[1] is NaN and 1 more; reset with seed 8")
	c.final[0].F32()[4] = nan
	says("final observation state[0] is NaN; seed 7, step 2, action [0.5 -1]")
}

// TestLayout: the arrays are where the example of docs/bridge.md has them.
func TestLayout(t *testing.T) {
	g := test.Must(readGreeting([]byte(`{"v":1,"name":"a","info":["x","y"],"obs":[{"name":"state","kind":"box",` +
		`"dtype":"f32","shape":[4]}],"action":{"kind":"box","dtype":"f32","shape":[2]}}`)))(t)
	b := newBlocks(g.spec, 3)
	var got []int
	for i := range b.request.Fields() {
		got = append(got, b.request.Offset(i))
	}
	got = append(got, b.request.Size())
	for i := range b.reply.Fields() {
		got = append(got, b.reply.Offset(i))
	}
	got = append(got, b.reply.Size(), b.finalAt, b.replyAt, b.size(), b.size()+bellsSize)
	if want := []int{0, 64, 128, 192, 0, 64, 128, 192, 256, 320, 384, 320, 4096, 4480, 4608}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestUnexpected: a header that does not answer the request is an error with the field and its valid value.
func TestUnexpected(t *testing.T) {
	g := test.Must(readGreeting([]byte(`{"v":1,"name":"a","obs":[{"name":"x","kind":"discrete","n":2}],` +
		`"action":{"kind":"discrete","n":2}}`)))(t)
	for _, tt := range []struct {
		asked        kind
		auto, shared bool
		says         header
		want         string
	}{
		{step, true, false, header{kind: result, flags: flagFinal, length: 320}, ""},
		{step, false, false, header{kind: result, flags: flagFinal}, "RESULT with flags 0x4, expected none"},
		{step, true, false, header{kind: result, flags: 8}, "RESULT with flags 0x8, expected none but 0x4"},
		{step, false, false, header{kind: result, length: 1 << 20}, "RESULT of 1048576 bytes, expected at most 320"},
		{step, false, true, header{kind: result, length: 384},
			"RESULT of 384 bytes, expected none: the reply block is in shared memory"},
		{render, false, true, header{kind: result, length: 384}, "RESULT of 384 bytes, expected at most 0"},
	} {
		c := &conversation{greeting: g, n: 2, blocks: newBlocks(g.spec, 2), asked: tt.asked, autoReset: tt.auto,
			shared: tt.shared, wanted: result}
		head := make([]byte, headerSize)
		tt.says.put(head)
		if _, err := c.expect(head); (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
			t.Errorf("%v, with shared memory %v, answered by %+v: %v, want %q", tt.asked, tt.shared, tt.says, err,
				tt.want)
		}
	}
}

// A script is a Conn that delivers prepared frames.
type script [][]byte

func (s *script) Send(time.Time, []byte, []byte) error { return nil }
func (s *script) Close() error                         { return nil }

func (s *script) Receive(_ time.Time, accept func([]byte) (uint64, error)) (head, payload []byte, err error) {
	if len(*s) == 0 {
		return nil, nil, ErrGone
	}
	next := (*s)[0]
	*s = (*s)[1:]
	return Split(next, accept)
}

// TestHostileText: the texts of LOG and ERROR lose their control characters, and each line of a LOG has the name of its
// child before it.
func TestHostileText(t *testing.T) {
	var log strings.Builder
	link := &script{frame(header{kind: logLine}, []byte("one\x1b[2J\nrank 0: all is well"), nil),
		frame(header{kind: failure}, []byte("no\x1b[1m licence"), nil)}
	_, err := greet(link, nil, "simulator 3", "", &log, time.Now().Add(time.Minute))
	if want := `greeting: error: no\x1b[1m licence`; err == nil || err.Error() != want {
		t.Errorf("%v, expected %s", err, want)
	}
	if got, want := log.String(), "simulator 3: one\\x1b[2J\nsimulator 3: rank 0: all is well\n"; got != want {
		t.Errorf("the log has %q, expected %q", got, want)
	}
	link = &script{frame(header{kind: logLine}, []byte("one"), nil)}
	if _, err := greet(link, nil, "simulator 3", "a secret", &log, time.Now().Add(time.Minute)); err != errNoHello {
		t.Errorf("LOG of a stranger: %v, expected %v", err, errNoHello)
	}
}
