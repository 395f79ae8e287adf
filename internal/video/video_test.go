package video_test

import (
	"bytes"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/programs"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/internal/video"
	"github.com/rlinf/rlinf/internal/video/videotest"
)

// picture returns a picture of 8 × 8 pixels of one colour.
func picture(r, g, b byte) []byte { return bytes.Repeat([]byte{r, g, b}, 64) }

func TestSheet(t *testing.T) {
	s := video.NewSheet(5, 8, 8, 0)
	for i := range 5 {
		s.Put(i, picture(byte(10*i+10), 0, 0))
	}
	var file bytes.Buffer
	test.OK(t, s.WritePNG(&file))
	img := test.Must(png.Decode(&file))(t)
	if size := img.Bounds().Size(); size.X != 24 || size.Y != 16 {
		t.Fatalf("5 pictures of 8 × 8 are %v, want 3 columns and 2 rows", size)
	}
	for i, want := range []byte{10, 20, 30, 40, 50, 0} {
		for _, corner := range []int{0, 7} {
			if got := color.RGBAModel.Convert(img.At(i%3*8+corner, i/3*8+corner)); got != (color.RGBA{want, 0, 0,
				255}) {
				t.Errorf("picture %d is %v, want red %d", i, got, want)
			}
		}
	}
}

// A film has the sheets that were added, unchanged, even if little or nothing changes between them.
func TestFilm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "film.png")
	s := video.NewSheet(2, 8, 8, 1)
	f := test.Must(video.Create(path, s, 25, programs.Entered{}))(t)
	for _, green := range []byte{0, 80, 80, 160} {
		s.Put(1, picture(0, green, 0))
		s.Caption(0, []string{string(rune('a' + green/80))})
		test.OK(t, f.Add(s))
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the film has its name before it is complete")
	}
	test.OK(t, f.Close())
	frames, fps := videotest.Frames(t, path)
	if len(frames) != 4 || fps != 25 || frames[0].Rect.Dx() != 16 || frames[0].Rect.Dy() != 21 {
		t.Fatalf("%d frames of %v, %d a second, want 4 of 16 × 21, 25 a second", len(frames), frames[0].Rect, fps)
	}
	for i, want := range []byte{0, 80, 80, 160} {
		if got := frames[i].RGBAAt(12, 4); got != (color.RGBA{0, want, 0, 255}) {
			t.Errorf("frame %d: %v, want green %d", i, got, want)
		}
	}
	var last bytes.Buffer
	test.OK(t, s.WritePNG(&last))
	img := test.Must(png.Decode(&last))(t)
	for y := range 21 {
		for x := range 16 {
			if got, want := frames[3].At(x, y), color.RGBAModel.Convert(img.At(x, y)); got != want {
				t.Fatalf("the last frame at %d, %d: %v, want %v", x, y, got, want)
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A caption of any length stays below its picture. A new caption replaces it.
func TestCaption(t *testing.T) {
	const width = 24
	s := video.NewSheet(4, width, 8, 2)
	written := func() (cells [4]int) {
		var file bytes.Buffer
		test.OK(t, s.WritePNG(&file))
		img := test.Must(png.Decode(&file))(t)
		for y := range img.Bounds().Dy() {
			for x := range img.Bounds().Dx() {
				if r, _, _, _ := img.At(x, y).RGBA(); r > 0 {
					if y%(8+26) < 8 {
						t.Errorf("something is written on a picture, at %d, %d", x, y)
					}
					if column := x % width; column < 4 || column >= width-4 {
						t.Errorf("something is written next to the neighbour's text, at %d, %d", x, y)
					}
					cells[y/(8+26)*2+x/width]++
				}
			}
		}
		return cells
	}
	s.Caption(1, []string{"a very long text", "and another", "and a third"})
	if got := written(); got[1] == 0 || got[0]+got[2]+got[3] != 0 {
		t.Errorf("pixels of text below the pictures: %v, want some below the second alone", got)
	}
	s.Caption(1, nil)
	if got := written(); got != [4]int{} {
		t.Errorf("pixels of text below the pictures: %v, want none", got)
	}
	test.Equal(t, video.Columns(128), 17, "characters in 128 pixels")
}

func TestFilmNowhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	test.OK(t, os.WriteFile(file, nil, 0o644))
	if _, err := video.Create(filepath.Join(file, "film.png"), video.NewSheet(1, 8, 8, 0), 25,
		programs.Entered{}); err == nil {
		t.Error("a film was made below a file")
	}
}

// A film in another format has as many frames after the conversion by ffmpeg. Without ffmpeg it is refused before it
// begins.
func TestFormats(t *testing.T) {
	dir := t.TempDir()
	s := video.NewSheet(1, 9, 7, 0) // H.264 does not allow these odd sides
	film := func(name string) error {
		f, err := video.Create(filepath.Join(dir, name), s, 10, programs.Entered{})
		for frame := 0; err == nil && frame < 5; frame++ {
			s.Put(0, bytes.Repeat([]byte{byte(50 * frame), 0, 0}, 63))
			err = f.Add(s)
		}
		if err != nil {
			return err
		}
		return f.Close()
	}
	for _, name := range []string{"film.avi", "film"} {
		if err := film(name); err == nil || !strings.Contains(err.Error(), "expected png, gif, mp4 or webm") {
			t.Errorf("%s: %v", name, err)
		}
	}
	path := os.Getenv("PATH")
	t.Setenv("PATH", dir)
	if err := film("film.mp4"); err == nil || !strings.Contains(err.Error(), "format mp4 needs ffmpeg") {
		t.Errorf("without ffmpeg: %v", err)
	}
	t.Setenv("PATH", path)
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		t.Skip("no ffmpeg: scripts/setup test installs it")
	}
	for _, name := range []string{"film.gif", "film.mp4", "film.webm"} {
		test.OK(t, film(name))
		count := exec.Command("ffprobe", "-v", "error", "-count_frames", "-show_entries", "stream=nb_read_frames",
			"-of", "csv=p=0", name)
		count.Dir = dir
		if out, err := count.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "5" {
			t.Errorf("%s: %q frames, %v, want 5", name, out, err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 3 {
		t.Errorf("%v is left, %v", files, err)
	}
}
