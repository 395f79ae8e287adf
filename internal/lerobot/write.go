package lerobot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/tables"
)

const (
	chunkSize = 1000 // files, or episodes, of a folder within the dataset
	fileBytes = 100 << 20
)

// own are the features that a Writer adds.
var own = []struct {
	name  string
	dtype string
}{{Timestamp, "float32"}, {FrameIndex, "int64"}, {EpisodeIndex, "int64"}, {Index, "int64"}, {TaskIndex, "int64"}}

// A Writer writes a dataset: for each episode Task, then Add for each frame, then EndEpisode; at last Close. The folder
// appears when it is complete. The images are in the tables.
type Writer struct {
	Info
	Names []string // of the caller's features, in the order of cells

	dir, temp string
	columns   []tables.Column
	disk      *os.File
	table     *tables.Writer
	file      int // number of the file
	at        int // frames in the episode
	episodes  []episodeLine
	tasks     map[string]int
	named     []string // the task of each episode
	all       []stats  // of the caller's features
	now       []stats  // of the episode
	perEp     bytes.Buffer
}

type episodeLine struct {
	Index int      `json:"episode_index"`
	Tasks []string `json:"tasks"`
	Len   int      `json:"length"`
	file  int
	from  int
}

// Create begins the dataset dir, which must not exist. info has the version, the rate, the robot and the features that
// names lists.
func Create(dir string, info Info, names []string) (*Writer, error) {
	w := &Writer{Info: info, Names: names, dir: dir, temp: filepath.Join(filepath.Dir(dir),
		".writing-"+filepath.Base(dir)), tasks: map[string]int{}, file: -1}
	w.ChunkSize, w.DataPath = chunkSize, "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
	if w.Version == V21 {
		w.DataPath = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
	}
	for _, name := range names {
		c, err := columnOf(name, info.Features[name])
		if err != nil {
			return nil, err
		}
		w.columns = append(w.columns, c)
		w.all, w.now = append(w.all, newStats(info.Features[name])), append(w.now, newStats(info.Features[name]))
	}
	for _, f := range own {
		feature := Feature{DType: f.dtype, Shape: []int{1}}
		w.Features[f.name] = feature
		c, _ := columnOf(f.name, feature)
		w.columns = append(w.columns, c)
	}
	if err := os.RemoveAll(w.temp); err != nil {
		return nil, err
	}
	return w, os.MkdirAll(filepath.Join(w.temp, "meta"), 0o777)
}

// types are the types of columns by the names of NumPy.
var types = map[string]tables.Type{"bool": tables.Bool, "uint8": tables.Uint8, "int32": tables.Int32,
	"int64": tables.Int64, "float32": tables.Float32, "float64": tables.Float64, "image": tables.Image}

func columnOf(name string, f Feature) (tables.Column, error) {
	c := tables.Column{Name: name, Type: types[f.DType]}
	if c.Type == 0 {
		return c, fmt.Errorf("feature %s: type %q cannot be written", name, f.DType)
	}
	if c.Type != tables.Image && !(len(f.Shape) == 1 && f.Shape[0] == 1) {
		c.Dims = f.Shape
	}
	return c, nil
}

// Path returns the path of a file of the dataset while it is being written.
func (w *Writer) Path(name string) string { return filepath.Join(w.temp, name) }

// Add writes a frame. Cells are in the order of w.Names. The cell of an image has its pixels as Bytes.
func (w *Writer) Add(cells []tables.Cell) error {
	if w.table == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	row := append([]tables.Cell(nil), cells...)
	for i, name := range w.Names {
		w.now[i].add(cells[i])
		if f := w.Features[name]; f.IsImage() {
			encoded, err := encode(cells[i].Bytes, f.Shape)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			row[i] = tables.Cell{Bytes: encoded}
		}
	}
	for _, x := range []float64{float64(w.at) / w.FPS, float64(w.at), float64(len(w.episodes)), float64(w.TotalFrames),
		float64(w.tasks[w.named[len(w.named)-1]])} {
		row = append(row, tables.Cell{Numbers: []float64{x}})
	}
	w.at++
	w.TotalFrames++
	return w.table.Add(row)
}

// Task sets the task of the episode that begins. It must be called before the episode's first Add.
func (w *Writer) Task(task string) {
	if _, ok := w.tasks[task]; !ok {
		w.tasks[task] = len(w.tasks)
	}
	w.named = append(w.named, task)
}

// open begins the next file of frames.
func (w *Writer) open() error {
	w.file++
	at := map[string]int{"chunk_index": w.file / chunkSize, "file_index": w.file % chunkSize,
		"episode_chunk": w.file / chunkSize, "episode_index": w.file}
	path, err := (&Folder{Dir: w.temp, Info: w.Info}).place(w.DataPath, "", at)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	if w.disk, err = os.Create(path); err != nil {
		return err
	}
	w.table = tables.NewWriter(w.disk, w.columns, map[string]string{"huggingface": w.huggingFace()})
	return nil
}

// huggingFace returns the types of the columns for the library datasets.
func (w *Writer) huggingFace() string {
	value := func(dtype string) map[string]any { return map[string]any{"dtype": dtype, "_type": "Value"} }
	features := map[string]any{}
	for _, c := range w.columns {
		f := w.Features[c.Name]
		switch {
		case f.IsImage():
			features[c.Name] = map[string]any{"_type": "Image"}
		case c.Dims == nil:
			features[c.Name] = value(f.DType)
		case len(c.Dims) == 1:
			features[c.Name] = map[string]any{"feature": value(f.DType), "length": c.Dims[0], "_type": "Sequence"}
		default:
			features[c.Name] = map[string]any{"shape": c.Dims, "dtype": f.DType,
				"_type": fmt.Sprintf("Array%dD", len(c.Dims))}
		}
	}
	text, _ := json.Marshal(map[string]any{"info": map[string]any{"features": features}}) // strings and numbers
	return string(text)
}

func encode(pixels []byte, shape []int) ([]byte, error) {
	box := image.Rect(0, 0, shape[1], shape[0])
	var img image.Image = &image.Gray{Pix: pixels, Stride: shape[1], Rect: box}
	if shape[2] == 3 {
		rgba := image.NewRGBA(box)
		for i := range shape[0] * shape[1] {
			copy(rgba.Pix[4*i:], pixels[3*i:3*i+3])
			rgba.Pix[4*i+3] = 255
		}
		img = rgba
	}
	var b bytes.Buffer
	err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, img)
	return b.Bytes(), err
}

// EndEpisode ends an episode.
func (w *Writer) EndEpisode() error {
	w.episodes = append(w.episodes, episodeLine{len(w.episodes), w.named[len(w.named)-1:], w.at, w.file,
		w.TotalFrames - w.at})
	w.at = 0
	about := map[string]any{}
	for i, name := range w.Names {
		about[name] = w.now[i].json()
		w.all[i].merge(w.now[i])
		w.now[i] = newStats(w.Features[name])
	}
	if w.Version != V21 {
		info, err := w.disk.Stat()
		if err != nil || info.Size() < fileBytes {
			return err
		}
		return w.closeFile()
	}
	line, err := json.Marshal(map[string]any{"episode_index": len(w.episodes) - 1, "stats": about})
	w.perEp.Write(append(line, '\n'))
	return errors.Join(err, w.closeFile())
}

func (w *Writer) closeFile() error {
	if w.table == nil {
		return nil
	}
	err := errors.Join(w.table.Close(), w.disk.Close())
	w.table = nil
	return err
}

// Abandon removes what was written. It does nothing after Close.
func (w *Writer) Abandon() error {
	_ = w.closeFile() // it is removed
	return os.RemoveAll(w.temp)
}

// Close writes what the folder says of its episodes, and gives the folder its name.
func (w *Writer) Close() error {
	if err := w.closeFile(); err != nil {
		return err
	}
	w.TotalEpisodes = len(w.episodes)
	write := w.writeTables
	if w.Version == V21 {
		write = w.writeLines
	}
	if err := errors.Join(write(), w.writeInfo()); err != nil {
		return err
	}
	return os.Rename(w.temp, w.dir)
}

func (w *Writer) writeInfo() error {
	about := map[string]any{"codebase_version": w.Version, "robot_type": w.RobotType, "fps": w.FPS,
		"total_episodes": w.TotalEpisodes, "total_frames": w.TotalFrames, "total_tasks": len(w.tasks),
		"chunks_size": chunkSize, "splits": map[string]string{"train": fmt.Sprintf("0:%d", w.TotalEpisodes)},
		"data_path": w.DataPath, "video_path": nil, "features": w.Features}
	if w.Version == V21 {
		about["total_videos"], about["total_chunks"] = 0, (w.TotalEpisodes+chunkSize-1)/chunkSize
	} else {
		about["data_files_size_in_mb"], about["video_files_size_in_mb"] = fileBytes>>20, 500
	}
	return w.writeJSON("info.json", about)
}

func (w *Writer) writeJSON(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "    ")
	if err != nil {
		return err
	}
	return durable.WriteFile(w.Path(filepath.Join("meta", name)), append(text, '\n'))
}

// writeLines writes the tasks and episodes of version 2.1.
func (w *Writer) writeLines() error {
	names, tasks, episodes := make([]string, len(w.tasks)), bytes.Buffer{}, bytes.Buffer{}
	for task, i := range w.tasks {
		names[i] = task
	}
	out := json.NewEncoder(&tasks)
	for i, task := range names {
		if err := out.Encode(map[string]any{"task_index": i, "task": task}); err != nil {
			return err
		}
	}
	out = json.NewEncoder(&episodes)
	for _, e := range w.episodes {
		if err := out.Encode(e); err != nil {
			return err
		}
	}
	return errors.Join(durable.WriteFile(w.Path("meta/tasks.jsonl"), tasks.Bytes()),
		durable.WriteFile(w.Path("meta/episodes.jsonl"), episodes.Bytes()),
		durable.WriteFile(w.Path("meta/episodes_stats.jsonl"), w.perEp.Bytes()))
}

// pandas says that the column task is the index of the table of tasks.
const pandas = `{"index_columns": ["task"], "column_indexes": [{"name": null, "field_name": null, "pandas_type": ` +
	`"unicode", "numpy_type": "object", "metadata": {"encoding": "UTF-8"}}], "columns": [{"name": "task_index", ` +
	`"field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64", "metadata": null}, {"name": "task", ` +
	`"field_name": "task", "pandas_type": "unicode", "numpy_type": "object", "metadata": null}], ` +
	`"creator": {"library": "pyarrow", "version": "15.0.0"}, "pandas_version": "2.0.0"}`

// writeTables writes the tasks and episodes of version 3.0.
func (w *Writer) writeTables() error {
	tasks := make([][]tables.Cell, len(w.tasks))
	for task, i := range w.tasks {
		tasks[i] = []tables.Cell{number(i), {Bytes: []byte(task)}}
	}
	long := func(name string) tables.Column { return tables.Column{Name: name, Type: tables.Int64} }
	err := w.writeTable("meta/tasks.parquet", []tables.Column{long(TaskIndex), {Name: "task", Type: tables.Text}},
		map[string]string{"pandas": pandas}, tasks)
	columns := []tables.Column{long(EpisodeIndex), {Name: "tasks", Type: tables.Text, List: true}}
	for _, name := range []string{"length", "data/chunk_index", "data/file_index", "dataset_from_index",
		"dataset_to_index", "meta/episodes/chunk_index", "meta/episodes/file_index"} {
		columns = append(columns, long(name))
	}
	rows := make([][]tables.Cell, len(w.episodes))
	for i, e := range w.episodes {
		rows[i] = []tables.Cell{number(i), {Texts: e.Tasks}, number(e.Len), number(e.file / chunkSize),
			number(e.file % chunkSize), number(e.from), number(e.from + e.Len), number(0), number(0)}
	}
	about := map[string]any{}
	for i, name := range w.Names {
		about[name] = w.all[i].json()
	}
	return errors.Join(err, w.writeTable("meta/episodes/chunk-000/file-000.parquet", columns, nil, rows),
		w.writeJSON("stats.json", about))
}

func number(i int) tables.Cell { return tables.Cell{Numbers: []float64{float64(i)}} }

func (w *Writer) writeTable(name string, columns []tables.Column, metadata map[string]string,
	rows [][]tables.Cell) error {
	if err := os.MkdirAll(filepath.Dir(w.Path(name)), 0o777); err != nil {
		return err
	}
	f, err := os.Create(w.Path(name))
	if err != nil {
		return err
	}
	t := tables.NewWriter(f, columns, metadata)
	for _, row := range rows {
		err = errors.Join(err, t.Add(row))
	}
	return errors.Join(err, t.Close(), f.Close())
}

// stats are the statistics of a feature: of each number, or of each channel of an image, in [0, 1].
type stats struct {
	image        bool
	count        int // frames
	samples      int // numbers, or pixels, in each sum
	low, high    []float64
	sum, squares []float64
}

func newStats(f Feature) stats {
	n := 1
	for _, d := range f.Shape {
		n *= d
	}
	if f.IsImage() {
		n = f.Shape[2]
	}
	s := stats{image: f.IsImage(), low: make([]float64, n), high: make([]float64, n), sum: make([]float64, n),
		squares: make([]float64, n)}
	for i := range n {
		s.low[i], s.high[i] = math.Inf(1), math.Inf(-1)
	}
	return s
}

func (s *stats) add(c tables.Cell) {
	s.count++
	s.samples += max(len(c.Bytes)/len(s.sum), 1)
	one := func(k int, x float64) {
		s.low[k], s.high[k] = min(s.low[k], x), max(s.high[k], x)
		s.sum[k] += x
		s.squares[k] += x * x
	}
	for i, b := range c.Bytes {
		one(i%len(s.sum), float64(b)/255)
	}
	for i, x := range c.Numbers {
		one(i, x)
	}
}

func (s *stats) merge(other stats) {
	s.count += other.count
	s.samples += other.samples
	for i := range s.sum {
		s.low[i], s.high[i] = min(s.low[i], other.low[i]), max(s.high[i], other.high[i])
		s.sum[i] += other.sum[i]
		s.squares[i] += other.squares[i]
	}
}

// json returns the statistics in the shapes of LeRobot: those of images are [channels, 1, 1].
func (s *stats) json() map[string]any {
	mean, std := make([]float64, len(s.sum)), make([]float64, len(s.sum))
	for i := range mean {
		mean[i] = s.sum[i] / float64(s.samples)
		std[i] = math.Sqrt(max(s.squares[i]/float64(s.samples)-mean[i]*mean[i], 0))
	}
	shaped := func(x []float64) any {
		if !s.image {
			return x
		}
		channels := make([][][]float64, len(x))
		for i := range x {
			channels[i] = [][]float64{{x[i]}}
		}
		return channels
	}
	return map[string]any{"min": shaped(s.low), "max": shaped(s.high), "mean": shaped(mean), "std": shaped(std),
		"count": []int{s.count}}
}
