package config

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/durable"
)

// RecordFile returns the file called name to which the environments of a use record episodes, in save_dir or by default
// in the folder demos of the run's folder. It makes the folder, and checks that it is writable. It returns "" if
// data_collection is not enabled.
func (c *Config) RecordFile(use env.Use, name string) (string, error) {
	section, d := "env.train", c.Env.Train.DataCollection
	if use == env.Eval {
		section, d = "env.eval", c.Env.Eval.DataCollection
	}
	if !d.Enabled {
		return "", nil
	}
	dir := d.SaveDir
	if dir == "" {
		dir = filepath.Join(c.Folder(), "demos")
	}
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = durable.Writable(dir)
	}
	if err != nil {
		return "", fmt.Errorf("%s.data_collection.save_dir: %s: expected a folder that can be written: %w", section,
			dir, err)
	}
	return filepath.Join(dir, name+".safetensors"), nil
}
