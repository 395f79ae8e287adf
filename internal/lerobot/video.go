package lerobot

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"image/png"
	"io"
	"os"
	"os/exec"

	"github.com/rlinf/rlinf/internal/programs"
)

// A stream reads the frames of a video from ffmpeg, as PNG images.
type stream struct {
	path    string
	next    int    // number of the next frame
	image   []byte // the frame before next, as PNG
	starter *programs.Starter
	out     *os.File
	in      *bufio.Reader
	said    *os.File // the messages of ffmpeg
}

// openStream starts ffmpeg, which must be installed.
func openStream(path string) (*stream, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		return nil, fmt.Errorf("%s: a video needs ffmpeg: expected it in PATH, or images in the table", path)
	}
	said, err := os.CreateTemp("", "rlinf-ffmpeg-")
	if err != nil {
		return nil, err
	}
	os.Remove(said.Name()) // the file lives until it is closed
	r, w, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, said.Close())
	}
	v := &stream{path: path, starter: programs.Entered{}.NewStarter(), out: r, in: bufio.NewReaderSize(r, 1<<20),
		said: said}
	cmd := exec.Command("ffmpeg", "-nostdin", "-hide_banner", "-loglevel", "error", "-i", path, "-map", "0:v:0",
		"-vsync", "0", "-pix_fmt", "rgb24", "-c:v", "png", "-f", "image2pipe", "-")
	cmd.Stdout, cmd.Stderr = w, said
	_, err = v.starter.Start(cmd)
	w.Close()
	if err != nil {
		v.close()
		return nil, fmt.Errorf("%s: ffmpeg: %w", path, err)
	}
	return v, nil
}

// at returns a stream whose image is frame n of the video at path. It returns v if v can still reach this frame, and
// otherwise closes v and opens a new stream.
func (v *stream) at(path string, n int) (_ *stream, err error) {
	if v == nil || v.path != path || v.next > n {
		v.close()
		if v, err = openStream(path); err != nil {
			return nil, err
		}
	}
	for ; v.next <= n && err == nil; v.next++ {
		var image bytes.Buffer
		_, err = png.Decode(io.TeeReader(v.in, &image)) // copies the PNG to image, up to its end
		v.image = image.Bytes()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		text := make([]byte, 1000)
		n, _ := v.said.ReadAt(text, 0)
		err = fmt.Errorf("ffmpeg gives %d frames: %s", v.next-1, bytes.TrimSpace(text[:n]))
	}
	if err != nil {
		err = fmt.Errorf("%s: frame %d: %w", path, n, err)
	}
	return v, err
}

func (v *stream) close() {
	if v != nil {
		_ = errors.Join(v.starter.Close(), v.out.Close(), v.said.Close()) // it only reads, so errors do not matter
	}
}
