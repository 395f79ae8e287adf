package external

import (
	"errors"
	"fmt"
	"time"

	"github.com/rlinf/rlinf/internal/programs"
)

func (k *checker) closes() error {
	return k.with(setup{shareMemory: true}, func(t *trial) error {
		if err := t.resetAll(); err != nil {
			return err
		}
		t.count = 0
		if err := t.send(header{kind: closing}, nil, k.by()); err != nil {
			return err
		}
		return t.leaves()
	})
}

func (k *checker) closesUnused() error {
	t, err := k.open()
	if err != nil {
		return err
	}
	defer t.close(true)
	if err := t.send(header{kind: closing}, nil, k.by()); err != nil {
		return err
	}
	return t.explain(t.leaves())
}

func (k *checker) endsWithStream() error {
	return k.with(setup{shareMemory: true}, func(t *trial) error {
		if err := t.resetAll(); err != nil {
			return err
		}
		if err := t.stream.finish(); err != nil {
			return err
		}
		return t.leaves()
	})
}

// leaves waits for a child to end with exit status 0.
func (t *trial) leaves() error {
	if err := t.ends(t.check.by()); err != nil {
		return err
	}
	if t.proc.program.Err() != nil {
		return fmt.Errorf("%v, expected exit status 0", t.proc.program.Err())
	}
	return nil
}

// ends waits for a child to end, and returns an error if a signal ended it.
func (t *trial) ends(by time.Time) error {
	select {
	case <-t.proc.done:
	case <-time.After(time.Until(by)):
		return fmt.Errorf("it still runs after %v, expected its end", t.check.Timeout)
	}
	if exit := (*programs.ExitError)(nil); errors.As(t.proc.program.Err(), &exit) && exit.Status.Signaled() {
		return fmt.Errorf("it crashed: %v", exit)
	}
	return nil
}
