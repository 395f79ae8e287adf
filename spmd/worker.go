package spmd

import "sync"

// A worker is the goroutine of one member of a group. It runs the member's calls one at a time, in
// the order in which they were made.
type worker struct {
	report func(error)
	wake   chan struct{} // holds a token after a call was queued

	mu    sync.Mutex
	calls []func() error
}

// startWorker starts a member's goroutine. The goroutine ends at the first error, or when the world
// stops and no calls are left.
func (w *World) startWorker(group string, member int) *worker {
	k := &worker{report: w.reporter(group, member), wake: make(chan struct{}, 1)}
	w.workers.Go(func() { protect(k.report, func() error { return k.loop(w) }) })
	return k
}

// submit queues a call. Its error ends the job.
func (k *worker) submit(call func() error) {
	k.mu.Lock()
	k.calls = append(k.calls, call)
	k.mu.Unlock()
	signal(k.wake)
}

func (k *worker) loop(w *World) error {
	for {
		for call := k.next(); call != nil; call = k.next() {
			if err := call(); err != nil {
				return err
			}
		}
		select {
		case <-k.wake:
		case <-w.job.end.Done():
			return nil
		case <-w.stop:
			k.mu.Lock()
			idle := len(k.calls) == 0
			k.mu.Unlock()
			if idle {
				return nil
			}
		}
	}
}

func (k *worker) next() func() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.calls) == 0 {
		return nil
	}
	call := k.calls[0]
	k.calls = append(k.calls[:0], k.calls[1:]...)
	return call
}
