package video

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/draw"
	"image/png"
	"slices"
)

// Thin returns an animated PNG with every n-th frame of film. film is the content of a Film's file. The result has the
// same duration as film.
func Thin(film []byte, n int) ([]byte, error) {
	rest, ok := bytes.CutPrefix(film, signature)
	if !ok {
		return nil, errors.New("not an animated PNG")
	}
	r := reader{rest: rest}
	var out bytes.Buffer
	var thin *Film
	for i := 0; ; i++ {
		more, err := r.next()
		if err != nil {
			return nil, fmt.Errorf("frame %d: %w", i, err)
		}
		if !more {
			break
		}
		if thin == nil {
			thin = &Film{out: &out, fps: r.fps, every: n, last: image.NewRGBA(r.shown.Rect),
				encoder: png.Encoder{CompressionLevel: png.BestSpeed}}
		}
		if i%n > 0 {
			continue
		}
		if err := thin.Add(&Sheet{image: r.shown}); err != nil {
			return nil, err
		}
	}
	if thin == nil {
		return nil, errors.New("no frames")
	}
	if err := thin.write("IEND", nil); err != nil {
		return nil, err
	}
	copy(out.Bytes()[headerEnd:], thin.frameCount())
	return out.Bytes(), nil
}

// Check returns the number of frames of film. film is the content of a Film's file. Check returns an error if film is
// damaged. It does not decode pixels.
func Check(film []byte) (frames int, err error) {
	rest, ok := bytes.CutPrefix(film, signature)
	if !ok {
		return 0, errors.New("not an animated PNG")
	}
	for {
		kind, data, next, err := decode(rest)
		switch {
		case err == nil && crc32.ChecksumIEEE(rest[4:8+len(data)]) != binary.BigEndian.Uint32(rest[8+len(data):]):
			err = errors.New("wrong checksum")
		case err == nil && kind == "IEND" && frames == 0:
			err = errors.New("no frames")
		}
		if err != nil {
			return frames, fmt.Errorf("frame %d: %w", max(frames-1, 0), err)
		}
		switch kind {
		case "fcTL":
			frames++
		case "IEND":
			return frames, nil
		}
		rest = next
	}
}

// A reader reads the frames of a film in order.
type reader struct {
	rest   []byte
	header []byte
	shown  *image.RGBA // the present frame
	fps    int
}

// most is the maximum width and height of a frame, in pixels.
const most = 1 << 14

// next reads a frame. The result more is false after the last frame.
func (r *reader) next() (more bool, err error) {
	var control, pixels []byte
	for {
		kind, data, rest, err := decode(r.rest)
		if err != nil {
			return false, err
		}
		switch {
		case kind == "IEND" && control == nil:
			return false, nil
		case (kind == "fcTL" || kind == "IEND") && control != nil:
			return true, r.show(control, pixels)
		case kind == "IHDR" && len(data) == 13:
			r.header = data
		case kind == "fcTL" && len(data) == 26:
			control = data
		case kind == "IDAT" && control != nil:
			pixels = append(pixels, data...)
		case kind == "fdAT" && control != nil && len(data) >= 4:
			pixels = append(pixels, data[4:]...)
		case kind != "acTL":
			return false, fmt.Errorf("unexpected %q", kind)
		}
		r.rest = rest
	}
}

// show draws a frame over the previous frame.
func (r *reader) show(control, pixels []byte) error {
	if r.header == nil {
		return errors.New("no header")
	}
	number := func(b []byte) int { return int(min(binary.BigEndian.Uint32(b), most+1)) }
	if r.shown == nil {
		width, height := number(r.header), number(r.header[4:])
		if width > most || height > most || width*height > 1<<25 {
			return errors.New("too large")
		}
		r.shown = image.NewRGBA(image.Rect(0, 0, width, height))
		r.fps = max(int(binary.BigEndian.Uint16(control[22:])), 1)
	}
	place := image.Rect(0, 0, number(control[4:]), number(control[8:])).
		Add(image.Pt(number(control[12:]), number(control[16:])))
	if !place.In(r.shown.Rect) {
		return fmt.Errorf("the place %v is not in the picture", place)
	}
	picture, err := png.Decode(bytes.NewReader(slices.Concat(signature,
		encode("IHDR", slices.Concat(control[4:12], r.header[8:])), encode("IDAT", pixels), encode("IEND", nil))))
	if err != nil {
		return err
	}
	draw.Draw(r.shown, place, picture, picture.Bounds().Min, draw.Src)
	return nil
}

// decode returns the kind and the data of the chunk at the start of b, and the bytes that follow it.
func decode(b []byte) (kind string, data, rest []byte, err error) {
	if len(b) < 12 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-12) {
		return "", nil, nil, errors.New("cut off")
	}
	n := int(binary.BigEndian.Uint32(b))
	return string(b[4:8]), b[8 : 8+n], b[12+n:], nil
}
