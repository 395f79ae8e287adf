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
	}{
		{"local", 2, "a a a a a a a a", "0-1 0-1 0-1 0-1 0-1 0-1 0-1 0-1", "8 ranks share 2 cores"},
		{"local", 1, "a a", "0-63 0-63", "2 ranks share 1 core"}, // a limit of the container
		{"local", 8, "a a", "0-63 0-63", ""},
		{"mpi", 2, "a a a a", "0-63 0-63 0-63 0-63", ""}, // a rank's limit is not that of the host
		{"mpi", 2, "a a a a", "0 1 2 3", ""},
		{"mpi", 2, "a a a a", "0 0 2 3", "2 ranks share 1 core"},
		{"mpi", 2, "a a a a", "0,2 0,2 0,2 3-9", "3 ranks share 2 cores"},
		{"mpi", 2, "a a b b", "0 1 0 0", "2 ranks share 1 core on host b"},
		{"mpi", 2, "a a b b", "0 0 1 1", "2 ranks share 1 core on each host"},
		{"mpi", 2, "a a b b c", "0 0 1 1 0", "2 ranks share 1 core on each of 2 hosts, such as a"},
		{"mpi", 2, "a a b b b", "0 0 1 1 1", "3 ranks share 1 core on host b"},
		{"mpi", 2, "a a", "", ""},
		{"mpi", 2, "a a", "0-x 0-x", ""},
		{"mpi", 2, "", "", ""},
	} {
		p := runfolder.Provenance{Transport: c.transport, MaxProcs: c.procs, Hosts: strings.Fields(c.hosts),
			Binding: strings.Fields(c.binding)}
		if got := p.Crowd(); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
	// A limit on the processor time of the ranks of a host, as of a container.
	p := runfolder.Provenance{Transport: "mpi", Hosts: strings.Fields("a a a b b"), Quota: []int{2, 2, 2, 0, 0},
		Binding: strings.Fields("0-63 0-63 0-63 0-63 0-63")}
	if got := p.Crowd(); got != "3 ranks share 2 cores on host a" {
		t.Errorf("with a limit: %q", got)
	}
}
