package session

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/test"
)

// TestProfileReplaces: a profile replaces an earlier profile, and no other file.
func TestProfileReplaces(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "cpu")
	for range 2 {
		p := ProfileOptions{Prefix: prefix}
		test.OK(t, p.start(0))
		test.OK(t, p.stop())
	}
	const own = "\x1f\x8b\x08\x00 an archive of the user"
	test.OK(t, os.WriteFile(prefix+"-rank-0.pprof", []byte(own), 0o666))
	p := ProfileOptions{Prefix: prefix}
	err := p.start(0)
	test.OK(t, p.stop())
	if text, _ := os.ReadFile(prefix + "-rank-0.pprof"); !errors.Is(err, durable.ErrForeign) || string(text) != own {
		t.Errorf("%v, %d bytes are left", err, len(text))
	}
}

// TestProfileAddress: a port alone is served to this machine alone.
func TestProfileAddress(t *testing.T) {
	for _, address := range []string{":0", "127.0.0.1:0"} {
		p := ProfileOptions{Address: address}
		test.OK(t, p.start(0))
		if at := p.server.Addr().(*net.TCPAddr); !at.IP.IsLoopback() {
			t.Errorf("--pprof %s listens at %v, expected this machine alone", address, at)
		}
		test.Check(t, p.stop())
	}
}
