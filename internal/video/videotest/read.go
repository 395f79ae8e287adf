// Package videotest decodes films in tests.
package videotest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/draw"
	"image/png"
	"os"
	"slices"
	"testing"
)

// Frames returns the frames of the animated PNG file at path, as a player shows them, and the
// number of frames per second.
func Frames(t testing.TB, path string) (frames []*image.RGBA, fps int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	frames, fps, err = read(text)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return frames, fps
}

// read decodes the chunks according to the PNG specification, third edition.
func read(text []byte) (frames []*image.RGBA, fps int, err error) {
	const signature = "\x89PNG\r\n\x1a\n"
	if !bytes.HasPrefix(text, []byte(signature)) {
		return nil, 0, fmt.Errorf("it begins with %q", text[:min(len(text), 8)])
	}
	var header, control, pixels []byte
	var announced, sequence uint32
	show := func() error {
		if control == nil {
			return nil
		}
		number := func(i int) int { return int(binary.BigEndian.Uint32(control[4+4*i:])) }
		place := image.Rect(0, 0, number(0), number(1)).Add(image.Pt(number(2), number(3)))
		own := slices.Concat(control[4:12], header[8:])
		one := slices.Concat([]byte(signature), chunk("IHDR", own), chunk("IDAT", pixels), chunk("IEND", nil))
		picture, err := png.Decode(bytes.NewReader(one))
		if err != nil {
			return fmt.Errorf("frame %d: %w", len(frames), err)
		}
		width, height := binary.BigEndian.Uint32(header), binary.BigEndian.Uint32(header[4:])
		frame := image.NewRGBA(image.Rect(0, 0, int(width), int(height)))
		if len(frames) > 0 {
			copy(frame.Pix, frames[len(frames)-1].Pix)
		}
		if !place.In(frame.Rect) || control[24] != 0 || control[25] != 0 || binary.BigEndian.Uint16(control[20:]) == 0 {
			return fmt.Errorf("frame %d: place %v in %v, duration and ways % x", len(frames), place, frame.Rect,
				control[20:])
		}
		draw.Draw(frame, place, picture, picture.Bounds().Min, draw.Src)
		fps = int(binary.BigEndian.Uint16(control[22:]))
		frames, control, pixels = append(frames, frame), nil, nil
		return nil
	}
	next := func(data []byte) error {
		if got := binary.BigEndian.Uint32(data); got != sequence {
			return fmt.Errorf("chunk %d of the frames is numbered %d", sequence, got)
		}
		sequence++
		return nil
	}
	for rest := text[len(signature):]; len(rest) > 0; {
		n := binary.BigEndian.Uint32(rest)
		kind, data := string(rest[4:8]), rest[8:8+n]
		if crc32.ChecksumIEEE(rest[4:8+n]) != binary.BigEndian.Uint32(rest[8+n:]) {
			return nil, 0, fmt.Errorf("%s: wrong checksum", kind)
		}
		rest = rest[12+n:]
		switch kind {
		case "IHDR":
			header = data
		case "acTL":
			announced = binary.BigEndian.Uint32(data)
		case "fcTL":
			if err = show(); err == nil {
				control, err = data, next(data)
			}
		case "IDAT":
			pixels = append(pixels, data...)
		case "fdAT":
			err = next(data)
			pixels = append(pixels, data[4:]...)
		case "IEND":
			err = show()
		default:
			err = fmt.Errorf("chunk %q", kind)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	if int(announced) != len(frames) {
		return nil, 0, fmt.Errorf("%d frames, announced %d", len(frames), announced)
	}
	return frames, fps, nil
}

func chunk(kind string, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = slices.Concat(b, []byte(kind), data)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}
