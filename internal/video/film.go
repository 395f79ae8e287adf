package video

import (
	"bytes"
	"errors"
	"fmt"
	"image/jpeg"
	"os"
	"path/filepath"

	"github.com/icza/mjpeg"
)

// A Film is an AVI file that is being written. It has its name once it is closed.
type Film struct {
	path, temp string
	avi        mjpeg.AviWriter
	frame      bytes.Buffer
}

// Create begins the film in the file path, whose folder is made where it is missing: of sheets like
// s, fps of them a second.
func Create(path string, s *Sheet, fps int) (*Film, error) {
	f := &Film{path: path, temp: filepath.Join(filepath.Dir(path), ".writing-"+filepath.Base(path))}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("film: %w", err)
	}
	var err error
	size := s.image.Rect.Size()
	if f.avi, err = mjpeg.New(f.temp, int32(size.X), int32(size.Y), int32(fps)); err != nil {
		return nil, fmt.Errorf("film: %w", err)
	}
	return f, nil
}

// Add adds what is on s now.
func (f *Film) Add(s *Sheet) error {
	f.frame.Reset()
	err := jpeg.Encode(&f.frame, s.image, &jpeg.Options{Quality: 90})
	if err == nil {
		err = f.avi.AddFrame(f.frame.Bytes())
	}
	if err != nil {
		return fmt.Errorf("film %s: %w", f.path, err)
	}
	return nil
}

// Close completes the film and gives it its name.
func (f *Film) Close() error {
	err := f.avi.Close()
	if err == nil {
		err = os.Rename(f.temp, f.path)
	}
	if err != nil {
		return fmt.Errorf("film %s: %w", f.path, errors.Join(err, os.Remove(f.temp)))
	}
	return nil
}
