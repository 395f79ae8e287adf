package spmd

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestCreditScript runs testdata/credits.txt, which has blocks of events of a key, a line of dashes, and the credits
// of each producer after each event. The flag -rewrite writes the expected parts.
func TestCreditScript(t *testing.T) {
	const file = "testdata/credits.txt"
	text := test.Must(os.ReadFile(file))(t)
	rewrite := flag.Lookup("rewrite").Value.String() == "true"
	var out []string
	blocks := 0
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		in, want, ok := strings.Cut(block, "\n----")
		if !ok {
			out = append(out, block)
			continue
		}
		blocks++
		got := strings.TrimSpace(creditScript(t, in))
		out = append(out, in+"\n----\n"+got)
		if got != strings.TrimSpace(want) && !rewrite {
			t.Errorf("%s\n---- got\n%s\n---- want\n%s", in, got, want)
		}
	}
	if blocks < 5 {
		t.Errorf("%s holds %d blocks only", file, blocks)
	}
	if rewrite {
		test.OK(t, os.WriteFile(file, []byte(strings.Join(out, "\n\n")+"\n"), 0o644))
	}
}

func creditScript(t *testing.T, in string) string {
	var q *queue
	var out strings.Builder
	arg := func(words []string, i int) int {
		n := test.Must(strconv.Atoi(words[i]))(t)
		return n
	}
	for line := range strings.Lines(in) {
		words := strings.Fields(line)
		if words[0] == "#" {
			continue
		}
		fmt.Fprintf(&out, "%-8s", strings.TrimSpace(line))
		switch words[0] {
		case "key": // maxsize producers
			q = &queue{maxsize: arg(words, 1), producers: arg(words, 2)}
		case "join":
			q.join(&source{member: arg(words, 1)})
		case "put":
			s := q.source(arg(words, 1))
			if s.out == 0 {
				t.Fatalf("%s: no credit", line)
			}
			q.arrive(s, &slab{item: Item{From: s.member}})
		case "get":
			fmt.Fprintf(&out, " from %d", q.pop().item.From)
		case "close":
			s := q.source(arg(words, 1))
			q.close(s, s.arrived)
		case "closing": // n items are still in transit
			s := q.source(arg(words, 1))
			q.close(s, s.arrived+uint64(arg(words, 2)))
		default:
			t.Fatalf("no such line: %q", line)
		}
		fmt.Fprintf(&out, " | %d queued", q.len())
		for _, s := range q.sources {
			fmt.Fprintf(&out, ", %d may send %d", s.member, s.out)
		}
		if q.closed() {
			out.WriteString(", closed")
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// For any sequence of events the bound holds, every open producer has had a credit, and items of a producer keep
// their order.
func TestCreditsHold(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		q := &queue{maxsize: 1 + r.IntN(4), producers: 4}
		var sent, got [4]int
		for step := 0; step < 500; step++ {
			s := q.source(r.IntN(4))
			switch what := r.IntN(20); {
			case s == nil:
				if m := r.IntN(4); q.source(m) == nil && what == 0 {
					q.join(&source{member: m})
				}
			case what == 1 && !s.closing:
				q.close(s, s.arrived)
			case what < 12 && s.out > 0 && !s.done:
				q.arrive(s, &slab{item: Item{From: s.member, Lo: sent[s.member]}})
				sent[s.member]++
			case q.len() > 0:
				it := q.pop().item
				if it.Lo != got[it.From] {
					t.Fatalf("seed %d: item %d of producer %d came as number %d", seed, it.Lo, it.From, got[it.From])
				}
				got[it.From]++
			}
			held, open := 0, 0
			for _, s := range q.sources {
				held += s.out + s.queued
				if s.closing {
					continue
				}
				open++
				if s.out+s.queued == 0 {
					t.Fatalf("seed %d: producer %d has no credit", seed, s.member)
				}
			}
			if open > 0 && q.len() > q.maxsize+len(q.sources) || open == len(q.sources) && held != q.maxsize+open &&
				open > 0 {
				t.Fatalf("seed %d: %d credits and %d items for a size of %d and %d producers", seed, held, q.len(),
					q.maxsize, open)
			}
		}
	}
}

// The memory of a queue does not grow if the queue is never empty.
func TestQueueKeepsItsMemory(t *testing.T) {
	q := &queue{maxsize: 3, producers: 1}
	s := &source{}
	q.join(s)
	var slabs [2]slab
	q.arrive(s, &slabs[0])
	for i := range 10_000 {
		q.arrive(s, &slabs[(i+1)%2])
		if got := q.pop(); got != &slabs[i%2] {
			t.Fatal("not the oldest")
		}
	}
	if cap(q.items) > 8 {
		t.Errorf("%d items take room for %d", q.len(), cap(q.items))
	}
}
