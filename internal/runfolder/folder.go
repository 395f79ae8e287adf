package runfolder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
)

// A Folder is the folder of a run, locked against other jobs. Only one process uses it. Its methods are not safe for
// concurrent use, except for Lost.
type Folder struct {
	path string
	lock *lock
}

// Open makes the folder at path if it is missing, checks that it is writable, locks it, and marks it as the folder of a
// run. job is the scheduler's name of this job, or "". If another job holds the lock, Open returns a *BusyError. If the
// folder has other files and is not the folder of a run, it returns a *ForeignError. After both errors the folder is as
// it was before.
func Open(path, job string) (*Folder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("run folder: %w", err)
	}
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, fmt.Errorf("run folder %s: %w; choose another with runner.logger.log_path", path, err)
	}
	err = Check(path)
	var l *lock
	if err == nil {
		l, err = acquire(path, job)
	}
	_, busy := errors.AsType[*BusyError](err)
	if _, foreign := errors.AsType[*ForeignError](err); busy || foreign {
		return nil, err
	}
	if err == nil {
		if err = mark(path); err != nil {
			err = errors.Join(err, l.release())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("run folder %s: cannot write in it: %w; choose another with runner.logger.log_path",
			path, err)
	}
	return &Folder{path, l}, nil
}

// Close unlocks the folder.
func (f *Folder) Close() error { return f.lock.release() }

// Path returns the absolute path.
func (f *Folder) Path() string { return f.path }

// Metrics returns the path of metrics.jsonl.
func (f *Folder) Metrics() string { return filepath.Join(f.path, "metrics.jsonl") }

// Answers returns the path of answers.txt, for people to read.
func (f *Folder) Answers() string { return filepath.Join(f.path, "answers.txt") }

// Generation returns the path of generation.jsonl, which has the rewards of answers and the load of the engines over
// time.
func (f *Folder) Generation() string { return filepath.Join(f.path, "generation.jsonl") }

// TensorBoard returns the path of the folder of event files.
func (f *Folder) TensorBoard() string { return filepath.Join(f.path, "tensorboard") }

// Checkpoints returns the path of the folder of checkpoints.
func (f *Folder) Checkpoints() string { return filepath.Join(f.path, "checkpoints") }

// RankLog returns the path of a rank's log in the run folder at path. Any rank may call it. The file exists only if the
// rank has written to it.
func RankLog(path string, rank int) string {
	return filepath.Join(path, "logs", fmt.Sprintf("rank-%04d.log", rank))
}

// WriteConfig writes config.yaml.
func (f *Folder) WriteConfig(resolved []byte) error { return f.write("config.yaml", resolved) }

// Plan returns the path of the placement plan in the run folder at path. The file exists only if the run planned its
// placement.
func Plan(path string) string { return filepath.Join(path, "plan.json") }

// WritePlan writes the placement plan.
func (f *Folder) WritePlan(text []byte) error { return f.write("plan.json", text) }

// A Rank describes a rank's process.
type Rank struct {
	Rank       int      `json:"rank"`
	PID        int      `json:"pid"`
	Host       string   `json:"host"`
	Components []string `json:"components"`
}

// ReadRanks reads the ranks.jsonl of the run folder at path. It leaves out damaged lines.
func ReadRanks(path string) (ranks []Rank, err error) {
	text, err := durable.ReadFile(filepath.Join(path, ranksFile), durable.Text)
	for line := range bytes.Lines(text) {
		var r Rank
		if json.Unmarshal(line, &r) == nil {
			ranks = append(ranks, r)
		}
	}
	return ranks, err
}

const ranksFile = "ranks.jsonl"

// WriteRanks writes ranks.jsonl, one line for each rank.
func (f *Folder) WriteRanks(ranks []Rank) error {
	var b bytes.Buffer
	for enc, i := json.NewEncoder(&b), 0; i < len(ranks); i++ {
		if err := enc.Encode(ranks[i]); err != nil {
			return fmt.Errorf("run folder: ranks: %w", err)
		}
	}
	return f.write(ranksFile, b.Bytes())
}

// A Status is the word in STATUS.
type Status string

const (
	Running      Status = "running"
	Done         Status = "done"
	Failed       Status = "failed"
	Checkpointed Status = "checkpointed" // stopped on request; can be resumed
	Interrupted  Status = "interrupted"  // stopped by INT or TERM

	// Dead is never written. ReadStatus returns it for a run that was killed or whose node failed.
	Dead Status = "dead"
)

// SetStatus writes STATUS, as Mark does.
func (f *Folder) SetStatus(s Status) error { return Mark(f.path, s) }

// Mark writes STATUS into the run folder at path. Any rank that ends the job may call it, because rank 0 may have died.
// Several ranks may call it at once. If the disk is full, Mark overwrites the existing file in place.
func Mark(path string, s Status) error {
	status := filepath.Join(path, "STATUS")
	mine := fmt.Sprintf("%s.%d", status, os.Getpid())
	err := durable.WriteFile(mine, []byte(s+"\n"))
	if err == nil {
		if err = os.Rename(mine, status); err == nil {
			return nil
		}
		err = errors.Join(err, os.Remove(mine))
	}
	if overwrite(status, s) != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	return nil
}

// overwrite replaces the word in the file at path in place. A concurrent reader sees the old or the new word, perhaps
// followed by empty lines.
func overwrite(path string, s Status) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	old, err := io.ReadAll(io.LimitReader(f, 64))
	if err == nil {
		word := []byte(s + "\n")
		for len(word) < len(old) {
			word = append(word, '\n')
		}
		_, err = f.WriteAt(word, 0)
	}
	if err == nil {
		err = f.Truncate(int64(len(s) + 1))
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// ReadStatus returns the status of the run in the folder at path: the word in STATUS, or "" if STATUS is missing. It
// returns Dead if the word is running, but no living job holds the lock. A job on another host is dead if it has not
// renewed the lock for a minute. Any process may call it.
func ReadStatus(path string) (Status, error) {
	s, err := readStatus(path)
	if err != nil || s != Running {
		return s, err
	}
	alive, err := Held(path)
	if err != nil || alive {
		return s, err
	}
	if s, err = readStatus(path); s == Running { // the run may have ended in the meantime
		s = Dead
	}
	return s, err
}

// Finished reports whether the folder at path has a finished run with the same configuration: the callback same returns
// true for its config.yaml. Any process may call it.
func Finished(path string, same func(config []byte) bool) bool {
	s, err := readStatus(path)
	if err != nil || s != Done {
		return false
	}
	b, err := durable.ReadFile(filepath.Join(path, "config.yaml"), durable.Text)
	return err == nil && same(b)
}

func readStatus(path string) (Status, error) {
	b, err := durable.ReadFile(filepath.Join(path, "STATUS"), durable.Note)
	if err != nil && !os.IsNotExist(err) {
		return "", fmt.Errorf("run folder: %w", err)
	}
	return Status(strings.TrimSpace(string(b))), nil
}

func (f *Folder) write(name string, data []byte) error {
	if err := durable.WriteFile(filepath.Join(f.path, name), data); err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	return nil
}
