package video

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/rlinf/rlinf/internal/programs"
)

// A Film writes an animated PNG file, which browsers play like a GIF, but in full colour. Close converts the file to
// another format if needed, and renames it to its final name.
//
// https://www.w3.org/TR/png-3/#apng-structure describes the format. The file is a PNG picture of the first frame, with
// additional chunks. acTL holds the number of frames. fcTL begins a frame and holds its position and duration. IDAT
// holds the pixels of the first frame, and fdAT holds the pixels of a later frame. Each frame stores only the rectangle
// that differs from the previous frame.
type Film struct {
	path, temp string
	file       *os.File
	out        io.Writer        // file, or memory
	entry      programs.Entered // starts ffmpeg
	fps        int
	every      int // a frame lasts every/fps seconds
	frames     uint32
	sequence   uint32      // number of the next fcTL or fdAT
	last       *image.RGBA // the last frame
	encoder    png.Encoder
	picture    bytes.Buffer // a frame as PNG
}

var signature = []byte("\x89PNG\r\n\x1a\n")

// Create begins a film in the file at path, and makes the folder of path if it is missing. The extension of path is the
// format (see CheckFormat). All sheets must have the size of s. The film shows fps sheets per second. entry starts
// ffmpeg if the format needs it.
func Create(path string, s *Sheet, fps int, entry programs.Entered) (*Film, error) {
	if err := CheckFormat(formatOf(path)); err != nil {
		return nil, fmt.Errorf("film %s: %w", path, err)
	}
	f := &Film{path: path, temp: filepath.Join(filepath.Dir(path), ".writing-"+filepath.Base(path)), fps: fps,
		entry: entry, every: 1, encoder: png.Encoder{CompressionLevel: png.BestSpeed}}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("film: %w", err)
	}
	var err error
	if f.file, err = os.Create(f.temp); err != nil {
		return nil, fmt.Errorf("film: %w", err)
	}
	f.out, f.last = f.file, image.NewRGBA(s.image.Rect)
	return f, nil
}

// Add adds the current content of s as a frame.
func (f *Film) Add(s *Sheet) error {
	place := s.image.Rect
	if f.frames > 0 {
		place = difference(f.last, s.image)
	}
	f.picture.Reset()
	err := f.encoder.Encode(&f.picture, s.image.SubImage(place))
	if err == nil {
		err = f.add(place, f.picture.Bytes())
	}
	if err != nil {
		return fmt.Errorf("film %s: %w", f.path, err)
	}
	copy(f.last.Pix, s.image.Pix)
	f.frames++
	return nil
}

// add writes a frame. picture is a PNG file of the rectangle place.
func (f *Film) add(place image.Rectangle, picture []byte) error {
	control := f.nextNumber()
	for _, n := range []int{place.Dx(), place.Dy(), place.Min.X, place.Min.Y} {
		control = binary.BigEndian.AppendUint32(control, uint32(n))
	}
	control = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(control, uint16(f.every)), uint16(f.fps))
	control = append(control, 0, 0) // keep the frame; replace the old pixels
	if f.frames == 0 {
		if _, err := f.out.Write(signature); err != nil {
			return err
		}
	}
	for rest := picture[len(signature):]; len(rest) > 0; {
		n := binary.BigEndian.Uint32(rest)
		kind, data := string(rest[4:8]), rest[8:8+n]
		rest = rest[8+n+4:]
		var err error
		switch {
		case kind == "IHDR" && f.frames == 0:
			err = errors.Join(f.write(kind, data), f.write("acTL", make([]byte, 8)), f.write("fcTL", control))
		case kind == "IHDR":
			err = f.write("fcTL", control)
		case kind == "IDAT" && f.frames == 0:
			err = f.write(kind, data)
		case kind == "IDAT":
			err = f.write("fdAT", append(f.nextNumber(), data...))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// nextNumber returns the number of the next fcTL or fdAT chunk. The data of the chunk begin with this number.
func (f *Film) nextNumber() []byte {
	f.sequence++
	return binary.BigEndian.AppendUint32(nil, f.sequence-1)
}

// write writes a PNG chunk of the given kind.
func (f *Film) write(kind string, data []byte) error {
	_, err := f.out.Write(encode(kind, data))
	return err
}

// encode returns a PNG chunk: length, kind, data and checksum.
func encode(kind string, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = slices.Concat(b, []byte(kind), data)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}

// difference returns the smallest rectangle that contains all differences of two pictures of the same size. For equal
// pictures it returns a single pixel.
func difference(a, b *image.RGBA) image.Rectangle {
	var all image.Rectangle
	for y := a.Rect.Min.Y; y < a.Rect.Max.Y; y++ {
		from, to := a.PixOffset(a.Rect.Min.X, y), a.PixOffset(a.Rect.Max.X, y)
		rowA, rowB := a.Pix[from:to], b.Pix[from:to]
		if bytes.Equal(rowA, rowB) {
			continue
		}
		left, right := 0, len(rowA)
		for rowA[left] == rowB[left] {
			left++
		}
		for rowA[right-1] == rowB[right-1] {
			right--
		}
		all = all.Union(image.Rect(left/4, y, (right+3)/4, y+1))
	}
	if all.Empty() {
		all = image.Rect(0, 0, 1, 1)
	}
	return all
}

// headerEnd is the end of the signature and the chunk IHDR, which has 13 bytes of data. A film has acTL there.
const headerEnd = 8 + 12 + 13

// frameCount returns the chunk acTL: the number of frames, and 0 to repeat them forever.
func (f *Film) frameCount() []byte {
	return encode("acTL", append(binary.BigEndian.AppendUint32(nil, f.frames), 0, 0, 0, 0))
}

// Close completes the film and renames it to its final name.
func (f *Film) Close() error {
	err := f.write("IEND", nil)
	if err == nil {
		_, err = f.file.WriteAt(f.frameCount(), headerEnd)
	}
	err = errors.Join(err, f.file.Close())
	switch {
	case err != nil:
	case formatOf(f.path) == "png":
		err = os.Rename(f.temp, f.path)
	default:
		err = errors.Join(convert(f.entry, f.temp, f.path), os.Remove(f.temp))
	}
	if err != nil {
		return fmt.Errorf("film %s: %w", f.path, errors.Join(err, os.Remove(f.temp)))
	}
	return nil
}

// Abandon ends the film without a file at its final name.
func (f *Film) Abandon() error { return errors.Join(f.file.Close(), os.Remove(f.temp)) }
