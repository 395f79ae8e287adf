package checkpoint

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
)

// A Checkpoint is a complete, verified checkpoint.
type Checkpoint struct {
	Dir   string // with symbolic links resolved
	Step  int64
	Ranks int // number of ranks of the job that wrote it

	manifest manifest
}

// Load reads and verifies the checkpoint in the folder dir. It returns an error for a missing, truncated or damaged
// file, another format, or a renamed folder. The error names the file and what was expected.
func Load(dir string) (*Checkpoint, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	m, err := readManifest(real)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	if step, ok := stepOf(filepath.Base(real)); ok && step != m.Step {
		return nil, fmt.Errorf("checkpoint %s: %s: step %d, expected %d as the folder says", dir, manifestFile, m.Step,
			step)
	}
	for _, e := range m.Files {
		if err := e.verify(real, io.Discard); err != nil {
			return nil, fmt.Errorf("checkpoint %s: %w", dir, err)
		}
	}
	return &Checkpoint{Dir: real, Step: m.Step, Ranks: m.Ranks, manifest: m}, nil
}

// Files returns the names of the files in the order of saving.
func (c *Checkpoint) Files() []string {
	names := make([]string, len(c.manifest.Files))
	for i, e := range c.manifest.Files {
		names[i] = e.Name
	}
	return names
}

// Path returns the path of the named file. Load has verified the file.
func (c *Checkpoint) Path(name string) (string, error) {
	if _, err := c.entry(name); err != nil {
		return "", err
	}
	return filepath.Join(c.Dir, name), nil
}

func (c *Checkpoint) entry(name string) (entry, error) {
	i := slices.IndexFunc(c.manifest.Files, func(e entry) bool { return e.Name == name })
	if i < 0 {
		return entry{}, fmt.Errorf("checkpoint %s: no file %s, it has %v", c.Dir, name, c.Files())
	}
	return c.manifest.Files[i], nil
}

// Read returns the verified content of a file.
func (c *Checkpoint) Read(name string) ([]byte, error) {
	e, err := c.entry(name)
	if err != nil {
		return nil, err
	}
	buf := bytes.NewBuffer(make([]byte, 0, e.Size+bytes.MinRead))
	if err := e.verify(c.Dir, buf); err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", c.Dir, err)
	}
	return buf.Bytes(), nil
}

// BytesFile returns a File whose content is data.
func BytesFile(name string, data []byte) File {
	return File{Name: name, Write: func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}}
}
