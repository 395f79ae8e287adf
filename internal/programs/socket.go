package programs

import (
	"encoding/gob"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A request asks the supervisor to start a program, or to send a signal to a running program.
type request struct {
	ID     int // unique number of the program
	Signal syscall.Signal
	Path   string // "" in a request to send Signal
	// StopFirst, if not 0, is the time between SIGTERM and SIGKILL if this process ends first. Path is "" then.
	StopFirst time.Duration
	Args      []string
	Env       []string
	Dir       string
	Files     int // number of descriptors sent with the request: the program's 0, 1, 2, ...
}

// A report says that a program was started, could not be started, or has ended.
type report struct {
	ID     int
	PID    int           // set if the program was started
	Errno  syscall.Errno // set if the program could not be started
	Ended  bool
	Status syscall.WaitStatus
}

// A socket carries Go values and file descriptors. Any goroutine may send. Only one goroutine may receive.
type socket struct {
	conn *net.UnixConn
	enc  *gob.Encoder
	dec  *gob.Decoder

	sending sync.Mutex
	out     []int      // descriptors to send with the next bytes
	in      []*os.File // received descriptors that no call of take has returned yet
}

// newSocket takes ownership of f, one end of a socket pair.
func newSocket(f *os.File) (*socket, error) {
	c, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("not a Unix socket"), c.Close())
	}
	s := &socket{conn: conn}
	s.enc, s.dec = gob.NewEncoder((*wire)(s)), gob.NewDecoder((*wire)(s))
	return s, nil
}

// send sends v together with files.
func (s *socket) send(v any, files []*os.File) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	for _, f := range files {
		s.out = append(s.out, int(f.Fd()))
	}
	return s.enc.Encode(v)
}

// receive decodes the next value into v. Call take for the descriptors sent with the value.
func (s *socket) receive(v any) error { return s.dec.Decode(v) }

// take removes and returns the first n received descriptors.
func (s *socket) take(n int) []*os.File {
	files := s.in[:min(n, len(s.in))]
	s.in = s.in[len(files):]
	return files
}

// A wire is the byte stream of a socket.
type wire socket

// maxFiles is the kernel's limit of descriptors in one message.
const maxFiles = 253

func (w *wire) Write(b []byte) (n int, err error) {
	for n < len(b) {
		var rights []byte
		if len(w.out) > 0 {
			rights, w.out = syscall.UnixRights(w.out...), nil
		}
		k, _, err := w.conn.WriteMsgUnix(b[n:], rights, nil)
		if err != nil { // k may be negative
			return n, err
		}
		n += k
	}
	return n, nil
}

func (w *wire) Read(b []byte) (int, error) {
	rights := make([]byte, syscall.CmsgSpace(4*maxFiles))
	n, k, _, _, err := w.conn.ReadMsgUnix(b, rights)
	if err != nil { // n may be negative
		return 0, err
	}
	messages, err := syscall.ParseSocketControlMessage(rights[:k])
	if err != nil {
		return n, err
	}
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			return n, err
		}
		for _, fd := range fds {
			w.in = append(w.in, os.NewFile(uintptr(fd), "received"))
		}
	}
	return n, nil
}
