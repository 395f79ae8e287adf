package collectives_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/collectives/collectivestest"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// TestPeerThatReturned: waiting in a collective for a member whose program has ended is an error that names the member.
func TestPeerThatReturned(t *testing.T) {
	for how, wrap := range hosts {
		for kind := spmd.Barrier; kind <= spmd.SendReceive; kind++ {
			t.Run(fmt.Sprintf("%v by %s", kind, how), func(t *testing.T) {
				t.Parallel()
				var log bytes.Buffer
				err := spmd.Run(t.Context(), local.New(2),
					spmd.Options{Log: &log, StallTimeout: 200 * time.Millisecond},
					func(ctx context.Context, w *spmd.World) error {
						return collectivestest.Await(ctx, w, collectives.Auto, kind, wrap, func() error { return nil })
					})
				if err == nil || !strings.Contains(err.Error(), "rank 1 ") ||
					!strings.Contains(err.Error(), "has left") || !strings.Contains(err.Error(), kind.String()) {
					t.Errorf("got %v, want an error of %v that says that rank 1 has left", err, kind)
				}
			})
		}
	}
}

// If members make different calls, the error names both members, their calls and the source positions. Without this
// check the calls would hang or mix bytes.
func TestDebugNamesBothSides(t *testing.T) {
	calls := map[string]func() spmd.Collective{
		"allreduce of 4 F32, sum": func() spmd.Collective {
			return collectives.AllReduce(make([]float32, 4), spmd.Sum)
		},
		"allreduce of 4 F32, max": func() spmd.Collective {
			return collectives.AllReduce(make([]float32, 4), spmd.Max)
		},
		"allreduce of 4 I32, sum": func() spmd.Collective {
			return collectives.AllReduce(make([]int32, 4), spmd.Sum)
		},
		"allreduce of 5 F32, sum": func() spmd.Collective {
			return collectives.AllReduce(make([]float32, 5), spmd.Sum)
		},
		"broadcast of 4 F32, root 0": func() spmd.Collective {
			return collectives.Broadcast(make([]float32, 4), 0)
		},
		"broadcast of 4 F32, root 1": func() spmd.Collective {
			return collectives.Broadcast(make([]float32, 4), 1)
		},
		"barrier": func() spmd.Collective { return spmd.Collective{} },
		"allgather of 4 F32, counts with h": func() spmd.Collective {
			return collectives.AllGather(make([]float32, 4), []int{1, 3})
		},
	}
	for how, wrap := range hosts {
		for a, first := range calls {
			for b, second := range calls {
				err := debugged(t, wrap, func(ctx context.Context, w *spmd.World, g *collectives.Group) error {
					if err := g.Barrier(ctx); err != nil {
						return err
					}
					if w.Rank() == 0 {
						return g.Run(ctx, first())
					}
					return g.Run(ctx, second())
				})
				if a == b {
					if err != nil {
						t.Errorf("%s on both by %s: %v", a, how, err)
					}
					continue
				}
				for _, want := range []string{"members make different calls", a, b, "member 0 (rank 0)",
					"member 1 (rank 1)", "call 2, at collectives/failure_test.go:"} {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%s against %s by %s: %v: want %q in it", a, b, how, err, want)
					}
				}
			}
		}
	}
}

func debugged(t *testing.T, wrap func(collectives.Host) collectives.Host,
	f func(ctx context.Context, w *spmd.World, g *collectives.Group) error) error {
	return spmd.Run(t.Context(), local.New(2), spmd.Options{Log: t.Output()},
		func(ctx context.Context, w *spmd.World) error {
			ends, err := w.NewComm([]int{0, 1}, "debug")
			if err != nil {
				return err
			}
			var host collectives.Host = w
			if wrap != nil {
				host = wrap(w)
			}
			g, err := collectives.New(host, ends[0], collectives.Options{Debug: true})
			if err != nil {
				return err
			}
			return f(ctx, w, g)
		})
}

func TestSameOnAllRanks(t *testing.T) {
	everywhere(t, func(ctx context.Context, m member) error {
		names, data := []string{"actor.weight", "critic.bias"}, [][]byte{[]byte("the same"), []byte("not the same")}
		if err := m.SameOnAllRanks(ctx, names, data); err != nil {
			return err
		}
		if m.Size() == 1 {
			return nil
		}
		if m.Rank() == m.Size()-1 {
			data[1] = []byte("not the sane")
		}
		err := m.SameOnAllRanks(ctx, names, data)
		if err == nil || !strings.Contains(err.Error(), "critic.bias has checksum") ||
			!strings.Contains(err.Error(), fmt.Sprintf("on member %d", m.Size()-1)) {
			return fmt.Errorf("critic.bias differs on member %d: %v", m.Size()-1, err)
		}
		return nil
	})
}

// TestStartGoesOnByItself: a started operation ends while its caller computes and makes no further call.
func TestStartGoesOnByItself(t *testing.T) {
	everywhere(t, func(ctx context.Context, m member) error {
		x, y := make([]float64, 50_000), make([]byte, 300)
		x[7] = 1
		if m.Rank() == 0 {
			y[3] = 4
		}
		sum := m.Start(ctx, collectives.AllReduce(x, spmd.Sum))
		all := m.Start(ctx, collectives.Broadcast(y, 0))
		for busy := 1.0; !all.Done(); busy = busy*1.0000001 + 1e-9 { // Done does not run the operation itself
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if int(busy*1e7)%100 == 0 {
				runtime.Gosched() // the test may have a single core
			}
		}
		if !sum.Done() || x[7] != float64(m.Size()) || y[3] != 4 {
			return fmt.Errorf("done, and yet x is %v of %d and y is %d", x[7], m.Size(), y[3])
		}
		return errors.Join(sum.Wait(), all.Wait())
	})
}

// After the first failure all calls of the group fail, because members may be at different calls.
func TestFailureEndsTheGroup(t *testing.T) {
	err := run(t, []int{0, 1}, nil, func(ctx context.Context, m member) error {
		first := m.Run(ctx, collectives.Broadcast(make([]byte, 3), 7))
		if first == nil || !strings.Contains(first.Error(), "root 7: expected a member from 0 to 1") {
			return fmt.Errorf("root 7 of 2: %v", first)
		}
		if err := m.Barrier(ctx); err != first {
			return fmt.Errorf("after a failure: %v, want %w", err, first)
		}
		if err := m.Start(ctx, spmd.Collective{}).Wait(); err != first {
			return fmt.Errorf("started after a failure: %v, want %w", err, first)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

var hosts = map[string]func(collectives.Host) collectives.Host{
	"memory": nil, "messages": func(h collectives.Host) collectives.Host { return apart{h} }}
