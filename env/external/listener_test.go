package external

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestSilentConnections: of many that do not greet few take a thread each, and who greets comes in once they are gone.
func TestSilentConnections(t *testing.T) {
	threads := func() int {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(tasks)
	}
	hub := NewHub(io.Discard, 0)
	path := filepath.Join(t.TempDir(), "s")
	l, err := hub.listen("unix:"+path, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	dial := func() net.Conn {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	before, most := threads(), 0
	var silent []net.Conn
	for range 4 * maxGreeting {
		silent = append(silent, dial())
	}
	for range 30 {
		time.Sleep(10 * time.Millisecond)
		most = max(most, threads()-before)
	}
	if most < maxGreeting/2 || most > maxGreeting+maxGreeting/2 {
		t.Errorf("%d silent connections take %d threads, want some %d", len(silent), most, maxGreeting)
	}
	for _, conn := range silent {
		conn.Close()
	}
	conn := dial()
	defer conn.Close()
	conn.Write(frame(header{kind: hello}, []byte(`{"v":1,"name":"a","obs":[{"name":"x","kind":"discrete","n":2}],"action":{"kind":"discrete","n":2}}`), nil))
	select {
	case c := <-l.queue:
		c.close(true)
	case <-time.After(20 * time.Second):
		t.Error("who greets does not come in")
	}
	for range 2 * maxGreeting { // it ends while no more are accepted
		defer dial().Close()
	}
	began := time.Now()
	if err := l.close(); err != nil || time.Since(began) > greetingTime/2 {
		t.Errorf("close: %v after %v", err, time.Since(began))
	}
}

// TestSplitAddress: ranks listen each at an address of their own, and what is none is said.
func TestSplitAddress(t *testing.T) {
	long := strings.Repeat("x", 105)
	for _, tt := range []struct {
		address string
		rank    int
		want    string
	}{
		{"unix:/tmp/s", 0, "unix /tmp/s"}, {"unix:/tmp/s", 3, "unix /tmp/s.3"}, {"tcp:node7:5000", 3, "tcp node7:5003"}, {"tcp::5000", 0, "tcp 127.0.0.1:5000"},
		{"unix:", 0, `"unix:": the path of the socket, "", has 0 bytes, want 1 to 107`}, {"unix:" + long, 9, "unix " + long + ".9"},
		{"unix:" + long, 10, "has 108 bytes, want 1 to 107"}, {"tcp:node7:65535", 1, `port "65535", want a number from 1 to 65534`},
	} {
		network, at, err := splitAddress(tt.address, tt.rank)
		if got := network + " " + at; err == nil && got != tt.want || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s on rank %d: %s, %v, want %s", tt.address, tt.rank, got, err, tt.want)
		}
	}
}

// TestSecret: ranks that make a token file at the same time have the same secret, and nobody else may read it.
func TestSecret(t *testing.T) {
	for range 50 {
		dir := t.TempDir()
		file := filepath.Join(dir, "token")
		var secrets [8]string
		var ranks sync.WaitGroup
		for i := range secrets {
			ranks.Go(func() {
				var err error
				if secrets[i], err = secret(file); err != nil {
					t.Error(err)
				}
			})
		}
		ranks.Wait()
		for _, s := range secrets {
			if len(s) != 64 || s != secrets[0] {
				t.Fatalf("secrets %q", secrets)
			}
		}
		info, err := os.Stat(file)
		left, _ := os.ReadDir(dir)
		if err != nil || info.Mode().Perm() != 0o600 || len(left) != 1 {
			t.Fatalf("%v, mode %v, %d files", err, info.Mode(), len(left))
		}
	}
}
