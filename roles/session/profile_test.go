package session

import (
	"net"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestProfileAddress: a port alone is served to this machine alone.
func TestProfileAddress(t *testing.T) {
	for _, address := range []string{":0", "127.0.0.1:0"} {
		p := Profile{Address: address}
		test.OK(t, p.start(0))
		if at := p.server.Addr().(*net.TCPAddr); !at.IP.IsLoopback() {
			t.Errorf("--pprof %s listens at %v, expected this machine alone", address, at)
		}
		test.Check(t, p.stop())
	}
}
