package external_test

import (
	"net"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// freePort returns a port of this machine that nobody uses.
func freePort(t *testing.T) int {
	l := test.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
