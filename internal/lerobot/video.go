package lerobot

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/rlinf/rlinf/internal/programs"
)

// A videoSet reads the videos of a folder along with the frames of its tables.
type videoSet struct {
	folder   *Folder
	features []string
	streams  map[string]*stream
}

// read sets the images of a frame that are in videos.
func (s *videoSet) read(x *Frame) error {
	e := &s.folder.Episodes[x.Episode]
	for i, name := range s.features {
		if x.columns[i] >= 0 {
			continue
		}
		path, at := e.videos[name], e.begin[name]+x.Step
		v := s.streams[name]
		if v == nil || v.path != path || v.next > at {
			if v != nil {
				v.close()
			}
			var err error
			if v, err = openStream(path); err != nil {
				return err
			}
			if s.streams == nil {
				s.streams = map[string]*stream{}
			}
			s.streams[name] = v
		}
		for v.next <= at {
			var err error
			if x.images[i], err = v.read(); err != nil {
				return fmt.Errorf("%s: frame %d: %w", path, at, err)
			}
		}
	}
	return nil
}

func (s *videoSet) close() {
	for _, v := range s.streams {
		v.close()
	}
}

// A stream has the frames of a video as PNG, from ffmpeg.
type stream struct {
	path    string
	next    int // number of the next frame
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
	v := &stream{path: path, starter: programs.Entry{}.NewStarter(), out: r, in: bufio.NewReaderSize(r, 1<<20),
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

// read returns the next frame.
func (v *stream) read() ([]byte, error) {
	frame, err := readPNG(v.in)
	if errors.Is(err, io.EOF) {
		text := make([]byte, 1000)
		n, _ := v.said.ReadAt(text, 0)
		return nil, fmt.Errorf("ffmpeg gives %d frames: %s", v.next, bytes.TrimSpace(text[:n]))
	}
	v.next++
	return frame, err
}

// readPNG reads one PNG, up to its last chunk.
func readPNG(in io.Reader) ([]byte, error) {
	png := make([]byte, 8, 1<<14)
	if _, err := io.ReadFull(in, png); err != nil {
		return nil, err
	}
	for {
		head := len(png)
		png = append(png, make([]byte, 8)...)
		if _, err := io.ReadFull(in, png[head:]); err != nil {
			return nil, err
		}
		size := int(binary.BigEndian.Uint32(png[head:])) + 4 // and the checksum
		kind := string(png[head+4 : head+8])
		body := len(png)
		png = append(png, make([]byte, size)...)
		if _, err := io.ReadFull(in, png[body:]); err != nil {
			return nil, err
		}
		if kind == "IEND" {
			return png, nil
		}
	}
}

func (v *stream) close() { _ = errors.Join(v.starter.Close(), v.out.Close(), v.said.Close()) } // it only reads
