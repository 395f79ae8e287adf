package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/spmd/spmdtest"
)

func TestLeavingInSeveralWorlds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		test.OK(t, spmd.Run(t.Context(), local.New(4), spmd.Options{StallTimeout: 1e9, Log: t.Output()},
			spmdtest.Leaving()))
	})
}

// A communicator that only some of its ranks have asked for ends with its world.
func TestHalfOfACommunicator(t *testing.T) {
	worlds := make([]int, 2)
	err := spmd.Run(t.Context(), local.New(2), spmd.Options{Log: t.Output()},
		func(ctx context.Context, w *spmd.World) error {
			worlds[w.Rank()]++
			world := worlds[w.Rank()]
			if w.Rank() == 1 && world == 1 {
				return spmd.Again
			}
			ends, err := w.NewComm([]int{0, 1}, "half")
			if err != nil {
				return err
			}
			in := make([]byte, 1)
			if w.Rank() == 0 {
				_, err = ends[0].Isend([]byte{byte(world)}, 1, 0)
			} else {
				var r spmd.Request
				if r, err = ends[0].Irecv(in, 0, 0); err == nil {
					err = ends[0].Wait(ctx, []spmd.Request{r})
				}
				if in[0] != 2 {
					return fmt.Errorf("received a message of world %d in world 2", in[0])
				}
			}
			if err == nil && world == 1 {
				return spmd.Again
			}
			return err
		})
	test.OK(t, err)
}

// Ranks disagree about Again, or one fails in its fifth world. The job ends with one line that says where.
func TestFailuresBetweenWorlds(t *testing.T) {
	for _, c := range []struct {
		name string
		last func(w *spmd.World) error // the end of rank 1 in world 5; the other ranks return Again
		want string
	}{
		{"mix", func(*spmd.World) error { return nil },
			`^rank 0 host \S+: main has returned spmd.Again on rank 0, and nil on rank 1: expected the same on every ` +
				`rank\n$`},
		{"error", func(*spmd.World) error { return errors.New("out of patience") },
			`^rank 1 host \S+: out of patience\n$`},
		{"panic", func(*spmd.World) error { panic("out of its mind") },
			`(?s)^goroutine .*\nrank 1 host \S+: panic: out of its mind\n$`},
		{"goroutine", func(w *spmd.World) error {
			w.Go("late", func() error { return errors.New("too late") })
			return spmd.Again
		}, `^late rank 1 host \S+: too late\n$`},
		{"keep", func(w *spmd.World) error { w.Keep(make([]byte, 8)); return spmd.Again },
			`^rank 1 host \S+: keep 8 bytes: they are not of this rank's Alloc\n$`},
	} {
		for _, n := range []int{2, 5} {
			t.Run(fmt.Sprint(c.name, "/", n), func(t *testing.T) {
				worlds := make([]int, n)
				var log bytes.Buffer
				err := spmd.Run(t.Context(), local.New(n), spmd.Options{Log: &log},
					func(ctx context.Context, w *spmd.World) error {
						worlds[w.Rank()]++
						if worlds[w.Rank()] < 5 {
							w.SetStep(3)
						} else if w.Rank() == 1 {
							return c.last(w)
						}
						return fmt.Errorf("wrapped: %w", spmd.Again)
					})
				if err == nil || !strings.HasSuffix(log.String(), err.Error()+"\n") ||
					!regexp.MustCompile(c.want).MatchString(log.String()) {
					t.Errorf("%v; want %s in\n%s", err, c.want, &log)
				}
			})
		}
	}
}

// BenchmarkChangeOfWorlds measures a change between empty worlds.
func BenchmarkChangeOfWorlds(b *testing.B) {
	const ranks = 8
	worlds := make([]int, ranks)
	test.OK(b, spmd.Run(b.Context(), local.New(ranks), spmd.Options{}, func(_ context.Context, w *spmd.World) error {
		if worlds[w.Rank()]++; worlds[w.Rank()] <= b.N {
			return spmd.Again
		}
		return nil
	}))
}
