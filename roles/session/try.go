package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
)

// Try returns a function that runs a job on ranks of this process, in a session of its own and in silence. Its error
// has what the session would have written. The job stops when asked says so.
func Try(reg config.Registries, tasks task.Tasks, asked *loop.Requests) func(context.Context, []spmd.Transport,
	*config.Config) error {
	return func(ctx context.Context, ranks []spmd.Transport, cfg *config.Config) error {
		var log bytes.Buffer
		s := New(Options{Registries: reg, Tasks: tasks, Asked: asked.ForRun(), Out: io.Discard,
			Log: &log})
		code, err := s.Start(ctx, ranks, cfg, nil, nil)
		if err == nil && code != loop.ExitOK {
			err = errors.New(strings.TrimSpace(log.String()))
		}
		return err
	}
}
