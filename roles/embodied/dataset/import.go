package dataset

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/lerobot"
	"github.com/rlinf/rlinf/tensor"
)

// Import writes a folder of LeRobot as a file of demonstrations, which may be larger than memory. The folder may also
// be one of Minari in its format parquet. names has the column of each tensor: see Read. A folder that Export wrote
// gives the same file again. Any other folder of LeRobot gives a tensor for each feature observation.NAME or
// observation.images.NAME. It also gives next observations if it has rewards.
func Import(dir, path string, names map[string]string) error {
	if data := minariData(dir); data != "" {
		return importMinari(data, path, names)
	}
	m, err := planned(dir, names)
	if err == nil {
		err = algo.WriteDemos(path, m.out, m.fill)
	}
	return in(dir, err)
}

// in returns err with the name of the folder.
func in(dir string, err error) error {
	if err != nil && !strings.Contains(err.Error(), dir) {
		err = fmt.Errorf("%s: %w", dir, err)
	}
	return err
}

// planned returns an importer that has read the description of the folder and planned the file.
func planned(dir string, names map[string]string) (*importer, error) {
	folder, err := lerobot.Open(dir)
	if err != nil {
		return nil, err
	}
	m := &importer{source: source{DatasetFolder: folder}}
	text, err := os.ReadFile(filepath.Join(dir, headerFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = m.plan(names)
	case err == nil && len(names) > 0:
		err = fmt.Errorf("names: expected none, because the folder was made from demonstrations")
	case err == nil:
		if err = m.planExact(text); err != nil {
			err = fmt.Errorf("%s: %w", filepath.Join(dir, headerFile), err)
		}
	}
	return m, err
}

type importer struct {
	source
	out algo.DemoHeader
}

// planExact plans the file by the header of a folder that Export wrote.
func (m *importer) planExact(text []byte) error {
	var h header
	if err := json.Unmarshal(text, &h); err != nil {
		return err
	}
	if len(h.Episodes) != len(m.Episodes) || len(h.Columns) != len(h.Fields) {
		return fmt.Errorf("%d episodes, and %d columns of %d fields: expected %d episodes, as the folder has, and as "+
			"many columns as fields", len(h.Episodes), len(h.Columns), len(h.Fields), len(m.Episodes))
	}
	for i, e := range m.Episodes {
		h.Episodes[i].Len = e.Len
	}
	m.exact, m.out = true, h.DemoHeader
	for i, f := range h.Fields {
		switch next := strings.HasPrefix(f.Name, algo.NextObservations+"."); {
		case dtypes[f.DType] == "":
			return fmt.Errorf("%s has no type of F32, F64, I32, I64 and U8", f.Name)
		case slices.ContainsFunc(f.Shape, func(d int) bool { return d <= 0 }):
			return fmt.Errorf("%s is %v: expected dimensions of at least 1", f.Name, f.Shape)
		case next:
			m.ahead = true
		default:
			if err := m.add(f, h.Columns[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// tensorTypes has the type of the tensor for each type of a feature.
var tensorTypes = map[string]tensor.DType{"float32": tensor.F32, "float64": tensor.F32, "int32": tensor.I32,
	"int64": tensor.I32, "uint8": tensor.U8, "bool": tensor.U8, "image": tensor.U8, "video": tensor.U8}

// plan plans the file by the features of a folder.
func (m *importer) plan(names map[string]string) error {
	named := map[string]string{} // tensors by columns
	for name, c := range names {
		if _, ok := m.Features[c]; !ok {
			return fmt.Errorf("--name %s=%s: no such column: expected one of %s", name, c, m.listed())
		}
		named[c] = name
	}
	var obs []tensor.Field
	known := []string{algo.FieldAction, algo.FieldReward, algo.FieldTerminated}
	for _, c := range slices.Sorted(maps.Keys(m.Features)) {
		f := m.Features[c]
		name := named[c]
		if rest, ok := strings.CutPrefix(c, algo.Observations+"."); ok && name == "" {
			name = algo.Observations + "." + strings.TrimPrefix(rest, "images.")
		}
		if !strings.HasPrefix(name, algo.Observations+".") || tensorTypes[f.DType] == 0 {
			continue
		}
		field := tensor.Field{Name: name, DType: tensorTypes[f.DType], Shape: f.Shape}
		if f.IsImage() {
			field.Shape = f.Pixels()
		}
		obs, known = append(obs, field), append(known, name)
		if err := m.add(field, c); err != nil {
			return err
		}
	}
	if len(obs) == 0 {
		return fmt.Errorf("no observations: expected features observation.NAME among %s", m.listed())
	}
	if err := among("--name", names, known); err != nil {
		return err
	}
	m.out.Fields = obs
	action := m.find(algo.FieldAction, names)
	feature, ok := m.Features[action]
	if !ok || tensorTypes[feature.DType] == 0 || len(feature.Shape) == 0 {
		return fmt.Errorf("no column %s: expected actions among %s", cmp.Or(action, algo.FieldAction), m.listed())
	}
	shape := feature.Shape
	if len(shape) == 1 {
		shape = []int{1, shape[0]}
	}
	reward := m.find(algo.FieldReward, names)
	if m.ahead = reward != ""; m.ahead {
		for _, f := range obs {
			f.Name = algo.NextObservations + strings.TrimPrefix(f.Name, algo.Observations)
			m.out.Fields = append(m.out.Fields, f)
		}
	}
	rest := []tensor.Field{{Name: algo.FieldAction, DType: tensorTypes[feature.DType], Shape: shape},
		{Name: algo.FieldReward, DType: tensor.F32}, {Name: algo.FieldTerminated, DType: tensor.U8},
		{Name: algo.FieldTruncated, DType: tensor.U8}}
	m.out.Fields = append(m.out.Fields, rest...)
	for i, from := range []string{action, reward, m.find(algo.FieldTerminated, names), ""} {
		if err := m.add(rest[i], from); err != nil {
			return err
		}
	}
	m.out.Env = m.RobotType
	return m.count()
}

// count reads the rewards and ends of the folder, and describes the episodes of the file.
func (m *importer) count() error {
	few := source{DatasetFolder: m.DatasetFolder, ahead: m.ahead}
	for _, c := range m.columns[len(m.columns)-3:] {
		if err := few.add(c.Field, c.source); err != nil {
			return err
		}
	}
	won := ""
	if m.Features[nextSuccess].DType == "bool" {
		won, m.out.HasSuccess = nextSuccess, true
	}
	if err := few.add(tensor.Field{Name: nextSuccess, DType: tensor.U8}, won); err != nil {
		return err
	}
	e, successes := algo.DemoEpisode{}, 0.0
	err := few.steps(func(x step) error {
		if e.Instruction = x.task; x.kept {
			e.Len++
			e.Return += numbersIn(x.now[0], tensor.F32)[0]
		}
		if e.Success = e.Success || x.now[3][0] != 0; !x.last {
			return nil
		}
		successes += float64(flag(e.Success))
		if e.Len > 0 {
			m.out.Episodes = append(m.out.Episodes, e)
		}
		e = algo.DemoEpisode{}
		return nil
	})
	m.out.SuccessRate = successes / float64(len(m.Episodes))
	return err
}

// fill adds all transitions.
func (m *importer) fill(add func([]byte) error) error {
	places, err := m.places(m.out.Fields)
	if err != nil {
		return err
	}
	apart, stop, err := m.apart()
	if err != nil {
		return err
	}
	defer stop()
	var row []byte
	n := -1
	return m.steps(func(x step) error {
		if !x.kept {
			return nil
		}
		n++
		next, err := apart(n)
		if err != nil {
			return err
		}
		row = row[:0]
		for i, at := range places {
			cell := x.cell(at)
			if size := m.out.Fields[i].Bytes(); at.next && next != nil {
				cell, next = next[:size], next[size:]
			}
			row = append(row, cell...)
		}
		return add(row)
	})
}

// apart returns the function get, which returns the next observations of a transition. get returns nil if the next
// frame has them, or if the folder is not one of Export. It must be called with transitions in ascending order. The
// caller must call stop.
func (m *importer) apart() (get func(transition int) ([]byte, error), stop func() error, err error) {
	if !m.exact || !m.ahead {
		return func(int) ([]byte, error) { return nil, nil }, func() error { return nil }, nil
	}
	path := filepath.Join(m.Dir, nextFile)
	file, err := durable.Open(path)
	if err != nil {
		return nil, nil, err
	}
	size := 8
	for _, f := range m.out.Fields {
		if strings.HasPrefix(f.Name, algo.NextObservations+".") {
			size += f.Bytes()
		}
	}
	in, record := bufio.NewReader(file), make([]byte, size)
	return func(transition int) ([]byte, error) {
		head, err := in.Peek(8)
		if len(head) == 0 && err == io.EOF || err == nil && binary.LittleEndian.Uint64(head) > uint64(transition) {
			return nil, nil
		}
		if err == nil && binary.LittleEndian.Uint64(head) < uint64(transition) {
			err = fmt.Errorf("transition %d after %d", binary.LittleEndian.Uint64(head), transition)
		}
		if err == nil {
			_, err = io.ReadFull(in, record)
		}
		if err != nil {
			return nil, fmt.Errorf("%s is damaged: %w", path, err)
		}
		return record[8:], nil
	}, file.Close, nil
}
