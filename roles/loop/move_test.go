package loop_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// A player is a leader without workers. Episodes end while it trains, and one more while it quiesces.
type player struct{ ended int }

func (p *player) Describe(r *loop.RankReport) {
	r.Episodes = env.AppendRows(r.Episodes, make([]env.Episode, p.ended))
	p.ended = 0
}

func (p *player) Quiesce(context.Context) error {
	p.ended++
	return nil
}

func (p *player) Settle(context.Context) error { return nil }
func (p *player) Components() []string         { return nil }
func (p *player) Workers() []loop.Worker       { return nil }
func (p *player) Restored()                    {}

// everySecond moves after every second iteration; the members are at their places already. The first move is refused.
type everySecond struct {
	step  func() int64
	next  int64
	asked int
}

func (m *everySecond) Due() bool { return m.step() >= m.next }

func (m *everySecond) Next(context.Context) (loop.Places, error) {
	m.next = m.step() + 2
	return loop.Places{}, nil
}

func (m *everySecond) Accept(context.Context, []float64, []float64, error) (bool, error) {
	m.asked++
	return m.asked > 1, nil
}

// TestEpisodesOfAMove: episodes that end after the last report of a world are in the first one of the next world, or in
// the next report if the move is refused.
func TestEpisodesOfAMove(t *testing.T) {
	plan, book, folder := cartpoleLogbook(t, "runner.max_epochs=8", "runner.save_at_end=false",
		"runner.logger.logger_backends=[]")
	moves := &everySecond{step: book.Step, next: 1}
	var own *loop.Holdings
	worlds := 0
	main := func(ctx context.Context, w *spmd.World) error {
		worlds++
		ends, err := w.NewComm(w.Ranks(), "state")
		if err != nil {
			return err
		}
		group, err := collectives.New(w, ends[0], collectives.Options{})
		if err != nil {
			return err
		}
		if own == nil {
			own = loop.NewHoldings(w)
		} else {
			own.Enter(w)
		}
		c, err := loop.NewCluster(ctx, w, plan, nobody{}, loop.Services{Saver: loop.NewCheckpointSaver(group, nil, nil),
			Log: book, Requests: new(loop.Requests), Holdings: own, Moves: moves})
		if err != nil {
			return err
		}
		p := new(player)
		l, err := loop.New(c, p)
		if err == nil {
			err = l.Restore(ctx)
		}
		for more := true; err == nil; {
			if more, err = l.Next(ctx); err != nil || !more {
				return err
			}
			p.ended++
			l.Trained()
		}
		return err
	}
	test.OK(t, spmd.Run(t.Context(), local.New(1), spmd.Options{Log: io.Discard}, main))
	test.OK(t, book.Close())
	text := test.Must(os.ReadFile(folder.Metrics()))(t)
	episodes := 0.0
	for line := range strings.Lines(string(text)) {
		var m map[string]float64
		test.OK(t, json.Unmarshal([]byte(line), &m))
		episodes += m["env/num_trajectories"]
	}
	if want := 8.0 + float64(moves.asked); episodes != want || moves.asked < 2 || worlds != moves.asked {
		t.Errorf("%v episodes, want %v; %d worlds, and %d moves were asked for", episodes, want, worlds, moves.asked)
	}
}

// nobody is the Shared of a rank without workers.
type nobody struct{}

func (nobody) Connect(context.Context) error { return nil }
func (nobody) Close()                        {}
