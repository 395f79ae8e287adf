package spmd

import "sync/atomic"

// Traffic counts the messages from one rank to another, or to itself. It does not count items that stay in a process,
// reads from shared memory, or the messages of a library's collectives.
type Traffic struct{ Messages, Bytes int64 }

// sent counts the messages to a rank.
type sent struct{ messages, bytes atomic.Int64 }

// Traffic returns the Traffic from this rank to each rank so far, indexed by rank. Only communicators made after
// Record count. Without Record the result is empty. Any goroutine may call it.
func (w *World) Traffic() []Traffic {
	all := make([]Traffic, len(w.sent))
	for rank := range w.sent {
		all[rank] = Traffic{w.sent[rank].messages.Load(), w.sent[rank].bytes.Load()}
	}
	return all
}

// keep records new communicators, which the world closes when it ends, and returns them. After Record it returns
// wrapped communicators, which count their messages.
func (w *World) keep(ends []Comm) []Comm {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.comms = append(w.comms, ends...)
	if w.sent == nil {
		return ends
	}
	counting := make([]Comm, len(ends))
	for i, c := range ends {
		counting[i] = &countingComm{c, w.sent}
	}
	return counting
}

// A countingComm counts the messages that it sends.
type countingComm struct {
	Comm
	sent []sent // indexed by rank
}

func (c *countingComm) Isend(b []byte, to, tag int) (Request, error) {
	r, err := c.Comm.Isend(b, to, tag)
	if err == nil {
		n := &c.sent[c.WorldRank(to)]
		n.messages.Add(1)
		n.bytes.Add(int64(len(b)))
	}
	return r, err
}
