package lerobot

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

// Names of columns that every table has. Their numbers say where a frame belongs.
const (
	EpisodeIndex = "episode_index"
	FrameIndex   = "frame_index"
	TaskIndex    = "task_index"
	Timestamp    = "timestamp"
	Index        = "index"
)

// An Info is the file meta/info.json. Other keys are ignored.
type Info struct {
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

// A Feature is a column of a folder.
type Feature struct {
	DType string `json:"dtype"` // "image", "video", "string", or a type of NumPy
	Shape []int  `json:"shape"`
	Names any    `json:"names"` // of the elements; for images of the dimensions
}

// IsImage reports whether the feature is an image, in the table or in a video.
func (f Feature) IsImage() bool { return f.DType == "image" || f.DType == "video" }

// Pixels returns the shape of an image as height, width and channels. In folders the channels may come first.
func (f Feature) Pixels() []int {
	names, _ := f.Names.([]any)
	if len(f.Shape) == 3 && (len(names) == 3 && strings.HasPrefix(fmt.Sprint(names[0]), "channel") ||
		len(names) != 3 && f.Shape[0] <= 4 && f.Shape[2] > 4) {
		return []int{f.Shape[1], f.Shape[2], f.Shape[0]}
	}
	return f.Shape
}

// An Episode is an episode of a folder.
type Episode struct {
	Index, Len int
	data       string            // file of the table
	videos     map[string]string // file of each video
	begin      map[string]int    // frame of each video at which the episode begins
}

// A Folder is an open dataset.
type Folder struct {
	Dir string
	Info
	Episodes []Episode
	tasks    map[int]string
}

// IsFolder reports whether dir looks like a dataset of LeRobot.
func IsFolder(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "meta", "info.json"))
	return err == nil
}

// Open reads what the folder dir says of its episodes and features.
func Open(dir string) (*Folder, error) {
	f := &Folder{Dir: dir, tasks: map[int]string{}}
	path := filepath.Join(dir, "meta", "info.json")
	text, err := durable.ReadFile(path, durable.NoSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: expected a folder of LeRobot", err)
	} else if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &f.Info); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	read := f.readTables
	switch f.Version {
	case V30:
	case V21, "v2.0":
		read = f.readLines
	default:
		return nil, fmt.Errorf("%s: codebase_version is %q: expected %s or %s", path, f.Version, V21, V30)
	}
	if f.DataPath == "" || len(f.Features) == 0 || f.FPS <= 0 {
		return nil, fmt.Errorf("%s: expected data_path, features and fps > 0", path)
	}
	if err := read(); err != nil {
		return nil, err
	}
	frames := 0
	for i, e := range f.Episodes {
		if e.Index != i || e.Len <= 0 {
			return nil, fmt.Errorf("%s: episode %d has number %d and %d frames: expected number %d, and frames", dir, i,
				e.Index, e.Len, i)
		}
		frames += e.Len
	}
	if frames == 0 || frames != f.TotalFrames || len(f.Episodes) != f.TotalEpisodes {
		return nil, fmt.Errorf("%s: %d episodes of %d frames: expected %d of %d, as info.json says", dir,
			len(f.Episodes), frames, f.TotalEpisodes, f.TotalFrames)
	}
	return f, nil
}

// readLines reads the tasks and episodes of version 2.
func (f *Folder) readLines() error {
	err := eachLine(filepath.Join(f.Dir, "meta", "tasks.jsonl"), func(line []byte) error {
		var task struct {
			Index int    `json:"task_index"`
			Task  string `json:"task"`
		}
		err := json.Unmarshal(line, &task)
		f.tasks[task.Index] = task.Task
		return err
	})
	if err != nil {
		return err
	}
	return eachLine(filepath.Join(f.Dir, "meta", "episodes.jsonl"), func(line []byte) error {
		var e struct {
			Index  int `json:"episode_index"`
			Length int `json:"length"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		at := map[string]int{"episode_index": e.Index, "episode_chunk": e.Index / max(f.ChunkSize, 1)}
		episode := Episode{Index: e.Index, Len: e.Length, videos: map[string]string{}, begin: map[string]int{}}
		var err error
		if episode.data, err = f.place(f.DataPath, "", at); err != nil {
			return err
		}
		for _, name := range f.videos() {
			if episode.videos[name], err = f.place(f.VideoPath, name, at); err != nil {
				return err
			}
		}
		f.Episodes = append(f.Episodes, episode)
		return nil
	})
}

// videos returns the names of the features that are videos.
func (f *Folder) videos() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(f.Features)) {
		if f.Features[name].DType == "video" {
			names = append(names, name)
		}
	}
	return names
}

func eachLine(path string, handle func(line []byte) error) error {
	file, err := durable.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	in := bufio.NewScanner(file)
	in.Buffer(nil, 1<<26)
	for n := 1; in.Scan(); n++ {
		if line := bytes.TrimSpace(in.Bytes()); len(line) > 0 {
			if err := handle(line); err != nil {
				return fmt.Errorf("%s:%d: %w", path, n, err)
			}
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// readTables reads the tasks and episodes of version 3.
func (f *Folder) readTables() error {
	if err := f.readTasks(filepath.Join(f.Dir, "meta", "tasks.parquet")); err != nil {
		return err
	}
	paths, err := filepath.Glob(filepath.Join(f.Dir, "meta", "episodes", "chunk-*", "file-*.parquet"))
	if err != nil || len(paths) == 0 {
		return fmt.Errorf("%s: no meta/episodes/chunk-000/file-000.parquet", f.Dir)
	}
	columns := []string{EpisodeIndex, "length", "data/chunk_index", "data/file_index"}
	videos := f.videos()
	for _, name := range videos {
		columns = append(columns, "videos/"+name+"/chunk_index", "videos/"+name+"/file_index",
			"videos/"+name+"/from_timestamp")
	}
	for _, path := range paths { // in the order of names, which have leading zeros
		err := eachRow(path, columns, func(r *tables.Row) error {
			x := make([]float64, len(columns))
			for i := range x {
				var err error
				if x[i], err = r.Only(i); err != nil {
					return err
				}
			}
			e := Episode{Index: int(x[0]), Len: int(x[1]), videos: map[string]string{}, begin: map[string]int{}}
			var err error
			if e.data, err = f.place(f.DataPath, "", map[string]int{"chunk_index": int(x[2]),
				"file_index": int(x[3])}); err != nil {
				return err
			}
			for i, name := range videos {
				x := x[4+3*i:]
				e.begin[name] = int(x[2]*f.FPS + 0.5)
				if e.videos[name], err = f.place(f.VideoPath, name, map[string]int{"chunk_index": int(x[0]),
					"file_index": int(x[1])}); err != nil {
					return err
				}
			}
			f.Episodes = append(f.Episodes, e)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readTasks reads a table of tasks. The column of texts has the name that pandas gave to the index.
func (f *Folder) readTasks(path string) error {
	t, err := tables.Open(path)
	if err != nil {
		return err
	}
	defer t.Close()
	text := slices.DeleteFunc(t.Columns(), func(name string) bool { return name == TaskIndex })
	if len(text) != 1 {
		return fmt.Errorf("%s: columns %s: expected %s and one of texts", path, strings.Join(t.Columns(), ", "),
			TaskIndex)
	}
	return t.Each([]string{TaskIndex, text[0]}, func(r *tables.Row) error {
		i, err := r.Only(0)
		if err != nil {
			return err
		}
		task, err := r.Bytes(1)
		f.tasks[int(i)] = string(task)
		return err
	})
}

func eachRow(path string, columns []string, handle func(*tables.Row) error) error {
	t, err := tables.Open(path)
	if err != nil {
		return err
	}
	defer t.Close()
	return t.Each(columns, handle)
}

// inBraces matches a part of a path's pattern, as in Python: "{episode_index:06d}".
var inBraces = regexp.MustCompile(`\{(\w+)(?::0?(\d*)d)?\}`)

// place returns the path of a file by its pattern. video is the name of the video, or "".
func (f *Folder) place(pattern, video string, numbers map[string]int) (string, error) {
	var unknown []string
	path := inBraces.ReplaceAllStringFunc(pattern, func(part string) string {
		m := inBraces.FindStringSubmatch(part)
		n, ok := numbers[m[1]]
		switch {
		case m[1] == "video_key" && video != "":
			return video
		case !ok:
			unknown = append(unknown, part)
		}
		width, _ := strconv.Atoi(m[2])
		return fmt.Sprintf("%0*d", width, n)
	})
	if len(unknown) > 0 || !filepath.IsLocal(path) {
		return "", fmt.Errorf("path %q of meta/info.json: expected a path in the folder, of %s", pattern,
			strings.Join(slices.Sorted(maps.Keys(numbers)), ", "))
	}
	return filepath.Join(f.Dir, path), nil
}
