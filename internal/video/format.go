package video

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/programs"
)

// converters are the arguments of ffmpeg for each format except PNG. In the pixel format yuv420p, H.264 and VP9 need an
// even width and an even height.
var converters = map[string][]string{
	"gif": {"-filter_complex", "split[a][b];[a]palettegen[p];[b][p]paletteuse"},
	"mp4": {"-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", "-c:v", "libx264", "-movflags",
		"+faststart"},
	"webm": {"-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", "-c:v", "libvpx-vp9", "-b:v", "0",
		"-crf", "30"},
}

// CheckFormat returns an error unless this machine can make films of the format: "png", "gif", "mp4" or "webm". All
// formats except PNG need ffmpeg.
func CheckFormat(format string) error {
	if format == "png" {
		return nil
	}
	if converters[format] == nil {
		return fmt.Errorf("format %q: expected png, gif, mp4 or webm", format)
	}
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		return fmt.Errorf("format %s needs ffmpeg (apt-get install ffmpeg); png needs nothing: %w", format, err)
	}
	return nil
}

// formatOf returns the format of a file: its extension.
func formatOf(path string) string { return strings.TrimPrefix(filepath.Ext(path), ".") }

// convert converts the animated PNG file source into the file target, whose extension is the format. entry starts
// ffmpeg.
func convert(entry programs.Entered, source, target string) error {
	starter := entry.NewStarter()
	defer starter.Close()
	next := filepath.Join(filepath.Dir(target), ".converting-"+filepath.Base(target))
	args := slices.Concat([]string{"-nostdin", "-hide_banner", "-loglevel", "error", "-y", "-threads", "1", "-f",
		"apng", "-i", source}, converters[formatOf(target)], []string{"-threads", "1", next})
	said, err := starter.CombinedOutput(context.Background(), exec.Command("ffmpeg", args...))
	if err != nil {
		return errors.Join(fmt.Errorf("ffmpeg: %w: %s", err, bytes.TrimSpace(said)), os.Remove(next))
	}
	return os.Rename(next, target)
}
