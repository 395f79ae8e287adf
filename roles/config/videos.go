package config

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/rlinf/rlinf/internal/durable"
)

// VideoFile returns the path of the film of the evaluation called name. The film is in video_base_dir, or by default in
// the run's folder.
func (c *Config) VideoFile(name string) string {
	dir := c.Env.Eval.VideoCfg.VideoBaseDir
	if dir == "" {
		dir = filepath.Join(c.Folder(), "videos")
	}
	return filepath.Join(dir, name+"."+c.Env.Eval.VideoCfg.Format)
}

// OpenVideos makes the folder video_base_dir, if it is set, and checks that it is writable.
func (c *Config) OpenVideos() error {
	v := &c.Env.Eval.VideoCfg
	if !c.Evaluates() || !v.SaveVideo || v.VideoBaseDir == "" {
		return nil
	}
	err := os.MkdirAll(v.VideoBaseDir, 0o755)
	if err == nil {
		err = durable.Writable(v.VideoBaseDir)
	}
	if err != nil {
		err = fmt.Errorf("env.eval.video_cfg.video_base_dir: %s: expected a folder that can be written: %w",
			v.VideoBaseDir, err)
	}
	return err
}
