package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/spmd"
)

// A place is a rank with the facts of its machine.
type place struct {
	Host  string
	Facts []fact
}

// compare writes the facts of rank 0, and how other ranks differ. Every rank must call it.
func compare(ctx context.Context, w *spmd.World, out io.Writer, facts []fact) error {
	all, err := gather(ctx, w, place{w.Host(), facts})
	if err != nil || w.Rank() != 0 {
		return err
	}
	if err := write(out, facts); err != nil {
		return err
	}
	_, err = io.WriteString(out, differences(all))
	return err
}

// gather returns the places of all ranks on rank 0, and nil on other ranks. Every rank must call it.
func gather(ctx context.Context, w *spmd.World, mine place) ([]place, error) {
	text, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	ends, err := w.NewComm(w.Ranks(), "doctor")
	if err != nil {
		return nil, err
	}
	g, err := collectives.New(w, ends[0], collectives.Options{})
	if err != nil {
		return nil, err
	}
	defer g.Close()
	texts, err := g.Gather(ctx, text, 0)
	if err != nil {
		return nil, err
	}
	all := make([]place, len(texts))
	for rank, text := range texts {
		if err := json.Unmarshal(text, &all[rank]); err != nil {
			return nil, fmt.Errorf("doctor: rank %d: %w", rank, err)
		}
	}
	return all, nil
}

// differences returns a line that lists the nodes, and a line for each fact in which a rank differs from rank 0.
// Ranks of one host with the same difference share a line.
func differences(all []place) string {
	var hosts []string
	ranks := map[string][]int{}
	for r, p := range all {
		if ranks[p.Host] == nil {
			hosts = append(hosts, p.Host)
		}
		ranks[p.Host] = append(ranks[p.Host], r)
	}
	var names, lines []string
	for _, host := range hosts {
		names = append(names, fmt.Sprintf("%s (%d)", host, len(ranks[host])))
		for _, r := range ranks[host] {
			for _, line := range compareFacts(all[0].Facts, all[r].Facts) {
				if line = fmt.Sprintf("DIFFERENT on %s: %s\n", host, line); !slices.Contains(lines, line) {
					lines = append(lines, line)
				}
			}
		}
	}
	text := fmt.Sprintf("%-14s %d, with so many ranks: %s\n", "nodes", len(hosts), strings.Join(names, ", "))
	if len(lines) == 0 {
		return text + "all ranks find the same, except for free memory\n"
	}
	return text + strings.Join(lines, "")
}

// compareFacts returns a line for each fact that differs from the reference.
func compareFacts(reference, actual []fact) (lines []string) {
	find := func(facts []fact, f fact, i int) string {
		at := slices.IndexFunc(facts, func(x fact) bool { return x.Name == f.Name })
		if f.Name == "" { // facts about the binary have no name: compare by position
			at = min(i, len(facts)-1)
		}
		if at < 0 {
			return "none"
		}
		return facts[at].Same
	}
	for i, f := range reference {
		if is := find(actual, f, i); f.Same != "" && is != f.Same {
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s; rank 0: %s", f.Name, is, f.Same)))
		}
	}
	for i, f := range actual {
		if f.Name != "" && f.Same != "" && find(reference, f, i) == "none" {
			lines = append(lines, fmt.Sprintf("%s %s; rank 0: none", f.Name, f.Same))
		}
	}
	return lines
}
