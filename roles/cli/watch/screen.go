package watch

import (
	"bytes"
	"fmt"
	"io"
)

// Codes of a terminal (ECMA-48, and xterm's private modes).
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J" // alternate screen, no cursor, no wrapping, empty
	leaveScreen = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
	clearScreen = "\x1b[2J"
	clearLine   = "\x1b[K"
	normal      = "\x1b[0m"
)

// styles are the codes of the Styles.
var styles = [...]string{Plain: "", Strong: "\x1b[1m", Alarm: "\x1b[1;31m", Faint: "\x1b[2m"}

// A screen draws lines on a terminal. It writes only the lines that have changed.
type screen struct {
	out           io.Writer
	colours       bool
	shown         []ScreenLine
	width, height int
}

// forget makes the next draw write all lines.
func (s *screen) forget() { s.width = 0 }

// draw shows lines in a window of this size.
func (s *screen) draw(lines []ScreenLine, width, height int) error {
	var b bytes.Buffer
	if width != s.width || height != s.height {
		b.WriteString(clearScreen)
		s.width, s.height, s.shown = width, height, nil
	}
	for i := range max(len(lines), len(s.shown)) {
		var line, before ScreenLine
		if i < len(lines) {
			line = lines[i]
		}
		if i < len(s.shown) {
			before = s.shown[i]
		}
		if line == before {
			continue
		}
		fmt.Fprintf(&b, "\x1b[%d;1H%s", i+1, clearLine) // after the text, clearLine would erase the last column
		style := styles[line.Style]
		if line.Style == Alarm && !s.colours {
			style = styles[Strong]
		}
		b.WriteString(style + line.Text)
		if style != "" {
			b.WriteString(normal)
		}
	}
	s.shown = append(s.shown[:0], lines...)
	if b.Len() == 0 {
		return nil
	}
	_, err := s.out.Write(b.Bytes())
	return err
}
