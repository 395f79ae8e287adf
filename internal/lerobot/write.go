package lerobot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/tables"
)

const (
	chunkSize = 1000 // maximum number of files or episodes in a chunk's folder
	fileBytes = 100 << 20
)

// own are the features that a Writer adds.
var own = []string{Timestamp, FrameIndex, EpisodeIndex, Index, TaskIndex}

// A Writer writes a dataset. For each episode, call Task, then Add for each frame, then EndEpisode. At last call Close.
// The folder appears when it is complete. The images are in the tables.
type Writer struct {
	Metadata
	Names []string // of the caller's features, in the order of cells

	dir, temp string
	columns   []tables.Column
	disk      *os.File
	table     *tables.Writer
	file      int // number of the current file
	at        int // frames in the current episode
	task      int // index of the current episode's task
	tasks     []task
	episodes  []episode
	stats     []stats // of the caller's features, over the episode (version 2.1) or over all episodes (3.0)
	perEp     []any
}

// A task is a record of meta: a line in version 2.1, a row in version 3.0.
type task struct {
	Index int64  `json:"task_index" parquet:"task_index"`
	Task  string `json:"task" parquet:"task"`
}

// An episode is a record of meta: a line in version 2.1, a row in version 3.0. The fields that only rows have say where
// the episode is.
type episode struct {
	Index     int64    `json:"episode_index" parquet:"episode_index"`
	Tasks     []string `json:"tasks" parquet:"tasks,list"`
	Len       int64    `json:"length" parquet:"length"`
	Chunk     int64    `json:"-" parquet:"data/chunk_index"`
	File      int64    `json:"-" parquet:"data/file_index"`
	From      int64    `json:"-" parquet:"dataset_from_index"`
	To        int64    `json:"-" parquet:"dataset_to_index"`
	MetaChunk int64    `json:"-" parquet:"meta/episodes/chunk_index"` // both are 0
	MetaFile  int64    `json:"-" parquet:"meta/episodes/file_index"`
}

// OwnFile is a file that the caller adds to a dataset. It marks the datasets that this program wrote.
const OwnFile = "meta/rlinf.json"

// Replaceable returns an error if dir exists, but is not a dataset with OwnFile.
func Replaceable(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, OwnFile)); err != nil {
		return fmt.Errorf("%s: this program did not write what is there", dir)
	}
	return nil
}

// Create begins the dataset dir, which must not exist. names lists the features in the order of cells. info has the
// version, the rate, the robot and these features.
func Create(dir string, info Metadata, names []string) (*Writer, error) {
	w := &Writer{Metadata: info, Names: names, dir: dir, temp: filepath.Join(filepath.Dir(dir),
		".writing-"+filepath.Base(dir)), file: -1}
	w.ChunkSize, w.DataPath = chunkSize, "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
	if w.Version == V21 {
		w.DataPath = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
	}
	for _, name := range own {
		w.Features[name] = Feature{DType: "int64", Shape: []int{1}}
	}
	w.Features[Timestamp] = Feature{DType: "float32", Shape: []int{1}}
	for _, name := range slices.Concat(names, own) {
		f := w.Features[name]
		c := tables.Column{Name: name, Type: f.DType}
		if !f.IsImage() && !slices.Equal(f.Shape, []int{1}) {
			c.Dims = f.Shape
		}
		w.columns = append(w.columns, c)
	}
	w.stats = w.newStats()
	if err := os.RemoveAll(w.temp); err != nil {
		return nil, err
	}
	return w, os.MkdirAll(filepath.Join(w.temp, "meta"), 0o777)
}

// Path returns the path of a file of the dataset while it is being written.
func (w *Writer) Path(name string) string { return filepath.Join(w.temp, name) }

// Add writes a frame. Cells are in the order of w.Names. The cell of an image has its pixels as Bytes.
func (w *Writer) Add(cells []tables.Value) error {
	if w.table == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	row := append([]tables.Value(nil), cells...)
	for i, name := range w.Names {
		w.stats[i].add(cells[i])
		if f := w.Features[name]; f.IsImage() {
			encoded, err := encode(cells[i].Bytes, f.Shape)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			row[i] = tables.Value{Bytes: encoded}
		}
	}
	e := &w.episodes[len(w.episodes)-1]
	for _, x := range []float64{float64(w.at) / w.FPS, float64(w.at), float64(e.Index), float64(w.TotalFrames),
		float64(w.task)} {
		row = append(row, tables.Value{Numbers: []float64{x}})
	}
	w.at++
	w.TotalFrames++
	return w.table.Add(row)
}

// Task begins an episode that has the task called name.
func (w *Writer) Task(name string) {
	w.at, w.task = 0, slices.IndexFunc(w.tasks, func(t task) bool { return t.Task == name })
	if w.task < 0 {
		w.task, w.tasks = len(w.tasks), append(w.tasks, task{int64(len(w.tasks)), name})
	}
	w.episodes = append(w.episodes, episode{Index: int64(len(w.episodes)), Tasks: []string{name}})
}

// open begins the next file of frames.
func (w *Writer) open() error {
	w.file++
	at := map[string]int{"chunk_index": w.file / chunkSize, "file_index": w.file % chunkSize,
		"episode_chunk": w.file / chunkSize, "episode_index": w.file}
	path, err := (&DatasetFolder{Dir: w.temp, Metadata: w.Metadata}).place("", at)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	if w.disk, err = os.Create(path); err != nil {
		return err
	}
	w.table, err = tables.NewWriter(w.disk, w.columns, "huggingface", w.huggingFace())
	return err
}

// huggingFace returns the types of the columns in the form that datasets, a library of Hugging Face, reads.
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

// EndEpisode ends the episode that Task has begun.
func (w *Writer) EndEpisode() error {
	e := &w.episodes[len(w.episodes)-1]
	e.Len, e.Chunk, e.File = int64(w.at), int64(w.file/chunkSize), int64(w.file%chunkSize)
	e.From, e.To = int64(w.TotalFrames-w.at), int64(w.TotalFrames)
	if w.Version == V21 {
		w.perEp = append(w.perEp, map[string]any{"episode_index": e.Index, "stats": w.about()})
		w.stats = w.newStats()
		return w.closeFile()
	}
	info, err := w.disk.Stat()
	if err != nil || info.Size() < fileBytes {
		return err
	}
	return w.closeFile()
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

// Close writes the metadata of the dataset, and gives the folder its name.
func (w *Writer) Close() error {
	if err := w.closeFile(); err != nil {
		return err
	}
	w.TotalEpisodes = len(w.episodes)
	if err := errors.Join(w.writeMeta(), w.writeInfo()); err != nil {
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

// pandas says that the column task is the index of the table of tasks.
const pandas = `{"index_columns": ["task"], "column_indexes": [{"name": null, "field_name": null, "pandas_type": ` +
	`"unicode", "numpy_type": "object", "metadata": {"encoding": "UTF-8"}}], "columns": [{"name": "task_index", ` +
	`"field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64", "metadata": null}, {"name": "task", ` +
	`"field_name": "task", "pandas_type": "unicode", "numpy_type": "object", "metadata": null}], ` +
	`"creator": {"library": "pyarrow", "version": "15.0.0"}, "pandas_version": "2.0.0"}`

// writeMeta writes the tasks, the episodes and their statistics.
func (w *Writer) writeMeta() error {
	if w.Version == V21 {
		return errors.Join(writeLines(w.Path("meta/tasks.jsonl"), w.tasks),
			writeLines(w.Path("meta/episodes.jsonl"), w.episodes),
			writeLines(w.Path("meta/episodes_stats.jsonl"), w.perEp))
	}
	episodes := w.Path("meta/episodes/chunk-000/file-000.parquet")
	return errors.Join(os.MkdirAll(filepath.Dir(episodes), 0o777), w.writeJSON("stats.json", w.about()),
		tables.Write(episodes, w.episodes, "rlinf", "episodes"),
		tables.Write(w.Path("meta/tasks.parquet"), w.tasks, "pandas", pandas))
}

func writeLines[T any](path string, rows []T) error {
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	for _, row := range rows {
		if err := out.Encode(row); err != nil {
			return err
		}
	}
	return durable.WriteFile(path, text.Bytes())
}

// stats are the statistics of a feature, for each number or for each channel of an image. Pixels count as numbers in
// [0, 1].
type stats struct {
	image        bool
	count        int // frames
	samples      int // numbers, or pixels, in each sum
	low, high    []float64
	sum, squares []float64
}

func (w *Writer) newStats() []stats {
	all := make([]stats, len(w.Names))
	for i, name := range w.Names {
		f, n := w.Features[name], 1
		for _, d := range f.Shape {
			n *= d
		}
		if f.IsImage() {
			n = f.Shape[2]
		}
		all[i] = stats{image: f.IsImage(), low: slices.Repeat([]float64{math.Inf(1)}, n),
			high: slices.Repeat([]float64{math.Inf(-1)}, n), sum: make([]float64, n), squares: make([]float64, n)}
	}
	return all
}

func (s *stats) add(c tables.Value) {
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

// about returns the statistics in LeRobot's shapes. Those of images are [channels, 1, 1].
func (w *Writer) about() map[string]any {
	about := map[string]any{}
	for i, name := range w.Names {
		s := &w.stats[i]
		mean, std := make([]float64, len(s.sum)), make([]float64, len(s.sum))
		for i := range mean {
			mean[i] = s.sum[i] / float64(s.samples)
			std[i] = math.Sqrt(max(s.squares[i]/float64(s.samples)-mean[i]*mean[i], 0))
		}
		of := map[string]any{"count": []int{s.count}}
		for key, x := range map[string][]float64{"min": s.low, "max": s.high, "mean": mean, "std": std} {
			if of[key] = x; s.image {
				channels := make([][1][1]float64, len(x))
				for i := range x {
					channels[i][0][0] = x[i]
				}
				of[key] = channels
			}
		}
		about[name] = of
	}
	return about
}
