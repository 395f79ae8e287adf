package runfolder_test

import (
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/runfolder"
)

func TestCrowd(t *testing.T) {
	for _, c := range []struct {
		transport      string
		procs          int
		hosts, binding string // of each rank, separated by blanks
		want           string
		full           bool
	}{
		{"local", 2, "a a a a a a a a", "0-1 0-1 0-1 0-1 0-1 0-1 0-1 0-1", "8 ranks share 2 cores", true},
		{"local", 1, "a a", "0-63 0-63", "2 ranks share 1 core", true}, // a limit of the container
		{"local", 8, "a a", "0-63 0-63", "", false},
		{"local", 2, "a a", "0-63 0-63", "", true},
		{"mpi", 9, "a a", "0-1 0-1", "", true},
		{"mpi", 9, "a a b", "0-1 0-1 0-1", "", false},
		{"mpi", 2, "a a a a", "0-63 0-63 0-63 0-63", "", false}, // a rank's limit is not that of the host
		{"mpi", 2, "a a a a", "0 1 2 3", "", false},
		{"mpi", 2, "a a a a", "0 0 2 3", "2 ranks share 1 core", false},
		{"mpi", 2, "a a a a", "0,2 0,2 0,2 3-9", "3 ranks share 2 cores", false},
		{"mpi", 2, "a a b b", "0 1 0 0", "2 ranks share 1 core on host b", false},
		{"mpi", 2, "a a b b", "0 0 1 1", "2 ranks share 1 core on each host", true},
		{"mpi", 2, "a a b b c", "0 0 1 1 0", "2 ranks share 1 core on each of 2 hosts, such as a", true},
		{"mpi", 2, "a a b b b", "0 0 1 1 1", "3 ranks share 1 core on host b", true},
		{"mpi", 2, "a a", "", "", false},
		{"mpi", 2, "a a", "0-x 0-x", "", false},
		{"mpi", 2, "", "", "", false},
	} {
		p := runfolder.Provenance{Transport: c.transport, MaxProcs: c.procs, Hosts: strings.Fields(c.hosts),
			Binding: strings.Fields(c.binding)}
		if got := p.Crowd(); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
		if p.Full() != c.full {
			t.Errorf("%+v: got %v", c, p.Full())
		}
	}
	// A limit on the processor time of the ranks of a host, as of a container.
	p := runfolder.Provenance{Transport: "mpi", Hosts: strings.Fields("a a a b b"), Quota: []int{2, 2, 2, 0, 0},
		Binding: strings.Fields("0-63 0-63 0-63 0-63 0-63")}
	if got := p.Crowd(); got != "3 ranks share 2 cores on host a" {
		t.Errorf("with a limit: %q", got)
	}
}
