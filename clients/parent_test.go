package clients_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
)

// Types and flags of frames, docs/bridge.md.
const (
	hello = 1 + iota
	config
	ready
	reset
	step
	result
	closing
	failure
	logging
	save
	load
	render
)

const (
	shared    = 1
	autoreset = 2
	final     = 4
)

// A header is the header of a frame.
type header struct {
	Magic           [4]byte
	Type, Flags     uint16
	Count, Reserved uint32
	Seq, Length     uint64
}

// A parent is a minimal parent of one child, which can also break the rules.
type parent struct {
	t       *testing.T
	cmd     *exec.Cmd
	in, out *os.File      // frames from the child, and to the child
	errors  *bytes.Buffer // output of the child on standard error
	hello   greeting
	seq     uint64
	n       int
	request block
	reply   block
	memory  *os.File // nil: blocks travel in payloads
}

// A greeting is the part of a HELLO that the tests read.
type greeting struct {
	V         int
	Name      string
	Obs       []space
	Action    space
	NumEnvs   int `json:"num_envs"`
	MaxSteps  int `json:"max_steps"`
	Info      []string
	StateSize int  `json:"state_size"`
	OwnsLoop  bool `json:"owns_loop"`
	Render    bool
	Token     string
	Goal      any
}

type space struct {
	Name, Kind, Dtype string
	Shape             []int
	Low, High         any
	N                 int
	Nvec              []int
}

func (s space) numbers() int {
	if s.Kind == "multi_discrete" {
		return len(s.Nvec)
	}
	n := 1
	for _, d := range s.Shape {
		n *= d
	}
	return n
}

// A block is the layout of named arrays.
type block struct {
	at   map[string]int
	size int
	data []byte
}

func (b *block) add(name string, size int) {
	if b.at == nil {
		b.at = map[string]int{}
	}
	b.at[name] = (b.size + 63) / 64 * 64
	b.size = b.at[name] + size
}

func (b *block) end() {
	b.size = (b.size + 63) / 64 * 64
	b.data = make([]byte, b.size)
}

func (b *block) put(name string, i int, v any) {
	if _, err := binary.Encode(b.data[b.at[name]+i*binary.Size(v):], binary.LittleEndian, v); err != nil {
		panic(err)
	}
}

func (b *block) f32(name string, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b.data[b.at[name]+4*i:]))
}

func (b *block) i32(name string, i int) int32 {
	return int32(binary.LittleEndian.Uint32(b.data[b.at[name]+4*i:]))
}

func (b *block) u8(name string, i int) byte { return b.data[b.at[name]+i] }

// greet starts the child and receives its HELLO.
func greet(t *testing.T, command ...string) *parent {
	t.Helper()
	childIn, out, err := os.Pipe()
	test.OK(t, err)
	in, childOut, err := os.Pipe()
	test.OK(t, err)
	p := &parent{t: t, in: in, out: out, errors: &bytes.Buffer{}}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.ExtraFiles = []*os.File{childIn, childOut}
	p.cmd.Env = append(os.Environ(), "RLB_ADDR=fd:3,4", "RLB_TOKEN=a \"secret\"")
	p.cmd.Stderr = p.errors
	test.OK(t, p.cmd.Start())
	childIn.Close()
	childOut.Close()
	in.SetReadDeadline(time.Now().Add(time.Minute))
	out.SetWriteDeadline(time.Now().Add(time.Minute))
	t.Cleanup(func() {
		p.in.Close()
		p.out.Close()
		p.cmd.Process.Kill()
		p.cmd.Wait()
		if p.memory != nil {
			p.memory.Close()
		}
	})
	h, body := p.receive()
	if h.Type != hello {
		t.Fatalf("the child begins with a frame of type %d: %s", h.Type, body)
	}
	if err := json.Unmarshal(body, &p.hello); err != nil {
		t.Fatalf("greeting: %v\n%s", err, body)
	}
	return p
}

// configure gives the child n environments, and memory if it is to be shared, and hears READY.
func (p *parent) configure(n, maxSteps int, flags uint32, share bool) {
	p.t.Helper()
	p.layOut(n)
	body := make([]byte, 32)
	for i, v := range []uint32{1, uint32(n), 0, uint32(maxSteps), flags, 0} {
		binary.LittleEndian.PutUint32(body[4*i:], v)
	}
	if share {
		name := filepath.Join(p.t.TempDir(), "memory")
		size := (p.request.size+4095)/4096*4096 + p.reply.size
		if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
			p.t.Fatal(err)
		}
		p.memory, _ = os.OpenFile(name, os.O_RDWR, 0)
		binary.LittleEndian.PutUint64(body[24:], uint64(size))
		body = append(body, name...)
	}
	p.send(header{Type: config}, body)
	h, text := p.receive()
	if h.Type != ready || (h.Flags == shared) != share {
		p.t.Fatalf("the child answers the configuration with type %d, flags %d: %s", h.Type, h.Flags, text)
	}
}

func (p *parent) layOut(n int) {
	p.n = n
	p.request.add("action", 4*n*p.hello.Action.numbers())
	p.request.add("seed", 8*n)
	p.request.add("mask", n)
	p.request.end()
	p.reply.add("reward", 4*n)
	p.reply.add("terminated", n)
	p.reply.add("truncated", n)
	p.reply.add("info", 4*n*len(p.hello.Info))
	for _, which := range []string{"obs.", "final."} {
		for _, s := range p.hello.Obs {
			size := 4
			if s.Dtype == "u8" {
				size = 1
			}
			p.reply.add(which+s.Name, size*n*s.numbers())
		}
	}
	p.reply.end()
	for e := range n {
		p.request.put("mask", e, uint8(1))
	}
}

// send writes a frame; Magic and Length are set where they are zero.
func (p *parent) send(h header, body []byte) {
	p.t.Helper()
	if h.Magic == [4]byte{} {
		h.Magic = [4]byte([]byte("RLB1"))
	}
	if h.Length == 0 {
		h.Length = uint64(len(body))
	}
	var frame bytes.Buffer
	binary.Write(&frame, binary.LittleEndian, h)
	frame.Write(body)
	if _, err := p.out.Write(frame.Bytes()); err != nil {
		p.t.Fatalf("write to the child: %v\n%s", err, p.errors)
	}
}

// receive reads a frame; its type is 0 when the child has ended.
func (p *parent) receive() (header, []byte) {
	p.t.Helper()
	var h header
	if err := binary.Read(p.in, binary.LittleEndian, &h); err == io.EOF {
		return header{}, nil
	} else if err != nil {
		p.t.Fatalf("read from the child: %v", err)
	}
	body := make([]byte, h.Length)
	if _, err := io.ReadFull(p.in, body); err != nil {
		p.t.Fatalf("read %d bytes from the child: %v", h.Length, err)
	}
	return h, body
}

// ask sends a request and returns its answer.
func (p *parent) ask(h header, body []byte) (header, []byte) {
	p.t.Helper()
	p.seq++
	h.Seq = p.seq
	blocks := h.Type == reset || h.Type == step
	if blocks {
		h.Count = uint32(p.n)
		body = p.request.data
		if p.memory != nil {
			p.memory.WriteAt(p.request.data, 0)
			body = nil
		}
	}
	p.send(h, body)
	r, got := p.receive()
	if r.Type != result || r.Seq != p.seq || r.Count != h.Count {
		p.t.Fatalf("request %+v is answered by %+v: %s", h, r, got)
	}
	if blocks || h.Type == load {
		if p.memory != nil {
			p.memory.ReadAt(p.reply.data, int64((p.request.size+4095)/4096*4096))
		} else if copied := copy(p.reply.data, got); copied != p.reply.size &&
			(copied != p.reply.at["final."+p.hello.Obs[0].Name] || r.Flags == final) {
			p.t.Fatalf("an answer of %d bytes: expected %d", copied, p.reply.size)
		}
	}
	return r, got
}

// end sends CLOSE, and checks that the child ends by itself without output on standard error.
func (p *parent) end() {
	p.t.Helper()
	p.send(header{Type: closing}, nil)
	if err := p.cmd.Wait(); err != nil || p.errors.Len() != 0 {
		p.t.Errorf("the child ends with %v:\n%s", err, p.errors)
	}
}
