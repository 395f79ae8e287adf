package metrics_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/test"
)

func TestEventsAsAnIndependentReaderSeesThem(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tensorboard")
	values := []float64{187.25, math.NaN(), -3e-9}
	write(t, dir, 0, map[int64][]float64{0: values[:0], 300: values})
	write(t, dir, 301, map[int64][]float64{301: {1, 2, math.Inf(1)}})

	want := [][]string{
		{
			`time 1700000000.125 step 0 version "brain.Event:2"`,
			`time 1700000000.125 step 0 session start`,
			`time 1700000000.125 step 0 summary`,
			`time 1700000000.125 step 300 summary "env/return"=187.25 "train/actor/policy_loss"=NaN ` +
				`"eval/return"=-3e-09`,
		},
		{
			`time 1700000000.125 step 0 version "brain.Event:2"`,
			`time 1700000000.125 step 301 session start`,
			`time 1700000000.125 step 301 summary "env/return"=1 "train/actor/policy_loss"=2 "eval/return"=+Inf`,
		},
	}
	for i, file := range []string{"events.out.tfevents.1700000000.node7.0", "events.out.tfevents.1700000000.node7.1"} {
		data, err := os.ReadFile(filepath.Join(dir, file))
		test.OK(t, err)
		got, err := readEvents(data)
		test.Check(t, err, "%s", file)
		test.EqualSlices(t, got, want[i], "%s", file)
	}
}

// A text is a tensor with the metadata of TensorBoard's plugin for texts.
func TestEventsText(t *testing.T) {
	dir := t.TempDir()
	e, err := metrics.CreateEvents(dir, "node7", at, 5)
	test.OK(t, err)
	test.OK(t, errors.Join(e.WriteText(5, at, "config", "    a: 1\n    b: ü\n"),
		e.Write(6, at, names[:1], []float64{2}),
		e.Close()))
	data := test.Must(os.ReadFile(filepath.Join(dir, "events.out.tfevents.1700000000.node7.0")))(t)
	got, err := readEvents(data)
	want := []string{`time 1700000000.125 step 5 summary text "config"="    a: 1\n    b: ü\n"`,
		`time 1700000000.125 step 6 summary "env/return"=2`}
	if err != nil || len(got) != 4 || !slices.Equal(got[2:], want) {
		t.Errorf("got %q, %v, want two events and %q", got, err, want)
	}
}

func TestReaderOfTheTestSeesDamage(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 0, map[int64][]float64{1: {1, 2, 3}})
	data := test.Must(os.ReadFile(filepath.Join(dir, "events.out.tfevents.1700000000.node7.0")))(t)
	for i := range data {
		damaged := slices.Clone(data)
		damaged[i] ^= 4
		if _, err := readEvents(damaged); err == nil {
			t.Errorf("a flipped bit in byte %d of %d went unseen", i, len(data))
		}
	}
}

// write makes one event file of steps, in ascending order.
func write(t *testing.T, dir string, from int64, steps map[int64][]float64) {
	t.Helper()
	e := test.Must(metrics.CreateEvents(dir, "node7", at, from))(t)
	for step := range int64(1000) {
		if values, ok := steps[step]; ok {
			test.OK(t, e.Write(step, at, names[:len(values)], values))
		}
	}
	test.OK(t, e.Close())
}

// The reader below does not use code of the writer. It follows the TFRecord description and the protobuf encoding
// guide, and computes CRC-32C bit by bit from its polynomial.

func readEvents(b []byte) (events []string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("cut: %v", r)
		}
	}()
	for len(b) > 0 {
		n := little(b[:8])
		if unmask(little(b[8:12])) != crc32c(b[:8]) {
			return events, errors.New("checksum of a length")
		}
		data := b[12 : 12+n]
		if unmask(little(b[12+n:16+n])) != crc32c(data) {
			return events, errors.New("checksum of data")
		}
		events = append(events, event(data))
		b = b[16+n:]
	}
	return events, nil
}

func event(b []byte) string {
	var wall float64
	var step uint64
	rest := ""
	for _, f := range fields(b) {
		switch fmt.Sprint(f.number, f.wire) {
		case "1 1":
			wall = math.Float64frombits(f.n)
		case "2 0":
			step = f.n
		case "3 2":
			rest += fmt.Sprintf(" version %q", f.bytes)
		case "5 2":
			rest += " summary"
			for _, v := range fields(f.bytes) {
				if v.number != 1 || v.wire != 2 {
					panic("summary")
				}
				value := fields(v.bytes)
				if len(value) == 3 {
					rest += text(value)
					continue
				}
				if len(value) != 2 || value[0].number != 1 || value[0].wire != 2 || value[1].number != 2 ||
					value[1].wire != 5 {
					panic("value")
				}
				rest += fmt.Sprintf(" %q=%v", value[0].bytes, math.Float32frombits(uint32(value[1].n)))
			}
		case "7 2":
			if log := fields(f.bytes); len(log) != 1 || log[0].number != 1 || log[0].wire != 0 || log[0].n != 1 {
				panic("session log")
			}
			rest += " session start"
		default:
			panic(f)
		}
	}
	return fmt.Sprintf("time %.3f step %d%s", wall, step, rest)
}

// text returns the name and the text of a value with a tensor and metadata.
func text(value []field) string {
	is := func(f field, number, wire, n uint64) {
		if f.number != number || f.wire != wire || wire == 0 && f.n != n {
			panic(fmt.Sprintf("text: field %d of type %d: %d", f.number, f.wire, f.n))
		}
	}
	is(value[0], 1, 2, 0)
	is(value[1], 8, 2, 0)
	is(value[2], 9, 2, 0)
	tensor, metadata := fields(value[1].bytes), fields(value[2].bytes)
	is(tensor[0], 1, 0, 7) // DT_STRING
	is(tensor[1], 2, 2, 0)
	size := fields(fields(tensor[1].bytes)[0].bytes)
	is(fields(tensor[1].bytes)[0], 2, 2, 0)
	is(size[0], 1, 0, 1)
	is(tensor[2], 8, 2, 0)
	is(metadata[0], 1, 2, 0)
	is(metadata[1], 4, 0, 2) // DATA_CLASS_TENSOR
	plugin := fields(metadata[0].bytes)
	is(plugin[0], 1, 2, 0)
	return fmt.Sprintf(" %s %q=%q", plugin[0].bytes, value[0].bytes, tensor[2].bytes)
}

type field struct {
	number, wire uint64
	n            uint64
	bytes        []byte
}

func fields(b []byte) (all []field) {
	number := func() (n uint64) {
		for shift := 0; ; shift += 7 {
			c := b[0]
			b = b[1:]
			n |= uint64(c&127) << shift
			if c < 128 {
				return n
			}
		}
	}
	take := func(n uint64) []byte {
		head := b[:n]
		b = b[n:]
		return head
	}
	for len(b) > 0 {
		key := number()
		f := field{number: key >> 3, wire: key & 7}
		switch f.wire {
		case 0:
			f.n = number()
		case 1:
			f.n = little(take(8))
		case 2:
			f.bytes = take(number())
		case 5:
			f.n = little(take(4))
		default:
			panic("wire type")
		}
		all = append(all, f)
	}
	return all
}

func little(b []byte) (n uint64) {
	for i, c := range b {
		n += uint64(c) << (8 * i)
	}
	return n
}

func unmask(m uint64) uint32 {
	rotated := uint32(m) - 0xa282ead8
	return rotated<<15 | rotated>>17
}

func crc32c(b []byte) uint32 {
	crc := ^uint32(0)
	for _, c := range b {
		crc ^= uint32(c)
		for range 8 {
			low := crc & 1
			crc >>= 1
			if low == 1 {
				crc ^= 0x82F63B78 // 0x1EDC6F41 reversed
			}
		}
	}
	return ^crc
}

// The check value of CRC-32C: RFC 3720, appendix B.4, 32 bytes of zeros.
func TestCRC32COfTheTest(t *testing.T) {
	if got := crc32c(make([]byte, 32)); got != 0x8a9136aa {
		t.Errorf("got %08x, want 8a9136aa", got)
	}
}
