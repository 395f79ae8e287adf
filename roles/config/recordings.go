package config

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/durable"
)

// RecordDir returns the folder for recorded episodes of training or of evaluation. It is save_dir, or by default the
// folder demos in the run's folder. RecordDir returns "" if data_collection is not enabled.
func (c *Config) RecordDir(use env.Use) string {
	d := c.Env.Train.DataCollection
	if use == env.Eval {
		d = c.Env.Eval.DataCollection
	}
	if !d.Enabled {
		return ""
	}
	return cmp.Or(d.SaveDir, filepath.Join(c.Folder(), "demos"))
}

// RecordFile returns the path of the file called name in RecordDir. It makes the folder, and checks that it is
// writable. It returns "" if data_collection is not enabled.
func (c *Config) RecordFile(use env.Use, name string) (string, error) {
	dir := c.RecordDir(use)
	if dir == "" {
		return "", nil
	}
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = durable.Writable(dir)
	}
	if err != nil {
		section := map[env.Use]string{env.Train: "env.train", env.Eval: "env.eval"}[use]
		return "", fmt.Errorf("%s.data_collection.save_dir: %s: expected a folder that can be written: %w", section,
			dir, err)
	}
	return filepath.Join(dir, name+".safetensors"), nil
}
