package trace

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// longTrace writes the trace of two ranks and so many iterations, of which all spans are kept.
func longTrace(t *testing.T, iterations int) (names []string, files [][]byte) {
	t.Helper()
	for rank := range 2 {
		b := newBench(t, Options{Rank: rank, Ranks: 2, All: true})
		r := b.log.Recorder("env", rank)
		sim := r.Site(simulate)
		b.log.Start()
		for i := range iterations {
			for range 3 {
				b.now += 10
				r.Begin(sim)
				b.now += 10
				r.End(0, 0)
			}
			b.log.Cut(int64(i + 1))
			b.write()
		}
		text := test.Must(os.ReadFile(filepath.Join(b.o.Run, Folder, FileOfRank(rank))))(t)
		names, files = append(names, FileOfRank(rank)), append(files, text)
	}
	return names, files
}

// Of a long trace a sample of the iterations is kept: the same on all ranks, and complete.
func TestSampleOfALongTrace(t *testing.T) {
	names, files := longTrace(t, 1000)
	whole := Parse(names, files)
	if a := &whole.Attempts[0]; len(a.Windows) != 1000 || len(a.Sums) != 2000 || len(whole.Problems) > 0 {
		t.Fatalf("%d windows, %d sums, problems %q", len(a.Windows), len(a.Sums), whole.Problems)
	}
	r := newReader()
	r.spans.most, r.sums.most = 2000, 4000
	for i, name := range names {
		test.OK(t, r.readFile(name, bytes.NewReader(files[i]), int64(len(files[i]))))
	}
	read := r.trace()
	a := &read.Attempts[0]
	if n := len(a.Windows); n < 50 || n > 300 {
		t.Errorf("%d windows", n)
	}
	for i := range a.Windows {
		w := &a.Windows[i]
		same := slices.IndexFunc(whole.Attempts[0].Windows, func(x Window) bool { return x.Iteration == w.Iteration })
		if got, want := fmt.Sprint(*w), fmt.Sprint(whole.Attempts[0].Windows[same]); got != want {
			t.Fatalf("iteration %d: %s\nexpected %s", w.Iteration, got, want)
		}
	}
	if n := len(a.Sums); n < 100 || n > 600 || n%2 != 0 {
		t.Errorf("%d sums", n)
	}
	for i := 0; i < len(a.Sums); i += 2 {
		if x, y := a.Sums[i], a.Sums[i+1]; x.Iteration != y.Iteration || x.Worker == y.Worker {
			t.Fatalf("sums %v and %v, expected both workers in an iteration", x, y)
		}
	}
	if text := strings.Join(read.Problems, "\n"); strings.Count(text, "the trace is very long") != 2 {
		t.Errorf("problems %s", text)
	}
}

// A chunk that is there twice counts once.
func TestRepeatedChunks(t *testing.T) {
	names, files := longTrace(t, 20)
	want := Parse(names, files)
	for i := range files {
		files[i] = slices.Concat(files[i], files[i])
	}
	if got := Parse(names, files); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v\nexpected %v", got, want)
	}
}

// A nowhere is a file of zeros, with a trace at its end.
type nowhere struct {
	zeros int64
	text  []byte
}

func (n nowhere) ReadAt(p []byte, at int64) (int, error) {
	if int64(len(p)) > 1<<21 {
		return 0, fmt.Errorf("%d bytes at once", len(p))
	}
	clear(p)
	for i := range p {
		if k := at + int64(i) - n.zeros; k >= int64(len(n.text)) {
			return i, io.EOF
		} else if k >= 0 {
			p[i] = n.text[k]
		}
	}
	return len(p), nil
}

// A file is read in pieces, also where it is damaged.
func TestReadInPieces(t *testing.T) {
	names, files := longTrace(t, 20)
	r := newReader()
	in := nowhere{10<<20 - 2, files[0]} // the first magic word is in two blocks
	test.OK(t, r.readFile(names[0], in, in.zeros+int64(len(in.text))))
	got := r.trace()
	if want := fmt.Sprintf("rank-0000.bin: %d bytes at byte 0 are damaged", in.zeros); len(got.Attempts) != 1 ||
		len(got.Attempts[0].Windows) != 20 || !slices.Equal(got.Problems, []string{want}) {
		t.Errorf("%d attempts, problems %q, expected %q", len(got.Attempts), got.Problems, want)
	}
}
