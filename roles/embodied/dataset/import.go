package dataset

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/lerobot"
	"github.com/rlinf/rlinf/internal/tables"
	"github.com/rlinf/rlinf/tensor"
)

// Import writes a folder of LeRobot as a file of demonstrations, which may be larger than memory. names leads from
// tensors to columns; see Read. A folder that Export wrote gives the same file again. Any other folder gives a tensor
// for each feature observation.NAME or observation.images.NAME, and next observations if it has rewards.
func Import(dir, path string, names map[string]string) error {
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

// planned returns an importer of the folder that knows what it will write.
func planned(dir string, names map[string]string) (*importer, error) {
	folder, err := lerobot.Open(dir)
	if err != nil {
		return nil, err
	}
	m := &importer{source: source{Folder: folder}}
	err = m.readHeader()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = m.plan(names)
	case err == nil && len(names) > 0:
		err = fmt.Errorf("names: expected none, because the folder was made from demonstrations")
	}
	return m, err
}

type importer struct {
	source
	out   algo.DemoHeader
	own   bool  // the folder is one of Export
	ahead bool  // out has next observations
	from  []int // for each field of out, its column; of a next observation that of the observation
}

// readHeader plans the file by the header of a folder that Export wrote.
func (m *importer) readHeader() error {
	text, err := os.ReadFile(filepath.Join(m.Dir, headerFile))
	if err != nil {
		return err
	}
	var h header
	if err := json.Unmarshal(text, &h); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(m.Dir, headerFile), err)
	}
	if len(h.Episodes) != len(m.Episodes) {
		return fmt.Errorf("%s: %d episodes: expected %d, as the folder has", headerFile, len(h.Episodes),
			len(m.Episodes))
	}
	m.own = true
	m.out = algo.DemoHeader{Env: h.Env, SuccessRate: h.SuccessRate, HasSuccess: h.HasSuccess}
	for i, e := range h.Episodes {
		m.out.Episodes = append(m.out.Episodes, algo.DemoEpisode{Len: m.Episodes[i].Len, Return: e.Return,
			Success: e.Success, Instruction: e.Instruction})
	}
	for _, f := range h.Fields {
		field := tensor.Field{Name: f.Name, Shape: f.Shape}
		for dtype := range dtypes {
			if dtype.String() == f.DType {
				field.DType = dtype
			}
		}
		if field.DType == 0 {
			return fmt.Errorf("%s: %s is %s: expected F32, F64, I32, I64 or U8", headerFile, f.Name, f.DType)
		}
		m.out.Fields = append(m.out.Fields, field)
		if f.Column != "" {
			if err := m.add(field, f.Column); err != nil {
				return err
			}
		}
	}
	return m.place()
}

// place sets m.from.
func (m *importer) place() error {
	for _, f := range m.out.Fields {
		name := f.Name
		if obs, ok := strings.CutPrefix(name, algo.NextObservations+"."); ok {
			m.ahead, name = true, algo.Observations+"."+obs
		}
		i := slices.IndexFunc(m.columns, func(c column) bool { return c.Name == name })
		if i < 0 {
			return fmt.Errorf("no column for %s", f.Name)
		}
		m.from = append(m.from, i)
	}
	return nil
}

// tensorTypes are the types of tensors by those of features.
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
	if err := m.place(); err != nil {
		return err
	}
	m.out.Env = m.RobotType
	return m.count()
}

// count reads the rewards and ends of the folder, and describes the episodes of the file.
func (m *importer) count() error {
	var few source
	few.Folder = m.Folder
	for _, c := range m.columns[len(m.columns)-3:] {
		if err := few.add(c.Field, c.source); err != nil {
			return err
		}
	}
	success := -1
	if f, ok := m.Features["next.success"]; ok && f.DType == "bool" {
		success, m.out.HasSuccess = len(few.features), true
		few.features = append(few.features, "next.success")
	}
	e, reward, last, won := algo.DemoEpisode{}, make([]byte, 4), make([]byte, 1), 0
	err := m.Frames(few.features, func(x *lerobot.Frame) error {
		if err := few.fill(reward, &few.columns[0], x); err != nil {
			return err
		}
		if err := few.fill(last, &few.columns[1], x); err != nil {
			return err
		}
		if success >= 0 {
			s, err := x.Numbers(success, 1)
			if err != nil {
				return err
			}
			e.Success = e.Success || s[0] != 0
		}
		if e.Instruction = x.Task; m.keeps(x, last[0]) {
			e.Len++
			e.Return += numbersIn(reward, tensor.F32)[0]
		}
		if x.Last {
			if e.Success {
				won++
			}
			if e.Len > 0 {
				m.out.Episodes = append(m.out.Episodes, e)
			}
			e = algo.DemoEpisode{}
		}
		return nil
	})
	m.out.SuccessRate = float64(won) / float64(len(m.Episodes))
	return err
}

// keeps reports whether a frame becomes a transition: see Read.
func (m *importer) keeps(x *lerobot.Frame, terminated byte) bool {
	return m.own || !m.ahead || !x.Last || terminated != 0
}

// fill adds all transitions.
func (m *importer) fill(add func([]byte) error) error {
	exact, stop, err := m.exact()
	if err != nil {
		return err
	}
	defer stop()
	var row []byte
	now, after := m.buffers(), m.buffers()
	flags := map[string]int{}
	for i, c := range m.columns {
		flags[c.Name] = i
	}
	terminated, truncated := flags[algo.FieldTerminated], flags[algo.FieldTruncated]
	emit := func(of, next [][]byte, exact [][]byte) error {
		row = row[:0]
		k := 0
		for i, f := range m.out.Fields {
			switch {
			case !strings.HasPrefix(f.Name, algo.NextObservations+"."):
				row = append(row, of[m.from[i]]...)
			case exact != nil:
				row = append(row, exact[k]...)
				k++
			default:
				row = append(row, next[m.from[i]]...)
			}
		}
		return add(row)
	}
	pending, number := false, 0
	return m.Frames(m.features, func(x *lerobot.Frame) error {
		for i := range m.columns {
			if err := m.decode(after[i], &m.columns[i], x); err != nil {
				return err
			}
		}
		if !m.own {
			if ended := after[terminated]; !x.Last {
				ended[0] = 0
			} else if ended[0] != 0 {
				ended[0] = 1
			}
			if after[truncated][0] = 0; x.Last && after[terminated][0] == 0 {
				after[truncated][0] = 1
			}
		}
		if pending {
			if x.Last && !m.keeps(x, after[terminated][0]) {
				now[truncated][0] = 1
			}
			var e [][]byte
			if m.own {
				if e, err = exact(number - 1); err != nil {
					return err
				}
			}
			if err := emit(now, after, e); err != nil {
				return err
			}
		}
		now, after = after, now
		number++
		if pending = !x.Last; pending || !m.keeps(x, now[terminated][0]) {
			return nil
		}
		var e [][]byte
		if m.own {
			if e, err = exact(number - 1); err != nil {
				return err
			}
		}
		return emit(now, now, e)
	})
}

func (m *importer) buffers() [][]byte {
	all := make([][]byte, len(m.columns))
	for i := range all {
		all[i] = make([]byte, m.columns[i].Bytes())
	}
	return all
}

// decode is fill of a source, for images too.
func (m *importer) decode(dst []byte, c *column, x *lerobot.Frame) error {
	if !c.image {
		return m.source.fill(dst, c, x)
	}
	encoded, err := x.Image(c.feature)
	if err == nil {
		err = algo.DecodeImage(dst, c.Shape, encoded)
	}
	if err != nil {
		return fmt.Errorf("column %s: %w", c.source, err)
	}
	return nil
}

// exact returns a function that returns the next observations of a transition if the folder of an Export has them
// apart, and nil if not. Transitions must be asked for in their order. The caller must call stop.
func (m *importer) exact() (get func(transition int) ([][]byte, error), stop func(), err error) {
	none := func(int) ([][]byte, error) { return nil, nil }
	if !m.own || !m.ahead {
		return none, func() {}, nil
	}
	path := filepath.Join(m.Dir, nextFile)
	t, err := tables.Open(path)
	if err != nil {
		return nil, nil, err
	}
	columns, sizes := []string{lerobot.Index}, []int{}
	for _, f := range m.out.Fields {
		if strings.HasPrefix(f.Name, algo.NextObservations+".") {
			columns, sizes = append(columns, f.Name), append(sizes, f.Bytes())
		}
	}
	var failed error
	stopped := errors.New("stopped")
	pull, end := iter.Pull2(func(yield func(int, [][]byte) bool) {
		failed = t.Each(columns, func(r *tables.Row) error {
			index, err := r.Only(0)
			values := make([][]byte, len(sizes))
			for i := range values {
				if err == nil {
					values[i], err = r.Bytes(i + 1)
				}
				if err == nil && len(values[i]) != sizes[i] {
					err = fmt.Errorf("column %s has %d bytes: expected %d", columns[i+1], len(values[i]), sizes[i])
				}
			}
			if err == nil && !yield(int(index), values) {
				err = stopped
			}
			return err
		})
	})
	index, values, some := pull()
	get = func(transition int) ([][]byte, error) {
		for some && index < transition {
			index, values, some = pull()
		}
		if !some && failed != nil {
			return nil, failed
		}
		if !some || index != transition {
			return nil, nil
		}
		return values, nil
	}
	return get, func() { end(); t.Close() }, nil
}
