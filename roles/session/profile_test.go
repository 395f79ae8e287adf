package session

import (
	"net"
	"testing"
)

// TestProfileAddress: a port alone is served to this machine alone.
func TestProfileAddress(t *testing.T) {
	for _, address := range []string{":0", "127.0.0.1:0"} {
		p := Profile{Address: address}
		if err := p.start(0); err != nil {
			t.Fatal(err)
		}
		if at := p.server.Addr().(*net.TCPAddr); !at.IP.IsLoopback() {
			t.Errorf("--pprof %s listens at %v, expected this machine alone", address, at)
		}
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	}
}
