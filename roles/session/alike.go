package session

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/internal/runfolder"
)

// An identity has values that must be equal on all ranks of a job. An unknown value is "", and is compatible with all
// values.
type identity struct{ Binary, Config string }

// oddRanks returns on rank 0 an error that names the ranks whose binary or configuration differs from those of rank 0.
// Such ranks appear if mpirun starts different programs, or the same program with different files. Foreign programs in
// this MPI job, such as solvers, are not ranks. A rank whose node lacks the configuration file uses the
// configuration of rank 0.
func (r *rank) oddRanks(ctx context.Context) (odd, err error) {
	if r.w.Describe().Transport != "mpi" {
		return nil, nil
	}
	me := identity{Binary: runfolder.BinaryID()}
	if r.read != nil {
		me.Config = fmt.Sprintf("%x", sha256.Sum256(r.read.Resolved()))
	}
	mine, err := json.Marshal(me)
	if err != nil {
		return nil, err
	}
	all, err := r.world.Gather(ctx, mine, 0)
	if err != nil || r.w.Rank() != 0 {
		return nil, err
	}
	var binaries, configs []string
	for n, text := range all {
		var its identity
		if json.Unmarshal(text, &its) != nil || differs(its.Binary, me.Binary) {
			binaries = append(binaries, strconv.Itoa(n))
		} else if differs(its.Config, me.Config) {
			configs = append(configs, strconv.Itoa(n))
		}
	}
	for _, c := range []struct {
		ranks []string
		what  string
	}{{binaries, "binary"}, {configs, "configuration"}} {
		if len(c.ranks) > 0 {
			return fmt.Errorf("another %s than that of rank 0 on %s: expected one binary and one configuration for "+
				"all ranks of a job", c.what, listed(c.ranks)), nil
		}
	}
	return nil, nil
}

func differs(a, b string) bool { return a != "" && b != "" && a != b }

// listed returns ranks in words. It names at most eight.
func listed(ranks []string) string {
	const most = 8
	switch n := len(ranks); {
	case n == 1:
		return "rank " + ranks[0]
	case n > most:
		return fmt.Sprintf("ranks %s and %d others", strings.Join(ranks[:most], ", "), n-most)
	}
	return "ranks " + strings.Join(ranks, ", ")
}
