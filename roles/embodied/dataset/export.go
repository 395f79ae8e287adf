package dataset

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/lerobot"
	"github.com/rlinf/rlinf/internal/tables"
	"github.com/rlinf/rlinf/tensor"
)

// Our own files in a folder of LeRobot. LeRobot's programs do not read them.
const (
	headerFile = lerobot.OwnFile       // a header
	nextFile   = "meta/rlinf_next.bin" // next observations that differ from the next frame's, each after its index
)

// A header has what LeRobot cannot store about demonstrations.
type header struct {
	algo.DemoHeader
	Columns []string // of Fields; "" for next observations
}

// An Export says how demonstrations become a folder of LeRobot.
type Export struct {
	Version string // lerobot.V21 or lerobot.V30
	FPS     float64
	Robot   string
	Names   map[string]string // the column of each tensor; see Read
	Replace bool              // Write may replace a folder that it has written
}

// Write writes the demonstrations in the file at path into the folder dir. The folder must not exist, unless e.Replace
// is true. The file may be larger than memory. Images, U8 [height,width,1 or 3], become PNG. Import makes the same file
// from the folder.
func (e Export) Write(path, dir string) (err error) {
	demos, err := algo.OpenDemos(path)
	if err != nil {
		return err
	}
	defer demos.Close()
	x := &exporter{demos: demos, names: []string{nextDone}, info: lerobot.Metadata{Version: e.Version, FPS: e.FPS,
		RobotType: cmp.Or(e.Robot, demos.Env),
		Features:  map[string]lerobot.Feature{nextDone: {DType: "bool", Shape: []int{1}}}}}
	if err := x.choose(e.Names); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if x.out, err = lerobot.Create(dir, x.info, x.names); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.out.Abandon()) }()
	text, err := json.Marshal(header{demos.DemoHeader, x.columns})
	if err == nil {
		err = durable.WriteFile(x.out.Path(headerFile), text)
	}
	if err != nil {
		return err
	}
	if err := x.transitions(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if _, err := os.Stat(filepath.Join(dir, headerFile)); err == nil && e.Replace {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return x.out.Close()
}

type exporter struct {
	demos   *algo.DemoFile
	info    lerobot.Metadata
	names   []string
	columns []string // for each field of demos, its feature; "" for next observations
	out     *lerobot.Writer
}

// dtypes has the type of the feature for each type of a tensor.
var dtypes = map[tensor.DType]string{tensor.F32: "float32", tensor.F64: "float64", tensor.I32: "int32",
	tensor.I64: "int64", tensor.U8: "uint8"}

// choose sets x.columns, the feature of each field of the demonstrations.
func (x *exporter) choose(names map[string]string) error {
	var known []string
	for _, f := range x.demos.Fields {
		if strings.HasPrefix(f.Name, algo.NextObservations+".") {
			x.columns = append(x.columns, "")
			continue
		}
		known = append(known, f.Name)
		feature := lerobot.Feature{DType: dtypes[f.DType], Shape: f.Shape}
		name := candidates(f.Name)[0]
		obs, isObs := strings.CutPrefix(f.Name, algo.Observations+".")
		switch {
		case isObs && f.DType == tensor.U8 && len(f.Shape) == 3 && f.Shape[2]|2 == 3: // 1 or 3 channels
			feature.DType, feature.Names = "image", []any{"height", "width", "channels"}
			name = algo.Observations + ".images." + obs
		case f.Name == algo.Observations+".states":
			name = algo.Observations + ".state"
		case f.Name == algo.FieldTerminated || f.Name == algo.FieldTruncated:
			feature.DType = "bool"
		case f.Name == algo.FieldAction && f.Shape[0] == 1:
			feature.Shape = f.Shape[1:]
		}
		if len(feature.Shape) == 0 {
			feature.Shape = []int{1}
		}
		name = cmp.Or(names[f.Name], name)
		if _, twice := x.info.Features[name]; twice || feature.DType == "" {
			return fmt.Errorf("%s is %v and would be column %q: expected another name, and a type of F32, F64, I32, "+
				"I64 and U8", f.Name, f.DType, name)
		}
		x.info.Features[name] = feature
		x.columns, x.names = append(x.columns, name), append(x.names, name)
	}
	return among("--name", names, known)
}

// transitions writes all transitions, and the next observations that do not follow from them.
func (x *exporter) transitions() (err error) {
	now, after := make([][]byte, len(x.columns)), make([][]byte, len(x.columns))
	var nextFields []int
	for i, f := range x.demos.Fields {
		now[i], after[i] = make([]byte, f.Bytes()), make([]byte, f.Bytes())
		if x.columns[i] == "" {
			nextFields = append(nextFields, i)
		}
	}
	next := bufio.NewWriter(io.Discard)
	if len(nextFields) > 0 {
		file, e := os.Create(x.out.Path(nextFile))
		if e != nil {
			return e
		}
		next.Reset(file)
		defer func() { err = errors.Join(err, next.Flush(), file.Close()) }()
	}
	t, all := 0, x.demos.Transitions()
	read := func(to [][]byte) error {
		for i := range to {
			if t == all {
				break
			}
			if err := x.demos.Read(i, t, to[i]); err != nil {
				return err
			}
		}
		t++
		return nil
	}
	if err := read(now); err != nil {
		return err
	}
	for _, e := range x.demos.Episodes {
		x.out.Task(cmp.Or(e.Instruction, x.demos.Env))
		for k := range e.Len {
			if err := errors.Join(read(after), x.out.Add(x.cells(now))); err != nil {
				return err
			}
			if len(nextFields) > 0 && (k == e.Len-1 || !x.follows(nextFields, now, after)) {
				_, err := next.Write(binary.LittleEndian.AppendUint64(nil, uint64(t-2)))
				for _, i := range nextFields {
					_, e := next.Write(now[i])
					err = errors.Join(err, e)
				}
				if err != nil {
					return err
				}
			}
			now, after = after, now
		}
		if err := x.out.EndEpisode(); err != nil {
			return err
		}
	}
	return nil
}

// follows reports whether the next observations of a transition are the observations of the one after it.
func (x *exporter) follows(nextFields []int, now, after [][]byte) bool {
	for _, i := range nextFields {
		obs := algo.Observations + strings.TrimPrefix(x.demos.Fields[i].Name, algo.NextObservations)
		k := slices.IndexFunc(x.demos.Fields, func(f tensor.Field) bool { return f.Name == obs })
		if k < 0 || !bytes.Equal(now[i], after[k]) {
			return false
		}
	}
	return true
}

// cells returns the cells of a transition: next.done, then those of the fields.
func (x *exporter) cells(now [][]byte) []tables.Value {
	cells, done := []tables.Value{{}}, 0.0
	for i, f := range x.demos.Fields {
		switch {
		case x.columns[i] == "":
		case x.info.Features[x.columns[i]].IsImage():
			cells = append(cells, tables.Value{Bytes: now[i]})
		default:
			cells = append(cells, tables.Value{Numbers: numbersIn(now[i], f.DType)})
			if f.Name == algo.FieldTerminated || f.Name == algo.FieldTruncated {
				done = max(done, float64(now[i][0]))
			}
		}
	}
	cells[0].Numbers = []float64{done}
	return cells
}

// numbersIn returns the numbers of a tensor's bytes.
func numbersIn(b []byte, dtype tensor.DType) []float64 {
	x := make([]float64, len(b)/dtype.Size())
	for i := range x {
		switch dtype {
		case tensor.F32:
			x[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
		case tensor.F64:
			x[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		case tensor.I32:
			x[i] = float64(int32(binary.LittleEndian.Uint32(b[4*i:])))
		case tensor.I64:
			x[i] = float64(int64(binary.LittleEndian.Uint64(b[8*i:])))
		case tensor.U8:
			x[i] = float64(b[i])
		}
	}
	return x
}
