package video

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"slices"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
)

// A Sheet is a grid of pictures of the same size, each with lines of text below it.
type Sheet struct {
	image         *image.RGBA
	width, height int // size of a picture
	caption       int // height of the text below a picture
	columns       int
}

// face is the font of captions: ASCII, with characters of equal width.
var face = basicfont.Face7x13

// margin is the space on both sides of a caption, in pixels. It separates neighbouring captions.
const margin = 4

// NewSheet returns a black sheet for n pictures of the given size, each with the given number of lines of text below
// it. The number of columns is the number of rows, or one more.
func NewSheet(n, width, height, lines int) *Sheet {
	columns := 1
	for columns*columns < n {
		columns++
	}
	rows := (n + columns - 1) / columns
	s := &Sheet{width: width, height: height, caption: lines * face.Height, columns: columns}
	s.image = image.NewRGBA(image.Rect(0, 0, columns*width, rows*(height+s.caption)))
	for i := 3; i < len(s.image.Pix); i += 4 {
		s.image.Pix[i] = 255
	}
	return s
}

// Columns returns the number of characters that fit in a line below a picture of the given width.
func Columns(width int) int { return (width - 2*margin) / face.Advance }

// cell returns the rectangles of picture i and of its caption.
func (s *Sheet) cell(i int) (picture, caption image.Rectangle) {
	at := image.Pt(i%s.columns*s.width, i/s.columns*(s.height+s.caption))
	picture = image.Rectangle{at, at.Add(image.Pt(s.width, s.height))}
	return picture, image.Rect(picture.Min.X, picture.Max.Y, picture.Max.X, picture.Max.Y+s.caption)
}

// Put draws picture i. Pictures are numbered row by row.
func (s *Sheet) Put(i int, rgb []byte) {
	if len(rgb) != 3*s.width*s.height {
		panic("video: a picture of another size")
	}
	place, _ := s.cell(i)
	for y := range s.height {
		at := s.image.PixOffset(place.Min.X, place.Min.Y+y)
		row := s.image.Pix[at : at+4*s.width]
		for x := range s.width {
			copy(row[4*x:4*x+3], rgb[3*(y*s.width+x):])
		}
	}
}

// Caption replaces the text below picture i by lines of ASCII. It cuts lines that are too long.
func (s *Sheet) Caption(i int, lines []string) {
	_, place := s.cell(i)
	draw.Draw(s.image, place, image.Black, image.Point{}, draw.Src)
	place.Min.X, place.Max.X = place.Min.X+margin, place.Max.X-margin
	below := s.image.SubImage(place).(*image.RGBA)
	pen := font.Drawer{Dst: below, Src: image.NewUniform(color.Gray{220}), Face: face}
	for k, line := range lines {
		pen.Dot = fixed.P(place.Min.X, place.Min.Y+k*face.Height+face.Ascent)
		pen.DrawString(line)
	}
}

// WritePNG writes the sheet as a PNG file. The file has the chunk author, by which IsSheet recognizes it.
func (s *Sheet) WritePNG(w io.Writer) error {
	var b bytes.Buffer
	if err := png.Encode(&b, s.image); err != nil {
		return err
	}
	picture := b.Bytes()
	_, err := w.Write(slices.Concat(picture[:headerEnd], author(), picture[headerEnd:]))
	return err
}

// author returns the chunk that names this program.
func author() []byte { return encode("tEXt", []byte("Software\x00rlinf")) }

// IsSheet reports whether WritePNG wrote the file that begins with head.
func IsSheet(head []byte) bool { return beginsWith(head, author()) }

// IsFilm reports whether a file that begins with head is a PNG film. It cannot recognize films in other formats.
func IsFilm(head []byte) bool { return beginsWith(head, encode("acTL", make([]byte, 8))[:8]) }

// beginsWith reports whether head is the beginning of a PNG file in which the given chunk follows IHDR.
func beginsWith(head, chunk []byte) bool {
	return bytes.HasPrefix(head, signature) && bytes.HasPrefix(head[min(headerEnd, len(head)):], chunk)
}
