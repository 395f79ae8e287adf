package runfolder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
)

// markFile marks the folder of a run. Version 0.1.0 did not write it.
const markFile = ".rlinf-run"

// written are patterns of all files and folders that a run writes, except for markFile, the lock and earlier-N.
var written = [...]string{"config.yaml", "provenance.json", "ranks.jsonl", "STATUS", "STATUS.[0-9]*", ".writing-*",
	"metrics.jsonl", "answers.txt", "generation.jsonl", "live.json", "plan.json", "trace.json",
	"moves.jsonl", "move-request.*", "move-answers.jsonl", "tensorboard/events.out.tfevents.*",
	"checkpoints/global_step_*", "checkpoints/superseded_*", "checkpoints/.writing-*", "checkpoints/.removing-*",
	"checkpoints/latest", "checkpoints/best", "trace/node-*.bin", "trace/rank-*.bin", "trace/phases.bin",
	"videos/global_step_*", "videos/.writing-*",
	"videos/.converting-*", "logs/rank-*.log"}

// A ForeignError reports that a folder holds files, but is not the folder of a run.
type ForeignError struct {
	Folder string
	Files  []string // names of files and folders in it
}

func (e *ForeignError) Error() string {
	const most = 3
	var names []string
	for _, name := range e.Files[:min(most, len(e.Files))] {
		names = append(names, fmt.Sprintf("%q", name))
	}
	if more := len(e.Files) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("run folder %s: holds other files (%s), expected the folder of a run, or an empty one; choose "+
		"another runner.logger.experiment_name or runner.logger.log_path", e.Folder, strings.Join(names, ", "))
}

// Check returns a *ForeignError if the folder at path holds files, but is not the folder of a run. It changes nothing.
// It ignores a folder that cannot be read: Open reports the error.
func Check(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	in := os.DirFS(path)
	entries, err := fs.ReadDir(in, ".")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if name := e.Name(); name == markFile {
			return nil
		} else if !isLock(path, name) && holdsFiles(in, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 || slices.Contains(names, "config.yaml") && slices.Contains(names, "STATUS") {
		return nil
	}
	if saved, _ := fs.Glob(in, "checkpoints/global_step_*/manifest.json"); len(saved) > 0 { // a copy of the checkpoints
		return nil
	}
	if _, err := os.Lstat(filepath.Join(path, markFile)); err == nil { // another start has marked it meanwhile
		return nil
	}
	return &ForeignError{path, names}
}

// holdsFiles reports whether name is a file, or a folder with a file somewhere in it.
func holdsFiles(in fs.FS, name string) bool {
	found := errors.New("a file")
	return fs.WalkDir(in, name, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			err = found
		}
		return err
	}) != nil
}

// isLock reports whether the file called name in the folder at path is a lock, a claim, or a file made by clock. Locks
// are JSON, or empty. An unreadable lock counts as a lock, and acquire reports it.
func isLock(path, name string) bool {
	if name == lockFile || name == claimFile {
		text, err := durable.ReadFile(filepath.Join(path, name), durable.Note)
		return err != nil || len(text) == 0 || text[0] == '{'
	}
	return strings.HasPrefix(name, clockFile)
}

// mark marks the folder at path as the folder of a run.
func mark(path string) error {
	file := filepath.Join(path, markFile)
	if _, err := os.Lstat(file); err == nil {
		return nil
	}
	return os.WriteFile(file, []byte("rlinf keeps a run in this folder.\n"), 0o666)
}

// SetAside moves the output of an earlier run into a new folder earlier-N, and returns the path of that folder. It
// returns "" if there is nothing to move. Files that no run writes stay. A new run calls SetAside before it writes
// anything.
func (f *Folder) SetAside() (string, error) {
	to, err := f.setAside()
	if err != nil {
		return "", fmt.Errorf("run folder: set aside what an earlier run left: %w", err)
	}
	return to, nil
}

func (f *Folder) setAside() (string, error) {
	names, err := f.written()
	if err != nil || len(names) == 0 {
		return "", err
	}
	next := 1
	earlier, err := fs.Glob(os.DirFS(f.path), "earlier-*")
	for _, name := range earlier {
		var n int
		if k, _ := fmt.Sscanf(name, "earlier-%d", &n); k == 1 {
			next = max(next, n+1)
		}
	}
	to := filepath.Join(f.path, fmt.Sprintf("earlier-%d", next))
	err = errors.Join(err, os.Mkdir(to, 0o777))
	for _, name := range names {
		dir := path.Dir(name)
		if err == nil && dir != "." {
			err = os.MkdirAll(filepath.Join(to, dir), 0o777)
		}
		if err == nil {
			err = os.Rename(filepath.Join(f.path, name), filepath.Join(to, name))
		}
		if dir != "." {
			_ = os.Remove(filepath.Join(f.path, dir)) // works if this was the last file
		}
	}
	return to, err
}

// written returns the names in the folder that match the patterns of the same name. A folder that is a symbolic link is
// returned as a whole, because its files may be on another file system.
func (f *Folder) written() (names []string, err error) {
	in := os.DirFS(f.path)
	for _, pattern := range written {
		found, err := fs.Glob(in, pattern)
		if err != nil {
			return nil, err
		}
		if dir := path.Dir(pattern); dir != "." {
			if info, err := os.Lstat(filepath.Join(f.path, dir)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
				found = []string{dir}
			}
		}
		for _, name := range found {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}
