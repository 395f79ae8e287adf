package video_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/rlinf/rlinf/internal/programs"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/internal/video"
	"github.com/rlinf/rlinf/internal/video/videotest"
)

// A thinned film has every n-th frame unchanged, and shows each n times as long.
func TestThin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "film.png")
	s := video.NewSheet(2, 8, 8, 1)
	f := test.Must(video.Create(path, s, 25, programs.Entered{}))(t)
	for i := range 11 {
		s.Put(i%2, picture(byte(20*i), 0, 0))
		test.OK(t, f.Add(s))
	}
	test.OK(t, f.Close())
	whole := test.Must(os.ReadFile(path))(t)
	want, _ := videotest.Frames(t, path)
	for _, n := range []int{1, 3, 20} {
		text, err := video.Thin(whole, n)
		if err == nil {
			err = os.WriteFile(path, text, 0o666)
		}
		test.OK(t, err)
		got, fps := videotest.Frames(t, path)
		if len(got) != (len(want)+n-1)/n || fps != 25 {
			t.Fatalf("every %d of %d frames are %d, %d fps", n, len(want), len(got), fps)
		}
		for i := range got {
			if !bytes.Equal(got[i].Pix, want[i*n].Pix) {
				t.Errorf("every %d: frame %d differs from frame %d of the film", n, i, i*n)
			}
		}
		control := text[bytes.Index(text, []byte("fcTL"))+4:]
		if times := binary.BigEndian.Uint16(control[20:]); int(times) != n {
			t.Errorf("every %d: a frame is shown %d times as long", n, times)
		}
		if n == 1 && !bytes.Equal(text, whole) {
			t.Error("with all frames the film is another file")
		}
	}
	if n, err := video.Check(whole); n != 11 || err != nil {
		t.Errorf("the film has %d frames (%v)", n, err)
	}
	for n := 0; n < len(whole); n += 5 {
		if _, err := video.Check(whole[:n]); err == nil {
			t.Errorf("the first %d bytes are a film to Check", n)
		}
		if _, err := video.Thin(whole[:n], 2); err == nil {
			t.Errorf("the first %d bytes are a film", n)
		}
	}
}

func FuzzThin(f *testing.F) {
	f.Add([]byte("\x89PNG\r\n\x1a\n"), 1)
	f.Fuzz(func(t *testing.T, text []byte, n int) {
		video.Thin(text, max(n, 1))
		video.Check(text)
	})
}
