package external

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/tensor"
)

// A conversation is the parent's side of the protocol with one child. After an error it can only be
// closed.
type conversation struct {
	link     Conn
	proc     *process // the child; nil if this process did not start it
	who      string   // name of the child in messages
	greeting *greeting
	text     string // the greeting, without its token
	log      io.Writer
	stranger bool // the child has not sent its token yet

	n      int
	blocks blocks
	memory *memory
	shared bool
	// Views of the arrays in the two blocks.
	action                []byte
	seed                  []int64
	mask                  []byte
	reward                []float32
	terminated, truncated []byte
	info                  tensor.Tensor // the zero Tensor if there are no figures
	intervened            []byte        // nil if nobody can act in place of the policy
	taken                 tensor.Tensor
	clipped               tensor.Tensor // a row of taken
	obs, final            []tensor.Tensor
	// The running episode of each environment.
	began []int64 // its seed
	steps []int32 // steps made, or -1 after LOAD

	// The last frame sent, and the kind of its answer.
	head      [headerSize]byte
	seq       uint64
	asked     kind
	autoReset bool
	count     uint32
	pixels    int // size of the requested pictures in bytes
	wanted    kind

	received header
	accept   func(head []byte) (uint64, error) // the method expect as a function value
}

// The errors of a child whose greeting is missing or wrong.
var (
	errMute    = errors.New("it exited before the handshake: does it speak RLB1?")
	errNoHello = errors.New("its first frame is not HELLO")
	errNoToken = errors.New("greeting: wrong token")
)

// newConversation returns a conversation that waits for the greeting.
func newConversation(link Conn, proc *process, who string, log io.Writer) *conversation {
	c := &conversation{link: link, proc: proc, who: who, log: log, wanted: hello}
	c.accept = c.expect
	return c
}

// receiveHello waits for HELLO, and returns its payload.
func (c *conversation) receiveHello(by time.Time) ([]byte, error) {
	payload, err := c.receive(by)
	switch {
	case errors.Is(err, ErrGone):
		return nil, errMute
	case err != nil && !errors.Is(err, errNoHello):
		return nil, fmt.Errorf("greeting: %w", err)
	}
	return payload, err
}

// greet waits for the child's greeting, which must contain token. If the child must send a token,
// greet logs no text of the child before the greeting.
func greet(link Conn, proc *process, who, token string, log io.Writer, by time.Time) (*conversation, error) {
	c := newConversation(link, proc, who, log)
	c.stranger = token != ""
	payload, err := c.receiveHello(by)
	if err != nil {
		return nil, err
	}
	if !sameSecret(tokenIn(payload), token) {
		return nil, errNoToken
	}
	c.stranger = false
	if c.greeting, err = readGreeting(payload); err != nil {
		return nil, err
	}
	if c.text, err = withoutToken(payload); proc != nil && c.greeting.Period > 0 {
		proc.program.StopFirst(grace)
		proc.stops = true
	}
	return c, err
}

// A setup holds the contents of a CONFIG.
type setup struct {
	n, child, maxSteps int
	ignoreTerminations bool
	shareMemory        bool
	noBells            bool    // if true, the memory has no bells
	memory             *memory // memory to offer, for tests; if nil, shareMemory selects it
	before             time.Time
}

// configure sends CONFIG, waits for READY, and sets up the memory.
func (c *conversation) configure(s setup) error {
	if own := c.greeting.NumEnvs; own != 0 && own != s.n {
		return fmt.Errorf("it plays %d environments, expected %d", own, s.n)
	}
	if err := c.greeting.fits(s.n); err != nil {
		return err
	}
	c.n, c.blocks = s.n, newBlocks(c.greeting.spec, s.n)
	var err error
	size := c.blocks.size()
	if s.shareMemory && !s.noBells {
		size += bellsSize
	}
	switch {
	case s.memory != nil:
		c.memory = s.memory
	case !s.shareMemory:
		c.memory = privateMemory(size)
	case c.proc != nil:
		c.memory, err = mapAnonymous(c.proc.memory, size)
	default:
		c.memory, err = newNamed(size)
	}
	if err != nil {
		return fmt.Errorf("shared memory: %w", err)
	}
	shared := uint64(0)
	if c.memory.path != "" {
		shared = uint64(len(c.memory.bytes))
	}
	payload := configPayload(s, c.greeting.Intervene, c.memory.path, shared)
	if err := c.send(header{kind: config}, payload, s.before); err != nil {
		return err
	}
	_, err = c.receive(s.before)
	c.memory.hide()
	if err != nil {
		return fmt.Errorf("after CONFIG: %w", err)
	}
	c.shared = c.received.flags&flagShared != 0
	c.bind()
	if link, ok := c.link.(*stream); ok && c.shared && len(c.memory.bytes) > c.blocks.size() {
		link.hang(c.memory.bytes[c.blocks.size():], false)
	}
	return nil
}

// The flags of CONFIG.
const (
	ignoresTerminations = 1
	takesInterventions  = 2
)

// configPayload returns the payload of CONFIG for s. The argument intervene is the greeting's member of this name. The
// shared memory at path has sharedSize bytes; 0 means that there is none.
func configPayload(s setup, intervene bool, path string, sharedSize uint64) []byte {
	payload := make([]byte, configSize, configSize+len(path))
	for i, x := range []int{version, s.n, s.child, s.maxSteps} {
		binary.LittleEndian.PutUint32(payload[4*i:], uint32(x))
	}
	if s.ignoreTerminations {
		payload[16] = ignoresTerminations
	}
	if intervene {
		payload[16] |= takesInterventions
	}
	binary.LittleEndian.PutUint64(payload[24:], sharedSize)
	return append(payload, path...)
}

// bind sets the arrays of the blocks to views of the memory.
func (c *conversation) bind() {
	request, reply := c.blocks.request.Bind(c.memory.bytes), c.blocks.reply.Bind(c.memory.bytes[c.blocks.replyAt:])
	c.action, c.seed, c.mask = request.Must("action").Bytes(), request.Must("seed").I64(), request.Must("mask").U8()
	c.reward, c.terminated, c.truncated = reply.Must("reward").F32(), reply.Must("terminated").U8(),
		reply.Must("truncated").U8()
	c.info, _ = reply.Get("info")
	if c.greeting.Intervene {
		c.intervened, c.taken = reply.Must("intervened").U8(), reply.Must("taken")
		c.clipped = c.taken.Slice(0, 1).Clone()
	}
	c.began, c.steps = make([]int64, c.n), make([]int32, c.n)
	for _, f := range c.greeting.spec.Obs {
		c.obs = append(c.obs, reply.Must("observation."+f.Name))
		c.final = append(c.final, reply.Must("final_observation."+f.Name))
	}
}

// ask sends a RESET or STEP with the request block. Call hear next, to receive the answer.
func (c *conversation) ask(k kind, flags uint16, by time.Time) error {
	var payload []byte
	if !c.shared {
		payload = c.memory.bytes[:c.blocks.request.Size()]
	}
	return c.send(header{kind: k, flags: flags, count: uint32(c.n)}, payload, by)
}

// hear receives the answer to the request that ask sent, writes it to the reply block, and validates it.
func (c *conversation) hear(by time.Time) error {
	payload, err := c.receive(by)
	if err != nil {
		return err
	}
	final := c.received.flags&flagFinal != 0
	if !c.shared {
		if n := len(payload); n != c.blocks.reply.Size() && (n != c.blocks.finalAt || final) {
			return fmt.Errorf("RESULT of %d bytes, expected %d, or %d without final observations", n,
				c.blocks.reply.Size(), c.blocks.finalAt)
		}
		copy(c.memory.bytes[c.blocks.replyAt:], payload)
	}
	if err := c.check(final); err != nil {
		return err
	}
	c.follow()
	return nil
}

// call sends a frame with payload, and returns the payload of the answer. The answer must have size bytes.
func (c *conversation) call(k kind, payload []byte, size int, by time.Time) ([]byte, error) {
	if err := c.send(header{kind: k}, payload, by); err != nil {
		return nil, err
	}
	answer, err := c.receive(by)
	if err == nil && len(answer) != size {
		err = fmt.Errorf("RESULT of %d bytes to %v, expected %d", len(answer), k, size)
	}
	return answer, err
}

// send sends a frame. Requests get the next sequence number.
func (c *conversation) send(h header, payload []byte, by time.Time) error {
	if h.kind != config && h.kind != closing {
		c.seq++
	}
	h.seq, h.length = c.seq, uint64(len(payload))
	h.put(c.head[:])
	c.asked, c.autoReset, c.count = h.kind, h.flags&flagAutoReset != 0, h.count
	c.wanted = result
	if h.kind == config {
		c.wanted = ready
	}
	return c.link.Send(by, c.head[:], payload)
}

// receive returns the payload of the answer to the last frame. The payload is valid until the next
// call. receive also writes the child's LOG frames to the log.
func (c *conversation) receive(by time.Time) ([]byte, error) {
	for {
		_, payload, err := c.link.Receive(by, c.accept)
		switch {
		case err != nil:
			return nil, err
		case c.received.kind == c.wanted:
			return payload, nil
		case c.received.kind == failure:
			return nil, complaint(strings.TrimSpace(string(payload)))
		default:
			lines := strings.ReplaceAll(strings.TrimSpace(string(payload)), "\n", "\n"+c.who+": ")
			fmt.Fprintf(c.log, "%s: %s\n", c.who, printable.Text(lines))
			if time.Now().After(by) { // a child may send LOG frames forever
				return nil, os.ErrDeadlineExceeded
			}
		}
	}
}

// A complaint is the text of a child's ERROR.
type complaint string

func (c complaint) Error() string { return "error: " + printable.Text(string(c)) }

// expect validates a received header, and returns the payload's size. It runs before the payload is read.
func (c *conversation) expect(head []byte) (uint64, error) {
	h, err := parse(head)
	if c.stranger && (err != nil || h.kind != hello) {
		return 0, errNoHello
	}
	if err != nil {
		return 0, err
	}
	c.received = h
	if h.kind == failure || h.kind == logLine {
		if h.length > maxText {
			return 0, fmt.Errorf("%v of %d bytes, expected at most %d", h.kind, h.length, maxText)
		}
		return h.length, nil
	}
	if h.kind != c.wanted {
		return 0, fmt.Errorf("%v, expected %v", h.kind, c.wanted)
	}
	most, flags := uint64(0), uint16(0)
	switch h.kind {
	case hello:
		most = maxText
	case ready:
		if c.memory.path != "" {
			flags = flagShared
		}
	case result:
		switch {
		case c.asked == save:
			most = uint64(c.n * c.greeting.State)
		case c.asked == render:
			most = uint64(c.pixels)
		case c.asked == expert:
			most = uint64(len(c.action))
		case c.asked == grade:
			most = maxPayload
		case !c.shared:
			most = uint64(c.blocks.reply.Size())
		}
		if c.autoReset {
			flags = flagFinal
		}
	}
	switch {
	case h.seq != c.seq:
		return 0, fmt.Errorf("%v with seq %d, expected %d", h.kind, h.seq, c.seq)
	case h.count != c.count:
		return 0, fmt.Errorf("%v of %d environments, expected %d", h.kind, h.count, c.count)
	case h.flags&^flags != 0 && flags == 0:
		return 0, fmt.Errorf("%v with flags %#x, expected none", h.kind, h.flags)
	case h.flags&^flags != 0:
		return 0, fmt.Errorf("%v with flags %#x, expected none but %#x", h.kind, h.flags, flags)
	case h.length > most && most == 0 && c.shared && c.asked != render:
		return 0, fmt.Errorf("RESULT of %d bytes, expected none: the reply block is in shared memory", h.length)
	case h.length > most:
		return 0, fmt.Errorf("%v of %d bytes, expected at most %d", h.kind, h.length, most)
	}
	return h.length, nil
}

// save returns the states of the environments.
func (c *conversation) save(by time.Time) ([]byte, error) {
	return c.call(save, nil, c.n*c.greeting.State, by)
}

// load restores states that save returned. The observations go to the reply block.
func (c *conversation) load(states []byte, by time.Time) error {
	for n := range c.mask {
		c.mask[n] = 1
	}
	if err := c.send(header{kind: load}, states, by); err != nil {
		return err
	}
	return c.hear(by)
}

// render returns the pictures of the environments where mask is true. Each picture is [height,
// width, 3] bytes.
func (c *conversation) render(width, height int, mask []bool, by time.Time) ([]byte, error) {
	payload := make([]byte, 8+len(mask))
	binary.LittleEndian.PutUint32(payload, uint32(width))
	binary.LittleEndian.PutUint32(payload[4:], uint32(height))
	c.pixels = 0
	for n, wanted := range mask {
		if wanted {
			payload[8+n] = 1
			c.pixels += width * height * 3
		}
	}
	return c.call(render, payload, c.pixels, by)
}

// close ends the conversation, and the child if this process started it. If useless is true, it
// kills the child at once.
func (c *conversation) close(useless bool) error {
	if !useless {
		c.send(header{kind: closing}, nil, time.Now().Add(time.Second))
	}
	err := c.link.Close()
	if c.proc != nil {
		err = errors.Join(err, c.proc.end(useless))
	}
	if c.memory != nil {
		err = errors.Join(err, c.memory.free())
	}
	return err
}

// exitReport describes how the child ended after the error err, with the last lines of its output.
// The lines are left out if the child sent an ERROR and the log has all of the output. It returns
// "" if this process did not start the child.
func (c *conversation) exitReport(err error) string {
	if c.proc == nil {
		return ""
	}
	fate := c.proc.fate(err)
	if complained := new(complaint); errors.As(err, complained) && c.proc.logged() {
		return fate
	}
	return fate + c.proc.outputTail()
}
