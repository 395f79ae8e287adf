package metrics

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"time"
)

// Events writes one TensorBoard event file, which consists of protocol buffers in TFRecord frames. It needs only a
// dozen fields, so it encodes them itself.
//
// A frame (tensorflow/core/lib/io/record_writer.h) is the length as uint64, the masked CRC-32C of these 8 bytes, the
// data, and its masked CRC-32C, all little-endian. The data is an Event (tensorflow/core/util/event.proto). Each entry
// below is the number, the name and the type of a field; | separates alternatives:
//
//	Event:         1 wall_time double, 2 step int64,
//	               3 file_version string | 5 summary Summary | 7 session_log SessionLog
//	Summary:       1 value Value, repeated
//	Value:         1 tag string, 2 simple_value float | 8 tensor TensorProto, 9 metadata
//	metadata:      1 plugin_data: 1 plugin_name string; 4 data_class enum, TENSOR = 2
//	TensorProto:   1 dtype enum, STRING = 7, 2 tensor_shape: 2 dim: 1 size int64; 8 string_val bytes
//	SessionLog:    1 status enum, START = 1
type Events struct {
	f                         *os.File
	frame, event, body, value []byte // buffers for the next write
}

// Wire types of protocol buffers.
const (
	varint          = 0
	fixed64         = 1
	lengthDelimited = 2 // a length, then that many bytes
	fixed32         = 5
)

// CreateEvents makes a new event file events.out.tfevents.<time>.<host>.<n> in dir, and makes dir if it is missing. In
// older files of dir, TensorBoard then ignores the values from firstStep on, because a resumed run writes these steps
// again.
func CreateEvents(dir, host string, at time.Time, firstStep int64) (*Events, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	f, err := createNew(filepath.Join(dir, fmt.Sprintf("events.out.tfevents.%010d.%s", at.Unix(), host)))
	if err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	e := &Events{f: f}
	e.begin(0, at)
	e.event = appendBytes(e.event, 3, []byte("brain.Event:2"))
	if err = e.end(); err == nil {
		e.begin(firstStep, at)
		e.event = appendBytes(e.event, 7, []byte{1<<3 | varint, 1})
		err = e.end()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tensorboard: %w", err), f.Close())
	}
	return e, nil
}

// createNew creates the file base.n, where n is the lowest unused number. Numbers start at 0.
func createNew(base string) (*os.File, error) {
	for n := 0; ; n++ {
		f, err := os.OpenFile(fmt.Sprintf("%s.%d", base, n), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !os.IsExist(err) {
			return f, err
		}
	}
}

// Write adds the metrics of a step, rounded to float32.
func (e *Events) Write(step int64, at time.Time, names []string, values []float64) error {
	e.begin(step, at)
	e.body = e.body[:0]
	for i, name := range names {
		e.value = appendBytes(e.value[:0], 1, name)
		e.value = append(e.value, 2<<3|fixed32)
		e.value = binary.LittleEndian.AppendUint32(e.value, math.Float32bits(float32(values[i])))
		e.body = appendBytes(e.body, 1, e.value)
	}
	e.event = appendBytes(e.event, 5, e.body)
	if err := e.end(); err != nil {
		return fmt.Errorf("tensorboard: step %d: %w", step, err)
	}
	return nil
}

// WriteText adds a text, which TensorBoard shows as Markdown.
func (e *Events) WriteText(step int64, at time.Time, name, text string) error {
	e.begin(step, at)
	const ofOne = 1<<3 | varint // dimension of size 1
	tensor := append([]byte{1<<3 | varint, 7}, appendBytes(nil, 2, appendBytes(nil, 2, []byte{ofOne, 1}))...)
	tensor = appendBytes(tensor, 8, text)
	metadata := appendBytes(nil, 1, appendBytes(nil, 1, "text"))
	metadata = append(metadata, 4<<3|varint, 2)
	e.value = appendBytes(appendBytes(appendBytes(e.value[:0], 1, name), 8, tensor), 9, metadata)
	e.event = appendBytes(e.event, 5, appendBytes(nil, 1, e.value))
	if err := e.end(); err != nil {
		return fmt.Errorf("tensorboard: %s: %w", name, err)
	}
	return nil
}

// Close closes the file.
func (e *Events) Close() error { return e.f.Close() }

// begin begins the next event with its time and step.
func (e *Events) begin(step int64, at time.Time) {
	e.event = append(e.event[:0], 1<<3|fixed64)
	e.event = binary.LittleEndian.AppendUint64(e.event, math.Float64bits(float64(at.UnixMicro())/1e6))
	e.event = append(e.event, 2<<3|varint)
	e.event = binary.AppendUvarint(e.event, uint64(step))
}

// end writes the event as one frame in one write, so a crash can cut only the last frame.
func (e *Events) end() error {
	b := binary.LittleEndian.AppendUint64(e.frame[:0], uint64(len(e.event)))
	b = binary.LittleEndian.AppendUint32(b, maskedCRC(b))
	b = append(b, e.event...)
	e.frame = binary.LittleEndian.AppendUint32(b, maskedCRC(e.event))
	_, err := e.f.Write(e.frame)
	return err
}

// appendBytes appends a field of bytes: its tag, the length, and s.
func appendBytes[S string | []byte](b []byte, field byte, s S) []byte {
	b = append(b, field<<3|lengthDelimited)
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedCRC returns the CRC-32C of b in TFRecord's masked form: rotated, plus a constant. TFRecord masks it because the
// data may contain checksums.
func maskedCRC(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}
