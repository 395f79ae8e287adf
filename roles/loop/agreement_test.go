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

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
)

// agreeing runs f on every rank of a world of np, each with its end of an agreement.
func agreeing(t *testing.T, np int, f func(ctx context.Context, a *agreement, rank int) error) error {
	t.Helper()
	return spmd.Run(t.Context(), local.New(np), spmd.Options{Log: t.Output()},
		func(ctx context.Context, w *spmd.World) error {
			all := make([]int, np)
			for r := range all {
				all[r] = r
			}
			ends, err := w.NewComm(all, "votes")
			if err != nil {
				return err
			}
			a, err := newAgreement(ends[0], w.Alloc)
			if err != nil {
				return err
			}
			return f(ctx, a, w.Rank())
		})
}

// A ballot is what every rank votes and reports at every step: known to all, so that each can tell what must come of
// it.
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
			if s%3 > 0 && r.IntN(np) == 0 { // a step on which nobody wants anything, every now and then
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

// decision returns what must be decided on the votes of a step.
func (b ballot) decision(step int) (d decision) {
	for _, e := range b[step] {
		d.stop = max(d.stop, e.vote.stop)
		d.save = d.save || e.vote.save
	}
	return d
}

// Votes are decided on one loop head later, alike on all ranks; the reports are on rank 0 then; nobody is more than a
// step ahead.
func TestAgreement(t *testing.T) {
	const steps = 60
	for _, np := range []int{1, 2, 3, 5, 8} {
		b := newBallot(np, steps)
		reached := make([]atomic.Int64, np)
		err := agreeing(t, np, func(ctx context.Context, a *agreement, rank int) error {
			r := rand.New(rand.NewPCG(uint64(rank), 5))
			var report []byte
			for s := range steps + 1 {
				for range r.IntN(4) { // come in ever another order
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
				if err := a.begin(b[s][rank].vote, report); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%d ranks: %v", np, err)
		}
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

// Ranks that went different ways are found, and the first that differs from rank 0 is named.
func TestAgreementNamesTheFirstRankThatDiffers(t *testing.T) {
	for _, c := range []struct {
		name string
		vote func(rank int) vote
		want string
	}{
		{"other calls", func(rank int) vote { return vote{step: 7, path: uint64(rank / 2)} }, "rank 2 is at step 7"},
		{"another step", func(rank int) vote { return vote{step: 7 + int64(rank/3), path: 9} }, "rank 3 is at step 8"},
	} {
		err := agreeing(t, 5, func(ctx context.Context, a *agreement, rank int) error {
			if err := a.begin(c.vote(rank), nil); err != nil {
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
				_, err := newAgreement(ends[0], func(size int) ([]byte, error) {
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
	if err != nil {
		t.Error(err)
	}
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
			if err := a.begin(v, nil); err != nil {
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
