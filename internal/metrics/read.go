package metrics

import (
	"encoding/json"
	"io"
	"math"

	"github.com/rlinf/rlinf/internal/durable"
)

// ReadLines reads the metrics.jsonl at path, from the given offset on. It calls the function use with each complete
// line, and with the line's size in the file, in bytes. A line is valid only during the call. An error of use ends the
// reading. ReadLines returns the first error, and the rest: an incomplete line that is still being written.
func ReadLines(path string, offset int64, use func(line []byte, size int64) error) (rest []byte, err error) {
	f, err := durable.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	_, err = f.Seek(offset, io.SeekStart)
	for in := durable.NewLines(f); err == nil; {
		var size int64
		if rest, size, err = in.Next(); err == nil {
			err = use(rest, size)
		}
	}
	if err == io.EOF {
		err = nil
	}
	return rest, err
}

// ParseLine returns the numbers of a line of metrics.jsonl, or nil if the line is damaged. A null stands for a value
// that is not finite, and becomes NaN.
func ParseLine(line []byte) map[string]float64 {
	var read map[string]*float64
	if json.Unmarshal(line, &read) != nil || read == nil {
		return nil
	}
	values := make(map[string]float64, len(read))
	for name, x := range read {
		if values[name] = math.NaN(); x != nil {
			values[name] = *x
		}
	}
	return values
}
