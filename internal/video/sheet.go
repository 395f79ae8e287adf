package video

import (
	"image"
	"image/png"
	"io"
)

// A Sheet is pictures of one size in rows and columns.
type Sheet struct {
	image         *image.RGBA
	width, height int // of one picture
	columns       int
}

// NewSheet returns a black sheet for n pictures of that size, in as many columns as rows or one
// more.
func NewSheet(n, width, height int) *Sheet {
	columns := 1
	for columns*columns < n {
		columns++
	}
	rows := (n + columns - 1) / columns
	s := &Sheet{image: image.NewRGBA(image.Rect(0, 0, columns*width, rows*height)), width: width, height: height,
		columns: columns}
	for i := 3; i < len(s.image.Pix); i += 4 {
		s.image.Pix[i] = 255
	}
	return s
}

// Put puts picture i, from left to right and then from top to bottom, in its place.
func (s *Sheet) Put(i int, rgb []byte) {
	if len(rgb) != 3*s.width*s.height {
		panic("video: a picture of another size")
	}
	for y := range s.height {
		at := s.image.PixOffset(i%s.columns*s.width, i/s.columns*s.height+y)
		row := s.image.Pix[at : at+4*s.width]
		for x := range s.width {
			copy(row[4*x:4*x+3], rgb[3*(y*s.width+x):])
		}
	}
}

// WritePNG writes the sheet as PNG.
func (s *Sheet) WritePNG(w io.Writer) error { return png.Encode(w, s.image) }
