package local_test

import (
	"context"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/spmd/spmdtest"
)

func TestConformance(t *testing.T) { spmdtest.Run(t, local.New) }

// BenchmarkRoundTrip reports the median round trips of 1 KiB between two goroutine ranks, by messages and through
// channels.
func BenchmarkRoundTrip(b *testing.B) {
	err := spmd.Run(context.Background(), local.New(2), spmd.Options{}, func(ctx context.Context, w *spmd.World) error {
		bare, channel, err := spmdtest.RoundTrip(ctx, w, 1024, b.N)
		if w.Rank() == 0 {
			b.ReportMetric(float64(bare.Nanoseconds()), "bare-ns/op")
			b.ReportMetric(float64(channel.Nanoseconds()), "channel-ns/op")
		}
		return err
	})
	test.OK(b, err)
}

// A goroutine that sends messages to itself uses every path of matching except waiting.
func TestMessagesDoNotAllocate(t *testing.T) {
	err := spmd.Run(context.Background(), local.New(1), spmd.Options{Log: t.Output()},
		func(ctx context.Context, w *spmd.World) error {
			ends, err := w.NewComm([]int{0}, "self")
			if err != nil {
				return err
			}
			c, reqs := ends[0], make([]spmd.Request, 2)
			for _, n := range []int{0, 100, 100_000} {
				out, in := make([]byte, n), make([]byte, n)
				for _, first := range []string{"send", "receive"} {
					got := testing.AllocsPerRun(100, func() {
						if first == "send" {
							reqs[0], err = c.Isend(out, 0, 0)
						}
						reqs[1], err = c.Irecv(in, 0, 0)
						if first == "receive" {
							reqs[0], err = c.Isend(out, 0, 0)
						}
						err = c.Wait(ctx, reqs)
					})
					if err != nil || got != 0 {
						t.Errorf("%d bytes, %s first: %v allocations, %v", n, first, got, err)
					}
				}
			}
			return nil
		})
	test.OK(t, err)
}
