package metrics

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/rlinf/rlinf/internal/durable"
)

// A Logger appends metrics to a file. Each line is a JSON object with "step", "time" in seconds since 1970, and the
// metrics by name. NaN and infinities become null, because JSON does not have them. A step may have several lines with
// different metrics.
type Logger struct {
	f    *os.File
	line []byte
}

// OpenLogger opens the file at path for appending, and makes it if it is missing. It removes an incomplete last line
// that a crash has left.
func OpenLogger(path string) (*Logger, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	end, err := wholeLines(f)
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("metrics: cut the last line: %w", err), f.Close())
	}
	return &Logger{f: f}, nil
}

// wholeLines returns the number of bytes in the complete lines of f.
func wholeLines(f *os.File) (int64, error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	tail := make([]byte, 64<<10)
	for end > 0 {
		n := min(end, int64(len(tail)))
		if _, err := f.ReadAt(tail[:n], end-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(tail[:n], '\n'); i >= 0 {
			return end - n + int64(i) + 1, nil
		}
		end -= n
	}
	return 0, nil
}

// Write appends one line; a reader of the file sees it at once. names must be distinct and not be "step" or "time".
func (l *Logger) Write(step int64, at time.Time, names []string, values []float64) error {
	b := append(l.line[:0], `{"step":`...)
	b = strconv.AppendInt(b, step, 10)
	b = append(b, `,"time":`...)
	b = strconv.AppendFloat(b, float64(at.UnixMilli())/1e3, 'f', 3, 64)
	for i, name := range names {
		b = append(b, ',')
		b = appendString(b, name)
		b = append(b, ':')
		b = appendNumber(b, values[i])
	}
	l.line = append(b, '}', '\n')
	if _, err := l.f.Write(l.line); err != nil {
		return fmt.Errorf("metrics of step %d: %w", step, err)
	}
	return nil
}

// Sync returns when the lines written so far are on disk.
func (l *Logger) Sync() error {
	if err := l.f.Sync(); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// Close closes the file after its content is on disk.
func (l *Logger) Close() error { return errors.Join(l.f.Sync(), l.f.Close()) }

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(err) // every string can be encoded
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func appendNumber(b []byte, x float64) []byte {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, x, 'g', -1, 64)
}

// A Gap is a range of steps, both ends included.
type Gap struct{ First, Last int64 }

func (g Gap) String() string {
	if g.First == g.Last {
		return fmt.Sprintf("step %d", g.First)
	}
	return fmt.Sprintf("steps %d to %d", g.First, g.Last)
}

// CutBack prepares the file at path for a run that resumes at step. It removes the lines of later steps, and lines that
// a crash damaged. It returns the earlier steps whose metrics are lost: the steps of damaged lines, and the steps after
// the last line. Call it before OpenLogger. A missing file is no error.
func CutBack(path string, step int64) (lost []Gap, err error) {
	last, damaged := int64(0), false // the last step kept, and whether damaged lines follow it
	f, err := durable.Open(path)
	switch {
	case os.IsNotExist(err) && step > 0:
		return []Gap{{1, step}}, nil
	case os.IsNotExist(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cut metrics back: %w", err)
	}
	defer f.Close()
	if err := durable.Write(path, func(w io.Writer) error {
		out := bufio.NewWriter(w)
		for in := durable.NewLines(f); ; {
			line, _, err := in.Next()
			if err != nil && err != io.EOF {
				return err
			}
			if len(line) == 0 {
				return out.Flush()
			}
			at, ok := stepOf(line)
			if err == io.EOF || !ok {
				damaged = true
				continue
			}
			if at > step {
				continue
			}
			if damaged && at > last+1 {
				lost = append(lost, Gap{last + 1, at - 1})
			}
			last, damaged = max(last, at), false
			if _, err := out.Write(line); err != nil {
				return err
			}
		}
	}); err != nil {
		return nil, fmt.Errorf("cut metrics back to step %d: %w", step, err)
	}
	if step > last {
		lost = append(lost, Gap{last + 1, step})
	}
	return lost, nil
}

// LastStep returns the step of the last complete line of the file at path. ok is false if there is none. Another
// process may be writing the file.
func LastStep(path string) (step int64, ok bool) {
	tail := wholeTail(path)
	tail = bytes.TrimSuffix(tail, []byte("\n"))
	return stepOf(tail[bytes.LastIndexByte(tail, '\n')+1:])
}

// Newest returns the newest value of each metric in the last lines of the file at path, including "step" and "time".
// Another process may be writing the file.
func Newest(path string) map[string]float64 {
	newest := map[string]float64{}
	for line := range bytes.Lines(wholeTail(path)) {
		for name, x := range ParseLine(line) { // the first line is cut
			if !math.IsNaN(x) {
				newest[name] = x
			}
		}
	}
	return newest
}

// wholeTail returns the last complete lines of the file at path, or nil. The first line may be cut at its start.
func wholeTail(path string) []byte {
	tail, _, err := durable.Tail(path, 64<<10)
	if err != nil {
		return nil
	}
	return tail[:bytes.LastIndexByte(tail, '\n')+1]
}

func stepOf(line []byte) (int64, bool) {
	var entry struct{ Step *int64 }
	if err := json.Unmarshal(line, &entry); err != nil || entry.Step == nil {
		return 0, false
	}
	return *entry.Step, true
}
