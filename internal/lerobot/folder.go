package lerobot

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/tables"
)

// Versions of the format.
const (
	V21 = "v2.1"
	V30 = "v3.0"
)

// Names of columns that every table has. They give the episode, the index, the task and the time of a frame.
const (
	EpisodeIndex = "episode_index"
	FrameIndex   = "frame_index"
	TaskIndex    = "task_index"
	Timestamp    = "timestamp"
	Index        = "index"
)

// A Metadata is the content of the file meta/info.json. Other keys of the file are ignored.
type Metadata struct {
	Version       string             `json:"codebase_version"`
	RobotType     string             `json:"robot_type"`
	TotalEpisodes int                `json:"total_episodes"`
	TotalFrames   int                `json:"total_frames"`
	ChunkSize     int                `json:"chunks_size"`
	FPS           float64            `json:"fps"`
	DataPath      string             `json:"data_path"`
	VideoPath     string             `json:"video_path"`
	Features      map[string]Feature `json:"features"`
}

// A Feature is a column of a dataset.
type Feature struct {
	DType string `json:"dtype"` // "image", "video", "string", or a type of NumPy
	Shape []int  `json:"shape"`
	Names any    `json:"names"` // names of the elements, or of an image's dimensions
}

// IsImage reports whether the feature is an image, in the table or in a video.
func (f Feature) IsImage() bool { return f.DType == "image" || f.DType == "video" }

// Pixels returns the shape of an image as height, width and channels. In a dataset the channels may come first.
func (f Feature) Pixels() []int {
	names, _ := f.Names.([]any)
	if len(f.Shape) == 3 && (len(names) == 3 && strings.HasPrefix(fmt.Sprint(names[0]), "channel") ||
		len(names) != 3 && f.Shape[0] <= 4 && f.Shape[2] > 4) {
		return []int{f.Shape[1], f.Shape[2], f.Shape[0]}
	}
	return f.Shape
}

// An Episode is one episode of a dataset.
type Episode struct {
	Len   int
	files map[string]string // path of the file, by video; "" stands for the table
	begin map[string]int    // frame of each video at which the episode begins
}

// A DatasetFolder is an open dataset.
type DatasetFolder struct {
	Dir string
	Metadata
	Episodes []Episode
	tasks    map[int]string
}

// IsFolder reports whether dir looks like a dataset of LeRobot.
func IsFolder(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "meta", "info.json"))
	return err == nil
}

// Open opens the dataset in the folder dir. It reads the metadata of its features and episodes.
func Open(dir string) (*DatasetFolder, error) {
	f := &DatasetFolder{Dir: dir, tasks: map[int]string{}}
	path := filepath.Join(dir, "meta", "info.json")
	text, err := durable.ReadFile(path, durable.NoSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: expected a folder of LeRobot", err)
	} else if err != nil {
		return nil, err
	}
	if err = json.Unmarshal(text, &f.Metadata); err == nil {
		err = f.Metadata.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	err = f.records("tasks", []string{TaskIndex}, func(x []float64, task string) error {
		f.tasks[int(x[0])] = task
		return nil
	})
	if err == nil {
		err = f.readEpisodes()
	}
	if err != nil {
		return nil, err
	}
	frames := 0
	for i, e := range f.Episodes {
		if e.Len <= 0 || e.Len > f.TotalFrames {
			return nil, fmt.Errorf("%s: episode %d has %d frames: expected 1 to %d", dir, i, e.Len, f.TotalFrames)
		}
		frames += e.Len
	}
	if frames == 0 || frames != f.TotalFrames || len(f.Episodes) != f.TotalEpisodes {
		return nil, fmt.Errorf("%s: %d episodes of %d frames: expected %d of %d, as info.json says", dir,
			len(f.Episodes), frames, f.TotalEpisodes, f.TotalFrames)
	}
	return f, nil
}

// maxNumbers is the maximum number of elements of a feature in one frame.
const maxNumbers = 1 << 26

func (x *Metadata) check() error {
	if x.Version != V30 && x.Version != V21 && x.Version != "v2.0" {
		return fmt.Errorf("codebase_version is %q: expected %s or %s", x.Version, V21, V30)
	}
	if x.DataPath == "" || len(x.Features) == 0 || x.FPS <= 0 {
		return errors.New("expected data_path, features and fps > 0")
	}
	for _, name := range slices.Sorted(maps.Keys(x.Features)) {
		f, n := x.Features[name], 1
		for _, d := range f.Shape {
			n *= min(max(d, 0), maxNumbers+1)
			n = min(n, maxNumbers+1)
		}
		if n == 0 || n > maxNumbers || f.IsImage() && len(f.Shape) != 3 {
			return fmt.Errorf("feature %s is %s%v: expected 1 to %d numbers, and 3 dimensions of an image", name,
				f.DType, f.Shape, maxNumbers)
		}
	}
	return nil
}

// readEpisodes reads the lengths of the episodes, and the files in which they are.
func (f *DatasetFolder) readEpisodes() error {
	files, columns := []string{""}, []string{EpisodeIndex, "length"}
	for _, name := range slices.Sorted(maps.Keys(f.Features)) {
		if f.Features[name].DType == "video" {
			files = append(files, name)
		}
	}
	if f.Version == V30 {
		columns = append(columns, "data/chunk_index", "data/file_index")
		for _, name := range files[1:] {
			at := "videos/" + name
			columns = append(columns, at+"/from_timestamp", at+"/chunk_index", at+"/file_index")
		}
	}
	return f.records("episodes", columns, func(x []float64, _ string) error {
		n := int(x[0])
		if n != len(f.Episodes) {
			return fmt.Errorf("episode %d: expected number %d", n, len(f.Episodes))
		}
		e := Episode{Len: int(x[1]), files: map[string]string{}, begin: map[string]int{}}
		at := map[string]int{"episode_index": n, "episode_chunk": n / max(f.ChunkSize, 1)}
		for i, name := range files {
			if f.Version == V30 {
				at = map[string]int{"chunk_index": int(x[2+3*i]), "file_index": int(x[3+3*i])}
			}
			if f.Version == V30 && i > 0 {
				e.begin[name] = int(x[1+3*i]*f.FPS + 0.5)
			}
			var err error
			if e.files[name], err = f.place(name, at); err != nil {
				return err
			}
		}
		f.Episodes = append(f.Episodes, e)
		return nil
	})
}

// records calls handle for each record of the part of meta: "tasks" or "episodes". x has the record's numbers in the
// named columns. task is its task in words, or "". Records are lines of JSON in version 2, and rows of tables in
// version 3.
func (f *DatasetFolder) records(part string, names []string, handle func(x []float64, task string) error) error {
	each := func(_ int, text []byte) error {
		var record map[string]any
		if err := json.Unmarshal(text, &record); err != nil {
			return err
		}
		x := make([]float64, len(names))
		for i, name := range names {
			number, ok := record[name].(float64)
			if x[i] = number; !ok {
				return fmt.Errorf("column %s is %v: expected a number", name, record[name])
			}
		}
		task, ok := record["task"].(string)
		for _, v := range record { // pandas may give the column of the task another name
			if text, is := v.(string); is && len(record) == 2 {
				task, ok = text, true
			}
		}
		if !ok && part == "tasks" {
			return fmt.Errorf("columns %s: expected %s and one of texts, task",
				strings.Join(slices.Sorted(maps.Keys(record)), ", "), TaskIndex)
		}
		return handle(x, task)
	}
	if f.Version != V30 {
		return eachLine(filepath.Join(f.Dir, "meta", part+".jsonl"), each)
	}
	pattern := "meta/tasks.parquet"
	if part == "episodes" {
		pattern = "meta/episodes/chunk-*/file-*.parquet"
	}
	paths, err := fs.Glob(os.DirFS(f.Dir), pattern)
	if err != nil || len(paths) == 0 {
		return fmt.Errorf("%s: no %s", f.Dir, strings.ReplaceAll(pattern, "*", "000"))
	}
	for _, path := range paths { // in the order of names, which have leading zeros
		t, err := tables.Open(filepath.Join(f.Dir, path))
		if err != nil {
			return err
		}
		err = t.EachRecord(func(c string) bool { return part == "tasks" || slices.Contains(names, c) }, each)
		if err = errors.Join(err, t.Close()); err != nil {
			return err
		}
	}
	return nil
}

func eachLine(path string, handle func(n int, line []byte) error) error {
	file, err := durable.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	in := json.NewDecoder(bufio.NewReader(file))
	for n := 1; ; n++ {
		var line json.RawMessage
		if err = in.Decode(&line); err == io.EOF {
			return nil
		}
		if err == nil {
			err = handle(n, line)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
}

// inBraces matches a placeholder in the pattern of a path. Placeholders have Python's form: "{episode_index:06d}".
var inBraces = regexp.MustCompile(`\{(\w+)(?::0?(\d?)d)?\}`)

// place returns the path of the file of a video, or of the table if video is "". numbers has the values for the
// placeholders in the path's pattern.
func (f *DatasetFolder) place(video string, numbers map[string]int) (string, error) {
	pattern, known := f.DataPath, true
	if video != "" {
		pattern = f.VideoPath
	}
	path := inBraces.ReplaceAllStringFunc(pattern, func(part string) string {
		m := inBraces.FindStringSubmatch(part)
		if m[1] == "video_key" && video != "" {
			return video
		}
		n, ok := numbers[m[1]]
		known = known && ok
		width, _ := strconv.Atoi(m[2])
		return fmt.Sprintf("%0*d", width, n)
	})
	if !known || strings.Contains(path, "{") || !filepath.IsLocal(path) {
		return "", fmt.Errorf("path %q of meta/info.json: expected a path in the folder, of %s", pattern,
			strings.Join(slices.Sorted(maps.Keys(numbers)), ", "))
	}
	return filepath.Join(f.Dir, path), nil
}
