package external

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// Serve makes this program a child of the parent at address, usually RLB_ADDR. It plays environments until the parent
// sends CLOSE or exits. newVec makes one environment. The environment must obey maxSteps and ignoreTerminations, and
// must not repeat actions.
func Serve(address, token string, newVec func(maxSteps int, ignoreTerminations bool) (env.Vec, error)) error {
	link, err := dial(address)
	if err != nil {
		return fmt.Errorf("bridge: %q: %w", address, err)
	}
	defer link.Close()
	s := &server{link: link, new: newVec}
	s.accept = s.expect
	err = s.converse(token)
	if err == nil || errors.Is(err, ErrGone) {
		return nil
	}
	text := []byte(err.Error())
	text = text[:min(len(text), maxText)]
	link.Send(time.Now().Add(time.Second), s.header(failure, 0, len(text)), text)
	return err
}

// A server is the child's side of a conversation. Each environment is a Vec of its own, because a
// STEP steps only the environments in its mask.
type server struct {
	link    *stream
	new     func(maxSteps int, ignoreTerminations bool) (env.Vec, error)
	spec    env.Spec
	state   int // size of an environment's saved state in bytes; 0 if it cannot be saved
	drawing bool
	expert  bool // the environments have an expert
	n       int
	vecs    []env.Vec
	steps   []*env.Step
	action  []tensor.Dict
	advice  []byte // the expert's actions
	seed    [1]uint64

	blocks         blocks
	memory         *memory
	request, reply tensor.Dict
	head           [headerSize]byte
	asked          header
	accept         func(head []byte) (uint64, error) // the method expect as a function value
}

// forever returns a deadline that never comes. A child waits as long as its parent lives.
func forever() time.Time { return time.Now().Add(math.MaxInt64) }

// converse sends the greeting, and answers requests until CLOSE or an error.
func (s *server) converse(token string) error {
	if err := s.greet(token); err != nil {
		return err
	}
	for {
		_, payload, err := s.link.Receive(forever(), s.accept)
		switch {
		case err != nil || s.asked.kind == closing:
			return err
		case s.asked.kind == config:
			err = s.configure(payload)
		default:
			err = s.answer(payload)
		}
		if err != nil {
			return err
		}
	}
}

func (s *server) header(k kind, flags uint16, length int) []byte {
	header{k, flags, s.asked.count, s.asked.seq, uint64(length)}.put(s.head[:])
	return s.head[:]
}

// greet sends HELLO.
func (s *server) greet(token string) error {
	vec, err := s.new(0, false)
	if err != nil {
		return err
	}
	if s.spec = vec.Spec(); s.spec.Repeats() > 1 {
		return fmt.Errorf("%s: action_repeat %d, expected 1: a step of the bridge says the figures of one step; "+
			"env.train.action_repeat of the job that trains repeats actions", s.spec.Name, s.spec.Repeats())
	}
	first := s.spec.NewStep(1, 1)
	if err := vec.Reset(nil, []uint64{0}, first); err != nil {
		return err
	}
	if state, err := saveWith(vec, first); err == nil {
		s.state = len(tensor.Encode(nil, state))
	}
	s.drawing = env.Render(vec, env.View{Width: 16, Height: 16}, []bool{false},
		tensor.New(tensor.U8, 1, 16, 16, 3)) == nil
	s.expert = env.Act(vec, tensor.New(s.spec.Action.DType, 1, 1, s.spec.Action.Dim())) == nil
	if err := vec.Close(); err != nil {
		return err
	}
	hi, err := json.Marshal(greetingOf(s.spec, s.state, s.drawing, s.expert, token))
	if err != nil {
		return err
	}
	return s.link.Send(forever(), s.header(hello, 0, len(hi)), hi)
}

// configure handles CONFIG: it makes the environments and sends READY.
func (s *server) configure(payload []byte) error {
	word := func(i int) int { return int(binary.LittleEndian.Uint32(payload[4*i:])) }
	n, maxSteps, flags := word(1), word(3), word(4)
	shared, path := binary.LittleEndian.Uint64(payload[24:]), string(payload[configSize:])
	want := 0
	if s.spec.Intervene {
		want = takesInterventions
	}
	if word(0) != version || n < 1 || n > maxEnvs ||
		flags&^want > ignoresTerminations || flags&want != want || word(5) != 0 {
		return fmt.Errorf("bridge: CONFIG of version %d for %d environments with flags %#x and reserved bytes %d, "+
			"expected version %d, 1 to %d, %d or %d, and 0", word(0), n, flags, word(5), version, maxEnvs, want,
			want|ignoresTerminations)
	}
	s.n, s.blocks = n, newBlocks(s.spec, n)
	size := s.blocks.size()
	if shared != 0 && shared < uint64(size) {
		return fmt.Errorf("bridge: CONFIG shares %d bytes, expected at least %d", shared, size)
	}
	var err error
	readyFlags := uint16(0)
	if shared != 0 && shared <= math.MaxInt {
		if s.memory, err = openMemory(path, int(shared)); err == nil {
			readyFlags = flagShared
		}
	}
	if readyFlags != 0 && shared-uint64(size) >= bellsSize {
		s.link.hang(s.memory.bytes[size:], true)
	}
	if readyFlags == 0 {
		if longest := max(s.blocks.request.Size(), s.blocks.reply.Size()); longest > maxPayload {
			return fmt.Errorf("bridge: %d environments need frames of %d bytes, expected at most %d where memory is "+
				"not shared", n, longest, maxPayload)
		}
		s.memory = privateMemory(size)
	}
	for range s.n {
		vec, err := s.new(maxSteps, flags&ignoresTerminations != 0)
		if err != nil {
			return err
		}
		s.vecs = append(s.vecs, vec)
		s.steps = append(s.steps, s.spec.NewStep(1, 1))
		var d tensor.Dict
		d.Set("action", tensor.New(s.spec.Action.DType, 1, 1, s.spec.Action.Dim()))
		s.action = append(s.action, d)
	}
	s.request, s.reply = s.blocks.request.Bind(s.memory.bytes), s.blocks.reply.Bind(s.memory.bytes[s.blocks.replyAt:])
	return s.link.Send(forever(), s.header(ready, readyFlags, 0), nil)
}

// openMemory maps the shared memory of the parent.
func openMemory(path string, size int) (*memory, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return mapFile(f, size, path)
}

// obsPrefix precedes the names of observations in saved states.
const obsPrefix = "shown."

// saveWith returns the state of vec together with the observations of its last step.
func saveWith(vec env.Vec, step *env.Step) (tensor.Dict, error) {
	state, err := env.Save(vec)
	for i := range step.Obs.Len() {
		name, t := step.Obs.Entry(i)
		state.Set(obsPrefix+name, t.Clone())
	}
	return state, err
}

// expect validates a received header, and returns the payload's size. It runs before the payload is
// read.
func (s *server) expect(head []byte) (uint64, error) {
	h, err := parse(head)
	if err != nil {
		return 0, fmt.Errorf("bridge: %w", err)
	}
	count, seq, least, most, flags := uint32(0), s.asked.seq+1, 0, 0, uint16(0)
	switch configured := s.memory != nil; {
	case h.kind == closing:
		seq = h.seq
	case h.kind == config && !configured:
		seq, least, most = 0, configSize, configSize+maxPath
	case (h.kind == reset || h.kind == step) && configured:
		if count = uint32(s.n); !s.memory.mapped {
			least = s.blocks.request.Size()
		}
		if h.kind == step {
			flags = flagAutoReset
		}
	case h.kind == save && configured && s.state > 0:
	case h.kind == load && configured && s.state > 0:
		least = s.n * s.state
	case h.kind == expert && configured && s.expert:
	case h.kind == render && configured && s.drawing:
		least = 8 + s.n
	default:
		return 0, fmt.Errorf("bridge: %v, expected %s", h.kind,
			map[bool]string{false: "CONFIG", true: "a request that the greeting offers"}[configured])
	}
	most = max(least, most)
	if h.count != count || h.seq != seq || h.flags&^flags != 0 || h.length < uint64(least) || h.length > uint64(most) {
		return 0, fmt.Errorf("bridge: %v with count %d, seq %d, flags %#x and %d bytes, expected count %d, seq %d, "+
			"flags %#x at most and %d bytes", h.kind, h.count, h.seq, h.flags, h.length, count, seq, flags, least)
	}
	s.asked = h
	return h.length, nil
}

// answer handles the last request, and sends the reply.
func (s *server) answer(payload []byte) error {
	switch s.asked.kind {
	case save:
		states := make([]byte, 0, s.n*s.state)
		for n, vec := range s.vecs {
			state, err := saveWith(vec, s.steps[n])
			if err != nil {
				return err
			}
			states = tensor.Encode(states, state)
		}
		return s.link.Send(forever(), s.header(result, 0, len(states)), states)
	case load:
		return s.load(payload)
	case expert:
		s.advice = s.advice[:0]
		for n, vec := range s.vecs {
			if err := env.Act(vec, s.action[n].Must("action")); err != nil {
				return err
			}
			s.advice = append(s.advice, s.action[n].Must("action").Bytes()...)
		}
		return s.link.Send(forever(), s.header(result, 0, len(s.advice)), s.advice)
	case render:
		return s.draw(payload)
	}
	copy(s.memory.bytes, payload) // empty with shared memory
	flags := uint16(0)
	for n, turn := range s.request.Must("mask").U8() {
		switch turn {
		case 0:
			continue
		case 1:
		default:
			return fmt.Errorf("bridge: %v whose mask of environment %d is %d, expected 0 or 1", s.asked.kind, n, turn)
		}
		over, err := s.play(n)
		if err != nil {
			return err
		}
		if over && s.asked.flags&flagAutoReset != 0 {
			flags = flagFinal
		}
	}
	return s.sendReply(flags)
}

// load handles LOAD.
func (s *server) load(states []byte) error {
	for n, vec := range s.vecs {
		state, err := tensor.Decode(states[n*s.state : (n+1)*s.state])
		if err == nil {
			err = env.Load(vec, state)
		}
		for _, f := range s.spec.Obs {
			dst := s.reply.Must("observation."+f.Name).Slice(n, n+1).Bytes()
			seen, ok := state.Get(obsPrefix + f.Name)
			if err == nil && (!ok || len(seen.Bytes()) != len(dst)) {
				err = fmt.Errorf("no %s%s of %d bytes", obsPrefix, f.Name, len(dst))
			}
			if err == nil {
				copy(dst, seen.Bytes())
			}
		}
		if err != nil {
			return fmt.Errorf("bridge: LOAD of environment %d: %w", n, err)
		}
	}
	for _, name := range []string{"reward", "terminated", "truncated"} {
		s.reply.Must(name).Zero()
	}
	return s.sendReply(0)
}

// play resets or steps environment n as requested, and writes the results to the reply block. It
// reports whether the episode is over.
func (s *server) play(n int) (over bool, err error) {
	out := s.steps[n]
	s.seed[0] = uint64(s.request.Must("seed").I64()[n])
	if s.asked.kind == reset {
		err = s.vecs[n].Reset(nil, s.seed[:], out)
		out.Reward.Zero()
		out.Terminated.Zero()
		out.Truncated.Zero()
	} else {
		seeds := s.seed[:]
		if s.asked.flags&flagAutoReset == 0 {
			seeds = nil
		}
		copy(s.action[n].Must("action").Bytes(), s.request.Must("action").Slice(n, n+1).Bytes())
		err = s.vecs[n].Step(s.action[n], seeds, out)
	}
	if err != nil {
		return false, err
	}
	put := func(name string, src tensor.Tensor) { copy(s.reply.Must(name).Slice(n, n+1).Bytes(), src.Bytes()) }
	put("reward", out.Reward)
	put("terminated", out.Terminated)
	put("truncated", out.Truncated)
	if len(s.spec.Info) > 0 {
		put("info", out.Info)
	}
	if s.spec.Intervene {
		put("intervened", out.Intervened)
		put("taken", out.Taken)
	}
	over = out.Terminated.U8()[0]|out.Truncated.U8()[0] != 0
	for _, f := range s.spec.Obs {
		put("observation."+f.Name, out.Obs.Must(f.Name))
		if over {
			put("final_observation."+f.Name, out.FinalObs.Must(f.Name))
		}
	}
	return over, nil
}

func (s *server) sendReply(flags uint16) error {
	var payload []byte
	if !s.memory.mapped {
		if payload = s.memory.bytes[s.blocks.replyAt:]; flags == 0 {
			payload = payload[:s.blocks.finalAt]
		}
	}
	return s.link.Send(forever(), s.header(result, flags, len(payload)), payload)
}

// draw handles RENDER.
func (s *server) draw(payload []byte) error {
	width, height := binary.LittleEndian.Uint32(payload), binary.LittleEndian.Uint32(payload[4:])
	if wanted := uint64(bytes.Count(payload[8:], []byte{1})); width-1 >= maxSide || height-1 >= maxSide ||
		wanted*uint64(width)*uint64(height)*3 > maxPayload {
		return fmt.Errorf("bridge: RENDER of %d pictures of %d by %d, expected sides of 1 to %d, and %d bytes at most",
			wanted, width, height, maxSide, maxPayload)
	}
	view := env.View{Width: int(width), Height: int(height)}
	var pixels []byte
	for n, vec := range s.vecs {
		if payload[8+n] == 1 {
			rgb := tensor.New(tensor.U8, 1, view.Height, view.Width, 3)
			if err := env.Render(vec, view, nil, rgb); err != nil {
				return err
			}
			pixels = append(pixels, rgb.U8()...)
		}
	}
	return s.link.Send(forever(), s.header(result, 0, len(pixels)), pixels)
}
