package dataset

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/tables"
	"github.com/rlinf/rlinf/tensor"
)

// A minari is a folder of Minari in its format parquet. The table of an episode has a row for each observation, so the
// last row has no action.
type minari struct {
	dir     string         // with metadata.json and a folder for each episode
	obs     []tensor.Field // the observations
	action  tensor.Field
	columns []string // of observations, action, reward, terminated and truncated
	out     algo.DemoHeader
}

// minariData returns the folder with the data of the Minari dataset in dir, or "" if dir has none.
func minariData(dir string) string {
	for _, data := range []string{filepath.Join(dir, "data"), dir} {
		if _, err := os.Stat(filepath.Join(data, "metadata.json")); err == nil {
			return data
		}
	}
	return ""
}

// importMinari writes a dataset of Minari as a file of demonstrations, which may be larger than memory. names has the
// column of each tensor.
func importMinari(data, path string, names map[string]string) error {
	m := &minari{dir: data}
	if err := m.plan(names); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(data, "metadata.json"), err)
	}
	if err := m.count(); err != nil {
		return err
	}
	return algo.WriteDemos(path, m.out, m.fill)
}

// A space is a space of Gymnasium in Minari's JSON.
type space struct {
	Type, DType string
	Shape       []int
	N           json.RawMessage // for MultiBinary: a number or a shape
	NVec        []json.RawMessage
	Subspaces   json.RawMessage
}

// plan plans the file of demonstrations from metadata.json.
func (m *minari) plan(names map[string]string) error {
	text, err := durable.ReadFile(filepath.Join(m.dir, "metadata.json"), durable.NoSize)
	if err != nil {
		return err
	}
	var about struct {
		Format      string `json:"data_format"`
		Episodes    int    `json:"total_episodes"`
		Dataset     string `json:"dataset_id"`
		Observation string `json:"observation_space"`
		Action      string `json:"action_space"`
	}
	if err := json.Unmarshal(text, &about); err != nil {
		return err
	}
	if about.Format != "parquet" {
		return fmt.Errorf("data_format is %q: expected parquet; python3 -m rlb.convert minari reads hdf5, and "+
			"nothing reads arrow", about.Format)
	}
	tensors := map[string]string{} // by columns
	for name, c := range names {
		tensors[c] = name
	}
	if err := m.observe(about.Observation, "observations", tensors); err != nil {
		return fmt.Errorf("observation_space: %w", err)
	}
	if len(tensors) > 0 {
		return fmt.Errorf("no column %s: expected names of %s", slices.Sorted(maps.Keys(tensors))[0],
			strings.Join(m.columns, ", "))
	}
	if _, m.action, err = readSpace(about.Action); err == nil && m.action.DType == 0 {
		err = errors.New("a Dict or a Tuple: expected one array")
	}
	if err != nil {
		return fmt.Errorf("action_space: %w", err)
	}
	m.columns = append(m.columns, "actions", "rewards", "terminations", "truncations")
	m.action.Name, m.action.Shape = algo.FieldAction, []int{1, max(1, m.action.Bytes()/m.action.DType.Size())}
	m.out.Env = cmp.Or(about.Dataset, filepath.Base(strings.TrimSuffix(m.dir, "/data")))
	m.out.Fields = slices.Clone(m.obs)
	for _, f := range m.obs {
		f.Name = "next_" + f.Name
		m.out.Fields = append(m.out.Fields, f)
	}
	m.out.Fields = append(m.out.Fields, m.action, tensor.Field{Name: algo.FieldReward, DType: tensor.F32},
		tensor.Field{Name: algo.FieldTerminated, DType: tensor.U8},
		tensor.Field{Name: algo.FieldTruncated, DType: tensor.U8})
	m.out.Episodes = make([]algo.DemoEpisode, max(about.Episodes, 0))
	return nil
}

// observe adds the tensors of a space in the given column. tensors has the user's names of tensors by column. observe
// removes the names that it uses.
func (m *minari) observe(text, column string, tensors map[string]string) error {
	s, f, err := readSpace(text)
	if err != nil {
		return err
	}
	if f.DType != 0 {
		_, path, _ := strings.Cut(column, ".")
		f.Name = cmp.Or(tensors[column], algo.Observations+"."+cmp.Or(path, "state"))
		delete(tensors, column)
		m.obs, m.columns = append(m.obs, f), append(m.columns, column)
		return nil
	}
	parts := map[string]json.RawMessage{}
	if s.Type == "Tuple" {
		var list []json.RawMessage
		err = json.Unmarshal(s.Subspaces, &list)
		for i, part := range list {
			parts[strconv.Itoa(i)] = part
		}
	} else {
		err = json.Unmarshal(s.Subspaces, &parts)
	}
	if err != nil || len(parts) == 0 {
		return fmt.Errorf("%s: subspaces are %.40q: expected some spaces", column, s.Subspaces)
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if err := m.observe(string(parts[name]), column+"."+name, tensors); err != nil {
			return err
		}
	}
	return nil
}

// readSpace returns a space, and the type and shape of its array. The type of a Dict or a Tuple is 0.
func readSpace(text string) (s space, f tensor.Field, err error) {
	if text == "" {
		return s, f, errors.New("none, but perhaps env_spec: expected a space")
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, f, err
	}
	f.DType = tensor.I32
	switch s.Type {
	case "Box":
		switch f.Shape = s.Shape; {
		case strings.HasPrefix(s.DType, "float"):
			f.DType = tensor.F32
		case s.DType == "uint8" || s.DType == "bool":
			f.DType = tensor.U8
		}
	case "Discrete":
	case "MultiDiscrete":
		f.Shape = []int{len(s.NVec)}
	case "MultiBinary":
		if f.Shape = []int{0}; json.Unmarshal(s.N, &f.Shape[0]) != nil {
			err = json.Unmarshal(s.N, &f.Shape)
		}
	case "Dict", "Tuple":
		f.DType = 0
	default:
		err = fmt.Errorf("%s: expected Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple", s.Type)
	}
	n := 1
	for _, d := range f.Shape {
		if n *= min(max(d, 0), maxNumbers+1); n == 0 || n > maxNumbers {
			return s, f, fmt.Errorf("%s%v: expected 1 to %d numbers", s.Type, f.Shape, maxNumbers)
		}
	}
	return s, f, err
}

// maxNumbers is the maximum of a tensor's numbers in a step.
const maxNumbers = 1 << 28

// each calls handle for each row of an episode, with some columns.
func (m *minari) each(episode int, columns []string, handle func(*tables.Row) error) error {
	dir := filepath.Join(m.dir, strconv.Itoa(episode))
	parts, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
	if err != nil || len(parts) != 1 {
		return fmt.Errorf("%s: %d files .parquet: expected one", dir, len(parts))
	}
	t, err := tables.Open(parts[0])
	if err != nil {
		return err
	}
	return errors.Join(t.Each(columns, handle), t.Close())
}

// count reads the rewards, and describes the episodes.
func (m *minari) count() error {
	for i := range m.out.Episodes {
		e, last := &m.out.Episodes[i], 0.0
		e.Len = -1
		err := m.each(i, []string{"rewards"}, func(r *tables.Row) error {
			x, err := r.Only(0)
			e.Return += last
			e.Len, last = e.Len+1, float64(float32(x))
			return err
		})
		if err == nil && e.Len < 1 {
			err = fmt.Errorf("%s: episode %d has %d rows: expected at least 2", m.dir, i, e.Len+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fill adds all transitions.
func (m *minari) fill(add func([]byte) error) error {
	fields := append(slices.Clone(m.obs), m.out.Fields[2*len(m.obs):]...)
	buffers := func() (b [][]byte) {
		for _, f := range fields {
			b = append(b, make([]byte, f.Bytes()))
		}
		return b
	}
	now, next, row := buffers(), buffers(), []byte(nil)
	for i, e := range m.out.Episodes {
		step := 0
		err := m.each(i, m.columns, func(r *tables.Row) error {
			read := fields
			if step == e.Len { // the last row has no action
				read = m.obs
			}
			for k, f := range read {
				if err := m.read(next[k], r, k, f); err != nil {
					return err
				}
			}
			if now, next = next, now; step > 0 {
				tail := next[len(m.obs):]
				if step == e.Len && tail[2][0] == 0 {
					tail[3][0] = 1 // an episode with neither flag is cut off at its end
				}
				row = slices.Concat(slices.Concat(next[:len(m.obs)]...), slices.Concat(now[:len(m.obs)]...),
					slices.Concat(tail...))
				if err := add(row); err != nil {
					return err
				}
			}
			step++
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// read fills dst with a tensor of a row.
func (m *minari) read(dst []byte, r *tables.Row, column int, f tensor.Field) error {
	if n := len(f.Shape); f.DType == tensor.U8 && (n == 2 || n == 3 && f.Shape[2]|2 == 3) { // images may be encoded
		if encoded, err := r.Bytes(column); err == nil {
			return algo.DecodeImage(dst, append(slices.Clone(f.Shape), 1)[:3], encoded)
		}
	}
	numbers, err := r.Numbers(column, len(dst)/f.DType.Size())
	if err != nil {
		return err
	}
	for i, v := range numbers {
		if err := put(dst, i, f.DType, v); err != nil {
			return fmt.Errorf("column %s is %v: %w", m.columns[column], v, err)
		}
	}
	return nil
}
