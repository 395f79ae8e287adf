package moves

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rlinf/rlinf/internal/durable"
)

const (
	requestFile = "move-request.json"
	takenFile   = "move-request.taken" // the request while Withdraw removes it
	answersFile = "move-answers.jsonl"
)

// A Request asks a running job to move.
type Request struct {
	ID        string    `json:"id"`
	Time      time.Time `json:"time"`
	Placement string    `json:"placement"` // placement of all components, as YAML: {actor: 0-3, env: 4-7}
}

// An Answer is the job's answer to a Request.
type Answer struct {
	ID      string    `json:"id"` // ID of the request
	Time    time.Time `json:"time"`
	Refused string    `json:"refused,omitempty"` // why the job did not move; "" if it moved
	Move    *Move     `json:"move,omitempty"`    // nil if the job did not move
}

// ErrReplaced is the error of Find for a request that was replaced by a newer request.
var ErrReplaced = errors.New("a newer request has replaced this one")

// Ask writes a request into the run folder and returns its ID. It replaces a request that has no answer yet. Several
// processes may call Ask at once.
func Ask(folder, placement string) (id string, err error) {
	r := Request{ID: rand.Text(), Time: now(), Placement: placement}
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("ask for a move: %w", err)
	}
	own := filepath.Join(folder, requestFile+"."+r.ID)
	if err = durable.Create(own, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	}); err != nil {
		return "", fmt.Errorf("ask for a move: %w", err)
	}
	if err = os.Rename(own, filepath.Join(folder, requestFile)); err != nil {
		return "", errors.Join(fmt.Errorf("ask for a move: %w", err), os.Remove(own))
	}
	return r.ID, nil
}

// Pending returns the newest request without an answer, or nil if there is none. Without a request, the call costs only
// one failed attempt to open a file. If the file is not a valid request, Pending removes it and returns an error.
func Pending(folder string) (*Request, error) {
	path := filepath.Join(folder, requestFile)
	r, err := readRequest(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case errors.Is(err, errDamaged):
		return nil, errors.Join(fmt.Errorf("%w; the file was removed", err), os.Remove(path))
	}
	return r, err
}

var errDamaged = errors.New("expected a request of rlinf scale")

func readRequest(path string) (*Request, error) {
	text, err := durable.ReadFile(path, durable.Note)
	if err != nil {
		return nil, err
	}
	r := new(Request)
	if json.Unmarshal(text, r) != nil || r.ID == "" {
		return nil, fmt.Errorf("%s: %w", path, errDamaged)
	}
	return r, nil
}

// Reply writes the answer a to the request r, with the ID of r and the present time. It then removes the request,
// unless a newer request has replaced it.
func Reply(folder string, r *Request, a Answer) error {
	a.ID, a.Time = r.ID, now()
	if err := appendLine(filepath.Join(folder, answersFile), a); err != nil {
		return fmt.Errorf("answer a request for a move: %w", err)
	}
	return Withdraw(folder, r.ID)
}

// Withdraw removes the request with the given ID, if it is still there.
func Withdraw(folder, id string) error {
	path, taken := filepath.Join(folder, requestFile), filepath.Join(folder, takenFile)
	err := os.Rename(path, taken)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		if newer, readErr := readRequest(taken); readErr == nil && newer.ID != id {
			err = putBack(taken, path)
		}
	}
	if err == nil {
		err = os.Remove(taken)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("take away a request for a move: %w", err)
	}
	return nil
}

// putBack renames a file back to path, unless there is a newer request at path.
func putBack(file, path string) error {
	err := os.Link(file, path)
	if err == nil || errors.Is(err, os.ErrExist) {
		return nil
	}
	return os.Rename(file, path) // the file system has no hard links
}

// Find returns the answer to the request with the given ID, or nil if there is no answer yet. It returns ErrReplaced if
// a newer request has replaced this request.
func Find(folder, id string) (*Answer, error) {
	// Check the request before the answers: once the request is gone, it has an answer or was replaced.
	waits, err := isWaiting(folder, id)
	if err != nil {
		return nil, err
	}
	var found *Answer
	err = eachLine(filepath.Join(folder, answersFile), func(line []byte) {
		var a Answer
		if json.Unmarshal(line, &a) == nil && a.ID == id {
			found = &a
		}
	})
	if err == nil && found == nil && !waits {
		err = ErrReplaced
	}
	return found, err
}

// isWaiting reports whether the request with the given ID is still in the folder.
func isWaiting(folder, id string) (bool, error) {
	for _, name := range []string{requestFile, takenFile, requestFile} { // Withdraw may take it and put it back
		r, err := readRequest(filepath.Join(folder, name))
		if err == nil && r.ID == id {
			return true, nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errDamaged) {
			return false, err
		}
	}
	return false, nil
}

// now returns the present time with the precision of the files.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
