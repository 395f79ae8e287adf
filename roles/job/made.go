package job

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/env/text"
)

// madeBy names what makes the file that err says is missing, for the end of a message: the command that
// generates a task's data, or the run that saves a checkpoint. It returns "" for other errors and files.
func madeBy(err error) string {
	var missing *fs.PathError
	if !errors.As(err, &missing) || !errors.Is(missing, fs.ErrNotExist) {
		return ""
	}
	parts := strings.Split(filepath.ToSlash(missing.Path), "/")
	if at := slices.Index(parts, "checkpoints"); at > 0 {
		return fmt.Sprintf(": the run %s makes it, and comes first", parts[at-1])
	}
	if at := slices.Index(parts, "data"); at >= 0 && at+1 < len(parts) {
		if task, err := text.TaskNamed(parts[at+1]); err == nil {
			return ": make it by rlinf data " + task.Name
		}
	}
	return ""
}

// demosBy says what writes the demonstrations that err says are missing, for the end of a message.
func demosBy(path string, err error) string {
	if !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return fmt.Sprintf(": make it by rlinf demos -c FILE.yaml --out %s, where the task has an expert", path)
}
