package probe

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// TestSites: the first member gets what all have measured, and the links to some of them.
func TestSites(t *testing.T) {
	const members = mostLinks + 2
	var rows atomic.Int64
	err := spmd.Run(t.Context(), local.New(members), spmd.Options{}, func(ctx context.Context, w *spmd.World) error {
		ends, err := w.NewComm(w.Ranks(), "nodes")
		if err != nil {
			return err
		}
		sites, err := Sites(ctx, ends[0])
		if err != nil || w.Rank() != 0 {
			if len(sites) > 0 {
				t.Errorf("rank %d has %d sites", w.Rank(), len(sites))
			}
			return err
		}
		for i, x := range sites {
			rows.Add(1)
			if x.Host != Host() || !(x.Copy > 1e6) || !(x.Core > 1e6) || (x.Link != nil) != (i > 0 && i <= mostLinks) {
				t.Errorf("site %d: %+v", i, x)
			}
		}
		link, ok := Network(sites)
		if !ok || !(link.Latency > 0) || link.Latency > 0.1 || link.PerByte < 0 || link.PerByte > 1e-6 {
			t.Errorf("link %+v", link)
		}
		return nil
	})
	if err != nil || rows.Load() != members {
		t.Errorf("%v, %d sites", err, rows.Load())
	}
	if _, ok := Network([]NodeProbe{{Host: "a"}}); ok {
		t.Error("one site has a network")
	}
}

// TestSlowLink: the links of a network are measured as they are.
func TestSlowLink(t *testing.T) {
	slow := local.Link{Latency: 3 * time.Millisecond, BytesPerSecond: 20e6}
	ranks := local.NewLinked(2, slow)
	err := spmd.Run(t.Context(), ranks, spmd.Options{}, func(ctx context.Context, w *spmd.World) error {
		ends, err := w.NewComm(w.Ranks(), "nodes")
		if err != nil {
			return err
		}
		sites, err := Sites(ctx, ends[0])
		if err != nil || w.Rank() != 0 {
			return err
		}
		link, _ := Network(sites)
		if link.Latency < 2.5e-3 || link.Latency > 12e-3 || link.PerByte < 3e-8 || link.PerByte > 2e-7 {
			t.Errorf("%+v, want 3 ms and 5e-8 s", link)
		}
		return nil
	})
	test.Check(t, err)
}
