package session

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	_ "net/http/pprof" // registers the handlers of --pprof
	"os"
	"runtime/pprof"
	"strconv"

	"github.com/rlinf/rlinf/internal/durable"
)

// A ProfileOptions has the options --cpu-profile and --pprof. The zero value profiles nothing.
type ProfileOptions struct {
	Prefix  string // the file is PREFIX-rank-R.pprof
	Address string // HOST:PORT; rank R serves on PORT + R; an empty HOST is 127.0.0.1

	file   *os.File
	server net.Listener
}

// start starts profiling this process. rank is the lowest rank of the process.
func (p *ProfileOptions) start(rank int) error {
	if p.Address != "" {
		host, port, err := net.SplitHostPort(p.Address)
		n, notNumber := strconv.Atoi(port)
		if err != nil || notNumber != nil {
			return fmt.Errorf("--pprof %q: expected HOST:PORT, as localhost:6060", p.Address)
		}
		if host == "" { // serve only this machine, because pprof has no access control
			host = "127.0.0.1"
		}
		if p.server, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(n+rank))); err != nil {
			return fmt.Errorf("--pprof: %w", err)
		}
		go http.Serve(p.server, nil) // ends when stop closes the server
	}
	if p.Prefix == "" {
		return nil
	}
	path := fmt.Sprintf("%s-rank-%d.pprof", p.Prefix, rank)
	err := durable.Replaceable(path, isCPUProfile)
	if err == nil {
		p.file, err = os.Create(path)
	}
	if err != nil {
		return fmt.Errorf("--cpu-profile %s: %w", path, err)
	}
	return pprof.StartCPUProfile(p.file)
}

// isCPUProfile reports whether a file that begins with head is a CPU profile: compressed fields of Protocol Buffers,
// first the time in nanoseconds (tag and nine bytes), then the type of the samples.
func isCPUProfile(head []byte) bool {
	const sampleType = "\x0a\x04\x08\x01\x10\x02"
	begin := make([]byte, 10+len(sampleType))
	z, err := gzip.NewReader(bytes.NewReader(head))
	if err == nil {
		_, err = io.ReadFull(z, begin)
	}
	return err == nil && string(begin[10:]) == sampleType
}

// stop stops profiling, and completes the file.
func (p *ProfileOptions) stop() error {
	if p.server != nil {
		p.server.Close()
	}
	if p.file == nil {
		return nil
	}
	pprof.StopCPUProfile()
	return p.file.Close()
}
