package spmdtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rlinf/rlinf/spmd"
)

// recording returns the cases that test World.Record.
func recording() []Case {
	return []Case{{"every get names the put that ended it", namesPuts},
		{"messages are counted by their receivers", countsMessages}}
}

// A logger is a spmd.Recorder that stores what it records.
type logger struct {
	sites []spmd.Site
	open  []int
	got   map[[2]int64]int // number of gets for each pair of producer and item number
	marks []int64          // arguments of Mark for puts, in order
	waits int              // number of spans that have ended
	wrong error
}

func (l *logger) Site(s spmd.Site) int {
	for i, known := range l.sites {
		if known == s {
			return i
		}
	}
	l.sites = append(l.sites, s)
	return len(l.sites) - 1
}

func (l *logger) Begin(site int) { l.open = append(l.open, site) }

func (l *logger) End(arg, n int64) {
	if len(l.open) == 0 {
		l.wrong = fmt.Errorf("an end without a beginning")
		return
	}
	site := l.sites[l.open[len(l.open)-1]]
	l.open = l.open[:len(l.open)-1]
	l.ended(site, arg, n)
	l.waits++
}

func (l *logger) Divide(int, int64) {}

func (l *logger) Pass(site int, arg, n int64) { l.ended(l.sites[site], arg, n) }

func (l *logger) ended(s spmd.Site, arg, n int64) {
	if s.Op == spmd.OpGet {
		l.got[[2]int64{arg, n}]++
	}
}

func (l *logger) Mark(site int, arg int64) {
	if l.sites[site].Op == spmd.OpPut {
		l.marks = append(l.marks, arg)
	}
}

// namesPuts lets all producers put items under one key. The consumer's recorder must record the producer and the number
// of each item. Each producer's recorder must record the consumer of each Put.
func namesPuts(ctx context.Context, w *spmd.World) error {
	const items = 20
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		for _, key := range kinds {
			var mu sync.Mutex
			loggers := map[string]*logger{}
			w.Record(func(group string, member int) spmd.Recorder {
				l := &logger{got: map[[2]int64]int{}}
				mu.Lock()
				defer mu.Unlock()
				loggers[fmt.Sprint(group, member)] = l
				return l
			})
			sc, err := stage(w, "recording "+key.String(), s, spmd.ChannelSpec{Shared: true})
			if err != nil {
				return err
			}
			of := func(m *spmd.Member) *logger {
				mu.Lock()
				defer mu.Unlock()
				return loggers[fmt.Sprint(m.Group(), m.Index())]
			}
			if err := sc.play(ctx, func(ctx context.Context, m *spmd.Member) error {
				return recordedPuts(ctx, sc.ch, m, key, items, of(m))
			}, func(ctx context.Context, m *spmd.Member) error {
				if m.Index() != 0 {
					return nil
				}
				return recordedGets(ctx, sc.ch, m, key, len(s.from), items, of(m))
			}); err != nil {
				return fmt.Errorf("%v: %w", key, err)
			}
		}
		return nil
	})
}

func recordedPuts(ctx context.Context, ch *spmd.Channel, m *spmd.Member, key spmd.Key, items int, l *logger) error {
	snd, err := ch.Sender(m, key)
	for i := 0; i < items && err == nil; i++ {
		err = put(ctx, snd, i, 0)
	}
	if err = errors.Join(err, l.wrong); err != nil {
		return err
	}
	for _, to := range l.marks {
		if to != int64(key.To) {
			return fmt.Errorf("a put to %d was recorded for %d", key.To, to)
		}
	}
	if len(l.marks) != items {
		return fmt.Errorf("%d of %d puts were recorded", len(l.marks), items)
	}
	return nil
}

func recordedGets(ctx context.Context, ch *spmd.Channel, m *spmd.Member, key spmd.Key, producers, items int,
	l *logger) error {
	rcv, err := ch.Receiver(m, key)
	if err != nil {
		return err
	}
	for range producers * items {
		n, from, err := get(ctx, rcv)
		if err = errors.Join(err, l.wrong); err != nil {
			return err
		}
		if l.got[[2]int64{int64(from), int64(n)}] != 1 {
			return fmt.Errorf("item %d of producer %d was recorded as %v", n, from, l.got)
		}
	}
	if len(l.got) != producers*items || len(l.open) != 1 || l.sites[l.open[0]].Op != spmd.OpCall {
		return fmt.Errorf("%d items are recorded, %d spans are open", len(l.got), len(l.open))
	}
	return nil
}

// countsMessages checks World.Traffic. Each rank r sends 100·(r+1) messages of 3 bytes to the next rank, and 100·(r+1)
// to itself. The counts may be slightly higher, because channels of earlier cases may still send messages.
func countsMessages(ctx context.Context, w *spmd.World) error {
	w.Record(func(string, int) spmd.Recorder { return &logger{} })
	ranks := w.Ranks()
	slices.Reverse(ranks)
	before := w.Traffic()
	ends, err := w.NewComm(ranks, "counted")
	if err != nil {
		return err
	}
	want := make([]int64, w.Size()) // messages to each rank
	for _, hop := range []int{0, 1} {
		from, to := (w.Rank()+w.Size()-hop)%w.Size(), (w.Rank()+hop)%w.Size()
		var reqs []spmd.Request
		for range 100 * (from + 1) {
			r, err := ends[0].Irecv(make([]byte, 3), slices.Index(ranks, from), 0)
			if err != nil {
				return err
			}
			reqs = append(reqs, r)
		}
		for range 100 * (w.Rank() + 1) {
			want[to]++
			r, err := ends[0].Isend(make([]byte, 3), slices.Index(ranks, to), 0)
			if err != nil {
				return err
			}
			reqs = append(reqs, r)
		}
		if err := ends[0].Wait(ctx, reqs); err != nil {
			return err
		}
	}
	const few = 20
	for to, all := range w.Traffic() {
		messages, bytes := all.Messages-before[to].Messages, all.Bytes-before[to].Bytes
		if messages < want[to] || messages > want[to]+few || bytes < 3*want[to] || bytes > 3*want[to]+few*100 {
			return fmt.Errorf("to rank %d: %d messages of %d bytes, want %d of 3 bytes each", to, messages, bytes,
				want[to])
		}
	}
	return nil
}
