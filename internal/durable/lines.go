package durable

import (
	"bufio"
	"io"
)

// mostLine is the largest number of bytes of a line that Lines keeps.
const mostLine = 16 << 20

// Lines reads a text of any size line by line. It needs little memory, even if a damaged file has lines without end.
type Lines struct {
	in   *bufio.Reader
	line []byte
}

// NewLines returns a Lines that reads from in.
func NewLines(in io.Reader) *Lines { return &Lines{in: bufio.NewReaderSize(in, 1<<16)} }

// Next returns the next line with its newline, and the number of bytes read. If a line has more than 16 MiB, Next
// returns only its beginning and the newline. At the end, Next returns the rest without a newline, and io.EOF. The line
// is valid until the next call.
func (l *Lines) Next() (line []byte, read int64, err error) {
	l.line = l.line[:0]
	for {
		piece, err := l.in.ReadSlice('\n')
		read += int64(len(piece))
		if room := mostLine - len(l.line); len(piece) <= room {
			l.line = append(l.line, piece...)
		} else {
			l.line = append(l.line, piece[:room]...)
			if err == nil { // a shortened line also ends with a newline
				l.line[len(l.line)-1] = '\n'
			}
		}
		if err != bufio.ErrBufferFull {
			return l.line, read, err
		}
	}
}
