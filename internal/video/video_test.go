package video

import (
	"bytes"
	"encoding/binary"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"testing"
)

// picture returns one of 8 × 8 pixels of one colour.
func picture(r, g, b byte) []byte { return bytes.Repeat([]byte{r, g, b}, 64) }

func TestSheet(t *testing.T) {
	s := NewSheet(5, 8, 8)
	for i := range 5 {
		s.Put(i, picture(byte(10*i+10), 0, 0))
	}
	var file bytes.Buffer
	if err := s.WritePNG(&file); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&file)
	if err != nil {
		t.Fatal(err)
	}
	if size := img.Bounds().Size(); size.X != 24 || size.Y != 16 {
		t.Fatalf("5 pictures of 8 × 8 are %v, want 3 columns and 2 rows", size)
	}
	for i, want := range []byte{10, 20, 30, 40, 50, 0} {
		for _, corner := range []int{0, 7} {
			if got := color.RGBAModel.Convert(img.At(i%3*8+corner, i/3*8+corner)); got != (color.RGBA{want, 0, 0, 255}) {
				t.Errorf("picture %d is %v, want red %d", i, got, want)
			}
		}
	}
}

// TestFilm takes a film apart by the format's own chunks (RIFF, AVI).
func TestFilm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "film.avi")
	s := NewSheet(2, 8, 8)
	f, err := Create(path, s, 25)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		s.Put(1, picture(0, byte(80*i), 0))
		if err := f.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the film has its name before it is complete")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(file[:4]) != "RIFF" || string(file[8:12]) != "AVI " || int(binary.LittleEndian.Uint32(file[4:])) != len(file)-8 {
		t.Errorf("the file begins with %q", file[:12])
	}
	header := bytes.Index(file, []byte("avih")) + 8
	number := func(i int) uint32 { return binary.LittleEndian.Uint32(file[header+4*i:]) }
	if number(0) != 40000 || number(4) != 3 || number(8) != 16 || number(9) != 8 {
		t.Errorf("%d µs per frame, %d frames of %d × %d, want 40000, 3 of 16 × 8", number(0), number(4), number(8), number(9))
	}
	frames := 0
	for rest := file[bytes.Index(file, []byte("movi")):]; ; frames++ {
		at := bytes.Index(rest, []byte("00dc"))
		if at < 0 || frames == 3 {
			break
		}
		size := binary.LittleEndian.Uint32(rest[at+4:])
		img, err := jpeg.Decode(bytes.NewReader(rest[at+8 : at+8+int(size)]))
		if err != nil {
			t.Fatal(err)
		}
		_, g, _, _ := img.At(12, 4).RGBA()
		if got, want := int(g>>8), 80*frames; got < want-3 || got > want+3 {
			t.Errorf("frame %d: green %d, want %d", frames, got, want)
		}
		rest = rest[at+8+int(size):]
	}
	if frames != 3 {
		t.Errorf("%d frames, want 3", frames)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestFilmNowhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(filepath.Join(file, "film.avi"), NewSheet(1, 8, 8), 25); err == nil {
		t.Error("a film was made below a file")
	}
}
