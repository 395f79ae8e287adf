package external

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"testing"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/classic"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// Neither side trusts the frames of the other. scripts/fuzz-bridge runs these fuzz tests for longer, and those of the C
// client.

// most is the number of bytes that fit into a pipe without a reader.
const most = 1 << 15

// said returns a stream whose other side has sent these bytes and then closed it. Frames to the other side go to out.
func said(t testing.TB, text []byte, out *os.File) *stream {
	r, w, err := os.Pipe()
	test.OK(t, err)
	test.Must(w.Write(text[:min(len(text), most)]))(t)
	w.Close()
	s := test.Must(newPipes(r, out))(t)
	return s
}

// nowhere returns a file for output that no test reads.
func nowhere(t testing.TB) *os.File {
	f := test.Must(os.OpenFile(os.DevNull, os.O_WRONLY, 0))(t)
	return f
}

const fuzzed = 2 // environments

// requests returns the frames of a parent of CartPole: a RESET, two STEPs, a SAVE, a RENDER.
func requests() []byte {
	spec := newPole(0, false).Spec()
	block := make([]byte, newBlocks(spec, fuzzed).request.Size())
	mask := newBlocks(spec, fuzzed).request.Offset(2)
	block[mask], block[mask+1] = 1, 1
	var all []byte
	say := func(h header, payload []byte) { all = append(all, frame(h, payload, nil)...) }
	say(header{kind: config}, configPayload(setup{n: fuzzed, maxSteps: 1}, false, "", 0))
	say(header{kind: reset, count: fuzzed, seq: 1}, block)
	say(header{kind: step, flags: flagAutoReset, count: fuzzed, seq: 2}, block)
	say(header{kind: step, count: fuzzed, seq: 3}, block)
	say(header{kind: save, seq: 4}, nil)
	say(header{kind: render, seq: 5}, []byte{2, 0, 0, 0, 1, 0, 0, 0, 1, 0})
	say(header{kind: closing}, nil)
	return all
}

func newPole(maxSteps int, ignoreTerminations bool) env.Vec {
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.MaxEpisodeSteps, cfg.IgnoreTerminations = "CartPole-v1", maxSteps, ignoreTerminations
	v, err := classic.NewCartPole(cfg, 1)
	if err != nil {
		panic(err)
	}
	return v
}

// serveFew is the child that gets the frames. It makes only a few environments, although a frame may ask for a million.
func serveFew(link *stream) error {
	made := 0
	s := &server{link: link, new: func(maxSteps int, ignoreTerminations bool) (env.Vec, error) {
		if made++; made > 8 {
			return nil, errors.New("too many")
		}
		return newPole(maxSteps, ignoreTerminations), nil
	}}
	s.accept = s.expect
	return s.converse("")
}

// FuzzParent: whatever a parent sends, a child answers or ends with an error.
func FuzzParent(f *testing.F) {
	f.Add(requests())
	f.Fuzz(func(t *testing.T, text []byte) {
		link := said(t, text, nowhere(t))
		defer link.Close()
		if err := serveFew(link); err == nil && !bytes.Contains(text, []byte(magic)) {
			t.Error("no frame, and no error")
		}
	})
}

// FuzzChild: whatever a child sends, its parent accepts only expected frames with finite numbers.
func FuzzChild(f *testing.F) {
	r, w, err := os.Pipe()
	if err != nil {
		f.Fatal(err)
	}
	link := said(f, requests(), w)
	err = serveFew(link)
	link.Close()
	answers, readErr := io.ReadAll(r)
	if err != nil || readErr != nil || len(answers) > most {
		f.Fatalf("%d bytes of answers: %v, %v", len(answers), err, readErr)
	}
	f.Add(answers)
	f.Fuzz(func(t *testing.T, text []byte) {
		link := said(t, text, nowhere(t))
		by := time.Now().Add(time.Minute)
		c, err := greet(link, nil, "child", "", io.Discard, by)
		if err != nil {
			link.Close()
			return
		}
		defer c.close(true)
		if n := newBlocks(c.greeting.spec, fuzzed).size(); n > 1<<20 || c.greeting.State > 1<<20 {
			return // legal, and slow
		}
		if c.configure(setup{n: fuzzed, maxSteps: 1, before: by}) != nil {
			return
		}
		copy(c.mask, []byte{1, 1})
		for _, flags := range []uint16{0, flagAutoReset, 0} {
			k := step
			if c.seq == 0 {
				k = reset
			}
			if c.ask(k, flags, by) != nil || c.hear(by) != nil {
				return
			}
			believable(t, c)
		}
		if c.greeting.State > 0 {
			if states, err := c.save(by); err == nil && len(states) != fuzzed*c.greeting.State {
				t.Errorf("%d bytes of states", len(states))
			}
		}
		if pixels, err := c.render(2, 1, []bool{true, false}, by); err == nil && len(pixels) != 6 {
			t.Errorf("%d bytes of pixels", len(pixels))
		}
	})
}

// believable checks that an accepted answer has valid flags and finite numbers in all rows.
func believable(t *testing.T, c *conversation) {
	numbers := append([]float32(nil), c.reward...)
	for _, x := range append([]tensor.Tensor{c.info}, c.obs...) {
		if !x.IsZero() && x.DType() == tensor.F32 {
			numbers = append(numbers, x.F32()...)
		}
	}
	for _, x := range numbers {
		if x64 := float64(x); math.IsNaN(x64) || math.IsInf(x64, 0) {
			t.Errorf("%v was taken", x)
		}
	}
	for n := range fuzzed {
		if c.terminated[n] > 1 || c.truncated[n] > 1 {
			t.Errorf("flags %d, %d were taken", c.terminated[n], c.truncated[n])
		}
	}
}

// FuzzGreeting: an accepted greeting has all properties that its readers rely on.
func FuzzGreeting(f *testing.F) {
	f.Add([]byte(`{"v":1,"name":"a","token":"t","obs":[{"name":"state","kind":"box","dtype":"f32","shape":[2,3],` +
		`"low":-1,"high":[1,1,1,null,2,3]},` +
		`{"name":"action_mask","kind":"box","dtype":"u8","shape":[5]}],"action":{"kind":"multi_discrete","nvec":[2,` +
		`3]},"info":["success"],"max_steps":7}`))
	f.Add([]byte(`{"v":1,"name":"a","Token":"t","obs":[{"name":"state","kind":"discrete","n":2}],` +
		`"action":{"kind":"discrete","n":2}}`))
	f.Add([]byte(`{"v":1,"name":"b","obs":[{"name":"place","kind":"discrete","n":4}],"action":{"kind":"box",` +
		`"dtype":"f32","shape":[],"low":null},"num_envs":3}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := readGreeting(text)
		if err != nil {
			return
		}
		for _, space := range append([]env.Field{{Name: "action", Space: g.spec.Action}}, g.spec.Obs...) {
			if n := space.Dim(); n < 1 || n > maxElements || space.Kind == env.Box &&
				(len(space.Low) != n || len(space.High) != n) {
				t.Errorf("space %+v", space)
			}
		}
		if b := newBlocks(g.spec, 1); b.size() < 3*64 || b.finalAt > b.reply.Size() {
			t.Errorf("blocks %+v", b)
		}
		clean, err := withoutToken(text)
		if err != nil {
			t.Fatalf("without its token: %v", err)
		}
		if again, err := readGreeting([]byte(clean)); err != nil || again.Token != "" || again.Name != g.Name {
			t.Errorf("without its token: %v, token %q\n%s", err, again.Token, clean)
		}
	})
}

// FuzzFrame: an accepted header, written again, gives the same bytes.
func FuzzFrame(f *testing.F) {
	f.Add(requests()[:headerSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < headerSize {
			return
		}
		h, err := parse(b)
		if err != nil {
			return
		}
		again := make([]byte, headerSize)
		if h.put(again); !bytes.Equal(again, b[:headerSize]) || h.length != binary.LittleEndian.Uint64(b[24:]) {
			t.Errorf("%x was read as %+v", b[:headerSize], h)
		}
	})
}
