package external

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rlinf/rlinf/env"
	"golang.org/x/sys/unix"
)

// A listener accepts children that were started elsewhere. Children with a valid greeting wait in
// its queue.
type listener struct {
	net       net.Listener
	queue     chan *conversation
	greeting  chan struct{} // one element for each connection that has not greeted yet
	done      chan struct{} // closed when it stops listening
	accepting sync.WaitGroup
}

// maxWaiting is how many children may wait in the queue. Further ones block until there is room.
const maxWaiting = 1024

// maxGreeting is how many connections may be about to greet. Each takes a thread. Further ones are
// not accepted yet.
const maxGreeting = 64

// greetingTime is how long a connection may take to greet.
const greetingTime = 10 * time.Second

// listen listens at address, in the form of env.External.Listen, for rank.
func (h *Hub) listen(address, tokenFile string, rank int) (*listener, error) {
	network, at, err := splitAddress(address, rank)
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
	l := &listener{queue: make(chan *conversation, maxWaiting), greeting: make(chan struct{}, maxGreeting),
		done: make(chan struct{})}
	if l.net, err = on.Listen(context.Background(), network, at); err != nil {
		return nil, err
	}
	l.accepting.Go(func() { l.accept(h, token) })
	return l, nil
}

// splitAddress returns network and address of "unix:/path" or "tcp:host:port" for rank. Each rank
// above 0 has a path or port of its own.
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
		if at[0] == '@' { // Go takes this for an abstract name, but clients look for a file
			return "", "", fmt.Errorf("%q: the path of the socket, %q, begins with @, expected ./@ for a file of "+
				"this name",
				address, at)
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

// makeRoom removes a socket at path on which nobody listens, which a killed job has left. Anything
// else at path is an error.
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
			path,
			err)
	}
	return os.Remove(path)
}

// ownersOnly gives the file of a Unix socket mode 0600 before it appears.
func ownersOnly(_, _ string, c syscall.RawConn) (err error) {
	if e := c.Control(func(fd uintptr) { err = os.NewSyscallError("fchmod", unix.Fchmod(int(fd), 0o600)) }); e != nil {
		return e
	}
	return err
}

func (l *listener) accept(h *Hub, token string) {
	for {
		select {
		case l.greeting <- struct{}{}:
		case <-l.done:
			return
		}
		conn, err := l.net.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			fmt.Fprintf(h.log, "listen at %v: %v\n", l.net.Addr(), err)
			time.Sleep(time.Second) // for example, out of descriptors
			<-l.greeting
			continue
		}
		go l.welcome(h, conn, token)
	}
}

// welcome receives a greeting and puts its child into the queue.
func (l *listener) welcome(h *Hub, conn net.Conn, token string) {
	who := fmt.Sprintf("child at %v", conn.RemoteAddr())
	if conn.RemoteAddr().Network() == "unix" {
		who = fmt.Sprintf("child at %v", l.net.Addr())
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetNoDelay(true)
	}
	link, err := newSocket(conn)
	var c *conversation
	if err == nil && conn.RemoteAddr().Network() == "unix" {
		err = knownUser(link.in)
	}
	if err == nil {
		c, err = greet(link, nil, who, token, h.output, time.Now().Add(greetingTime))
	}
	<-l.greeting
	if err != nil {
		fmt.Fprintf(h.output, "%s: refused: %v\n", who, err)
		if link != nil {
			link.Close()
		}
		return
	}
	select {
	case l.queue <- c:
	case <-l.done:
		c.close(true)
	}
}

// knownUser returns an error unless the peer of the Unix socket fd runs as the same user as this
// process, or as root.
func knownUser(fd int) error {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
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
	for {
		select {
		case c := <-l.queue:
			err = errors.Join(err, c.close(false))
		default:
			return err
		}
	}
}

// secret returns the first line of file. If there is no file, it makes one with a new secret and
// mode 0600.
func secret(file string) (string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		made, err := newSecret(file)
		if errors.Is(err, os.ErrExist) { // by another rank
			return secret(file)
		}
		return made, err
	}
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimSpace(line); line == "" {
		return "", fmt.Errorf("%s: its first line is empty, expected a secret", file)
	}
	return line, nil
}

// newSecret makes file atomically, with a new secret.
func newSecret(file string) (string, error) {
	var random [32]byte
	rand.Read(random[:])
	made := hex.EncodeToString(random[:])
	f, err := os.CreateTemp(filepath.Dir(file), ".token-*") // for its owner alone
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
