package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
)

// agreeing runs f on every rank of a world of np, each with its end of an agreement.
func agreeing(t testing.TB, np int, f func(ctx context.Context, a *agreement, rank int) error) error {
	t.Helper()
	return agreeingWith(t, np, spmd.Options{}, f)
}

// agreeingWith is agreeing with options.
func agreeingWith(t testing.TB, np int, o spmd.Options, f func(ctx context.Context, a *agreement,
	rank int) error) error {
	t.Helper()
	o.Log = t.Output()
	return spmd.Run(t.Context(), local.New(np), o,
		func(ctx context.Context, w *spmd.World) error {
			ends, err := w.NewComm(w.Ranks(), "votes")
			if err != nil {
				return err
			}
			a, err := newAgreement(w, ends[0], w.Alloc)
			if err != nil {
				return err
			}
			return f(ctx, a, w.Rank())
		})
}

// A ballot has the vote and the report of every rank at every step. All ranks know it, so each can check decisions.
type ballot [][]struct {
	vote   vote
	report []byte
}

func newBallot(np, steps int) ballot {
	r := rand.New(rand.NewPCG(uint64(np), 4))
	b := make(ballot, steps)
	for s := range b {
		b[s] = make([]struct {
			vote   vote
			report []byte
		}, np)
		for rank := range b[s] {
			v := vote{step: int64(s), path: uint64(s) * 0x9e3779b97f4a7c15}
			if s%3 > 0 && r.IntN(np) == 0 { // in some steps no rank asks for anything
				v.stop, v.save = r.IntN(200), r.IntN(2) == 0
			}
			report := make([]byte, []int{0, 5, 300, 100_000}[r.IntN(4)])
			for i := range report {
				report[i] = byte(r.Uint32())
			}
			b[s][rank].vote, b[s][rank].report = v, report
		}
	}
	return b
}

// decision returns the correct decision on the votes of a step.
func (b ballot) decision(step int) (d decision) {
	for _, e := range b[step] {
		d.stop = max(d.stop, e.vote.stop)
		d.save = d.save || e.vote.save
	}
	return d
}

// Votes are decided one loop head later, with the same result on all ranks. Then rank 0 has the reports. No rank is
// more than a step ahead of another.
func TestAgreement(t *testing.T) {
	steps := 60
	if testing.Short() {
		steps = 12
	}
	for _, np := range []int{1, 2, 3, 5, 8, 9, 17, 70} {
		b := newBallot(np, steps)
		reached := make([]atomic.Int64, np)
		err := agreeing(t, np, func(ctx context.Context, a *agreement, rank int) error {
			r := rand.New(rand.NewPCG(uint64(rank), 5))
			var report []byte
			for s := range steps + 1 {
				for range r.IntN(4) { // arrive in another order each time
					runtime.Gosched()
				}
				d, reports, err := a.end(ctx)
				if err != nil {
					return err
				}
				if s == 0 {
					if d != (decision{}) || reports != nil {
						return fmt.Errorf("decided %v with %d reports before anybody voted", d, len(reports))
					}
				} else if err := b.check(s-1, rank, d, reports); err != nil {
					return fmt.Errorf("rank %d at loop head %d: %w", rank, s, err)
				}
				for other := range reached {
					if at := reached[other].Load(); at < int64(s) {
						return fmt.Errorf("rank %d passed loop head %d when rank %d had voted at %d of them", rank, s,
							other, at)
					}
				}
				if s == steps {
					return nil
				}
				report = append(report[:0], b[s][rank].report...) // the same memory every time, as end allows
				reached[rank].Add(1)
				if err := a.begin(ctx, b[s][rank].vote, report); err != nil {
					return err
				}
			}
			return nil
		})
		test.Check(t, err, "%d ranks", np)
	}
}

func (b ballot) check(step, rank int, d decision, reports [][]byte) error {
	if want := b.decision(step); d != want {
		return fmt.Errorf("decided %+v, want %+v", d, want)
	}
	if rank != 0 {
		if reports != nil {
			return fmt.Errorf("%d reports, want none but on rank 0", len(reports))
		}
		return nil
	}
	if len(reports) != len(b[step]) {
		return fmt.Errorf("%d reports of %d ranks", len(reports), len(b[step]))
	}
	for r := range reports {
		if !bytes.Equal(reports[r], b[step][r].report) {
			return fmt.Errorf("the report of rank %d, %d bytes, is not what it gave, %d bytes", r, len(reports[r]),
				len(b[step][r].report))
		}
	}
	return nil
}

// An error names the first rank that has made other calls than rank 0.
func TestAgreementNamesTheFirstRankThatDiffers(t *testing.T) {
	for _, c := range []struct {
		name  string
		ranks int
		vote  func(rank int) vote
		want  string
	}{
		{"other calls", 5, func(rank int) vote { return vote{step: 7, path: uint64(rank / 2)} }, "rank 2 is at step 7"},
		{"another step", 5, func(rank int) vote { return vote{step: 7 + int64(rank/3), path: 9} },
			"rank 3 is at step 8"},
		{"the first of a subtree", 70, func(rank int) vote { return vote{step: int64(rank / 16)} },
			"rank 16 is at step 1"},
		{"inside a subtree", 70, func(rank int) vote { return vote{step: int64((rank + 9) / 20)} },
			"rank 11 is at step 1"},
	} {
		err := agreeing(t, c.ranks, func(ctx context.Context, a *agreement, rank int) error {
			if err := a.begin(ctx, c.vote(rank), nil); err != nil {
				return err
			}
			_, _, err := a.end(ctx)
			return err
		})
		if f := (*spmd.Failure)(nil); !errors.As(err, &f) || f.Rank != 0 || !strings.Contains(f.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %q", c.name, err, c.want)
		}
	}
}

// A countingComm counts the messages of one end.
type countingComm struct {
	spmd.Comm
	messages *atomic.Int64
}

func (c countingComm) Isend(b []byte, to, tag int) (spmd.Request, error) {
	c.messages.Add(1)
	return c.Comm.Isend(b, to, tag)
}

func (c countingComm) Irecv(b []byte, from, tag int) (spmd.Request, error) {
	c.messages.Add(1)
	return c.Comm.Irecv(b, from, tag)
}

// TestAgreementMessages counts the messages of a loop head: three between every two neighbours in the tree. So a rank
// has at most three for each of the fan - 1 subtrees on each level, and three with the rank above.
func TestAgreementMessages(t *testing.T) {
	for _, np := range []int{1, 2, 8, 9, 64, 65, 512, 600} {
		messages := make([]atomic.Int64, np)
		const steps = 3
		test.OK(t, agreeing(t, np, func(ctx context.Context, a *agreement, rank int) error {
			a.comm = countingComm{a.comm, &messages[rank]}
			for step := range int64(steps) {
				if err := a.begin(ctx, vote{step: step}, []byte{byte(rank)}); err != nil {
					return err
				}
				if _, _, err := a.end(ctx); err != nil {
					return err
				}
			}
			return nil
		}))
		levels := 0
		for n := 1; n < np; n *= fan {
			levels++
		}
		total := int64(0)
		for rank := range messages {
			n := messages[rank].Load() / steps
			total += n
			if n > int64(3*((fan-1)*levels+1)) {
				t.Errorf("%d ranks: rank %d has %d messages at a loop head, want at most 3 (%d %d + 1)", np, rank, n,
					fan-1, levels)
			}
		}
		if total != int64(2*3*(np-1)) {
			t.Errorf("%d ranks: %d messages, counted at both ends, want 6 (%d - 1)", np, total, np)
		}
	}
}

// TestVotesPassRanksThatCompute: a rank that computes between two loop heads passes on the votes of the ranks below
// it, so rank 0 does not wait for it.
func TestVotesPassRanksThatCompute(t *testing.T) {
	decided := make(chan struct{})
	if err := agreeing(t, 9+fan, func(ctx context.Context, a *agreement, rank int) error {
		if err := a.begin(ctx, vote{step: 1, stop: rank}, nil); err != nil {
			return err
		}
		if rank == fan { // computes until rank 0 has decided
			select {
			case <-decided:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		d, _, err := a.end(ctx)
		if rank == 0 && err == nil {
			close(decided)
		}
		if err == nil && d.stop != a.comm.Size()-1 {
			err = fmt.Errorf("rank %d: decided %v", rank, d)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestVotesOfARankThatHasLeft: a rank that has left is named by the rank that waits for its vote, also if the waiting
// rank passes votes on.
func TestVotesOfARankThatHasLeft(t *testing.T) {
	for _, gone := range []int{1, fan + 1, fan} {
		err := agreeingWith(t, 3*fan, spmd.Options{StallTimeout: 50 * time.Millisecond},
			func(ctx context.Context, a *agreement, rank int) error {
				if rank == gone {
					return nil
				}
				if err := a.begin(ctx, vote{step: 1}, nil); err != nil {
					return err
				}
				_, _, err := a.end(ctx)
				return err
			})
		if want := fmt.Sprintf("rank %d (", gone); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "has left") {
			t.Errorf("rank %d has left: %v", gone, err)
		}
	}
}

// BenchmarkAgreement reports what a loop head costs all ranks together.
func BenchmarkAgreement(b *testing.B) {
	for _, np := range []int{2, 8, 64, 512} {
		b.Run(fmt.Sprint(np), func(b *testing.B) {
			b.ReportAllocs()
			test.OK(b, agreeing(b, np, func(ctx context.Context, a *agreement, rank int) error {
				report := make([]byte, 300)
				for step := range int64(b.N) {
					if err := a.begin(ctx, vote{step: step}, report); err != nil {
						return err
					}
					if _, _, err := a.end(ctx); err != nil {
						return err
					}
				}
				return nil
			}))
		})
	}
}

func TestAgreementWithoutMemory(t *testing.T) {
	none := errors.New("no memory")
	err := spmd.Run(t.Context(), local.New(1), spmd.Options{Log: t.Output()},
		func(ctx context.Context, w *spmd.World) error {
			ends, err := w.NewComm([]int{0}, "votes")
			if err != nil {
				return err
			}
			for fails := range 2 { // the first allocation, then the second
				n := 0
				_, err := newAgreement(w, ends[0], func(size int) ([]byte, error) {
					if n++; n > fails {
						return nil, none
					}
					return tensor.Heap(size)
				})
				if !errors.Is(err, none) {
					return fmt.Errorf("allocation %d fails: %v", fails+1, err)
				}
			}
			return nil
		})
	test.Check(t, err)
}

// TestSlowestIterations: rank 0 tells all ranks to hold an iteration that is the slowest of its hundred so far.
func TestSlowestIterations(t *testing.T) {
	took := map[int64]float64{1: 1, 40: 2, 41: 1.5, 90: 5, 100: 4, 101: .5, 102: .25, 150: 3, 200: 3}
	want := map[int64]bool{1: true, 2: false, 40: true, 90: true, 101: true, 150: true}
	if err := agreeing(t, 3, func(ctx context.Context, a *agreement, rank int) error {
		for step := int64(1); step <= 200; step++ {
			v := vote{step: step, took: .1}
			if rank == 1 && took[step] > 0 { // another rank than 0 is the slowest
				v.took = took[step]
			}
			if err := a.begin(ctx, v, nil); err != nil {
				return err
			}
			d, _, err := a.end(ctx)
			if err != nil {
				return err
			}
			if d.hold != want[step] {
				return fmt.Errorf("rank %d: iteration %d: hold %v", rank, step, d.hold)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
