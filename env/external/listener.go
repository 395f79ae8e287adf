package external

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rlinf/rlinf/env"
	"golang.org/x/sys/unix"
)

// A listener accepts children that were started elsewhere. Children with a valid greeting wait in
// the queue.
type listener struct {
	net       net.Listener
	queue     chan *conversation
	done      chan struct{} // closed when it stops listening
	room      chan struct{} // semaphore: one element for each visitor
	accepting sync.WaitGroup
	greeting  sync.WaitGroup

	mu       sync.Mutex
	visitors []*visitor // oldest first
	refused  int        // number of refusals so far
}

// A visitor is a connection that has not sent its greeting yet.
type visitor struct {
	conn  net.Conn
	since time.Time
}

// maxWaiting is the maximum number of children in the queue. Further children wait until there is
// room.
const maxWaiting = 1024

// A visitor must send its greeting within greetingTime. If there are maxVisitors, a new connection waits until the
// oldest visitor has had firstTime, and then replaces this visitor.
const (
	greetingTime = 10 * time.Second
	firstTime    = 500 * time.Millisecond
	maxVisitors  = 1024
)

// listen starts a listener. The address is env.External.Listen, which splitAddress adapts to this rank.
func (h *Hub) listen(address, tokenFile string) (*listener, error) {
	network, at, err := splitAddress(address, h.rank)
	if err != nil {
		return nil, err
	}
	token := ""
	if tokenFile != "" {
		if token, err = secret(tokenFile); err != nil {
			return nil, fmt.Errorf("token_file: %w", err)
		}
	} else if network == "tcp" {
		return nil, errors.New("a token_file is needed: everybody on this machine can connect to a TCP port")
	}
	on := net.ListenConfig{}
	if network == "unix" {
		if err := makeRoom(at); err != nil {
			return nil, err
		}
		on.Control = ownersOnly
	}
	l := &listener{queue: make(chan *conversation, maxWaiting), done: make(chan struct{}),
		room: make(chan struct{}, mostVisitors())}
	if l.net, err = on.Listen(context.Background(), network, at); err != nil {
		return nil, err
	}
	l.accepting.Go(func() { l.accept(h, token) })
	return l, nil
}

// splitAddress parses "unix:/path" or "tcp:host:port", and returns the network and the address for
// rank. Each rank has a path or a port of its own.
func splitAddress(address string, rank int) (network, at string, err error) {
	network, at, _ = strings.Cut(address, ":")
	switch network {
	case "unix":
		if rank > 0 {
			at += "." + strconv.Itoa(rank)
		}
		if at == "" || len(at) > env.MaxSocketPath {
			return "", "", fmt.Errorf("%q: the path of the socket, %q, has %d bytes, expected 1 to %d", address, at,
				len(at), env.MaxSocketPath)
		}
		if at[0] == '@' { // Go treats this as an abstract name, but clients look for a file
			return "", "", fmt.Errorf("%q: the path of the socket, %q, begins with @, expected ./@ for a file of "+
				"this name", address, at)
		}
		return network, at, nil
	case "tcp":
		host, port, err := net.SplitHostPort(at)
		if err != nil {
			return "", "", fmt.Errorf("%q: %w, expected tcp:host:port", address, err)
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || int(n)+rank > 65535 {
			return "", "", fmt.Errorf("%q: port %q, expected a number from 1 to %d", address, port, 65535-rank)
		}
		if host == "" {
			host = "127.0.0.1"
		}
		return network, net.JoinHostPort(host, strconv.Itoa(int(n)+rank)), nil
	}
	return "", "", fmt.Errorf("%q, expected unix:/path, tcp:host:port or mpi", address)
}

// makeRoom removes a stale socket that a killed job has left at path. It returns an error if
// anything else is at path, or if a process listens at the socket.
func makeRoom(path string) error {
	old, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if old.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s: there is a file that is no socket (%v), expected a path where nothing is", path,
			old.Mode())
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return fmt.Errorf("%s: another job listens there", path)
	}
	if !errors.Is(err, unix.ECONNREFUSED) { // another process may be listening
		return fmt.Errorf("%s: there is a socket that may be another job's (%w), expected a path where nothing is",
			path, err)
	}
	return os.Remove(path)
}

// ownersOnly sets the mode of a Unix socket's file to 0600 before the file appears.
func ownersOnly(_, _ string, c syscall.RawConn) (err error) {
	if e := c.Control(func(fd uintptr) { err = os.NewSyscallError("fchmod", unix.Fchmod(int(fd), 0o600)) }); e != nil {
		return e
	}
	return err
}

// mostVisitors returns the maximum number of visitors: maxVisitors, or less if this process may open only a few files.
func mostVisitors() int {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil {
		return maxVisitors
	}
	return int(max(min(files.Cur/4, maxVisitors), 1))
}

func (l *listener) accept(h *Hub, token string) {
	for {
		conn, err := l.net.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			fmt.Fprintf(h.log, "listen at %v: %v\n", l.net.Addr(), err)
			select {
			case <-time.After(time.Second): // for example, out of descriptors
			case <-l.done:
			}
			continue
		}
		v := l.admit(conn)
		if v == nil {
			return
		}
		l.greeting.Go(func() {
			c, err := l.welcome(h, conn, token)
			if sent := l.leave(v); sent && err != nil {
				err = fmt.Errorf("no greeting in %v, and %d connections wait that have not greeted", firstTime,
					cap(l.room))
			}
			if err != nil {
				l.refuse(h, conn, err)
				return
			}
			select {
			case l.queue <- c:
			case <-l.done:
				c.close(true)
			}
		})
	}
}

// admit waits for room and then makes conn a visitor. It returns nil if the listener is closed first.
func (l *listener) admit(conn net.Conn) *visitor {
	select {
	case l.room <- struct{}{}:
		return l.enter(conn)
	default:
	}
	l.mu.Lock()
	wait := firstTime
	if len(l.visitors) > 0 {
		wait = time.Until(l.visitors[0].since.Add(firstTime))
	}
	l.mu.Unlock()
	select {
	case l.room <- struct{}{}:
		return l.enter(conn)
	case <-time.After(wait):
		l.sendAway(1)
	case <-l.done:
	}
	select {
	case l.room <- struct{}{}:
		return l.enter(conn)
	case <-l.done:
		conn.Close()
		return nil
	}
}

func (l *listener) enter(conn net.Conn) *visitor {
	v := &visitor{conn, time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.visitors = append(l.visitors, v)
	return v
}

// sendAway closes the connections of the n oldest visitors, or of all visitors if there are fewer.
func (l *listener) sendAway(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, len(l.visitors))
	for _, v := range l.visitors[:n] {
		v.conn.Close()
	}
	l.visitors = slices.Delete(l.visitors, 0, n)
}

// leave removes the visitor v, which makes room for another one. It returns true if sendAway has removed v already.
func (l *listener) leave(v *visitor) (sent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.visitors, v)
	if i >= 0 {
		l.visitors = slices.Delete(l.visitors, i, i+1)
	}
	<-l.room
	return i < 0
}

// welcome receives the greeting of a visitor.
func (l *listener) welcome(h *Hub, conn net.Conn, token string) (*conversation, error) {
	switch conn := conn.(type) {
	case *net.UnixConn:
		if err := knownUser(conn); err != nil {
			return nil, err
		}
	case *net.TCPConn:
		conn.SetNoDelay(true)
	}
	c, err := greet(visitorLink{conn}, nil, l.name(conn), token, h.output, time.Now().Add(greetingTime))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fmt.Errorf("no greeting in %v", greetingTime)
	}
	if err != nil {
		return nil, err
	}
	link, err := newSocket(conn)
	if err != nil {
		return nil, err
	}
	c.link = link
	return c, nil
}

// name returns the name by which messages call the child at the other end of conn.
func (l *listener) name(conn net.Conn) string {
	if conn.RemoteAddr().Network() == "unix" {
		return fmt.Sprintf("simulator at %v", l.net.Addr())
	}
	return fmt.Sprintf("simulator at %v", conn.RemoteAddr())
}

// The first manyRefusals refusals are all logged. Afterwards only the refusals 16, 32, 64, … are
// logged, so that strangers cannot fill the log.
const manyRefusals = 8

// refuse closes conn and logs err as the reason.
func (l *listener) refuse(h *Hub, conn net.Conn, err error) {
	defer conn.Close()
	select {
	case <-l.done: // the listener closes all visitors itself
		return
	default:
	}
	l.mu.Lock()
	l.refused++
	n := l.refused
	l.mu.Unlock()
	switch {
	case n <= manyRefusals:
		fmt.Fprintf(h.log, "%s: refused: %v\n", l.name(conn), err)
	case n&(n-1) == 0:
		fmt.Fprintf(h.log, "%s: refused: %v (%d refusals so far)\n", l.name(conn), err, n)
	}
}

// A visitorLink is the Conn to a visitor. It uses Go's poller, so that many visitors do not block many threads.
type visitorLink struct{ conn net.Conn }

func (v visitorLink) Send(by time.Time, head, payload []byte) error {
	v.conn.SetWriteDeadline(by)
	_, err := (&net.Buffers{head, payload}).WriteTo(v.conn)
	return err
}

func (v visitorLink) Receive(by time.Time, accept func(head []byte) (uint64, error)) (head, payload []byte, err error) {
	v.conn.SetReadDeadline(by)
	read := func(n uint64) []byte { // allocates only as bytes arrive
		var b []byte
		if b, err = io.ReadAll(io.LimitReader(v.conn, int64(n))); errors.Is(err, unix.ECONNRESET) ||
			err == nil && uint64(len(b)) < n {
			err = ErrGone
		}
		return b
	}
	if head = read(headerSize); err != nil {
		return nil, nil, err
	}
	n, err := accept(head)
	if err != nil {
		return nil, nil, err
	}
	payload = read(n)
	return head, payload, err
}

func (v visitorLink) Close() error { return v.conn.Close() }

// knownUser returns an error unless the peer of conn runs as the user of this process or as root.
func knownUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	if e := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); e != nil {
		return e
	}
	if err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	if own := os.Geteuid(); peer.Uid != 0 && int(peer.Uid) != own {
		return fmt.Errorf("process %d is of user %d, expected one of user %d or of root", peer.Pid, peer.Uid, own)
	}
	return nil
}

func (l *listener) close() error {
	close(l.done)
	err := l.net.Close()
	l.accepting.Wait()
	l.sendAway(maxVisitors)
	l.greeting.Wait()
	return errors.Join(err, closeAll(l.queue))
}

// secret returns the first line of file. If the file does not exist, secret creates it with a new
// secret and mode 0600.
func secret(file string) (string, error) {
	line, err := readSecret(file)
	if errors.Is(err, os.ErrNotExist) {
		made, err := newSecret(file)
		if errors.Is(err, os.ErrExist) { // another rank made it
			return readSecret(file)
		}
		return made, err
	}
	if err == nil && line == "" {
		err = fmt.Errorf("%s: its first line is empty, expected a secret", file)
	}
	return line, err
}

// maxSecret is the maximum length of a secret in bytes.
const maxSecret = 4096

// readSecret returns the first line of file. It returns an error if other users may read or write
// the file.
func readSecret(file string) (string, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0) // does not block if it is a FIFO
	if err != nil {
		return "", err
	}
	defer f.Close()
	about, err := f.Stat()
	switch {
	case err != nil:
		return "", err
	case !about.Mode().IsRegular():
		return "", fmt.Errorf("%s: it is no file (%v), expected one with a secret in its first line", file,
			about.Mode())
	case about.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("%s: other users may read or change it (%v), expected mode 0600: chmod 600 %[1]s", file,
			about.Mode())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecret))
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line), err
}

// newSecret creates file atomically with a new secret, and returns the secret.
func newSecret(file string) (string, error) {
	var random [32]byte
	rand.Read(random[:])
	made := hex.EncodeToString(random[:])
	f, err := os.CreateTemp(filepath.Dir(file), ".token-*") // has mode 0600
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(made + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	return made, os.Link(f.Name(), file)
}

func sameSecret(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
