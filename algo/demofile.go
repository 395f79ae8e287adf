package algo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/tensor"
)

// Names of the tensors that a file of demonstrations may have for its E episodes, in the order of the file.
const (
	EpisodeLength      = "episode.length"      // I64 [E]: number of transitions
	EpisodeReturn      = "episode.return"      // F64 [E]: sum of the task's own rewards
	EpisodeSuccess     = "episode.success"     // U8 [E]: 1 if a step was a success
	EpisodeInstruction = "episode.instruction" // U8 [E, L]: UTF-8 with zeros after its end
)

// A DemoEpisode describes an episode of demonstrations.
type DemoEpisode struct {
	Len         int     // number of transitions
	Return      float64 // sum of the task's own rewards
	Success     bool    // a step was a success
	Instruction string  // the task in words; "" if there is only one task
}

// A DemoHeader describes a file of demonstrations.
type DemoHeader struct {
	Env         string         // name of the environment
	Fields      []tensor.Field // the tensors of one transition: see ReadDemos
	Episodes    []DemoEpisode  // in the order of the file
	HasSuccess  bool           // the environment reports success
	SuccessRate float64        // share of all played episodes that succeeded; some of them may be missing in the file
}

// IsDemos reports whether head is the beginning of a file that WriteDemos wrote.
func IsDemos(head []byte) bool {
	return regexp.MustCompile(`(?s)^.{8}\{"__metadata__":\{"env":"[^"]*","episodes":"\d+"`).Match(head)
}

// Transitions returns M, the number of transitions.
func (h *DemoHeader) Transitions() (m int) {
	for _, e := range h.Episodes {
		m += e.Len
	}
	return m
}

// ofEpisodes returns the tensors that describe the episodes, such as EpisodeLength.
func (h *DemoHeader) ofEpisodes() (d tensor.Dict) {
	n, longest := len(h.Episodes), 0
	length, ret := tensor.New(tensor.I64, n), tensor.New(tensor.F64, n)
	success := tensor.New(tensor.U8, n)
	for i, e := range h.Episodes {
		length.I64()[i], ret.F64()[i] = int64(e.Len), e.Return
		if e.Success {
			success.U8()[i] = 1
		}
		longest = max(longest, len(e.Instruction))
	}
	d.Set(EpisodeLength, length)
	d.Set(EpisodeReturn, ret)
	if h.HasSuccess {
		d.Set(EpisodeSuccess, success)
	}
	if longest > 0 {
		text := tensor.New(tensor.U8, n, longest)
		for i, e := range h.Episodes {
			copy(text.At(i).U8(), e.Instruction)
		}
		d.Set(EpisodeInstruction, text)
	}
	return d
}

// columnBuffer is the number of bytes of a tensor that WriteDemos writes at a time.
const columnBuffer = 256 << 10

// A fileColumn writes one tensor to its part of the file.
type fileColumn struct {
	at     int64 // where the next byte goes
	row    int   // bytes of a transition
	buffer []byte
}

func (c *fileColumn) flush(to io.WriterAt) error {
	_, err := to.WriteAt(c.buffer, c.at)
	c.at += int64(len(c.buffer))
	c.buffer = c.buffer[:0]
	return err
}

// WriteDemos writes a file of demonstrations, which may be larger than memory. It calls fill, which must call add once
// for each transition, in the order of h.Episodes. The argument of add holds the bytes of h.Fields, one field after the
// other. Equal arguments give equal files.
func WriteDemos(path string, h DemoHeader, fill func(add func(transition []byte) error) error) error {
	m := h.Transitions()
	if m == 0 {
		return fmt.Errorf("%s: there are no episodes to write", path)
	}
	episodes := h.ofEpisodes()
	return durable.Write(path, func(w io.Writer) error {
		fields, size := []tensor.Field(nil), 0
		for _, f := range h.Fields {
			size += f.Bytes()
			fields = append(fields, tensor.Field{Name: f.Name, DType: f.DType, Shape: append([]int{m}, f.Shape...)})
		}
		for i := range episodes.Len() {
			name, t := episodes.Entry(i)
			fields = append(fields, tensor.Field{Name: name, DType: t.DType(), Shape: t.Shape()})
		}
		var header bytes.Buffer
		order, err := tensor.WriteSafetensorsHeader(&header, fields, map[string]string{"env": h.Env,
			"episodes": strconv.Itoa(len(h.Episodes)), "success_rate": fmt.Sprint(h.SuccessRate)})
		if err != nil {
			return err
		}
		at := int64(header.Len())
		if _, err := w.Write(header.Bytes()); err != nil {
			return err
		}
		file, columns := w.(io.WriterAt), make([]fileColumn, len(h.Fields))
		for _, i := range order {
			if i < len(columns) {
				row := h.Fields[i].Bytes()
				columns[i] = fileColumn{at: at, row: row, buffer: make([]byte, 0, max(row, columnBuffer))}
			} else if _, err := file.WriteAt(episodes.Must(fields[i].Name).Bytes(), at); err != nil {
				return err
			}
			at += int64(fields[i].Bytes())
		}
		left := m
		err = fill(func(transition []byte) error {
			if left--; len(transition) != size || left < 0 {
				return fmt.Errorf("transition %d of %d bytes: expected %d transitions of %d bytes", m-left-1,
					len(transition), m, size)
			}
			for i := range columns {
				c := &columns[i]
				if len(c.buffer)+c.row > cap(c.buffer) {
					if err := c.flush(file); err != nil {
						return err
					}
				}
				c.buffer, transition = append(c.buffer, transition[:c.row]...), transition[c.row:]
			}
			return nil
		})
		if err == nil && left > 0 {
			err = fmt.Errorf("%d transitions: expected %d", m-left, m)
		}
		for i := range columns {
			err = errors.Join(err, columns[i].flush(file))
		}
		return err
	})
}

// A DemoFile is a file of demonstrations that is open for reading. The file may be larger than memory.
type DemoFile struct {
	DemoHeader
	file   *os.File
	reader *tensor.SafetensorsReader
	column []int // for each of Fields, the index of its tensor in the file
}

// OpenDemos opens a file of demonstrations, and reads the tensors that describe its episodes. If the file has no such
// tensors, terminated and truncated tell where episodes end, and the return of an episode is the sum of its rewards.
func OpenDemos(path string) (*DemoFile, error) {
	file, err := durable.Open(path)
	if err != nil {
		return nil, err
	}
	d := &DemoFile{file: file}
	if err := d.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return d, nil
}

func (d *DemoFile) open() error {
	info, err := d.file.Stat()
	if err != nil {
		return err
	}
	if d.reader, err = tensor.NewSafetensorsReader(d.file, info.Size()); err != nil {
		return err
	}
	reward, err := d.whole(FieldReward, tensor.F32)
	if err != nil {
		return err
	}
	m := reward.Len()
	terminated, err := d.whole(FieldTerminated, tensor.U8, m)
	if err != nil {
		return err
	}
	truncated, err := d.whole(FieldTruncated, tensor.U8, m)
	if err != nil {
		return err
	}
	for i, f := range d.reader.Fields {
		if len(f.Shape) > 0 && f.Shape[0] == m && !strings.HasPrefix(f.Name, "episode.") {
			d.Fields = append(d.Fields, tensor.Field{Name: f.Name, DType: f.DType, Shape: f.Shape[1:]})
			d.column = append(d.column, i)
		}
	}
	d.Env = d.reader.Metadata["env"]
	d.SuccessRate, _ = strconv.ParseFloat(d.reader.Metadata["success_rate"], 64)
	episode := DemoEpisode{}
	for i, r := range reward.F32() {
		episode.Len++
		episode.Return += float64(r)
		if terminated.U8()[i]|truncated.U8()[i] != 0 || i == m-1 {
			d.Episodes = append(d.Episodes, episode)
			episode = DemoEpisode{}
		}
	}
	return d.readEpisodes()
}

// readEpisodes reads the tensors that describe the episodes, if the file has them.
func (d *DemoFile) readEpisodes() error {
	if d.reader.Index(EpisodeLength) < 0 {
		return nil
	}
	n := len(d.Episodes)
	length, err := d.whole(EpisodeLength, tensor.I64, n)
	if err != nil {
		return err
	}
	ret, err := d.whole(EpisodeReturn, tensor.F64, n)
	if err != nil {
		return err
	}
	var success, text tensor.Tensor
	if d.HasSuccess = d.reader.Index(EpisodeSuccess) >= 0; d.HasSuccess {
		if success, err = d.whole(EpisodeSuccess, tensor.U8, n); err != nil {
			return err
		}
	}
	if d.reader.Index(EpisodeInstruction) >= 0 {
		if text, err = d.whole(EpisodeInstruction, tensor.U8, n, -1); err != nil {
			return err
		}
	}
	for i := range d.Episodes {
		e := &d.Episodes[i]
		if int64(e.Len) != length.I64()[i] {
			return fmt.Errorf("%s is %d in episode %d: expected %d, because terminated and truncated end it there",
				EpisodeLength, length.I64()[i], i, e.Len)
		}
		e.Return, e.Success = ret.F64()[i], d.HasSuccess && success.U8()[i] != 0
		if !text.IsZero() {
			e.Instruction = string(bytes.TrimRight(text.At(i).U8(), "\x00"))
		}
	}
	return nil
}

// whole reads a whole tensor, whose type and shape must be as given. A length of -1 accepts any length. Without a
// shape, the tensor must have one dimension that is not empty.
func (d *DemoFile) whole(name string, dtype tensor.DType, shape ...int) (tensor.Tensor, error) {
	i := d.reader.Index(name)
	if i < 0 {
		return tensor.Tensor{}, fmt.Errorf("no tensor %s: expected a file of demonstrations", name)
	}
	f := d.reader.Fields[i]
	fits := func(have, want int) bool { return want == have || want < 0 }
	if len(shape) == 0 {
		shape = []int{-1}
	}
	if f.DType != dtype || !slices.EqualFunc(f.Shape, shape, fits) || f.Bytes() == 0 {
		return tensor.Tensor{}, fmt.Errorf("%s is %v%v: expected %v%v", name, f.DType, f.Shape, dtype, shape)
	}
	t := tensor.New(f.DType, f.Shape...)
	return t, d.reader.ReadTensor(i, t.Bytes(), 0)
}

// Read fills dst with the bytes of Fields[field]. The argument from is the index of the first transition.
func (d *DemoFile) Read(field, from int, dst []byte) error {
	return d.reader.ReadTensor(d.column[field], dst, from*d.Fields[field].Bytes())
}

// Close closes the file.
func (d *DemoFile) Close() error { return d.file.Close() }
