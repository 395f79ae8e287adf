package sweep

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/spmd"
	"github.com/urfave/cli/v2"
)

// Messages between the processes and rank 0. A process sends the outcome of its last run; its first message is empty.
// Rank 0 answers with the number of the next run; a negative number means the end.
const (
	tagOutcome = iota
	tagRun
)

// mostSaid is the maximum size of an outcome's message in bytes.
const mostSaid = 64 << 10

// onProcesses trains the runs on the processes of a launcher, and returns the exit code.
func (s *sweep) onProcesses(c *cli.Context) (int, error) {
	var log session.RankLog
	ranks, err := args.OpenWorld(c, s.runs[0].cfg, nil, &log, nil)
	if err != nil {
		return 0, err
	}
	leads := ranks[0].Rank() == 0
	if leads {
		defer s.showBoard()()
	}
	if spmd.Run(c.Context, ranks, spmd.Options{Log: &log}, s.process) != nil { // spmd has written the error
		return loop.ExitFailed, nil
	}
	if leads {
		return s.finish()
	}
	return loop.ExitOK, nil
}

// process runs on one rank: it trains the runs that rank 0 assigns. Rank 0 also trains runs.
func (s *sweep) process(ctx context.Context, w *spmd.World) error {
	runtime.GOMAXPROCS(max(2, runtime.NumCPU()/w.LocalSize()))
	ends, err := w.NewComm(w.Ranks(), "work list")
	if err != nil {
		return err
	}
	if w.Rank() > 0 {
		return s.work(ctx, ends[0])
	}
	w.Go("work list", func() error { return s.serve(ctx, ends[0]) })
	for i, ok := s.take(); ok; i, ok = s.take() {
		s.note(s.train(ctx, i))
	}
	return nil
}

// work trains the runs that rank 0 assigns, until there are no more.
func (s *sweep) work(ctx context.Context, comm spmd.Comm) error {
	var said []byte
	answer := make([]byte, 8)
	for {
		reqs := make([]spmd.Request, 2)
		var err error
		if reqs[0], err = comm.Irecv(answer, 0, tagRun); err != nil {
			return err
		}
		if reqs[1], err = comm.Isend(said, 0, tagOutcome); err != nil {
			return err
		}
		if err := comm.Wait(ctx, reqs); err != nil {
			return err
		}
		i := int(int64(binary.LittleEndian.Uint64(answer)))
		if i < 0 {
			return nil
		}
		o := s.train(ctx, i)
		o.Said = o.Said[:min(len(o.Said), mostSaid/8)] // JSON has at most six bytes for each byte
		if said, err = json.Marshal(o); err != nil {
			return err
		}
	}
}

// serve assigns runs to the other processes. It returns after it has told all of them that no run is left.
func (s *sweep) serve(ctx context.Context, comm spmd.Comm) error {
	said := make([][]byte, comm.Size())
	answers := make([][]byte, comm.Size())
	reqs := make([]spmd.Request, comm.Size())
	listen := func(r int) (err error) {
		reqs[r], err = comm.Irecv(said[r], r, tagOutcome)
		return err
	}
	for r := 1; r < comm.Size(); r++ {
		said[r], answers[r] = make([]byte, mostSaid), make([]byte, 8)
		if err := listen(r); err != nil {
			return err
		}
	}
	for {
		r, err := comm.WaitAny(ctx, reqs)
		if err != nil || r < 0 {
			return err
		}
		if text := said[r][:reqs[r].N]; len(text) > 0 {
			var o outcome
			if err := json.Unmarshal(text, &o); err != nil {
				return fmt.Errorf("outcome of rank %d: %w", r, err)
			}
			s.note(o)
		}
		i, ok := s.take()
		if !ok {
			i = -1
		}
		binary.LittleEndian.PutUint64(answers[r], uint64(int64(i)))
		sent := make([]spmd.Request, 1)
		if sent[0], err = comm.Isend(answers[r], r, tagRun); err != nil {
			return err
		}
		if err := comm.Wait(ctx, sent); err != nil {
			return err
		}
		if ok {
			if err := listen(r); err != nil {
				return err
			}
		}
	}
}
